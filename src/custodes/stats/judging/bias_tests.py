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
"""Sampling stops once this number of draws are at least as extreme as the data: significance is then out of reach."""
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

    Source: ours; the score form of a variance by clusters (Cameron, Gelbach and Miller 2008 impose the null likewise).
    """
    from scipy.special import ndtr, ndtri

    numerator, denominator = numerators.sum(axis=-1), denominators.sum(axis=-1)
    squared_sums_total, cross_product_total, squared_sizes_total = (
        np.einsum("ku,ku->k", a, b)
        for a, b in ((numerators, numerators), (numerators, denominators), (denominators, denominators))
    )
    variance_factor = further_variance_factors * few_clusters((np.abs(numerators) > NOTHING).sum(axis=-1))
    estimate = ratio(numerator, denominator)
    z = np.abs(numerator) / np.sqrt(np.maximum(squared_sums_total * variance_factor, NOTHING))
    p_value = np.where(np.isnan(estimate), np.nan, np.where(squared_sums_total > NOTHING, 2 * ndtr(-z), 1.0))
    # (numerator - b denominator)^2 = limit * sum of (numerators - b denominators)^2
    limit = float(ndtri((1 + confidence) / 2)) ** 2 * variance_factor
    a, b, c = (
        denominator**2 - limit * squared_sizes_total,
        numerator * denominator - limit * cross_product_total,
        numerator**2 - limit * squared_sums_total,
    )
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (np.where(a > 0, (b + sign * root) / a, sign * np.inf) for sign in (-1, 1))
    has_no_interval = np.isnan(estimate) | (squared_sums_total <= NOTHING)
    return Inference(estimate, np.where(has_no_interval, np.nan, low), np.where(has_no_interval, np.nan, high), p_value)


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

    Source: Phipson and Smyth 2010 for the p-value; Kish 1965 for the design effect; the combination is ours.
    """
    n_failures, n_all_verdicts = int(is_failed.sum()), is_failed.size
    feature_sd = features.std(axis=1)
    is_varying_feature = feature_sd > 0
    if min(n_failures, n_all_verdicts - n_failures) < LEAST_FAILURES or not is_varying_feature.any():
        return np.nan
    standardised_features = (
        features[is_varying_feature] - features[is_varying_feature].mean(axis=1, keepdims=True)
    ) / feature_sd[is_varying_feature, None]
    distinct_features, feature_indices, n_verdicts_by_feature = np.unique(
        standardised_features, axis=1, return_inverse=True, return_counts=True
    )
    n_failures_by_feature = np.bincount(
        feature_indices.reshape(-1), weights=is_failed, minlength=n_verdicts_by_feature.size
    )
    standard_error = np.sqrt(n_failures * (n_all_verdicts - n_failures) / max(n_all_verdicts - 1, 1))
    observed_statistic = np.abs(distinct_features @ n_failures_by_feature).max() / standard_error
    verdict_contributions = (is_failed - n_failures / n_all_verdicts) * standardised_features
    cluster_sums = unit_sums(verdict_contributions, units=units, n_units=int(units.max()) + 1)
    design_effect = max(
        1.0, float(ratio(np.array((cluster_sums**2).sum()), np.array((verdict_contributions**2).sum())))
    )
    n_extreme = n_drawn = 0
    while n_drawn < n_draws and n_extreme < ENOUGH:
        batch_size = min(n_draws - n_drawn, max(1, CHUNK // n_verdicts_by_feature.size))
        null_scores = (
            rng.multivariate_hypergeometric(n_verdicts_by_feature, n_failures, size=batch_size, method="marginals")
            @ distinct_features.T
        )
        n_extreme += int(
            (
                np.abs(null_scores).max(axis=1) / standard_error >= observed_statistic / np.sqrt(design_effect) - 1e-9
            ).sum()
        )
        n_drawn += batch_size
    return (1 + n_extreme) / (n_drawn + 1)
