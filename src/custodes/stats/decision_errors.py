"""Differences between the decisions, and outcome probabilities, of one rater and of the annotators."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import require
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


def log_shares(counts: NDArray[Any], *, estimate: Kld) -> list[NDArray[np.float64]]:
    """Log probabilities of win, tie and loss: counts (..., 3) -> three (...); NaN without comparisons."""
    cells, total = _cells(counts, estimate)
    return _logs(cells, total)


def divergence(counts: NDArray[Any], human: list[NDArray[np.float64]], *, estimate: Kld) -> NDArray[np.float64]:
    """KLD(p_other || p_human) in nats between outcome shares: counts (..., 3) and human `log_shares` -> (...).

    `mean` is the posterior mean (n + 1) / (N + 3) under a uniform prior. `mode` is n / N as in the paper, with infinite
    values for outcomes of the other rater that annotators never gave. NaN if either has no comparisons.

    >>> counts, human = np.array([1, 0, 0]), np.array([0, 1, 0])
    >>> float(divergence(counts, log_shares(human, estimate="mode"), estimate="mode"))
    inf
    >>> round(float(divergence(counts, log_shares(human, estimate="mean"), estimate="mean")), 4)
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean is ours.
    """
    cells, total = _cells(counts, estimate)
    divergences = np.zeros(np.broadcast_shapes(total.shape, human[0].shape))
    for cell, log_share, human_log_share in zip(cells, _logs(cells, total), human, strict=True):
        with np.errstate(invalid="ignore"):
            term = cell * (log_share - human_log_share)
        divergences += term if estimate == "mean" else np.where(cell == 0, 0.0, term)
    return np.asarray(divergences / total)


def _logs(cells: list[NDArray[np.float64]], total: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    with np.errstate(divide="ignore"):
        whole = np.log(total)
        return [np.log(cell) - whole for cell in cells]


def _cells(counts: NDArray[Any], estimate: Kld) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Wins, ties and losses, with a pseudo-count of 1 each for `mean`, and their sum; NaN without comparisons."""
    require(estimate in ("mean", "mode"), f"estimate={estimate!r} is not allowed; allowed: mean, mode")
    pseudo = 1.0 if estimate == "mean" else 0.0
    # Written out: NumPy's sum over an axis of three is several times slower.
    cells = [counts[..., k] + np.float64(pseudo) for k in range(3)]
    total = cells[0] + cells[1] + cells[2]
    return cells, np.where(total > 3 * pseudo, total, np.nan)
