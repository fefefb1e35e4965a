"""Ranks for many raters at once, and counts of ordered pairs for rank correlations.

A value that is NaN is not rated and gets no rank. The lowest value has rank 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import weighted_sums
from custodes.stats.ratios import ratio

_ENOUGH = 2  # a ranking of fewer things carries no information


def mid_ranks(values: NDArray[Any]) -> Floats:
    """Ranks along the last axis; ties share the mean of their ranks.

    Parameters
    ----------
    values
        Scores (..., n); NaN = not rated.

    Returns
    -------
    :
        Ranks (..., n) from 1; NaN where the score is NaN.

    References
    ----------
    Kendall (1945).

    Examples
    --------
    >>> mid_ranks(np.array([5.0, 7, 5, np.nan])).tolist()
    [1.5, 3.0, 1.5, nan]
    """
    values = np.asarray(values, dtype=np.float64)
    sort_order = np.argsort(values, axis=-1, kind="stable")  # NaN is sorted last
    run_starts, run_ends = tie_runs(np.take_along_axis(values, sort_order, axis=-1))
    ranks = np.empty_like(values)
    np.put_along_axis(ranks, sort_order, (run_starts + run_ends + 1) / 2, axis=-1)
    ranks[np.isnan(values)] = np.nan
    return ranks


def ranks_within(values: NDArray[Any], groups: Ints) -> Floats:
    """Mid-ranks (n,) of values (n,) within each group. Values are not NaN; groups (n,) are numbered from 0.

    >>> ranks_within(np.array([5.0, 7.0, 5.0, 1.0]), np.array([0, 0, 0, 1])).tolist()
    [1.5, 3.0, 1.5, 1.0]

    Source: Kendall 1945.
    """
    group_sizes, level_of_value = np.bincount(groups), np.unique(values, return_inverse=True)[1]
    return mid_ranks(groups * len(values) + level_of_value) - (np.cumsum(group_sizes) - group_sizes)[groups]


def tie_runs(sorted_values: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For each position in sorted rows, the start and the end of the run of equal values that contains it.

    Parameters
    ----------
    sorted_values
        Values (..., n), sorted along the last axis.

    Returns
    -------
    :
        Start and end (exclusive) of the run at each position, (..., n) each.

    Examples
    --------
    >>> [places.tolist() for places in tie_runs(np.array([3, 5, 5, 8]))]
    [[0, 1, 1, 3], [1, 3, 3, 4]]
    """
    n_values = sorted_values.shape[-1]
    positions = np.arange(n_values, dtype=np.int32)
    is_run_start, is_run_end = np.ones((2, *sorted_values.shape), dtype=bool)
    is_run_start[..., 1:] = sorted_values[..., 1:] != sorted_values[..., :-1]
    is_run_end[..., :-1] = is_run_start[..., 1:]
    run_ends = np.where(is_run_end, positions + np.int32(1), np.int32(n_values))
    return (
        np.maximum.accumulate(np.where(is_run_start, positions, np.int32(0)), axis=-1),
        np.minimum.accumulate(run_ends[..., ::-1], axis=-1)[..., ::-1],
    )


def difference_signs(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int8]:
    """The sign of x - y, which is found by comparison, so that x and y can be any codes with an order.

    Parameters
    ----------
    x, y
        Values that broadcast against each other.

    Returns
    -------
    :
        1, 0 or -1; 0 where either value is NaN.

    Examples
    --------
    >>> difference_signs(np.array([2.0, 1.0, np.nan]), np.array([1.0, 1.0, 1.0])).tolist()
    [1, 0, 0]
    """
    return np.asarray((x > y).view(np.int8) - (x < y).view(np.int8))


def rank_deviations(values: NDArray[Any]) -> NDArray[np.int16]:
    """Twice the deviations of mid-ranks from their mean, along the first axis.

    Parameters
    ----------
    values
        Scores (n, ...) of at most 32,767 things; NaN = not rated.

    Returns
    -------
    :
        The number of lower minus the number of higher values, (n, ...); 0 where the value is NaN.

    References
    ----------
    Kendall (1945).

    Examples
    --------
    >>> rank_deviations(np.array([5.0, 7, 5, np.nan])).tolist()
    [-1, 2, -1, 0]
    """
    doubled_deviations = np.zeros(values.shape, dtype=np.int16)
    for first in range(len(values) - 1):
        signs = difference_signs(values[first], values[first + 1 :])
        doubled_deviations[first] += np.add.reduce(signs, axis=0, dtype=np.int16)
        doubled_deviations[first + 1 :] -= signs
    return doubled_deviations


class SortedRows(NamedTuple):
    """Rows of values in ascending order.

    `order` is the output at each position (rows, n). `start` and `end` are the start and the exclusive end of the run
    of ties at each position; without ties, both arrays have a single row. `has_ties` is whether there are ties.
    """

    order: Ints
    start: Ints
    end: Ints
    has_ties: bool

    @classmethod
    def from_values(cls, values: NDArray[Any]) -> SortedRows:
        """Sort rows of values (rows, n)."""
        output_order = np.argsort(values, axis=1)
        sorted_values = take_from_rows(values, output_order)
        if (sorted_values[:, 1:] == sorted_values[:, :-1]).any():
            return cls(output_order, *tie_runs(sorted_values), True)
        positions = np.arange(values.shape[1])[np.newaxis]
        return cls(output_order, positions, positions + 1, False)

    @property
    def n_levels(self) -> int:
        """Largest number of distinct values in a row."""
        if not self.has_ties:
            return int(self.order.shape[1])
        return int(np.count_nonzero(self.start == np.arange(self.order.shape[1]), axis=1).max())

    def levels(self) -> Ints:
        """Number of distinct values below the value of each output (rows, n)."""
        is_run_start = np.broadcast_to(self.start == np.arange(self.order.shape[1]), self.order.shape)
        levels = np.empty_like(self.order)
        np.put_along_axis(levels, self.order, np.cumsum(is_run_start, axis=1) - 1, axis=1)
        return levels

    def tie_counts(self, weights: Floats | None = None) -> NDArray[Any]:
        """For each output, the number of outputs in its row with the same value, including the output itself: (rows,
        n).

        With `weights` (n,) of the outputs, the result consists of sums of weights.

        >>> SortedRows.from_values(np.array([[3, 5, 3]])).tie_counts().tolist()
        [[2, 1, 2]]
        """
        run_sizes: NDArray[Any] = self.end - self.start
        if weights is not None:
            cumulative_weights = np.pad(np.cumsum(weights[self.order], axis=1), ((0, 0), (1, 0)))
            run_sizes = take_from_rows(cumulative_weights, self.end) - take_from_rows(cumulative_weights, self.start)
        n_tied_with_output = np.empty(self.order.shape, dtype=run_sizes.dtype)
        np.put_along_axis(n_tied_with_output, self.order, run_sizes, axis=1)
        return n_tied_with_output


def sorted_positions(x: SortedRows, y: SortedRows) -> Iterator[tuple[Ints, Ints]]:
    """Yield two arrays (rows, n): the outputs sorted by y, and the positions in this array of the outputs sorted by x.

    The positions have no ties. Ties in x follow the order of y. If y has ties, two orders are yielded, the second with
    reversed ties.
    """
    n = x.order.shape[1]
    positions = np.arange(n)
    orders_by_y = [y.order, take_from_rows(y.order, y.start + y.end - 1 - positions)] if y.has_ties else [y.order]
    int_type: Any = np.int32 if n * n <= np.iinfo(np.int32).max else np.int64
    run_offsets = n * x.start.astype(int_type)
    for order_by_y in orders_by_y:
        position_of_output = np.empty(order_by_y.shape, dtype=int_type)
        np.put_along_axis(position_of_output, order_by_y, positions[np.newaxis], axis=1)
        y_positions = take_from_rows(position_of_output, x.order)
        yield order_by_y, np.sort(run_offsets + y_positions, axis=1) - run_offsets if x.has_ties else y_positions


def take_from_rows(values: NDArray[Any], indices: Ints) -> NDArray[Any]:
    """Elements of each row of `values` at `indices`. A single row of `values` or `indices` is used for all rows."""
    if len(indices) == 1:
        return np.asarray(np.take(values, indices[0], axis=1))
    return np.asarray(values[0][indices] if len(values) == 1 else np.take_along_axis(values, indices, axis=1))


def count_earlier_lower(codes: Ints, weights: Floats | None = None) -> NDArray[Any]:
    """For each element, the number of earlier elements of its row that are lower.

    The computation takes n sqrt(n) steps and memory linear in n. Positions and codes are cut into blocks of about
    sqrt(n). Pairs of elements in different blocks are counted from a table of cumulative counts. Pairs within a block
    are counted by comparisons, for many blocks at once. Up to n = 20,000, this method is several times faster in NumPy
    than merging in n log n steps. At n = 100,000, this method is not slower.

    Parameters
    ----------
    codes
        Permutations (rows, n) of 0 .. n - 1.
    weights
        Weights of elements (rows, n); default: 1.

    Returns
    -------
    :
        The number of the earlier lower elements, or the sum of their weights: (rows, n).

    Examples
    --------
    >>> count_earlier_lower(np.array([[1, 0, 3, 2]])).tolist()
    [[0, 0, 2, 2]]
    """
    n_rows, n_elements = codes.shape
    block_width = max(1, math.isqrt(n_elements))
    n_blocks = -(-n_elements // block_width)
    padded_length = n_blocks * block_width
    int_type: Any = np.int16 if padded_length <= np.iinfo(np.int16).max else np.int32
    positions, row_numbers = np.arange(padded_length), np.arange(n_rows)[:, np.newaxis]
    padded_codes = np.broadcast_to(positions, (n_rows, padded_length)).astype(int_type)
    padded_codes[:, :n_elements] = codes
    flat_index_of_code = padded_codes + padded_length * row_numbers
    position_block_of_code, weight_of_code = np.empty(n_rows * padded_length, dtype=int_type), None
    position_block_of_code[flat_index_of_code] = positions // block_width
    padded_weights = None if weights is None else np.pad(weights, ((0, 0), (0, padded_length - n_elements)))
    if padded_weights is not None:
        weight_of_code = np.empty(n_rows * padded_length)
        weight_of_code[flat_index_of_code] = padded_weights
    cell_of_element = (n_blocks * row_numbers + positions // block_width) * n_blocks + padded_codes // block_width
    count_of_cell = np.bincount(
        cell_of_element.ravel(), None if padded_weights is None else padded_weights.ravel(), n_rows * n_blocks**2
    )
    count_table = np.asarray(count_of_cell, dtype=np.int64 if padded_weights is None else np.float64).reshape(
        n_rows, n_blocks, n_blocks
    )
    cumulative_count_table = np.zeros_like(count_table)
    np.cumsum(np.cumsum(count_table[:, :-1, :-1], axis=1), axis=2, out=cumulative_count_table[:, 1:, 1:])
    lower_sums = cumulative_count_table.reshape(-1)[cell_of_element]
    lower_sums += _count_lower_in_block(padded_codes, padded_weights, block_width).reshape(n_rows, padded_length)
    lower_sums += _count_lower_in_block(position_block_of_code, weight_of_code, block_width).reshape(-1)[
        flat_index_of_code
    ]
    return np.asarray(lower_sums[:, :n_elements])


def _count_lower_in_block(values: NDArray[Any], weights: Floats | None, block_width: int) -> NDArray[Any]:
    """Number of earlier lower elements in the same block, or the sum of their weights: (blocks, block_width)."""
    block_columns = np.ascontiguousarray(values.reshape(-1, block_width).T)  # whole blocks are compared at once
    block_weight_columns = None if weights is None else np.ascontiguousarray(weights.reshape(-1, block_width).T)
    lower_sums = np.zeros(block_columns.shape, dtype=values.dtype if block_weight_columns is None else np.float64)
    for first_column in range(block_width - 1):
        is_lower = block_columns[first_column] < block_columns[first_column + 1 :]
        lower_sums[first_column + 1 :] += (
            is_lower if block_weight_columns is None else is_lower * block_weight_columns[first_column]
        )
    return lower_sums.T


def representation(values: Floats, *, weights: NDArray[Any]) -> Floats:
    """Sum of the ranks of each thing over units, for every rater.

    An incomplete ranking is rescaled to the range of n ranks. If a thing is missing in some units, each missing rank is
    replaced by the mean of its ranks in the remaining units. A ranking of one thing is left out. For complete data, the
    result consists of sums of mid-ranks.

    Parameters
    ----------
    values
        Scores (raters, units, n), one ranking of n things per unit; NaN = not rated.
    weights
        Weights of units (units,).

    Returns
    -------
    :
        Sums of ranks (raters, n); NaN where a thing was never ranked.

    References
    ----------
    Colombo et al. (2023), "The Glass Ceiling of Automatic Evaluation", equations 1 and 2; the treatment of missing
    cells was developed for custodes.

    Examples
    --------
    >>> representation(np.array([[[1.0, 2, 3], [5, 5, 9]]]), weights=np.ones(2)).tolist()
    [[2.5, 3.5, 6.0]]
    """
    ranks = mid_ranks(values)
    is_ranked_thing = ~np.isnan(ranks)
    n_ranked_things = is_ranked_thing.sum(axis=-1, keepdims=True)
    is_ranked_thing &= n_ranked_things >= _ENOUGH
    rescaled_ranks = np.where(
        is_ranked_thing, (ranks - 0.5) * (ranks.shape[-1] / np.maximum(n_ranked_things, 1)) + 0.5, 0.0
    )
    rank_sums, n_ranked_units = (
        weighted_sums(weights[np.newaxis], ranks_or_mask.swapaxes(1, 2))[0]
        for ranks_or_mask in (rescaled_ranks, is_ranked_thing)
    )
    return np.asarray(rank_sums * ratio(weights.sum(), n_ranked_units))
