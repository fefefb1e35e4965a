"""What is estimated after repeated looks: a margin that is not too large because one stopped where it was large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.stopping.sequential import Path, paths

_STEPS = 60  # of a root; Newton needs about five
_TOLERANCE = 1e-9  # of a drift, in its standard errors
_REACH = 12.0  # standard errors around the fixed-sample estimate that hold every root


class Stagewise(NamedTuple):
    """After the last look, (pairs,) each: the median-unbiased `margin`, its interval `low` to `high`, and the two-sided
    p-value of "no difference"; NaN where there is no standard error."""

    margin: Floats
    low: Floats
    high: Floats
    p: Floats


def stagewise(margin: Floats, error: Floats, *, n: Ints, bounds: Floats, level: float) -> Stagewise:
    """Estimate and interval of margins after group-sequential looks, by the stage-wise ordering.

    `margin` and its standard `error` (pairs,) at the last look of these pairs, `n` (looks,) annotations at each look up
    to that one, `bounds` (looks,) the |z| that each asked. A result is larger the earlier a pair was stopped above, and
    at the same look the larger its score. The estimate is the margin at which a result as large has the probability
    1/2; where it has `level` / 2 and 1 - `level` / 2 are the ends, within [-1, 1]. With one look this is margin -+ z
    error. The last look is taken as planned, whatever made it the last: so stopping for futility is not allowed for.

    >>> after = stagewise(np.array([0.5, 0.2]), np.array([0.2, 0.2]), n=np.array([10, 20]),
    ...     bounds=np.array([2.178, 2.178]), level=0.05)
    >>> after.margin.round(2).tolist(), after.low.round(2).tolist(), after.high.round(2).tolist()
    ([0.47, 0.2], [0.03, -0.19], [0.87, 0.59])

    Source: Fairbanks and Madsen 1982; Tsiatis, Rosner and Mehta 1984; Jennison and Turnbull 2000, Chapter 8.
    """
    margin, error = np.asarray(margin, dtype=np.float64), np.asarray(error, dtype=np.float64)
    made = np.full((4, len(margin)), np.nan)
    known = np.isfinite(margin) & (error > 0) & np.isfinite(error)
    if not known.any():
        return Stagewise(*made)
    # A look that brought nothing new is the same look with the bound that is easier to cross.
    looks, first = np.unique(n, return_index=True)
    path = paths(np.minimum.reduceat(np.asarray(bounds, dtype=np.float64), first), looks.astype(np.float64))
    z, scale = margin[known] / error[known], error[known] * np.sqrt(looks[-1])
    estimate, far, near, p = _ordered(path, np.abs(z) * np.sqrt(looks[-1]), level=level)
    # By the mirror image for losses, so that a swap of the systems negates all to the last digit.
    low, high = np.where(z < 0, -far, near) * scale, np.where(z < 0, -near, far) * scale
    half = (high - low) / 2
    even = z == 0
    made[:, known] = (
        np.where(even, 0.0, np.where(z < 0, -estimate, estimate) * scale),
        np.where(even, -half, low),
        np.where(even, half, high),
        p,
    )
    made[:3] = np.clip(made[:3], -1, 1)
    return Stagewise(*made)


def _ordered(path: Path, score: Floats, *, level: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Drifts at which a result as large as each score (m,) has probability 1/2, 1 - level/2, level/2; and p-values."""
    from scipy.special import ndtri

    goals = np.repeat([0.5, 1 - level / 2, level / 2], len(score))
    scores = np.tile(score, 3)
    information = path.information[-1]
    centre, spread = scores / information, 1 / np.sqrt(information)
    low, high = centre - _REACH * spread, centre + _REACH * spread
    drift = centre + ndtri(goals) * spread
    for _ in range(_STEPS):
        chance, slope = path.larger(drift, scores)
        below = chance < goals
        low, high = np.where(below, drift, low), np.where(below, high, drift)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = ndtri(chance)
            newton = drift + (ndtri(goals) - at) * np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi) / slope
        after = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        moved = np.abs(after - drift).max() > _TOLERANCE * spread
        drift = after
        if not moved:
            break
    chance, _ = path.larger(np.zeros(len(score)), score)
    return (*drift.reshape(3, -1), 2 * np.minimum(chance, 1 - chance))
