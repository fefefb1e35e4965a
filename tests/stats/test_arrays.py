from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.arrays import (
    CHUNK,
    ReadOnlyArrays,
    bisect_condition,
    chunks,
    deviations,
    distinct_rows,
    equal_positions,
    require,
    round_for_sorting,
    scaled_deviations,
    table_sums,
    unit_of,
)
from custodes.stats.ratios import mean_of_defined, ratio


@given(st.integers(0, 300), st.integers(0, 3 * CHUNK))
def test_slices_cover_everything_once_and_hold_no_more_than_allowed(n: int, size: int) -> None:
    parts = list(chunks(n, size))
    assert [k for part in parts for k in range(n)[part]] == list(range(n))
    for part in parts:
        # A slice contains one element of any size.
        assert part.stop - part.start == 1 or (part.stop - part.start) * size <= CHUNK
    full = {part.stop - part.start for part in parts[:-1]}
    # No more slices than needed: another element would exceed the limit.
    assert len(full) <= 1
    assert all((width + 1) * size > CHUNK for width in full)


values = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=st.one_of(st.floats(-9, 9), st.just(np.nan))
)


def test_ratio_broadcasts_and_is_undefined_over_nothing():
    result = ratio(np.array([[3, 0], [1, 0]]), np.array([[4], [0]]))
    np.testing.assert_array_equal(result, [[0.75, 0.0], [np.nan, np.nan]])
    # Unsigned counts do not wrap, and an infinite numerator stays infinite.
    assert ratio(np.array(1, dtype=np.uint32), np.array(2, dtype=np.uint32)) == 0.5
    assert ratio(np.array(np.inf), np.array(2)) == np.inf


@given(values)
def test_mean_of_defined_is_that_of_a_loop(table):
    for axis, rows in ((-1, table), (0, table.T)):
        defined = [[value for value in row if not np.isnan(value)] for row in rows]
        expected = [np.mean(row) if row else np.nan for row in defined]
        np.testing.assert_allclose(mean_of_defined(table, axis=axis), expected, atol=1e-12)


def test_table_sums_are_those_of_a_histogram() -> None:
    rng, shape = np.random.default_rng(0), (3, 4, 2)
    codes, weights = [rng.integers(size, size=50) for size in shape], rng.random(50)
    expected, _ = np.histogramdd(np.stack(codes, axis=1), bins=[np.arange(size + 1) for size in shape], weights=weights)
    np.testing.assert_allclose(table_sums(*codes, shape=shape, weights=weights), expected)
    assert table_sums(*codes, shape=shape).sum() == 50
    empty = np.zeros(0, dtype=np.int64)
    assert table_sums(empty, empty, shape=(0, 3)).shape == (0, 3)


def test_deviations_are_zero_for_missing_values_and_rounding_errors() -> None:
    table = np.array([[1.0, 2.0, 6.0, np.nan], [0.1 + 0.2, 0.3, 0.3, 0.3], [np.nan] * 4, [5.0, np.nan, np.nan, np.nan]])
    expected = np.array([[-2.0, -1.0, 3.0, 0.0], [0] * 4, [0] * 4, [0] * 4])
    np.testing.assert_allclose(deviations(table), expected)
    np.testing.assert_array_equal(deviations(table)[1:], expected[1:])
    np.testing.assert_allclose(scaled_deviations(table), [[-2 / 3, -1 / 3, 1, 0], *expected[1:]])
    assert scaled_deviations(np.array([1e200, 3e200])).tolist() == [-1, 1]
    small = np.array([1.0, 1.0 + 1e-11, 1.0])
    assert (deviations(small) != 0).all()
    assert not deviations(np.array([1.0, 1.0 + 1e-13, 1.0])).any()
    assert deviations(np.zeros((2, 0))).shape == (2, 0)


def test_units_are_powers_of_two() -> None:
    for value, unit in ((1.0, 1.0), (1.99, 1.0), (2.0, 2.0), (-0.3, 0.25), (0.0, 1.0), (1e-300, 2.0**-997)):
        assert unit_of(np.array([value, 0.0, np.nan, np.inf])) == unit
    assert unit_of(np.array([])) == 1
    values = np.array([1.0, 1.0 + 1e-10, 1.0 + 1e-8])
    rounded = round_for_sorting(values)
    assert rounded[0] == rounded[1] < rounded[2]
    assert round_for_sorting(1e6 * values).tolist() == pytest.approx((1e6 * rounded).tolist(), rel=1e-9)
    assert round_for_sorting(values, 7).tolist() == [1.0] * 3


def test_bisection_finds_the_change_or_the_end() -> None:
    changes = np.array([0.0, 0.3, 7.9, 8.0, 99.0])
    found = bisect_condition(lambda x: x < changes, np.zeros(5), np.full(5, 8.0))
    np.testing.assert_allclose(found, [0, 0.3, 7.9, 8, 8], atol=1e-12)
    assert bisect_condition(lambda x: x < 1, 0.0, 4.0, steps=2) == 1.0
    assert bisect_condition(lambda x: x <= 1, 0.0, 4.0, steps=2) == 2.0


def test_read_only_arrays_are_found_in_tuples_and_fields() -> None:
    @dataclass(frozen=True)
    class Fields(ReadOnlyArrays):
        array: np.ndarray
        pair: tuple[np.ndarray, np.ndarray]
        names: tuple[str, ...] = ("a", "b")
        empty: tuple[str, ...] = ()

    fields = Fields(np.zeros(2), (np.zeros(1), np.zeros(3)))
    for array in (fields.array, *fields.pair):
        assert not array.flags.writeable
    assert [positions.tolist() for positions in equal_positions([2, 1, 2, 3, 1])] == [[0, 2], [1, 4], [3]]
    with pytest.raises(ValueError, match="wrong"):
        require([], "wrong")


@given(st.integers(0, 2**32 - 1))
def test_distinct_rows_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (rng.integers(1, 40), rng.integers(1, 4))) / 3
    expected_rows, expected_indices = np.unique(rows, axis=0, return_inverse=True)
    distinct, indices = distinct_rows(rows)
    np.testing.assert_array_equal(distinct, expected_rows)
    np.testing.assert_array_equal(indices, expected_indices.reshape(-1))
