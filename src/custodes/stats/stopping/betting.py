"""Evidence that may be looked at after every annotation: betting on preferences of 1, 0 and -1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, legendre
from custodes.stats.stopping.sequential import bisected

_NODES = 48  # stakes; any finite set is valid, more of them bring no narrower interval


def log_wealth(counts: NDArray[Any], *, margin: Floats) -> Floats:
    """Log of what betting against a true margin has won: counts (..., 3), margin (...) -> (...).

    A bettor who starts with 1 and stakes a share u of it against "the mean preference is `margin`", half of the money
    on more and half on less, averaged over u in (0, 1). If the margin is true, the wealth ever reaches 1 / level with a
    probability of at most `level`, however often and whenever one looks. No annotations: 0.

    >>> log_wealth(np.array([[9, 1, 0], [5, 0, 5]]), margin=np.zeros(2)).round(2).tolist()
    [3.94, -1.0]

    Source: Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting" (hedged capital);
    averaging over stakes is a mixture martingale (Robbins 1970).
    """
    counts = np.asarray(counts, dtype=np.float64)
    node, weight = legendre(_NODES)
    stake, prior = (node + 1) / 2, np.log(weight / 2)
    margin = np.clip(margin, -1 + 1e-12, 1 - 1e-12)[..., np.newaxis]
    # Staking u against a margin that is too low turns a fortune of 1 into 1 + u (x - m) / (1 + m) for a preference x.
    lost = np.log1p(-stake)
    win, tie, loss = (counts[..., k, np.newaxis] for k in range(3))
    more = win * np.log1p(stake * (1 - margin) / (1 + margin)) + tie * np.log1p(-stake * margin / (1 + margin))
    less = loss * np.log1p(stake * (1 + margin) / (1 - margin)) + tie * np.log1p(stake * margin / (1 - margin))
    both = np.concatenate([more + loss * lost + prior, less + win * lost + prior], axis=-1) - np.log(2)
    top = both.max(axis=-1)
    return np.asarray(top + np.log(np.exp(both - top[..., np.newaxis]).sum(axis=-1)))


def betting_interval(counts: NDArray[Any], *, level: float) -> tuple[Floats, Floats]:
    """Anytime-valid interval of the win-loss margin: counts (..., 3) -> low (...), high (...).

    Holds the true margin at all looks together with a probability of at least 1 - `level`, for annotations drawn from a
    population of items. The wealth is convex in the margin, so the margins not refuted are one interval; without
    annotations it is -1 to 1.

    >>> low, high = betting_interval(np.array([20, 5, 5]), level=0.05)
    >>> round(float(low), 3), round(float(high), 3)
    (0.012, 0.838)

    Source: as for `log_wealth`.
    """
    counts = np.asarray(counts, dtype=np.float64)
    n = counts.sum(axis=-1)
    centre = np.divide(counts[..., 0] - counts[..., 2], n, out=np.zeros(n.shape), where=n > 0)
    low, high = (
        bisected(lambda margin: log_wealth(counts, margin=margin) < -np.log(level), centre, np.full(n.shape, end))
        for end in (-1.0, 1.0)
    )
    return low, high
