"""Tests of position bias, and tests of whether failures depend on systems, orders or lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import CHUNK, Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import few_clusters
from custodes.stats.ratios import ratio

LEAST_FAILURES = 5
"""Minimum number of failures for a test."""
ENOUGH = 100
"""Sampling stops once this number of draws are at least as extreme as the data: significance is then out of reach."""
NOTHING = 1e-12  # smaller sums of squares are rounding errors


class BiasTest(NamedTuple):
    """Estimates (...) of quantities that are 0 under the null hypothesis, with intervals and p-values (...); NaN if
    undefined."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats


def slot_test(sums: Floats, sizes: Floats, *, wider: Floats, confidence: float) -> BiasTest:
    """Test of the hypothesis that the ratio of two sums over clusters is 0.

    `sums` and `sizes` (k, units) are the contributions of each cluster to numerator and denominator. Under the null
    hypothesis, the contribution of a cluster to the numerator is positive or negative with equal probability. So the
    score is the sum divided by the root of the sum of squared contributions, as in a sign test by clusters. The sum of
    squares is multiplied by the factor of `few_clusters` and by a further factor of the variance, `wider` (k,). The
    interval contains the values that the test does not reject. Results are NaN without data. If no cluster has a
    nonzero sum, p is 1 and there is no interval.

    >>> result = slot_test(np.ones((1, 9)), 2 * np.ones((1, 9)), wider=np.ones(1), confidence=0.95)
    >>> result.estimate.item(), round(result.p_value.item(), 4)
    (0.5, 0.0039)

    Source: ours; the score form of a variance by clusters (Cameron, Gelbach and Miller 2008 impose the null likewise).
    """
    from scipy.special import ndtr, ndtri

    total, size = sums.sum(axis=-1), sizes.sum(axis=-1)
    squares, crossed, size_squares = (
        np.einsum("ku,ku->k", a, b) for a, b in ((sums, sums), (sums, sizes), (sizes, sizes))
    )
    factor = wider * few_clusters((np.abs(sums) > NOTHING).sum(axis=-1))
    estimate = ratio(total, size)
    z = np.abs(total) / np.sqrt(np.maximum(squares * factor, NOTHING))
    p_value = np.where(np.isnan(estimate), np.nan, np.where(squares > NOTHING, 2 * ndtr(-z), 1.0))
    # (total - b size)^2 = limit * sum of (sums - b sizes)^2
    limit = float(ndtri((1 + confidence) / 2)) ** 2 * factor
    a, b, c = size**2 - limit * size_squares, total * size - limit * crossed, total**2 - limit * squares
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (np.where(a > 0, (b + side * root) / a, side * np.inf) for side in (-1, 1))
    unknown = np.isnan(estimate) | (squares <= NOTHING)
    return BiasTest(estimate, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high), p_value)


def uneven_p(failed: Bools, features: Floats, *, units: Ints, draws: int, rng: np.random.Generator) -> float:
    """P-value of the hypothesis that failures do not depend on some features.

    `failed` (n,) marks failures, `features` (k, n) are the features, and `units` (n,) are the clusters of verdicts. For
    each feature, z compares the sum of the feature over failures with its sum over equally many verdicts drawn at
    random. The statistic is the largest |z| of a feature. It is compared with the same statistic of `draws` random
    draws, or of fewer draws if it is clearly not significant. If failures come in clusters, z is divided by the root of
    their design effect, which is computed over all features and is at least 1. The p-value is NaN with fewer than five
    failures or five successes, or if no feature varies.

    >>> failed = np.arange(60) < 8
    >>> rng = np.random.default_rng(0)
    >>> uneven_p(failed, np.array([np.arange(60.0)]), units=np.arange(60), draws=999, rng=rng)
    0.001

    Source: Phipson and Smyth 2010 for the p-value; Kish 1965 for the design effect; the combination is ours.
    """
    number, n = int(failed.sum()), failed.size
    spread = features.std(axis=1)
    vary = spread > 0
    if min(number, n - number) < LEAST_FAILURES or not vary.any():
        return np.nan
    standard = (features[vary] - features[vary].mean(axis=1, keepdims=True)) / spread[vary, None]
    kinds, kind, counts = np.unique(standard, axis=1, return_inverse=True, return_counts=True)
    of_kind = np.bincount(kind.reshape(-1), weights=failed, minlength=counts.size)
    error = np.sqrt(number * (n - number) / max(n - 1, 1))
    largest = np.abs(kinds @ of_kind).max() / error
    moved = (failed - number / n) * standard
    sums = unit_sums(moved, units=units, n_units=int(units.max()) + 1)
    effect = max(1.0, float(ratio(np.array((sums**2).sum()), np.array((moved**2).sum()))))
    n_beyond = n_drawn = 0
    while n_drawn < draws and n_beyond < ENOUGH:
        size = min(draws - n_drawn, max(1, CHUNK // counts.size))
        null = rng.multivariate_hypergeometric(counts, number, size=size, method="marginals") @ kinds.T
        n_beyond += int((np.abs(null).max(axis=1) / error >= largest / np.sqrt(effect) - 1e-9).sum())
        n_drawn += size
    return (1 + n_beyond) / (n_drawn + 1)
