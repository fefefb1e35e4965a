"""Ratios in slices of the data. Permutation tests compare the ratio in each slice with the ratio outside the slice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.multiple_testing import STREAM
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
    statistic is a difference divided by its standard error, so that variances of slices may differ. Two choices make
    the test conservative if parts are exchangeable, and keep its level if the variance of a small slice is much larger
    than the variance outside it. First, the variance of a slice is shrunk upwards towards the overall variance, which
    counts as one part. Second, the observed statistic is treated as Student's t, and its degrees of freedom are the
    number of parts of the smaller side minus 1. P-values are adjusted by the largest statistic of all tests, on the
    scale of normal quantiles. Permutations do not depend on the seed of an analysis.

    Parameters
    ----------
    numerator, denominator : array of shape (ratios, parts)
        Sums of each part. The ratio of a slice is the sum of its numerators divided by the sum of its denominators. A
        denominator of 0 means that the part has no data.
    slices : array of int of shape (parts,)
        Slice of each part, from 0.
    confidence : float
        Level of the bounds, which exclude 0 exactly if the single p-value is at most 1 - confidence.

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
    n_slices = int(slices.max(initial=-1)) + 1
    order = np.argsort(slices, kind="stable")
    has = denominator > 0
    a, b = np.where(has, numerator, 0.0), np.where(has, denominator, 0.0)
    sums = np.stack([has.astype(np.float64), a, b, a * a, a * b, b * b])[..., order]  # (6, ratios, parts)
    starts = np.searchsorted(slices[order], np.arange(n_slices))
    whole = _spread(sums.sum(axis=-1)[..., None])[1]
    n, value, other, difference, error = _differences(np.add.reduceat(sums, starts, axis=-1), whole)
    n_other = n.sum(axis=1, keepdims=True) - n
    tested = (np.minimum(n, n_other) >= FEWEST_PARTS) & np.isfinite(difference)
    freedom = np.maximum(np.minimum(n, n_other) - 1, 1)
    observed = _as_normal(_statistic(difference, error), freedom)
    draws = _permuted(sums, starts, whole, tested)
    p_value, p_adjusted, reach = np.full((3, *n.shape), np.nan)
    if tested.any():
        least = np.where(tested, observed * (1 - _SAME) - _SAME, np.inf)
        p_value = np.where(tested, (1 + (draws >= least).sum(axis=0)) / (1 + len(draws)), np.nan)
        largest = np.where(tested, _as_normal(draws, freedom), 0.0).max(axis=(1, 2))
        threshold = _as_normal(np.maximum(least, 0.0), freedom)
        p_adjusted = (1 + (largest[:, None, None] >= threshold).sum(axis=0)) / (1 + len(draws))
        p_adjusted = np.where(tested, np.maximum(p_adjusted, p_value), np.nan)
        rank = int((1 - confidence) * (len(draws) + 1) + _SAME)
        critical = _as_student(np.sort(draws, axis=0)[len(draws) - rank], freedom) if rank else np.full(n.shape, np.inf)
        reach = np.where(tested & np.isfinite(critical), critical * np.where(error > 0, error, 0.0), np.nan)
    contains = ~(p_value <= 1 - confidence)
    return SliceTests(
        n=n.astype(np.int64),
        value=value,
        other=other,
        difference=difference,
        low=np.where(contains, np.minimum(difference - reach, 0.0), difference - reach),
        high=np.where(contains, np.maximum(difference + reach, 0.0), difference + reach),
        p_value=p_value,
        p_adjusted=p_adjusted,
    )


def _permuted(sums: Floats, starts: Ints, whole: Floats, tested: Bools) -> Floats:
    """|difference| / standard error of every permutation: (permutations, ratios, slices)."""
    parts = sums.shape[-1]
    n = int(np.clip(_WORK // max(1, sums.size), _FEWEST_PERMUTATIONS, PERMUTATIONS)) if tested.any() else 0
    rng = np.random.default_rng(STREAM)
    result = np.empty((n, *tested.shape))
    rows = np.ascontiguousarray(np.moveaxis(sums, -1, 0))  # (parts, 6, ratios): a part is moved as a whole
    for here in chunks(n, sums.size // 4):
        moved = rng.permuted(np.tile(np.arange(parts), (here.stop - here.start, 1)), axis=1)
        added = np.add.reduceat(rows[moved], starts, axis=1)  # (block, slices, 6, ratios)
        _, _, _, difference, error = _differences(np.moveaxis(added, (0, 1, 2, 3), (1, 3, 0, 2)), whole)
        result[here] = _statistic(difference, error)
    return result


def _differences(sums: Floats, whole: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Number of parts, ratio in the slice, ratio outside it, difference, and standard error, from sums (6, ..., ratios,
    slices)."""
    rest = sums.sum(axis=-1, keepdims=True) - sums
    (value, inside), (other, outside) = _spread(sums), _spread(rest)
    n, n_other = sums[0], rest[0]
    inside, outside = (np.maximum(one, ratio((k - 1) * one + whole, k)) for one, k in ((inside, n), (outside, n_other)))
    variance = ratio(inside, n) + ratio(outside, n_other)
    return n, value, other, value - other, np.sqrt(variance)


def _spread(sums: Floats) -> tuple[Floats, Floats]:
    """The ratio, and the variance of the influence of one part of mean size. The variance is 0 for a single part."""
    n, a, b, aa, ab, bb = sums
    value = ratio(a, b)
    filled = np.nan_to_num(value)
    squares = np.maximum(aa - 2 * filled * ab + filled**2 * bb, 0.0)
    size = np.where(n > 0, b / np.maximum(n, 1), 1.0)
    return value, np.where(n > 1, squares / np.maximum(n - 1, 1) / np.where(size > 0, size, 1.0) ** 2, 0.0)


def _statistic(difference: Floats, error: Floats) -> Floats:
    """|t|; 0 if the difference is 0, or if it is undefined for a permutation."""
    size = np.abs(np.nan_to_num(difference))
    return np.where(size > _SAME, size / np.where(error > 0, error, np.finfo(float).tiny), 0.0)


def _as_normal(size: Floats, freedom: Floats) -> Floats:
    """Student's |t| with `freedom` degrees of freedom, transformed to a normal quantile (Wallace 1959)."""
    factor = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(factor * np.sqrt(freedom * np.log1p(size**2 / freedom)))


def _as_student(size: Floats, freedom: Floats) -> Floats:
    """Student's |t| from a normal quantile: the inverse of `_as_normal`."""
    factor = (8 * freedom + 1) / (8 * freedom + 3)
    return np.asarray(np.sqrt(freedom * np.expm1((size / factor) ** 2 / freedom)))
