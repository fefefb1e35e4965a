"""How many more comparisons a pair needs before a sign test as likely as not decides it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats

MOST = 20.0
"""Times as many comparisons as there are: what would take more is out of reach, and no data say how much more."""

_STEPS = 600


def more_comparisons(outcomes: NDArray[Any], *, design_effect: NDArray[Any] | float, alpha: float) -> Floats:
    """How many more comparisons (ties included) decide a pair with a chance of one half: (pairs, 3) -> (pairs,).

    `outcomes` are wins, ties and losses; `design_effect` (pairs,) divides them in clusters. The true margins of the
    pairs are taken as normal around 0, as wide as the outcomes of all pairs show, so a margin that stands out by chance
    counts as such. 0 where the sign test at `alpha` decides already; inf where even 20 times the comparisons leave
    less than a half; NaN where nothing or only ties were seen.

    >>> more_comparisons(np.array([[30, 10, 20], [40, 0, 20], [5, 0, 5]]), design_effect=1.0, alpha=0.05)
    array([119.,   0.,  inf])

    Source: ours; predictive power (Spiegelhalter, Freedman and Blackburn 1986) with an empirical Bayes prior (Efron and
    Morris 1973).
    """
    from scipy.special import ndtr, ndtri

    wins, _, losses = np.moveaxis(np.asarray(outcomes, dtype=np.float64), -1, 0)
    seen = np.where(wins + losses > 0, (wins + losses) / design_effect, np.nan)
    z = (wins - losses) / design_effect / np.sqrt(seen)
    known = np.isfinite(z)
    critical = -float(ndtri(alpha / 2))
    if not known.any():
        return np.full(len(z), np.nan)
    spread = max(0.0, float((z[known] ** 2 - 1).sum() / seen[known].sum()))
    # z of all comparisons, so many times as many more later (steps, pairs), given those seen: mean and variance
    times = np.geomspace(1e-3, MOST, _STEPS)[:, np.newaxis]
    shrunk = seen * spread / (seen * spread + 1)
    mean = z * (1 + times * shrunk) / np.sqrt(1 + times)
    deviation = np.sqrt(times * (1 + times * shrunk) / (1 + times))
    chance = ndtr((mean - critical) / deviation) + ndtr((-mean - critical) / deviation)
    enough = chance >= 0.5
    first = np.where(enough.any(axis=0), times[enough.argmax(axis=0), 0], np.inf)
    n = np.where(known, np.asarray(outcomes).sum(axis=-1), np.nan)
    return np.where(np.abs(z) >= critical, 0.0, np.ceil(first * n))
