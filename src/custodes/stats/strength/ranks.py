"""Ranks of systems by strength, with simultaneous confidence sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats
from custodes.stats.normal_pairs import pair_tests
from custodes.stats.strength.strengths import Strengths

_SAME = 1e-9  # smaller differences of log odds are rounding errors


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Ranks of systems.

    - `rank`, `low`, `high` (systems,): rank within the component, from 1, and its bounds; -1 for a system without
      comparisons.
    - `apart` (systems, systems): whether two systems differ significantly.
    - `at_threshold` (systems, systems): whether the p-value is so close to the level that its Monte Carlo error leaves
      the decision open; such systems do not count as significantly different.
    - `p_adjusted` (systems, systems): p-value of equality, adjusted for all pairs; NaN between components.
    """

    rank: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    apart: Bools
    at_threshold: Bools
    p_adjusted: Floats


def ranks(strengths: Strengths, *, confidence: float) -> Ranks:
    """Rank systems, with bounds that hold simultaneously with at least the given confidence.

    All pairs of a component are tested jointly (step-down test of the largest t). The lower bound of a rank is 1 plus
    the number of significantly better systems. The upper bound is the number of systems of the component minus the
    number of significantly worse systems. A system with `low` = 1 is in the top group: no system is significantly
    better.

    >>> estimate = np.array([[2.0, 0.1, -0.1]])
    >>> draws = estimate + np.random.default_rng(0).normal(0, 0.2, (1000, 3))
    >>> strengths = Strengths(
    ...     draws=np.concatenate([estimate, draws]), effects=np.empty((1001, 0)), ties=np.zeros(1001),
    ...     component=np.zeros(3, dtype=int), bounded=np.ones(3, dtype=bool), clusters=500, n_units=500,
    ... )
    >>> result = ranks(strengths, confidence=0.95)
    >>> result.rank.tolist(), result.low.tolist(), result.high.tolist()
    ([1, 2, 3], [1, 2, 2], [1, 3, 3])

    Source: Romano and Wolf 2005. Ranks from tests of differences: Mogstad, Romano, Shaikh and Wilhelm 2024; Klein,
    Wright and Wieczorek 2020.
    """
    estimates, n_systems = strengths.draws[0], strengths.draws.shape[1]
    p_adjusted, at_threshold = np.full((n_systems, n_systems), np.nan), np.zeros((n_systems, n_systems), dtype=np.bool_)
    defined_systems = np.flatnonzero(np.isfinite(estimates))
    first_positions, second_positions = np.triu_indices(len(defined_systems), k=1)
    is_connected_pair = (
        strengths.component[defined_systems[first_positions]] == strengths.component[defined_systems[second_positions]]
    )
    first_positions, second_positions = first_positions[is_connected_pair], second_positions[is_connected_pair]
    if len(strengths.draws) > 1:
        test_results = pair_tests(
            estimates[defined_systems],
            np.atleast_2d(np.cov(strengths.draws[1:, defined_systems], rowvar=False)),
            first_positions,
            second_positions,
            n_units=strengths.n_units,
            alpha=1 - confidence,
        )
        firsts, seconds = defined_systems[first_positions], defined_systems[second_positions]
        p_adjusted[firsts, seconds] = p_adjusted[seconds, firsts] = test_results.p_adjusted
        at_threshold[firsts, seconds] = at_threshold[seconds, firsts] = test_results.at_threshold
    with np.errstate(invalid="ignore"):
        is_significant_pair = (p_adjusted <= 1 - confidence) & ~at_threshold
        is_stronger_opponent = estimates - estimates[:, np.newaxis] > _SAME  # [a, b]: b has a higher strength than a
    is_same_component = strengths.component[:, np.newaxis] == strengths.component
    n_stronger, n_significantly_stronger, n_significantly_weaker = (
        (is_counted_pair & is_same_component).sum(axis=1)
        for is_counted_pair in (
            is_stronger_opponent,
            is_significant_pair & is_stronger_opponent,
            is_significant_pair & is_stronger_opponent.T,
        )
    )
    worst_ranks = is_same_component.sum(axis=1) - n_significantly_weaker
    ranks_and_bounds = 1 + n_stronger, 1 + n_significantly_stronger, worst_ranks
    rank, low, high = np.where(np.isfinite(estimates), ranks_and_bounds, -1)
    return Ranks(
        rank=rank,
        low=low,
        high=high,
        apart=is_significant_pair,
        at_threshold=at_threshold,
        p_adjusted=p_adjusted,
    )
