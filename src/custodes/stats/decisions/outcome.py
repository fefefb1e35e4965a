"""How decisions and outcome shares of one rater differ from those of people."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.ratios import ratio

ERRORS = ("correct", "inversion", "omission", "insertion")
"""What `error_types` counts, in that order."""

Kld = Literal["mean", "mode"]
"""The outcome shares that a divergence compares: posterior means, or the modes of the paper."""


def error_types(human_decision: NDArray[Any], other_decision: NDArray[Any]) -> NDArray[np.float64]:
    """Shares of correct, inversion, omission, insertion: human (pairs,), other (..., pairs) -> (..., 4), summing to 1.

    Decisions are 1, 0 (not different) or -1; NaN marks a pair not decided by that rater, which is left out. Inversion:
    opposite winners. Omission: people see a difference, the other none. Insertion: the other sees one, people none.
    NaN where no pair is decided by both.

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


def outcome_kld(other_counts: NDArray[Any], human_counts: NDArray[Any], *, estimate: Kld) -> NDArray[np.float64]:
    """KLD(p_other || p_human) in nats between outcome shares: counts (..., 3), (..., 3) -> (...).

    `mean` is the posterior mean (n + 1) / (N + 3) under a uniform prior. `mode` is n / N as in the paper, and infinite
    where people never gave an outcome that the other did. NaN where either has no comparison.

    >>> float(outcome_kld(np.array([1, 0, 0]), np.array([0, 1, 0]), estimate="mode"))
    inf
    >>> round(float(outcome_kld(np.array([1, 0, 0]), np.array([0, 1, 0]), estimate="mean")), 4)
    0.1733

    Source: Deriu et al. 2023, as for `error_types`; the posterior mean is ours.
    """
    from scipy.special import rel_entr

    assert estimate in ("mean", "mode"), estimate
    pseudo = 1 if estimate == "mean" else 0
    divergence = rel_entr(_shares(other_counts, pseudo), _shares(human_counts, pseudo))
    return np.asarray(divergence[..., 0] + divergence[..., 1] + divergence[..., 2])


def _shares(counts: NDArray[Any], pseudo: int) -> NDArray[np.float64]:
    counts = np.asarray(counts, dtype=np.float64)
    # Spelled out: NumPy's sum over an axis of three is several times slower.
    n = (counts[..., 0] + counts[..., 1] + counts[..., 2])[..., np.newaxis]
    return ratio(counts + pseudo, np.where(n > 0, n + 3 * pseudo, 0))
