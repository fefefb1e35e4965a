"""Ratios in slices of the data. Permutation tests compare the ratio in each slice with the ratio outside the slice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.multiple_testing import STREAM, wallace_factor
from custodes.stats.ratios import ratio

FEWEST_PARTS = 15
"""Minimum number of items or clusters with data for a test, both in the slice and outside it."""

PERMUTATIONS = 3000
_FEWEST_PERMUTATIONS = 500
_WORK = 1_500_000_000
"""Maximum number of values that all permutations add up; with large data, there are therefore fewer permutations."""
_SAME = 1e-9


class SliceTests(NamedTuple):
    """Ratios in slices and their tests: arrays (ratios, slices), NaN where undefined or not tested.

    `n` is the number of parts with data. `value` is the ratio in the slice, and `other` is the ratio outside it.
    `difference` is `value` minus `other`, with the bounds `low` and `high` and the unadjusted `p_value`. `p_adjusted`
    is adjusted for all ratios and slices.
    """

    n: Ints
    value: Floats
    other: Floats
    difference: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats


def slice_tests(numerator: Floats, denominator: Floats, slices: Ints, *, confidence: float) -> SliceTests:
    """Tests of the ratio of sums in each slice against the ratio in all data outside the slice.

    Parts of the data (items, or the part of a cluster in a slice) are permuted among slices of fixed sizes. The
    statistic is a difference divided by its standard error, so that variances of slices may differ. Two choices keep
    the level of the test even if a small slice has a much larger variance than the other parts. If parts are
    exchangeable, the test is therefore conservative. First, if the variance of a slice is smaller than the overall
    variance, it is increased towards the overall variance. The overall variance has the weight of one part. Second, the
    observed statistic is treated as Student's t. The degrees of freedom are the number of parts inside or outside the
    slice, whichever is smaller, minus 1. P-values are adjusted by the largest statistic of all tests, on the scale of
    normal quantiles. Permutations do not depend on the seed of an analysis.

    Parameters
    ----------
    numerator, denominator : array of shape (ratios, parts)
        Sums of each part. The ratio of a slice is the sum of its numerators divided by the sum of its denominators. A
        denominator of 0 means that the part has no data.
    slices : array of int of shape (parts,)
        Slice of each part, from 0.
    confidence : float
        Level of the bounds. The bounds exclude 0 if and only if the unadjusted p-value is at most 1 - confidence.

    Returns
    -------
    SliceTests

    References
    ----------
    Janssen 1997 and Chung and Romano 2013 (studentized permutation tests); Westfall and Young 1993 (largest statistic).

    Examples
    --------
    >>> right = np.array([[1.0] * 20 + [0.0] * 10 + [1.0] * 10])
    >>> tests = slice_tests(right, np.ones_like(right), np.repeat([0, 1], 20), confidence=0.95)
    >>> tests.value.tolist(), tests.difference.tolist(), bool((tests.p_adjusted < 0.01).all())
    ([[1.0, 0.5]], [[0.5, -0.5]], True)
    """
    part_order = np.argsort(slices, kind="stable")
    # number, numerator, denominator, and the products of numerator and denominator of each part: (6, ratios, parts)
    has_data, x, y = np.where(denominator > 0, [np.ones_like(numerator), numerator, denominator], 0.0)[..., part_order]
    part_moments = np.stack([has_data, x, y, x * x, x * y, y * y])
    slice_starts = np.searchsorted(slices[part_order], np.arange(slices.max(initial=-1) + 1))
    overall_part_variance = _ratio_and_variance(part_moments.sum(axis=-1)[..., None])[1]
    n_parts, ratio_inside, ratio_outside, ratio_difference, standard_error = _differences(
        np.add.reduceat(part_moments, slice_starts, axis=-1), overall_part_variance
    )
    n_parts_outside = n_parts.sum(axis=1, keepdims=True) - n_parts
    is_tested_slice = (np.minimum(n_parts, n_parts_outside) >= FEWEST_PARTS) & np.isfinite(ratio_difference)
    degrees_of_freedom = np.maximum(np.minimum(n_parts, n_parts_outside) - 1, 1)
    observed_z = _t_to_normal(_statistic(ratio_difference, standard_error), degrees_of_freedom)
    permuted_statistics = _permutation_statistics(part_moments, slice_starts, overall_part_variance, is_tested_slice)
    n_permutations = len(permuted_statistics)  # 0 if no slice is tested
    observed_less_tolerance = np.where(is_tested_slice, observed_z * (1 - _SAME) - _SAME, np.inf)
    n_reached = (permuted_statistics >= observed_less_tolerance).sum(axis=0)
    p_value = np.where(is_tested_slice, (1 + n_reached) / (1 + n_permutations), np.nan)
    largest_statistics = np.where(is_tested_slice, _t_to_normal(permuted_statistics, degrees_of_freedom), 0.0).max(
        axis=(1, 2), initial=0.0
    )
    observed_normal_quantile = _t_to_normal(np.maximum(observed_less_tolerance, 0.0), degrees_of_freedom)
    n_reached_by_largest = (largest_statistics[:, None, None] >= observed_normal_quantile).sum(axis=0)
    critical_rank = int((1 - confidence) * (n_permutations + 1) + _SAME)
    half_width = np.full(n_parts.shape, np.nan)
    if critical_rank:
        critical_statistics = np.sort(permuted_statistics, axis=0)[n_permutations - critical_rank]
        critical_t = _normal_to_t(critical_statistics, degrees_of_freedom)
        half_width = np.where(is_tested_slice, critical_t * np.nan_to_num(standard_error), np.nan)
    low, high = ratio_difference - half_width, ratio_difference + half_width
    is_zero_in_interval = p_value > 1 - confidence
    return SliceTests(
        n=n_parts.astype(np.int64),
        value=ratio_inside,
        other=ratio_outside,
        difference=ratio_difference,
        low=np.where(is_zero_in_interval, np.minimum(low, 0.0), low),
        high=np.where(is_zero_in_interval, np.maximum(high, 0.0), high),
        p_value=p_value,
        p_adjusted=np.maximum((1 + n_reached_by_largest) / (1 + n_permutations), p_value),
    )


def _permutation_statistics(
    part_moments: Floats, slice_starts: Ints, overall_part_variance: Floats, is_tested_slice: Bools
) -> Floats:
    """|difference| / standard error of every permutation: (permutations, ratios, slices)."""
    n_permutations = (
        int(np.clip(_WORK // max(1, part_moments.size), _FEWEST_PERMUTATIONS, PERMUTATIONS))
        if is_tested_slice.any()
        else 0
    )
    rng = np.random.default_rng(STREAM)
    permuted_statistics = np.empty((n_permutations, *is_tested_slice.shape))
    moments_by_part = np.ascontiguousarray(
        np.moveaxis(part_moments, -1, 0)
    )  # (parts, 6, ratios): a part is moved as a whole
    for permutation_slice in chunks(n_permutations, part_moments.size // 4):
        permuted_part_indices = rng.permuted(
            np.tile(np.arange(len(moments_by_part)), (permutation_slice.stop - permutation_slice.start, 1)), axis=1
        )
        permuted_sums = np.add.reduceat(
            moments_by_part[permuted_part_indices], slice_starts, axis=1
        )  # (block, slices, 6, ratios)
        differences = _differences(np.moveaxis(permuted_sums, (0, 1, 2, 3), (1, 3, 0, 2)), overall_part_variance)
        permuted_statistics[permutation_slice] = _statistic(*differences[3:])
    return permuted_statistics


def _differences(slice_moments: Floats, overall_part_variance: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Number of parts, ratio in the slice, ratio outside it, difference, and standard error, from sums (6, ..., ratios,
    slices)."""
    moments_outside = slice_moments.sum(axis=-1, keepdims=True) - slice_moments
    (ratio_inside, variance_inside), (ratio_outside, variance_outside) = (
        _ratio_and_variance(slice_moments),
        _ratio_and_variance(moments_outside),
    )
    n_parts, n_parts_outside = slice_moments[0], moments_outside[0]
    variance_inside, variance_outside = (
        np.maximum(
            variance_of_side, ratio((n_parts_of_side - 1) * variance_of_side + overall_part_variance, n_parts_of_side)
        )
        for variance_of_side, n_parts_of_side in ((variance_inside, n_parts), (variance_outside, n_parts_outside))
    )
    variance_of_difference = ratio(variance_inside, n_parts) + ratio(variance_outside, n_parts_outside)
    return n_parts, ratio_inside, ratio_outside, ratio_inside - ratio_outside, np.sqrt(variance_of_difference)


def _ratio_and_variance(moments: Floats) -> tuple[Floats, Floats]:
    """The ratio, and the variance of the influence that a part of mean size has. The variance is 0 for a single
    part."""
    n_parts, numerator_sum, denominator_sum, numerator_square_sum, product_sum, denominator_square_sum = moments
    slice_ratio = ratio(numerator_sum, denominator_sum)
    ratio_or_zero = np.nan_to_num(slice_ratio)
    residual_square_sum = np.maximum(
        numerator_square_sum - 2 * ratio_or_zero * product_sum + ratio_or_zero**2 * denominator_square_sum, 0.0
    )
    mean_denominator = np.where(n_parts > 0, denominator_sum / np.maximum(n_parts, 1), 1.0)
    return slice_ratio, np.where(
        n_parts > 1,
        residual_square_sum / np.maximum(n_parts - 1, 1) / np.where(mean_denominator > 0, mean_denominator, 1.0) ** 2,
        0.0,
    )


def _statistic(ratio_difference: Floats, standard_error: Floats) -> Floats:
    """|t|; 0 if the difference is 0, or if it is undefined for a permutation."""
    absolute_difference = np.abs(np.nan_to_num(ratio_difference))
    return np.where(
        absolute_difference > _SAME,
        absolute_difference / np.where(standard_error > 0, standard_error, np.finfo(float).tiny),
        0.0,
    )


def _t_to_normal(absolute_t: Floats, freedom: Floats) -> Floats:
    """Student's |t| with `freedom` degrees of freedom, transformed to a normal quantile (Wallace 1959)."""
    return np.asarray(wallace_factor(freedom) * np.sqrt(freedom * np.log1p(absolute_t**2 / freedom)))


def _normal_to_t(normal_quantile: Floats, freedom: Floats) -> Floats:
    """Student's |t| from a normal quantile: the inverse of `_t_to_normal`."""
    return np.asarray(np.sqrt(freedom * np.expm1((normal_quantile / wallace_factor(freedom)) ** 2 / freedom)))
