"""Ranks of many raters at once, and the rank representation of a rater.

NaN = not rated: it takes no rank. The lowest value has rank 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import weighted_sums
from custodes.stats.ratios import ratio

_ENOUGH = 2  # a ranking of fewer says nothing
_FEW = 32  # things up to which comparing all of them takes less time than sorting


def mid_ranks(values: NDArray[Any]) -> Floats:
    """Rank along the last axis, ties sharing the mean of their ranks: (..., n) -> (..., n); NaN keeps NaN.

    >>> mid_ranks(np.array([5.0, 7, 5, np.nan])).tolist()
    [1.5, 3.0, 1.5, nan]

    Source: Kendall 1945.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.shape[-1] <= _FEW:
        known = ~np.isnan(values)
        ranks = (known.sum(axis=-1, keepdims=True) + 1 + beaten(values)) / 2
        return np.where(known, ranks, np.nan)
    order = np.argsort(values, axis=-1, kind="stable")  # NaN last
    first, end = tie_runs(np.take_along_axis(values, order, axis=-1))
    return _placed(values, order, (first + end + 1) / 2)


def beaten(values: Floats) -> Ints:
    """How many are lower minus how many are higher, along the last axis: (..., n) -> (..., n); NaN is neither.

    >>> beaten(np.array([5.0, 7, 5, np.nan])).tolist()
    [-1, 2, -1, 0]
    """
    n = values.shape[-1]
    flat = values.reshape(math.prod(values.shape[:-1]), n)
    rows = np.ascontiguousarray(flat.T)  # a thing a row: whole rows are compared
    found = np.zeros(rows.shape, dtype=np.int16 if n < np.iinfo(np.int16).max else np.int64)
    for first in range(n - 1):
        for second in range(first + 1, n):
            sign = compared(rows[first], rows[second])
            found[first] += sign
            found[second] -= sign
    return np.ascontiguousarray(found.T).reshape(values.shape)


def compared(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int8]:
    """sign(x - y) by comparisons, so that any order codes will do, and 0 where either is NaN.

    >>> compared(np.array([2.0, 1.0, np.nan]), np.array([1.0, 1.0, 1.0])).tolist()
    [1, 0, 0]
    """
    return np.asarray((x > y).view(np.int8) - (x < y).view(np.int8))


def ordinal_ranks(values: NDArray[Any]) -> Floats:
    """Rank along the last axis, the earlier of two ties first: (..., n) -> (..., n); NaN keeps NaN.

    >>> ordinal_ranks(np.array([5.0, 7, 5, np.nan])).tolist()
    [1.0, 3.0, 2.0, nan]
    """
    values = np.asarray(values, dtype=np.float64)
    order = np.argsort(values, axis=-1, kind="stable")
    return _placed(values, order, np.broadcast_to(np.arange(1.0, values.shape[-1] + 1), values.shape))


def tie_runs(ordered: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where the run of equal values around each place starts and ends (exclusive), along the sorted last axis.

    >>> [places.tolist() for places in tie_runs(np.array([3, 5, 5, 8]))]
    [[0, 1, 1, 3], [1, 3, 3, 4]]
    """
    n = ordered.shape[-1]
    place = np.arange(n, dtype=np.int32)
    starts, stops = np.ones((2, *ordered.shape), dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    stops[..., :-1] = starts[..., 1:]
    first = np.maximum.accumulate(np.where(starts, place, np.int32(0)), axis=-1)
    end = np.where(stops, place + np.int32(1), np.int32(n))
    return first, np.minimum.accumulate(end[..., ::-1], axis=-1)[..., ::-1]


def representation(values: Floats, *, weights: NDArray[Any]) -> Floats:
    """Sum every rater's rankings over the units, in every resample -> (B, raters, n).

    values (raters, units, n), one ranking of n things a unit; weights (B, units). A ranking that lacks things is
    stretched to all n, and a thing that lacks units counts as its mean over those it has; a ranking of fewer than two
    says nothing. Complete data give plain sums of mid-ranks. NaN where a thing was never ranked in the resample.

    >>> representation(np.array([[[1.0, 2, 3], [5, 5, 9]]]), weights=np.ones((1, 2))).tolist()
    [[[2.5, 3.5, 6.0]]]

    Source: Colombo et al. 2023, "The Glass Ceiling of Automatic Evaluation", equations 1 and 2; missing cells ours.
    """
    ranks = mid_ranks(values)
    ranked = ~np.isnan(ranks)
    size = ranked.sum(axis=-1, keepdims=True)
    ranked &= size >= _ENOUGH
    stretched = np.where(ranked, (ranks - 0.5) * (ranks.shape[-1] / np.maximum(size, 1)) + 0.5, 0.0)
    total, present = (weighted_sums(weights, own.swapaxes(1, 2)) for own in (stretched, ranked))
    return total * ratio(weights.sum(axis=1)[:, np.newaxis, np.newaxis], present)


def _placed(values: Floats, order: Ints, ranks: Floats) -> Floats:
    """Give the ranks, in sorted order, back to the values."""
    placed = np.empty_like(values)
    np.put_along_axis(placed, order, ranks, axis=-1)
    placed[np.isnan(values)] = np.nan
    return placed
