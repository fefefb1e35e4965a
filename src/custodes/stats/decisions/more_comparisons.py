"""How many more comparisons a pair needs before a sign test as likely as not decides it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats

MOST = 20.0
"""Times as many comparisons as there are: what would take more is out of reach, and no data say how much more."""

_STEPS = 150
_SPREADS = np.append(0.0, np.geomspace(0.01, 2.0, 24))
"""Standard deviations of true margins between which the prior divides, 0 for pairs without a difference."""
_ROUNDS = 20
"""Of the fit of the prior: more would take what a few dozen pairs show by chance for the truth."""


def more_comparisons(outcomes: NDArray[Any], *, design_effect: NDArray[Any] | float, alpha: float) -> Floats:
    """How many more comparisons (ties included) decide a pair with a chance of one half: (pairs, 3) -> (pairs,).

    `outcomes` are wins, ties and losses; `design_effect` (pairs,) divides them in clusters. What the true margins may
    be is learnt from all pairs, so one that stands out by chance among many without a difference counts as such. 0
    where the sign test at `alpha` decides already; inf where even 20 times the comparisons leave less than a half; NaN
    where nothing or only ties were seen.

    >>> more_comparisons(np.array([[30, 10, 20], [40, 0, 20], [5, 0, 5]]), design_effect=1.0, alpha=0.05)
    array([144.,   0.,  inf])

    Source: ours; predictive power (Spiegelhalter, Freedman and Blackburn 1986), the prior a mixture of normals around 0
    as in Stephens 2017.
    """
    from scipy.special import ndtr, ndtri

    wins, _, losses = np.moveaxis(np.asarray(outcomes, dtype=np.float64), -1, 0)
    seen = np.where(wins + losses > 0, (wins + losses) / design_effect, np.nan)
    z = (wins - losses) / design_effect / np.sqrt(seen)
    known = np.isfinite(z)
    if not known.any():
        return np.full(len(z), np.nan)
    critical = -float(ndtri(alpha / 2))
    # (pairs, spreads): how much more the margins of a spread vary than chance does, and how likely each spread is
    wider = np.where(known, seen, 1.0)[:, np.newaxis] * _SPREADS**2
    likely = _likely(np.where(known, z, 0.0)[:, np.newaxis], wider, known)
    shrunk = wider / (wider + 1)
    # z of all comparisons, so many times as many more later (steps, pairs, spreads), given those seen
    times = np.geomspace(1e-3, MOST, _STEPS)
    chance = np.empty((_STEPS, len(z)))
    for step, later in enumerate(times):
        mean = z[:, np.newaxis] * (1 + later * shrunk) / np.sqrt(1 + later)
        deviation = np.sqrt(later * (1 + later * shrunk) / (1 + later))
        decides = ndtr((mean - critical) / deviation) + ndtr((-mean - critical) / deviation)
        chance[step] = (likely * decides).sum(axis=1)
    enough = chance >= 0.5
    first = np.where(enough.any(axis=0), times[enough.argmax(axis=0)], np.inf)
    n = np.where(known, np.asarray(outcomes).sum(axis=-1), np.nan)
    return np.where(np.abs(z) >= critical, 0.0, np.ceil(first * n))


def _likely(z: Floats, wider: Floats, known: NDArray[np.bool_]) -> Floats:
    """The posterior of the spreads (pairs, spreads), with a prior fitted to all known pairs by expectation and
    maximisation."""
    density = np.exp(-(z**2) / (2 * (wider + 1))) / np.sqrt(wider + 1)
    prior = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(_ROUNDS):
        posterior = prior * density
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior[known].mean(axis=0)
    return posterior
