"""How much more information would give a test 50 % power to decide an undecided pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Floats

MOST = 20.0
"""Largest gain of information that is forecast, as a multiple of the present information."""

_STEPS = 150
_BISECTIONS = 30
_SPREADS = np.append(0.0, np.geomspace(0.01, 2.0, 24))
"""Standard deviations of the true margins that the components of the prior have; 0 for pairs without a difference."""
_FEW, _STRICT = 0.2, 1.6  # gains of information whose deviation is below .45; from a critical z of 1.6 the other tail,
# ndtr(-1.6 / .45), adds less than what a mean .001 below it takes away
_NEVER = 1e-15  # a probability below rounding error
_ROUNDS = 20
"""Iterations of the fit of the prior: more would fit the chance variation of a few dozen pairs."""


def information_gain(z: Floats, seen: Floats, *, critical: float) -> Floats:
    """Relative gain of information with which a pair is decided with probability one half: (pairs,).

    `z` (pairs,) is the estimate over its standard error; `seen` (pairs,) the information, as the number of independent
    comparisons without a tie that would give this standard error. A pair is decided where |z| is at least `critical`.
    The prior of the true margins is fitted to all pairs, so that the largest of many differences is shrunk. 0 where the
    pair is decided; inf where 20 times the information does not suffice; NaN where z or the information is.

    >>> z, seen = np.array([1.41, 2.58, 0.0]), np.array([50.0, 60.0, 10.0])
    >>> information_gain(z, seen, critical=1.96).round(1)
    array([2.3, 0. , inf])

    References
    ----------
    Ours; predictive power: Spiegelhalter, Freedman and Blackburn 1986. The prior, a mixture of normal distributions
    around 0: Stephens 2017.
    """
    known = np.isfinite(z) & np.isfinite(seen) & (seen > 0)
    gains = np.full(len(z), np.nan)
    if not known.any():
        return gains
    size, information = np.abs(z[known]), seen[known]
    # (pairs, spreads): variance of z from the true margins of a spread, and the probability of each spread
    wider = information[:, np.newaxis] * _SPREADS**2
    likely = _likely(size[:, np.newaxis], wider)
    # Only undecided pairs, those with the same outcomes once.
    open_ = np.flatnonzero(size < critical)
    _, at, same = np.unique(np.stack([size, information])[:, open_], axis=1, return_index=True, return_inverse=True)
    gain = np.zeros(len(size))
    gain[open_] = _first(size[open_[at]], wider[open_[at]], likely[open_[at]], critical)[same.reshape(-1)]
    gains[known] = gain
    return gains


def _first(z: Floats, wider: Floats, likely: Floats, critical: float) -> Floats:
    """The gain of information (pairs,) at which the power is one half; inf where it is not reached."""
    from scipy.special import ndtr

    shrunk = wider / (wider + 1)
    # Spreads of negligible probability do not change the power of any pair.
    spread = (likely > _NEVER).any(axis=0)
    z, shrunk, likely = z[:, np.newaxis], shrunk[:, spread], likely[:, spread]
    first, open_, earlier = np.full(len(z), np.inf), np.arange(len(z)), 0.0

    def power(some: Any, gain: Any) -> Floats:
        """(some,): the probability of a decision after a gain of information, one or (some, 1)."""
        mean = z[some] * ((1 + gain * shrunk[some]) / np.sqrt(1 + gain))
        deviation = np.sqrt(gain * (1 + gain * shrunk[some]) / (1 + gain))
        decides = ndtr((mean - critical) / deviation) + ndtr((-mean - critical) / deviation)
        return np.asarray((likely[some] * decides).sum(axis=1))

    for later in np.geomspace(1e-3, MOST, _STEPS):
        # A small gain adds little noise: no half where the largest mean is below the critical value.
        largest = z[:, 0] * (1 + later * shrunk.max(axis=1, initial=0.0)) / np.sqrt(1 + later)
        some = slice(None) if later > _FEW or critical < _STRICT else np.flatnonzero(largest > critical - 0.001)
        enough = np.zeros(len(z), dtype=np.bool_)
        enough[some] = power(some, later) >= 0.5
        if enough.any():
            low, high = np.full((2, int(enough.sum()), 1), [[[earlier]], [[later]]])
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                reached = power(enough, middle)[:, np.newaxis] >= 0.5
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
            first[open_[enough]] = high[:, 0]
            z, shrunk, likely, open_ = z[~enough], shrunk[~enough], likely[~enough], open_[~enough]
        earlier = later
    return first


def _likely(z: Floats, wider: Floats) -> Floats:
    """The posterior of the spreads (pairs, spreads), with a prior fitted to all pairs by the EM algorithm."""
    density = np.exp(-(z**2) / (2 * (wider + 1))) / np.sqrt(wider + 1)
    prior = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(_ROUNDS):
        posterior = prior * density
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    return np.asarray(posterior)
