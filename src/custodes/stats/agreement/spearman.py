"""Spearman's correlation over all outputs, exact in every resample: the mid-ranks are those of the resample."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.ratios import ratio

_CONSTANT = 1e-12  # a variance below this share of the largest is rounding, not variance
_EXACT = 2**24  # single precision holds whole numbers up to here
_PARTS = 4  # into so many parts a sum is cut at most so that single precision stays exact


def resampled(human: Floats, metrics: Floats, *, units: Ints, weights: Floats) -> Floats:
    """Correlate mid-ranks in every resample: human (outputs,), metrics (metrics, outputs) without NaN -> (B, metrics).

    units (outputs,) and weights (B, units). NaN where either side is constant in the resample.

    With ranks as sums of signs over units, the covariance w'(A (w S)) needs a product of the metric's signs against
    units (units, outputs) with people's weighed ranks (outputs, B), which are the same for all metrics.

    >>> human, metrics = np.array([1.0, 2, 3, 4]), np.array([[1.0, 30, 2, 40]])
    >>> resampled(human, metrics, units=np.array([0, 0, 1, 1]), weights=np.ones((1, 2))).round(3).tolist()
    [[0.8]]

    Source: Spearman 1904; Kendall 1945 for ties.
    """
    n_units = weights.shape[1]
    drawn = np.ascontiguousarray(weights.T)
    total = drawn.T @ np.bincount(units, minlength=n_units)
    level, n_levels = _grouped(human)
    size = _counts(level, n_levels, units, n_units).T @ drawn  # (levels, B)
    ranks = 2 * np.cumsum(size, axis=0) - size - total
    human_variance = np.einsum("lb,lb->b", ranks * size, ranks)
    weighed = drawn[units] * ranks[level]
    least = _CONSTANT * total**3
    human_variance = np.where(human_variance > least, human_variance, np.nan)
    parts = _exact_parts(weighed, np.bincount(units).max(), whole=bool((weights == np.rint(weights)).all()))
    factor: list[tuple[slice, NDArray[Any]]] = [(part, weighed[part].astype(np.float32)) for part in parts]
    quick: NDArray[Any] = drawn.astype(np.float32) if parts else drawn
    most = float(total.max())
    factor = factor or [(slice(None), weighed)]
    result = np.empty((len(weights), len(metrics)))
    for m, metric in enumerate(metrics):
        group, n = _grouped(metric)
        counts = _counts(group, n, units, n_units)
        above = (2 * np.cumsum(counts, axis=1) - counts - counts.sum(axis=1, keepdims=True))[:, group]
        products = np.zeros(drawn.shape)
        for part, own in factor:
            products += above[:, part].astype(own.dtype) @ own
        covariance = np.einsum("ub,ub->b", products, drawn)
        variance = (total**3 - _cubes(group, counts, units, drawn, quick, most)) / 3
        variance = np.where(variance > least, variance, np.nan)
        result[:, m] = ratio(covariance, np.sqrt(variance * human_variance)).clip(-1.0, 1.0)
    return result


def _counts(group: Ints, n: int, units: Ints, n_units: int) -> Floats:
    """(units, groups): how many outputs of a unit are in each group of ties."""
    return np.bincount(units * n + group, minlength=n_units * n).reshape(n_units, n).astype(np.float64)


def _grouped(values: Floats) -> tuple[Ints, int]:
    """The place of each output's group of ties from the lowest up, and how many groups there are."""
    group = np.unique(values, return_inverse=True)[1]
    return group, int(group.max()) + 1


def _cubes(group: Ints, counts: Floats, units: Ints, drawn: Floats, quick: NDArray[Any], most: float) -> Floats:
    """(B,): the cubes of the sizes of all groups of ties, added up; group and units (outputs,), (units, groups),
    (units, B), and `quick` the same in single precision where that is exact; `most` outputs in a resample.

    Twice the centred mid-ranks have the sum of squares (N^3 - cubes) / 3. Most groups are small: one output has the
    weight of its unit, and of two the cube is a form of the weights of two units.
    """
    size = counts.sum(axis=0)
    n_units = len(counts)
    single = np.bincount(units[size[group] <= 2], minlength=n_units)
    cubes = single @ (drawn * drawn * drawn)  # a power takes ten times as long
    two = np.flatnonzero(size[group] == 2)
    if len(two):
        one, other = units[two[np.argsort(group[two], kind="stable")]].reshape(-1, 2).T
        met = np.bincount(one * n_units + other, minlength=n_units**2).reshape(n_units, n_units)
        cubes += 3 * np.einsum("ub,ub->b", drawn * drawn, (met + met.T).astype(np.float64) @ drawn)
    more = counts[:, size > 2].T.astype(quick.dtype) @ quick
    if more.dtype == np.float32 and float(more.max(initial=0)) ** 2 * most >= _EXACT:
        more = more.astype(np.float64)
    return np.asarray(cubes + np.einsum("gb,gb->b", more * more, more))


def _exact_parts(weighed: Floats, largest: int, *, whole: bool) -> list[slice]:
    """Parts of the outputs whose sums single precision holds exactly; none where there would be too many of them."""
    if not whole:
        return []
    size = np.abs(weighed)
    for n in range(1, _PARTS + 1):
        edges = np.linspace(0, len(size), n + 1).astype(int)
        parts = [slice(low, high) for low, high in pairwise(edges)]
        if max(size[part].sum(axis=0).max() for part in parts) * largest < _EXACT:
            return parts
    return []
