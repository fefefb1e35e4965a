"""Differences between one rater and the annotators in decisions and in outcome probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.ratios import mean_of_defined, ratio

ERRORS = ("correct", "inversion", "omission", "insertion")
"""The columns of `error_types`, in order."""


def error_types(human_decision: NDArray[Any], other_decision: NDArray[Any]) -> NDArray[np.float64]:
    """Proportions of correct decisions, inversions, omissions and insertions: human (pairs,), other (..., pairs) ->
    (..., 4).

    Decisions are 1 (the first system is better), 0 (no difference) or -1 (the second system is better). NaN marks a
    pair without a decision, which is left out. In an inversion, annotators and the other rater decide for opposite
    winners. In an omission, annotators find a difference but the other rater finds none. In an insertion, the other
    rater finds a difference but annotators find none. The proportions sum to 1. The proportions are NaN if no pair has
    a decision of the annotators and a decision of the other rater.

    >>> error_types(np.array([1, 1, 1, 0]), np.array([1, -1, 0, 1])).tolist()
    [0.25, 0.25, 0.25, 0.25]

    Source: Deriu et al. 2023, "Correction of Errors in Preference Ratings from Automated Metrics for Text Generation".
    """
    type_masks = (
        human_decision == other_decision,
        human_decision * other_decision < 0,
        (human_decision != 0) & (other_decision == 0),
        (human_decision == 0) & (other_decision != 0),
    )
    is_decided_by_both = ~(np.isnan(human_decision) | np.isnan(other_decision))
    type_counts = np.stack([(type_mask & is_decided_by_both).sum(axis=-1) for type_mask in type_masks], axis=-1)
    return ratio(type_counts, is_decided_by_both.sum(axis=-1)[..., np.newaxis])


def lower_rate(rates: NDArray[Any], critical_value: float) -> NDArray[np.float64]:
    """Lower bound of the expected proportion of pairs with an error, from the proportion of resamples (..., pairs) in
    which each pair has the error.

    A pair near the threshold of a test may have an error in the given data by chance, although the error is rare in
    other data. The proportion of resamples with the error is approximately the normal probability of z, the distance
    from the threshold in standard errors. For the bound, `critical_value` is subtracted from z. NaN marks pairs that
    are left out.

    >>> lower_rate(np.array([[0.5, 0.0, 1.0, np.nan]]), 1.96).round(4).tolist()
    [0.3417]
    """
    from scipy.special import ndtr, ndtri

    return np.asarray(mean_of_defined(ndtr(ndtri(rates) - critical_value)))


def outcome_probabilities(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Posterior means of outcome probabilities under a uniform prior, from counts (..., 3): (count + 1) / (sum of
    counts + 3).

    The probabilities are NaN without comparisons.

    >>> outcome_probabilities(np.array([0, 1, 0])).tolist()
    [0.25, 0.5, 0.25]
    """
    n_comparisons = counts.sum(axis=-1, keepdims=True)
    return np.asarray((counts + 1) / np.where(n_comparisons > 0, n_comparisons + 3, np.nan))


def divergence(log_human: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kullback-Leibler divergence KLD(p_other || p_human) of outcome probabilities, in nats (...).

    `log_human` (..., 3) are the logarithms of the probabilities by annotators, `other` (..., 3) the probabilities by
    another rater. The divergence is NaN if a probability is NaN.

    >>> p_human, p_other = (outcome_probabilities(np.array(counts)) for counts in ([0, 1, 0], [1, 0, 0]))
    >>> divergence(np.log(p_human), p_other).round(4).item()
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean was developed for custodes.
    """
    return np.asarray(np.einsum("...k,...k->...", other, np.log(other) - log_human))
