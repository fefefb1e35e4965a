"""Differences between one rater and the annotators in decisions and in outcome probabilities."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.ratios import ratio

ERRORS = ("correct", "inversion", "omission", "insertion")
"""The columns of `error_types`, in order."""

Kld = Literal["mean", "mode"]
"""Estimates of outcome probabilities for the divergence: posterior means, or the modes used in the paper."""


def error_types(human_decision: NDArray[Any], other_decision: NDArray[Any]) -> NDArray[np.float64]:
    """Proportions of correct decisions, inversions, omissions and insertions: human (pairs,), other (..., pairs) ->
    (..., 4).

    Decisions are 1, 0 (no difference) or -1. NaN marks a pair without a decision, which is left out. In an inversion,
    annotators and the other rater decide for opposite winners. In an omission, annotators find a difference but the
    other rater finds none. In an insertion, the other rater finds a difference but annotators find none. The
    proportions sum to 1. They are NaN if no pair has a decision of the annotators and a decision of the other rater.

    >>> error_types(np.array([1, 1, 1, 0]), np.array([1, -1, 0, 1])).tolist()
    [0.25, 0.25, 0.25, 0.25]

    Source: Deriu et al. 2023, "Correction of Errors in Preference Ratings from Automated Metrics for Text Generation".
    """
    human = np.asarray(human_decision, dtype=np.float32)
    other = np.asarray(other_decision, dtype=np.float32)
    type_masks = (human == other, human * other < 0, (human != 0) & (other == 0), (human == 0) & (other != 0))
    is_decided_by_both = ~(np.isnan(human) | np.isnan(other))
    type_counts = np.stack([(is_type & is_decided_by_both).sum(axis=-1) for is_type in type_masks], axis=-1)
    return ratio(type_counts, is_decided_by_both.sum(axis=-1)[..., np.newaxis])


def divergence(counts: NDArray[Any], human: NDArray[Any], *, estimate: Kld) -> NDArray[np.float64]:
    """Kullback-Leibler divergence KLD(p_other || p_human) of outcome probabilities, in nats: counts (..., 3) each ->
    (...).

    `counts` are those of the other rater. With `mean`, the probability of an outcome is the posterior mean (n + 1) / (N
    + 3) under a uniform prior. With `mode`, it is n / N as in the paper; the divergence is then infinite if the other
    rater has an outcome that annotators never gave. The divergence is NaN if the other rater or the annotators have no
    comparisons.

    >>> counts, human = np.array([1, 0, 0]), np.array([0, 1, 0])
    >>> float(divergence(counts, human, estimate="mode"))
    inf
    >>> round(float(divergence(counts, human, estimate="mean")), 4)
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean is ours.
    """
    pseudo_count = np.float64(1.0 if estimate == "mean" else 0.0)  # counts may be in single precision
    # Written out: operations on an axis of three are several times slower.
    other_counts, human_counts = (
        [np.asarray(counts_of_rater[..., k], dtype=np.float64) for k in range(3)] for counts_of_rater in (counts, human)
    )
    n_other, n_human = sum(other_counts), sum(human_counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (n_human + 3 * pseudo_count) / (n_other + 3 * pseudo_count)
        divergence_sum = np.zeros_like(scale)  # with the memory order of the counts
        for other_count, human_count in zip(other_counts, human_counts, strict=True):
            smoothed_count = other_count + pseudo_count
            term = smoothed_count * np.log(smoothed_count / (human_count + pseudo_count) * scale)
            # The term of an outcome without counts is 0.
            divergence_sum += term if pseudo_count else np.where(smoothed_count > 0, term, 0.0)
        divergence_sum /= n_other + 3 * pseudo_count
    return np.where((n_other > 0) & (n_human > 0), divergence_sum, np.nan)
