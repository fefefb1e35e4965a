"""Differences between one rater and the annotators in decisions and in outcome probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.ratios import mean_of_defined, ratio

ERRORS = ("correct", "inversion", "omission", "insertion")
"""The columns of `error_types`, in order."""


def error_types(human_decision: NDArray[Any], other_decision: NDArray[Any]) -> NDArray[np.float64]:
    """Proportions of correct decisions, inversions, omissions and insertions: human (pairs,), other (..., pairs) ->
    (..., 4).

    Decisions are 1, 0 (no difference) or -1. NaN marks a pair without a decision, which is left out. In an inversion,
    annotators and the other rater decide for opposite winners. In an omission, annotators find a difference but the
    other rater finds none. In an insertion, the other rater finds a difference but annotators find none. The
    proportions sum to 1. The proportions are NaN if no pair has a decision of the annotators and a decision of the
    other rater.

    >>> error_types(np.array([1, 1, 1, 0]), np.array([1, -1, 0, 1])).tolist()
    [0.25, 0.25, 0.25, 0.25]

    Source: Deriu et al. 2023, "Correction of Errors in Preference Ratings from Automated Metrics for Text Generation".
    """
    human_signs = np.asarray(human_decision, dtype=np.float32)
    other_signs = np.asarray(other_decision, dtype=np.float32)
    type_masks = (
        human_signs == other_signs,
        human_signs * other_signs < 0,
        (human_signs != 0) & (other_signs == 0),
        (human_signs == 0) & (other_signs != 0),
    )
    is_decided_by_both = ~(np.isnan(human_signs) | np.isnan(other_signs))
    type_counts = np.stack([(type_mask & is_decided_by_both).sum(axis=-1) for type_mask in type_masks], axis=-1)
    return ratio(type_counts, is_decided_by_both.sum(axis=-1)[..., np.newaxis])


def lower_rate(rates: NDArray[Any], quantile: float) -> NDArray[np.float64]:
    """Lower bound of the expected proportion of pairs with an error, from the proportion of resamples (..., pairs) in
    which each pair has the error.

    A pair near the threshold of a test may have an error in these data that is rare in other data. If z is the distance
    from the threshold in standard errors, the rate is about the normal probability of z, and `quantile` standard
    errors are subtracted from z. NaN marks pairs that are left out.

    >>> lower_rate(np.array([[0.5, 0.0, 1.0, np.nan]]), 1.96).round(4).tolist()
    [0.3417]
    """
    from scipy.special import ndtr, ndtri

    return np.asarray(mean_of_defined(ndtr(ndtri(rates) - quantile)))


def divergence_from(human: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Return a function that computes the Kullback-Leibler divergence KLD(p_other || p_human) of outcome probabilities,
    in nats (...), from the counts (..., 3) of another rater. The human counts (..., 3) are fixed.

    The probability of an outcome is the posterior mean (n + 1) / (N + 3) under a uniform prior. The divergence is NaN
    if the other rater or the annotators have no comparisons.

    >>> round(float(divergence_from(np.array([0, 1, 0]))(np.array([1, 0, 0]))), 4)
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean is ours.
    """

    def smoothed_and_total(counts: NDArray[Any]) -> tuple[list[Any], Any]:
        # Written out: operations on an axis of three are several times slower. Counts may be in single precision.
        smoothed_counts = [np.asarray(counts[..., outcome], dtype=np.float64) + 1.0 for outcome in range(3)]
        return smoothed_counts, smoothed_counts[0] + smoothed_counts[1] + smoothed_counts[2]

    smoothed_human_counts, smoothed_human_total = smoothed_and_total(human)
    log_smoothed_human_counts = [np.log(smoothed_count) for smoothed_count in smoothed_human_counts]

    def divergence(counts: NDArray[Any]) -> NDArray[np.float64]:
        smoothed_other_counts, smoothed_other_total = smoothed_and_total(counts)
        divergence_sum = np.zeros_like(smoothed_other_total)  # with the memory order of the counts
        for smoothed_count, log_smoothed_human_count in zip(
            smoothed_other_counts, log_smoothed_human_counts, strict=True
        ):
            divergence_sum += (np.log(smoothed_count) - log_smoothed_human_count) * smoothed_count
        divergence_sum = divergence_sum / smoothed_other_total + np.log(smoothed_human_total / smoothed_other_total)
        return np.where((smoothed_other_total > 3) & (smoothed_human_total > 3), divergence_sum, np.nan)

    return divergence
