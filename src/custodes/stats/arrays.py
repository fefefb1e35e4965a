"""Array types and helpers: chunks that fit memory, read-only arrays, rounding."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Signs = NDArray[np.int8]

CHUNK = 1_000_000
"""Maximum number of elements of a temporary array."""

EXACT_SINGLE = 2**24
"""Sums of whole numbers are exact in single precision if no partial sum exceeds this number."""

_CONSTANT = 1e-12  # a variance below this proportion of its largest possible value is rounding error


def chunks(n_items: int, elements_per_item: int) -> Iterator[slice]:
    """Slices that cut items into chunks. If an array has `elements_per_item` elements for each item of a chunk, the
    array has at most `CHUNK` elements.

    >>> list(chunks(5, CHUNK // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    n_per_chunk = max(1, CHUNK // max(1, elements_per_item))
    return (
        slice(start_index, min(start_index + n_per_chunk, n_items)) for start_index in range(0, n_items, n_per_chunk)
    )


def table_sums(*codes: Ints, shape: tuple[int, ...], weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Sum of the weights (n,) of the rows in each cell of a table; without weights, the number of rows in each cell.

    `codes` has one array (n,) for each axis of `shape`: the position of each row on this axis.

    >>> table_sums(np.array([0, 1, 1]), np.array([1, 0, 0]), shape=(2, 2)).tolist()
    [[0, 1], [2, 0]]
    """
    return np.bincount(np.ravel_multi_index(codes, shape), weights=weights, minlength=prod(shape)).reshape(shape)


def require(condition: object, message: str) -> None:
    """Raise `ValueError` with a message if a condition on the arguments of a function is false.

    >>> require(2 > 1, "never raised")
    """
    if not condition:
        raise ValueError(message)


def make_read_only(value: T) -> T:
    """Make an array read-only, or all arrays in a tuple or in the fields of an object, and return the value. Arrays
    that several computations share are read-only, so that an attempt to modify them raises an error.

    >>> make_read_only((np.zeros(2), np.zeros(1)))[1].flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
        return value
    for component in value if isinstance(value, tuple) else vars(value).values():
        # A tuple of labels contains no arrays and may be long.
        if isinstance(component, np.ndarray) or (
            isinstance(component, tuple) and component and not isinstance(component[0], str)
        ):
            make_read_only(component)
    return value


class ReadOnlyArrays:
    """Base class of dataclasses whose arrays are read-only (see `make_read_only`)."""

    def __post_init__(self) -> None:
        make_read_only(self)


def unit_of(values: Floats) -> float:
    """The largest power of two that does not exceed the largest finite absolute value; 1 if all finite values are 0.

    Dividing by a power of two has no rounding error.

    >>> unit_of(np.array([0.3, -5.0, np.nan]))
    4.0
    """
    largest_absolute_value = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
    return float(2.0 ** np.floor(np.log2(largest_absolute_value))) if largest_absolute_value > 0 else 1.0


def round_for_sorting(values: Floats, digits: int = 9) -> Floats:
    """Rounded values for sorting: values that differ by no more than rounding error become equal on any processor.

    The rounding keeps `digits` decimal digits after the leading digit of the largest value.

    >>> round_for_sorting(np.array([0.1 + 0.2, 0.3, 1.0])).tolist()
    [0.3, 0.3, 1.0]
    """
    return np.asarray(np.round(values / unit_of(values), digits) * unit_of(values))


@cache
def legendre(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre quadrature on [-1, 1], cached because their computation is slow."""
    return np.polynomial.legendre.leggauss(n)


def equal_positions(values: Iterable[Hashable]) -> list[NDArray[np.intp]]:
    """Positions of each distinct value, in the order in which the values first occur.

    >>> [positions.tolist() for positions in equal_positions("aba")]
    [[0, 2], [1]]
    """
    positions_of_value: dict[Hashable, list[int]] = {}
    for position, value in enumerate(values):
        positions_of_value.setdefault(value, []).append(position)
    return [np.array(positions) for positions in positions_of_value.values()]


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Distinct rows of an array (n, k) in ascending order, and the position of each row among them.

    `numpy.unique` with an axis gives the same result in ten times the time.

    >>> [array.tolist() for array in distinct_rows(np.array([[2, 1], [0, 1], [2, 1]]))]
    [[[0, 1], [2, 1]], [1, 0, 1]]
    """
    column_codes = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    row_codes = np.ravel_multi_index(column_codes, [codes.max(initial=0) + 1 for codes in column_codes])
    _, first_positions, distinct_index_of_row = np.unique(row_codes, return_index=True, return_inverse=True)
    return rows[first_positions], distinct_index_of_row


def bisect_condition(is_below: Callable[[Any], Any], low: Any, high: Any, *, steps: int = 50) -> Any:
    """Points (...) at which a monotone condition changes from true to false, by bisection between `low` and `high`
    (...).

    The condition must be true at `low`. If the condition is true everywhere up to `high`, the result is `high`.

    >>> bisect_condition(lambda x: x**2 < np.array([4.0, 9.0]), np.zeros(2), np.full(2, 10.0)).round(9).tolist()
    [2.0, 3.0]
    """
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = np.where(is_below(middle), [middle, high], [low, middle])
    return high


def deviations(x: Floats) -> Floats:
    """Deviations from the mean along the last axis. A deviation is 0 where the value is NaN or the deviation is
    rounding error."""
    is_missing = np.isnan(x)
    values_or_zero = np.where(is_missing, 0.0, x) if is_missing.any() else x
    deviation_from_mean = values_or_zero - values_or_zero.sum(axis=-1, keepdims=True) / np.maximum(
        x.shape[-1] - is_missing.sum(axis=-1, keepdims=True), 1
    )
    is_rounding_error = np.abs(deviation_from_mean) <= _CONSTANT * np.abs(values_or_zero).max(
        axis=-1, keepdims=True, initial=0.0
    )
    deviation_from_mean[is_missing | is_rounding_error] = 0.0
    return np.asarray(deviation_from_mean)


def scaled_deviations(x: Floats) -> Floats:
    """Deviations from the mean along the last axis, scaled to at most 1, so that squares neither overflow nor
    underflow.

    Parameters
    ----------
    x
        Values (..., n); NaN = not rated.

    Returns
    -------
    :
        Scaled deviations (..., n); 0 where the value is NaN or its deviation is rounding error.

    Examples
    --------
    >>> scaled_deviations(np.array([1e-200, 3e-200, np.nan])).tolist()
    [-1.0, 1.0, 0.0]
    """
    return scaled(deviations(x))


def scaled(values: Floats) -> Floats:
    """Values divided by the largest absolute value along the last axis; unchanged where all values are 0.

    >>> scaled(np.array([[-4.0, 2.0], [0.0, 0.0]])).tolist()
    [[-1.0, 0.5], [0.0, 0.0]]
    """
    largest_values = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    return values / np.where(largest_values > 0, largest_values, 1.0)
