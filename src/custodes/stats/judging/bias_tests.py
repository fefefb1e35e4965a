"""Tests of position bias, and tests of whether failures depend on systems, orders or lengths."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import CHUNK, Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import few_clusters
from custodes.stats.intervals import Inference
from custodes.stats.ratios import ratio

LEAST_FAILURES = 5
"""Minimum number of failures for a test."""
ENOUGH = 100
"""Sampling stops as soon as this number of draws are at least as extreme as the data, because the result can then no
longer become significant."""
NOTHING = 1e-12  # smaller sums of squares are rounding errors


def slot_test(
    numerators: Floats, denominators: Floats, *, further_variance_factors: Floats, confidence: float
) -> Inference:
    """Test of the hypothesis that the ratio of two sums over clusters is 0.

    `numerators` and `denominators` (k, units) are the contributions of each cluster to numerator and denominator. Under
    the null hypothesis, the contribution of a cluster to the numerator is positive or negative with equal probability.
    So the score is the sum divided by the root of the sum of squared contributions, as in a sign test by clusters. The
    sum of squares is multiplied by the factor of `few_clusters` and by `further_variance_factors` (k,).
    The interval contains the values that the test does not reject. Results are NaN without
    data. If no cluster has a nonzero sum, p is 1 and there is no interval.

    >>> result = slot_test(np.ones((1, 9)), 2 * np.ones((1, 9)), further_variance_factors=np.ones(1), confidence=0.95)
    >>> result.estimate.item(), round(result.p_value.item(), 4)
    (0.5, 0.0039)

    Source: developed for custodes; the score form of a variance by clusters (Cameron, Gelbach and Miller 2008 impose
    the null likewise).
    """
    from scipy.special import ndtr, ndtri

    numerator_total, denominator_total = numerators.sum(axis=-1), denominators.sum(axis=-1)
    numerator_square_sum, cross_product_sum, denominator_square_sum = (
        np.einsum("ku,ku->k", left_contributions, right_contributions)
        for left_contributions, right_contributions in (
            (numerators, numerators),
            (numerators, denominators),
            (denominators, denominators),
        )
    )
    variance_factor = further_variance_factors * few_clusters((np.abs(numerators) > NOTHING).sum(axis=-1))
    estimates = ratio(numerator_total, denominator_total)
    z_scores = np.abs(numerator_total) / np.sqrt(np.maximum(numerator_square_sum * variance_factor, NOTHING))
    p_values = np.where(np.isnan(estimates), np.nan, np.where(numerator_square_sum > NOTHING, 2 * ndtr(-z_scores), 1.0))
    # (numerator total - x denominator total)^2 = limit * sum of (numerators - x denominators)^2, for the bounds x
    squared_z_limit = float(ndtri((1 + confidence) / 2)) ** 2 * variance_factor
    square_coefficient, half_linear_coefficient, constant_term = (
        denominator_total**2 - squared_z_limit * denominator_square_sum,
        numerator_total * denominator_total - squared_z_limit * cross_product_sum,
        numerator_total**2 - squared_z_limit * numerator_square_sum,
    )
    discriminant_root = np.sqrt(np.maximum(half_linear_coefficient**2 - square_coefficient * constant_term, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (
            np.where(
                square_coefficient > 0,
                (half_linear_coefficient + sign * discriminant_root) / square_coefficient,
                sign * np.inf,
            )
            for sign in (-1, 1)
        )
    has_no_interval = np.isnan(estimates) | (numerator_square_sum <= NOTHING)
    return Inference(
        estimates, np.where(has_no_interval, np.nan, low), np.where(has_no_interval, np.nan, high), p_values
    )


def uneven_p(is_failed: Bools, features: Floats, *, units: Ints, n_draws: int, rng: np.random.Generator) -> float:
    """P-value of the hypothesis that failures do not depend on the given features.

    `is_failed` (n,) marks failures, `features` (k, n) are the features, and `units` (n,) are the clusters of verdicts.
    For each feature, z compares the sum of the feature over failures with its sum over equally many verdicts drawn at
    random. The statistic is the largest |z| of a feature. The observed statistic is compared with the same statistic of
    `n_draws` random draws. Fewer draws are used if the result is clearly not significant. If failures are clustered, z
    is divided by the root of a design effect, which is computed over all features and is at least 1. The p-value is NaN
    with fewer than five failures or five successes, or if no feature varies.

    >>> failed = np.arange(60) < 8
    >>> rng = np.random.default_rng(0)
    >>> uneven_p(failed, np.array([np.arange(60.0)]), units=np.arange(60), n_draws=999, rng=rng)
    0.001

    Source: Phipson and Smyth 2010 for the p-value; Kish 1965 for the design effect; the combination was developed for
    custodes.
    """
    n_failures, n_verdicts = int(is_failed.sum()), is_failed.size
    feature_sd = features.std(axis=1)
    is_varying_feature = feature_sd > 0
    if min(n_failures, n_verdicts - n_failures) < LEAST_FAILURES or not is_varying_feature.any():
        return np.nan
    standardised_features = (
        features[is_varying_feature] - features[is_varying_feature].mean(axis=1, keepdims=True)
    ) / feature_sd[is_varying_feature, None]
    distinct_feature_vectors, vector_index_of_verdict, n_verdicts_of_vector = np.unique(
        standardised_features, axis=1, return_inverse=True, return_counts=True
    )
    n_failures_of_vector = np.bincount(vector_index_of_verdict, weights=is_failed)
    feature_sum_standard_error = np.sqrt(n_failures * (n_verdicts - n_failures) / (n_verdicts - 1))
    observed_statistic = np.abs(distinct_feature_vectors @ n_failures_of_vector).max() / feature_sum_standard_error
    feature_contributions = (is_failed - n_failures / n_verdicts) * standardised_features
    cluster_contributions = unit_sums(feature_contributions, units=units, n_units=int(units.max()) + 1)
    overall_design_effect = max(1.0, (cluster_contributions**2).sum() / (feature_contributions**2).sum())
    n_extreme_draws = n_completed_draws = 0
    while n_completed_draws < n_draws and n_extreme_draws < ENOUGH:
        batch_size = min(n_draws - n_completed_draws, max(1, CHUNK // n_verdicts_of_vector.size))
        null_feature_sums = (
            rng.multivariate_hypergeometric(n_verdicts_of_vector, n_failures, size=batch_size)
            @ distinct_feature_vectors.T
        )
        n_extreme_draws += int(
            (
                np.abs(null_feature_sums).max(axis=1) / feature_sum_standard_error
                >= observed_statistic / np.sqrt(overall_design_effect) - 1e-9
            ).sum()
        )
        n_completed_draws += batch_size
    return (1 + n_extreme_draws) / (n_completed_draws + 1)
