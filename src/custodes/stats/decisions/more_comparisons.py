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
_NEVER = 1e-15  # a chance that rounding hides
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
    from scipy.special import ndtri

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
    # Only what is open is asked for, pairs with the same outcomes once.
    asked = np.flatnonzero(np.abs(z) < critical)
    _, at, same = np.unique(np.stack([np.abs(z), seen])[:, asked], axis=1, return_index=True, return_inverse=True)
    first = np.full(len(z), np.nan)
    first[asked] = _first(np.abs(z[asked[at]]), wider[asked[at]], likely[asked[at]], critical)[same.reshape(-1)]
    n = np.where(known, np.asarray(outcomes).sum(axis=-1), np.nan)
    return np.where(np.abs(z) >= critical, 0.0, np.ceil(first * n))


def _first(z: Floats, wider: Floats, likely: Floats, critical: float) -> Floats:
    """How many times as many comparisons it takes (pairs,) until half of the chance is reached; inf where it is not."""
    from scipy.special import ndtr

    shrunk = wider / (wider + 1)
    # Spreads that are out of the question add nothing to the chance of any pair.
    spread = (likely > _NEVER).any(axis=0)
    z, shrunk, likely = z[:, np.newaxis], shrunk[:, spread], likely[:, spread]
    first, open_ = np.full(len(z), np.inf), np.arange(len(z))
    for later in np.geomspace(1e-3, MOST, _STEPS):
        # z of all comparisons, so many times as many more later (pairs, spreads), given those seen
        mean = z * ((1 + later * shrunk) / np.sqrt(1 + later))
        deviation = np.sqrt(later * (1 + later * shrunk) / (1 + later))
        decides = ndtr((mean - critical) / deviation) + ndtr((-mean - critical) / deviation)
        enough = (likely * decides).sum(axis=1) >= 0.5
        if enough.any():
            first[open_[enough]] = later
            z, shrunk, likely, open_ = z[~enough], shrunk[~enough], likely[~enough], open_[~enough]
    return first


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
