"""Ratios and means of what is defined, against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.ratios import mean_of_defined, ratio

values = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=st.one_of(st.floats(-9, 9), st.just(np.nan))
)


def test_ratio_broadcasts_and_is_undefined_over_nothing():
    made = ratio(np.array([[3, 0], [1, 0]]), np.array([[4], [0]]))
    np.testing.assert_array_equal(made, [[0.75, 0.0], [np.nan, np.nan]])
    # counts without a sign do not wrap, and an infinite numerator stays infinite
    assert ratio(np.array(1, dtype=np.uint32), np.array(2, dtype=np.uint32)) == 0.5
    assert ratio(np.array(np.inf), np.array(2)) == np.inf


@given(values)
def test_mean_of_defined_is_that_of_a_loop(table):
    for axis, rows in ((-1, table), (0, table.T)):
        known = [[value for value in row if not np.isnan(value)] for row in rows]
        expected = [np.mean(row) if row else np.nan for row in known]
        np.testing.assert_allclose(mean_of_defined(table, axis=axis), expected, atol=1e-12)
