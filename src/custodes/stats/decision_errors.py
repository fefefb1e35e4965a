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
    """Proportions of correct, inversion, omission, insertion: human (pairs,), other (..., pairs) -> (..., 4), sum 1.

    Decisions are 1, 0 (no difference) or -1; NaN marks a pair without a decision, which is left out. Inversion:
    opposite winners. Omission: annotators find a difference, the other rater none. Insertion: the other rater finds a
    difference, annotators none. NaN if no pair has decisions of both.

    >>> error_types(np.array([1, 1, 1, 0]), np.array([1, -1, 0, 1])).tolist()
    [0.25, 0.25, 0.25, 0.25]

    Source: Deriu et al. 2023, "Correction of Errors in Preference Ratings from Automated Metrics for Text Generation".
    """
    human = np.asarray(human_decision, dtype=np.float32)
    other = np.asarray(other_decision, dtype=np.float32)
    kinds = (human == other, human * other < 0, (human != 0) & (other == 0), (human == 0) & (other != 0))
    both = ~(np.isnan(human) | np.isnan(other))
    counted = np.stack([(kind & both).sum(axis=-1) for kind in kinds], axis=-1)
    return ratio(counted, both.sum(axis=-1)[..., np.newaxis])


def divergence(counts: NDArray[Any], human: NDArray[Any], *, estimate: Kld) -> NDArray[np.float64]:
    """KLD(p_other || p_human) in nats between outcome shares: counts (..., 3) and human counts (..., 3) -> (...).

    `mean` is the posterior mean (n + 1) / (N + 3) under a uniform prior. `mode` is n / N as in the paper, with infinite
    values for outcomes of the other rater that annotators never gave. NaN if either has no comparisons.

    >>> counts, human = np.array([1, 0, 0]), np.array([0, 1, 0])
    >>> float(divergence(counts, human, estimate="mode"))
    inf
    >>> round(float(divergence(counts, human, estimate="mean")), 4)
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean is ours.
    """
    from scipy.special import rel_entr

    pseudo = np.float64(1.0 if estimate == "mean" else 0.0)  # counts may be in single precision
    totals = (values.sum(axis=-1, keepdims=True) for values in (counts, human))
    other, people = (
        ratio(values + pseudo, (total + 3 * pseudo) * (total > 0))
        for values, total in zip((counts, human), totals, strict=True)
    )
    return np.asarray(rel_entr(other, people).sum(axis=-1))
