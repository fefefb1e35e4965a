"""Tests of the hypothesis that the annotated battles are a random sample of all battles that a metric decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs
from custodes.stats.strength.davidson import strength_design
from custodes.stats.strength.strengths import StrengthFit

_LEAST = 5.0  # a system is included if at least this many annotated battles are expected
_SAME = 1e-9


def p_random(metric_fit: StrengthFit, is_annotated: Bools) -> float:
    """Return the p-value of the hypothesis that annotation is independent of the systems and of the metric's verdict.

    `is_annotated` (n,) marks the annotated battles. Three tests compare annotated battles with all battles. The first
    test uses three features of a battle, computed from the metric: the difference of strengths, whether the battle is a
    tie, and whether the weaker system wins (also through covariates such as position). The second test uses the systems
    in the battles. The third test uses the metric's verdicts on each system.

    Each test sums (annotated - proportion) x feature over clusters and takes a quadratic form of the sums and their
    covariance. The covariance is estimated by clusters if clusters contain several battles. Otherwise, the known
    covariance of a random choice of battles is used. The result is the smallest p-value of the three tests, multiplied
    by the number of p-values. The result is NaN if no battle or every battle is annotated.

    Source: Hotelling 1931; the degrees of freedom are the number of annotated battles, or the effective number of
    clusters, minus one.
    """
    from scipy.sparse import csr_array, diags_array

    n_battles, unit_of_battle = len(is_annotated), metric_fit.battles.unit
    labelling_rate = is_annotated.mean() if n_battles else np.nan
    if not 0 < labelling_rate < 1:
        return np.nan
    davidson_fit, n_systems = metric_fit.fit, len(metric_fit.component)
    battle_counts, kind_of_battle = metric_fit.battle_counts, metric_fit.battle_counts.kind
    log_odds = (davidson_fit.design @ davidson_fit.coefficients)[kind_of_battle]
    stronger_side_signs = np.where(log_odds < 0, -1.0, 1.0)
    half_sign_residuals, tie_residuals = metric_fit.residual(davidson_fit.coefficients).T
    covariate_features = half_sign_residuals * battle_counts.covariates[kind_of_battle].T
    scalar_features = np.vstack(
        [np.abs(log_odds), half_sign_residuals * stronger_side_signs, tie_residuals, covariate_features]
    )
    battle_system_signs = csr_array(davidson_fit.design[kind_of_battle, :n_systems])
    is_tested_system = np.asarray(abs(battle_system_signs).sum(axis=0)) * labelling_rate >= _LEAST
    feature_matrices = (
        scalar_features.T,
        abs(battle_system_signs)[:, is_tested_system],
        diags_array(half_sign_residuals) @ battle_system_signs[:, is_tested_system],
    )
    return _smallest_p_value(feature_matrices, is_annotated - labelling_rate, unit_of_battle)


def p_random_within_pairs(
    first: Ints, second: Ints, sign: Signs, is_annotated: Bools, *, unit: Ints, n_systems: int
) -> float:
    """Return the p-value of the hypothesis that annotation is independent of the metric's verdict within each pair.

    All arrays have shape (n,) and describe the battles of a metric; `first` is less than `second` everywhere. Pairs may
    have different proportions of annotated battles. Two tests compare the metric's verdicts on annotated battles and on
    all battles of the same pair. The first test uses ties and wins of the weaker system. The second test uses the
    verdicts on each system. For the tests and for undefined results, see `p_random`.

    >>> rng = np.random.default_rng(0)
    >>> first, second, sign = np.zeros(200, dtype=int), np.ones(200, dtype=int), rng.choice([-1, 1], 200)
    >>> by_chance, by_verdict = rng.random(200) < 0.3, rng.random(200) < np.where(sign > 0, 0.5, 0.1)
    >>> [
    ...     p_random_within_pairs(first, second, sign, annotated, unit=np.arange(200), n_systems=2) < 0.01
    ...     for annotated in (by_chance, by_verdict)
    ... ]
    [False, True]
    """
    from scipy.sparse import diags_array

    _, pair_of_battle, n_battles_of_pair = np.unique(
        first * n_systems + second, return_inverse=True, return_counts=True
    )

    def centre(values: Any) -> Floats:
        """Return values (n,) minus the mean of the pair."""
        return np.asarray(values - (np.bincount(pair_of_battle, weights=values) / n_battles_of_pair)[pair_of_battle])

    annotation_surplus = centre(is_annotated.astype(np.float64))
    if not annotation_surplus.any():
        return np.nan
    variance_of_pair = np.bincount(pair_of_battle, weights=annotation_surplus**2) / np.maximum(n_battles_of_pair - 1, 1)
    centred_signs, centred_ties = centre(sign.astype(np.float64)), centre(sign == 0)
    stronger_side_signs = np.where(np.bincount(pair_of_battle, weights=sign) < 0, -1.0, 1.0)[pair_of_battle]
    battle_system_signs = strength_design(first, second, np.empty((len(sign), 0)), n_systems)[:, :n_systems]
    annotated_share_of_pair = np.bincount(pair_of_battle, weights=is_annotated) / n_battles_of_pair
    n_expected_of_system = abs(battle_system_signs).T @ annotated_share_of_pair[pair_of_battle]
    feature_matrices = (
        np.stack([centred_signs * stronger_side_signs, centred_ties], axis=1),
        diags_array(centred_signs) @ battle_system_signs[:, n_expected_of_system >= _LEAST],
    )
    return _smallest_p_value(feature_matrices, annotation_surplus, unit, variance_of_pair[pair_of_battle])


def _smallest_p_value(
    feature_matrices: Sequence[Any], surplus: Floats, unit: Ints, variance: Floats | None = None
) -> float:
    """Test whether each matrix of features (n, d) has zero covariance with a surplus (n,) that sums to 0.

    The result is the smallest p-value times the number of finite p-values; NaN without a finite p-value. `variance`
    (n,) is the variance of the surplus of each row; None if it is equal for all rows.
    """
    from scipy.sparse import csr_array

    p_values = [_covariance_p_value(csr_array(features), surplus, unit, variance) for features in feature_matrices]
    return float(min(1.0, np.fmin.reduce(p_values) * np.isfinite(p_values).sum()))


def _covariance_p_value(features: Any, surplus: Floats, unit: Ints, variance: Floats | None) -> float:
    """Return the p-value of the test of one sparse matrix of features; NaN if it cannot be tested."""
    from scipy.sparse import csr_array, diags_array
    from scipy.special import fdtrc

    n_rows = len(surplus)
    mean_features = np.asarray(features.sum(axis=0)) / n_rows
    feature_surplus_sums = features.T @ surplus
    _, unit_of_row = np.unique(unit, return_inverse=True)
    n_units = int(unit_of_row.max()) + 1
    # The number of annotated battles limits the degrees of freedom, because with few of them the sums are skewed.
    effective_n = float((surplus > 0).sum())
    if n_units == n_rows:
        variance_of_row = np.full(n_rows, surplus @ surplus / (n_rows - 1)) if variance is None else variance
        covariance_of_sums = (features.T @ (diags_array(variance_of_row) @ features)).toarray()
        covariance_of_sums -= variance_of_row.sum() * np.outer(mean_features, mean_features)
    else:
        surplus_matrix = csr_array((surplus, (unit_of_row, np.arange(n_rows))), shape=(n_units, n_rows))
        feature_surplus_of_unit = surplus_matrix @ features
        surplus_sum_of_unit = np.bincount(unit_of_row, weights=surplus)
        cross_products = np.outer(feature_surplus_of_unit.T @ surplus_sum_of_unit, mean_features)
        covariance_of_sums = (
            (feature_surplus_of_unit.T @ feature_surplus_of_unit).toarray()
            - cross_products
            - cross_products.T
            + surplus_sum_of_unit @ surplus_sum_of_unit * np.outer(mean_features, mean_features)
        )
        # squared, because unsquared sums may be 0
        surplus_square_sum_of_unit = np.bincount(unit_of_row, weights=surplus**2)
        effective_n = float(surplus_square_sum_of_unit.sum() ** 2 / (surplus_square_sum_of_unit**2).sum())
    sum_sds = np.sqrt(covariance_of_sums.diagonal().clip(0.0))
    is_varying = sum_sds > _SAME * max(1.0, float(sum_sds.max(initial=0.0)))
    sum_sds, covariance_of_sums = sum_sds[is_varying], covariance_of_sums[np.ix_(is_varying, is_varying)]
    eigenvalues, eigenvectors = np.linalg.eigh(covariance_of_sums / np.outer(sum_sds, sum_sds))
    is_positive = eigenvalues > _SAME
    rank = int(is_positive.sum())
    if not rank or effective_n <= rank + 1:
        return np.nan
    components = (feature_surplus_sums[is_varying] / sum_sds) @ eigenvectors[:, is_positive]
    f_statistic = (components**2 / eigenvalues[is_positive]).sum() * (effective_n - rank) / (rank * (effective_n - 1))
    return float(fdtrc(rank, effective_n - rank, f_statistic))
