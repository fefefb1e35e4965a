"""Win rates of systems and pairs with intervals, computed without a model, and how covariates vary within systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, table_sums
from custodes.stats.equal_clusters import iter_group_weights, sums_of
from custodes.stats.intervals import SHARE, student_interval
from custodes.stats.ratios import ratio
from custodes.stats.strength.battles import Battles, count_by_kind
from custodes.stats.strength.davidson import strength_design

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class PairRates:
    """Win rates of pairs of systems that were compared.

    Attributes
    ----------
    first, second : int arrays of shape (pairs,)
        Positions of the two systems; the position of the first is smaller.
    outcomes : int array of shape (pairs, 3)
        Numbers of comparisons that the first system won, tied and lost.
    wins, losses : arrays of shape (pairs,)
        Weighted proportions of comparisons that the first system won and lost.
    effective : array of shape (pairs,)
        Effective number of independent comparisons.
    freedom : array of shape (pairs,)
        Degrees of freedom of the standard error: the effective number of clusters minus one; inf if comparisons are
        independent.
    has_shared_cluster : array of shape (pairs,)
        Whether some cluster contains several comparisons of the pair.
    rate, low, high : arrays of shape (pairs,)
        Win rate of the first system, with ties as half wins, and the bounds of its interval.
    """

    first: Ints
    second: Ints
    outcomes: Ints
    wins: Floats
    losses: Floats
    effective: Floats
    freedom: Floats
    has_shared_cluster: Bools
    rate: Floats
    low: Floats
    high: Floats


def system_rates(battles: Battles, *, n_systems: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return the win rate of each system, averaged over opponents, with bootstrap draws: (1 + B, systems).

    Row 0 is the estimate; in the remaining rows clusters are resampled. Ties count half, and battles are weighted. All
    opponents have equal weights, regardless of the number of comparisons. A system without comparisons has NaN.

    >>> battles = Battles(
    ...     first=np.array([0, 0, 0]), second=np.array([1, 1, 2]), sign=np.array([1, 0, 1], dtype=np.int8),
    ...     unit=np.arange(3), weight=np.ones(3), covariates=np.empty((3, 0)),
    ... )
    >>> system_rates(battles, n_systems=4, resamples=0, rng=np.random.default_rng(0))[0].round(3).tolist()
    [0.875, 0.25, 0.0, nan]

    Source: Efron 1979.
    """
    from scipy.sparse import csr_array

    # Equal clusters are resampled together, which gives the same distribution at a fraction of the cost.
    if battles.times is None or battles.covariates.size:  # otherwise, equal clusters are merged already
        battles = battles.without_covariates().merge_equal_clusters()
    battle_counts, n_clusters_of_unit = count_by_kind(battles, battles.multiplicity), battles.clusters
    n_pairs, n_groups = len(battle_counts.first), len(n_clusters_of_unit)
    # A win has two points and a tie one, so that sums are integers.
    sum_points, sum_possible_points = (
        sums_of(battle_counts.kind, battles.unit, battles.weight * points_of_battle, n_cells=n_pairs, n_groups=n_groups)
        for points_of_battle in (1 + battle_counts.sign, 2)
    )
    # one column for the first system of each pair, then one for the second
    system_of_column = np.concatenate([battle_counts.first, battle_counts.second])
    system_indicators = csr_array(
        (np.ones(2 * n_pairs), (system_of_column, np.arange(2 * n_pairs))), shape=(n_systems, 2 * n_pairs)
    )
    if n_clusters_of_unit.sum() < 2:
        resamples = 0
    rate_draws = np.empty((1 + resamples, n_systems))
    for draw_slice, resample_weights in iter_group_weights(n_clusters_of_unit, resamples, rng, size_per_column=n_pairs):
        rate_of_first = ratio(sum_points(resample_weights), sum_possible_points(resample_weights))
        rate_of_column = np.concatenate([rate_of_first, 1 - rate_of_first])
        n_opponents = np.asarray(system_indicators @ ~np.isnan(rate_of_column))
        rate_draws[draw_slice] = ratio(np.asarray(system_indicators @ np.nan_to_num(rate_of_column)), n_opponents).T
    return rate_draws


def system_intervals(draws: Floats, battles: Battles, *, confidence: float) -> tuple[Floats, Floats]:
    """Return the bounds (systems,) of intervals for the result of `system_rates` on these battles.

    The bounds are those of Wilson intervals with the effective number of clusters of each system. Without resamples,
    the bounds are NaN.
    """
    return student_interval(
        draws, confidence=confidence, n_units=_effective_clusters(battles, draws.shape[1]), bounds=SHARE
    )


def _effective_clusters(battles: Battles, n_systems: int) -> Floats:
    """Return the effective number (systems,) of clusters with battles of each system, as in `effective_clusters`."""
    n_units = len(battles.clusters)
    system_unit_codes, code_index_of_row = np.unique(
        np.concatenate([battles.first, battles.second]) * n_units + np.tile(battles.unit, 2), return_inverse=True
    )
    weight_in_unit = np.bincount(code_index_of_row, weights=np.tile(battles.weight, 2))
    n_clusters_of_unit = battles.clusters[system_unit_codes % n_units]
    weight_sums, weight_square_sums, n_clusters = (
        np.bincount(system_unit_codes // n_units, weights=weights_or_mask * n_clusters_of_unit, minlength=n_systems)
        for weights_or_mask in (weight_in_unit, weight_in_unit**2, weight_in_unit > 0)
    )
    return np.maximum(np.nan_to_num(ratio(weight_sums**2, weight_square_sums)), np.minimum(n_clusters, 2))


def pair_rates(battles: Battles, *, confidence: float) -> PairRates:
    """Return the win rates of all pairs with comparisons, with intervals.

    For the interval, battles are reduced to the effective number that clusters and weights imply, and one more win and
    one more loss are added. The width of the interval is thus positive even if one side always won. If no cluster
    contains several battles of a pair, battles count as independent. Otherwise, Kish's effective number of clusters of
    the pair determines the degrees of freedom. The bounds are NaN for every pair whose battles are all in one cluster.

    >>> rates = pair_rates(
    ...     Battles(
    ...         first=np.zeros(10, dtype=int), second=np.ones(10, dtype=int), sign=np.ones(10, dtype=np.int8),
    ...         unit=np.arange(10), weight=np.ones(10), covariates=np.empty((10, 0)),
    ...     ),
    ...     confidence=0.95,
    ... )
    >>> rates.outcomes.tolist(), rates.rate.tolist(), rates.low.round(2).tolist(), rates.high.tolist()
    ([[10, 0, 0]], [1.0], [0.76], [1.0])

    Source: Bonett and Price 2012 (the adjusted Wald interval of a paired difference); design effects: Kish 1965.
    """
    from scipy.special import stdtrit

    weight_of_battle, multiplicity = battles.weight, battles.multiplicity
    battle_counts = count_by_kind(battles.without_covariates(), multiplicity)
    pair_of_battle, sign_of_battle, n_pairs = battle_counts.kind, battle_counts.sign, len(battle_counts.first)
    outcome_counts = battle_counts.outcomes.astype(np.int64)

    def sum_by_pair(values: Floats) -> Floats:
        return table_sums(pair_of_battle, shape=(n_pairs,), weights=values * multiplicity)

    weight_of_pair = sum_by_pair(weight_of_battle)
    win_rate, loss_rate = (
        ratio(sum_by_pair(weight_of_battle * (outcome_sign * sign_of_battle > 0)), weight_of_pair)
        for outcome_sign in (1, -1)
    )
    margin_of_pair = win_rate - loss_rate
    sign_deviation = sign_of_battle - margin_of_pair[pair_of_battle]
    n_units = len(battles.clusters)
    pair_unit_codes, pair_unit_of_battle = np.unique(pair_of_battle * n_units + battles.unit, return_inverse=True)
    n_clusters_of_pair_unit = battles.clusters[pair_unit_codes % n_units]

    def square_sum_by_pair(values: Floats) -> Floats:
        """Return the sum over clusters of the squared sum of values (n,) in the cluster, for each pair."""
        squared_sums = n_clusters_of_pair_unit * np.bincount(pair_unit_of_battle, weights=values) ** 2
        return table_sums(pair_unit_codes // n_units, shape=(n_pairs,), weights=squared_sums)

    n_clusters_of_pair = np.bincount(pair_unit_codes // n_units, weights=n_clusters_of_pair_unit, minlength=n_pairs)
    has_shared_cluster = n_clusters_of_pair < outcome_counts.sum(axis=1)
    effective_n_battles = ratio(weight_of_pair**2, sum_by_pair(weight_of_battle**2))
    freedom = np.full(n_pairs, np.inf)
    if has_shared_cluster.any():
        effective_n_if_constant = ratio(weight_of_pair**2, square_sum_by_pair(weight_of_battle))
        freedom = np.where(n_clusters_of_pair > 1, np.maximum(effective_n_if_constant, 2), n_clusters_of_pair) - 1.0
        sign_variance = ratio(sum_by_pair(weight_of_battle * sign_deviation**2), weight_of_pair)
        clustered_variance = square_sum_by_pair(weight_of_battle * sign_deviation) * ratio(freedom + 1, freedom)
        # Without variation, the correlation within clusters is unknown.
        effective_n_battles = np.where(
            sign_variance > 0,
            np.fmin(ratio(sign_variance * weight_of_pair**2, clustered_variance), effective_n_battles),
            effective_n_if_constant,
        )
    critical_value = np.where(freedom > 0, stdtrit(np.maximum(freedom, 1), (1 + confidence) / 2), np.nan)
    low, high = _adjusted_bounds(win_rate, loss_rate, effective_n_battles, critical_value)
    return PairRates(
        first=battle_counts.first,
        second=battle_counts.second,
        outcomes=outcome_counts,
        wins=win_rate,
        losses=loss_rate,
        freedom=freedom,
        has_shared_cluster=has_shared_cluster,
        effective=effective_n_battles,
        rate=(1 + margin_of_pair) / 2,
        low=low,
        high=high,
    )


def unexplained_share(covariates: Floats, first_systems: Ints, second_systems: Ints, *, n_systems: int) -> Floats:
    """Return the proportion (k,) of the covariates' sum of squares that differences of system effects do not explain.

    `covariates` (n, k) are the covariates. The proportion is 0 if a covariate does not vary or varies only between
    systems. Its effect then cannot be separated from the strengths.

    >>> values = np.array([[1.0, 2.0], [1.0, 0.0]])
    >>> unexplained_share(values, np.array([0, 0]), np.array([1, 1]), n_systems=2).round(3).tolist()
    [0.0, 0.5]
    """
    design = strength_design(first_systems, second_systems, covariates, n_systems)
    products = (design.T @ design).toarray()[:-1, :-1]
    covariate_sums, square_sums = products[n_systems:, :n_systems], products.diagonal()[n_systems:]
    laplacian_inverse = np.linalg.pinv(products[:n_systems, :n_systems], rcond=1e-10, hermitian=True)
    explained_square_sums = np.vecdot(covariate_sums, covariate_sums @ laplacian_inverse)
    unexplained_shares = np.nan_to_num(ratio(square_sums - explained_square_sums, square_sums))
    return np.where(unexplained_shares > _ROUNDING, unexplained_shares, 0.0)


def _adjusted_bounds(win_rate: Floats, loss_rate: Floats, n_battles: Any, critical_value: Any) -> tuple[Floats, Floats]:
    """Return bounds of the win rate, given the proportions of wins and losses among `n_battles` battles.

    The bounds always enclose the rate.
    """
    adjusted_win_rate, adjusted_loss_rate = ratio(np.stack([win_rate, loss_rate]) * n_battles + 1, n_battles + 2)
    margin, win_rate_with_ties = adjusted_win_rate - adjusted_loss_rate, (1 + win_rate - loss_rate) / 2
    standard_error = np.sqrt(ratio(adjusted_win_rate + adjusted_loss_rate - margin**2, n_battles + 2))
    low, high = ((1 + margin + sign * critical_value * standard_error) / 2 for sign in (-1, 1))
    return np.minimum(low, win_rate_with_ties).clip(0, 1), np.maximum(high, win_rate_with_ties).clip(0, 1)
