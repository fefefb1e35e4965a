"""Relative gain of information that would give a test 50 % power to decide an undecided pair."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, bisect_condition, chunks

CriticalValue = Callable[[Floats, Ints], Floats]
"""Function from gains of information (..., pairs) and the indices (pairs,) of the pairs to critical values of |z|."""

MOST = 20.0
"""Maximum forecast gain of information, as a multiple of the present information."""

_STEPS = 30
_BISECTIONS = 30
_SPREADS = np.append(0.0, np.geomspace(0.01, 2.0, 24))
"""Standard deviations of true margins in the components of the prior; 0 for pairs without a difference."""
_NEVER = 1e-15  # a probability below rounding error
_ROUNDS = 20
"""Number of iterations that fit the prior. More would fit the sampling error of a few dozen pairs."""


def information_gain(z: Floats, seen: Floats, *, critical: CriticalValue) -> Floats:
    """Relative gain of information at which a pair is decided with 50 % power: (pairs,).

    A pair is decided if |z| is at least the `critical` value, which may depend on the gain. `z` (pairs,) is the
    estimate divided by its standard error. `seen` (pairs,) is the current information: the number of independent
    comparisons without ties that would give this standard error. The prior of the true margins is fitted to all pairs,
    so that large observed differences are shrunk. The gain is 0 if the pair is already decided. It is inf if a gain of
    20 times the current information is not sufficient, and NaN if `z` or the information is undefined.

    >>> z, seen = np.array([1.41, 2.58, 0.0]), np.array([50.0, 60.0, 10.0])
    >>> information_gain(z, seen, critical=lambda gain, pairs: np.asarray(1.96)).round(1)
    array([2.3, 0. , inf])

    References
    ----------
    Ours; predictive power: Spiegelhalter, Freedman and Blackburn 1986. The prior, a mixture of normal distributions
    around 0: Stephens 2017.
    """
    defined_pairs = np.flatnonzero(np.isfinite(z) & np.isfinite(seen) & (seen > 0))
    gains = np.full(len(z), np.nan)
    if not defined_pairs.size:
        return gains
    absolute_z = np.abs(z[defined_pairs])
    # (pairs, spreads): variance of z that the true margins of a component cause, and probability of each component
    prior_variances = seen[defined_pairs, np.newaxis] * _SPREADS**2
    component_probability = _component_probabilities(absolute_z[:, np.newaxis], prior_variances)
    is_undecided_pair = absolute_z < critical(np.zeros(len(defined_pairs)), defined_pairs)
    undecided_pairs = defined_pairs[is_undecided_pair]
    gains[defined_pairs] = 0.0
    gains[undecided_pairs] = _half_power_gain(
        absolute_z[is_undecided_pair],
        prior_variances[is_undecided_pair],
        component_probability[is_undecided_pair],
        lambda gain, positions: critical(gain, undecided_pairs[positions]),
    )
    return gains


def _half_power_gain(
    z: Floats, prior_variances: Floats, p_component: Floats, critical: CriticalValue, *, steps: int = _STEPS
) -> Floats:
    """The gain of information (pairs,) at which the power reaches 50 %, found on a grid and by bisection; inf if it is
    never reached."""
    # Components of negligible probability do not change the power of any pair.
    is_relevant_component = (p_component > _NEVER).any(axis=0)
    prior_variances, p_component = prior_variances[:, is_relevant_component], p_component[:, is_relevant_component]
    shrinkage = prior_variances / (prior_variances + 1)

    def is_power_reached(gain: Floats, pairs: Ints) -> Bools:
        return _power(gain, z[pairs], shrinkage[pairs], p_component[pairs], critical(gain, pairs)) >= 0.5

    half_power_gains = np.full(len(z), np.inf)
    gain_grid = np.append(0.0, np.geomspace(1e-3, MOST, steps))
    for pair_slice in chunks(len(z), steps * shrinkage.shape[1]):
        pairs = np.arange(len(z))[pair_slice]
        is_reached = is_power_reached(np.broadcast_to(gain_grid[1:, np.newaxis], (steps, len(pairs))), pairs)
        reached_pairs, grid_index = pairs[is_reached.any(axis=0)], is_reached.argmax(axis=0)[is_reached.any(axis=0)]
        half_power_gains[reached_pairs] = bisect_condition(
            lambda gain: ~is_power_reached(gain, reached_pairs),  # noqa: B023
            gain_grid[grid_index],
            gain_grid[grid_index + 1],
            steps=_BISECTIONS,
        )
    return half_power_gains


def _power(gain: Floats, z: Floats, shrinkage: Floats, component_probability: Floats, critical_z: Floats) -> Floats:
    """Probability (..., pairs) that a pair is decided after a `gain` (..., pairs) of information."""
    from scipy.special import ndtr

    gain, critical_z = gain[..., np.newaxis], critical_z[..., np.newaxis]
    mean_growth, sqrt_information_ratio = 1 + gain * shrinkage, np.sqrt(1 + gain)
    z_mean, z_sd = (
        z[:, np.newaxis] * mean_growth / sqrt_information_ratio,
        np.sqrt(gain * mean_growth) / sqrt_information_ratio,
    )
    p_decided = ndtr((z_mean - critical_z) / z_sd) + ndtr((-z_mean - critical_z) / z_sd)
    return np.asarray((component_probability * p_decided).sum(axis=-1))


def _component_probabilities(z: Floats, prior_variances: Floats) -> Floats:
    """Posterior probability of each component of the prior for each pair (pairs, spreads). The prior is fitted to all
    pairs by EM."""
    density = np.exp(-(z**2) / (2 * (prior_variances + 1))) / np.sqrt(prior_variances + 1)
    component_weights = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(_ROUNDS):
        posterior = component_weights * density
        posterior /= posterior.sum(axis=1, keepdims=True)
        component_weights = posterior.mean(axis=0)
    return np.asarray(posterior)
