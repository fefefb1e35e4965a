from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.data.raters import Scale

MQM = Scale(low=-25, high=0, n=400)
DA = Scale(low=0, high=100, n=400)


@pytest.mark.parametrize(
    ("a", "b", "comparable"),
    [
        (MQM, DA, False),
        (Scale(low=1, high=5, n=400), Scale(low=1, high=5, n=400), True),
        # a rater who gave only 4 and 5 on a 1-5 scale against one who used all of it: they share 1 of 4
        (Scale(low=4, high=5, n=400), Scale(low=1, high=5, n=400), True),
        (Scale(low=1, high=5, n=400), DA, False),
        (Scale(low=0, high=1, n=400), Scale(low=1, high=5, n=400), False),
        # exactly a fifth is shared, which is enough, and slightly less
        (Scale(low=4, high=5, n=400), Scale(low=0, high=5, n=400), True),
        (Scale(low=4, high=5, n=400), Scale(low=-0.01, high=5, n=400), False),
        # a constant rater at a bound of the other's range: possibly the same scale
        (Scale(low=1, high=1, n=400), Scale(low=1, high=5, n=400), True),
        (Scale(low=5, high=5, n=400), Scale(low=1, high=5, n=400), True),
        # a constant rater inside and outside the other's range
        (Scale(low=3, high=3, n=400), Scale(low=1, high=5, n=400), True),
        (Scale(low=50, high=50, n=400), Scale(low=1, high=5, n=400), False),
        (Scale(low=3, high=3, n=400), Scale(low=3, high=3, n=400), True),
        # too few ratings to decide
        (Scale(low=50, high=60, n=3), Scale(low=1, high=5, n=400), True),
        # declared scales take precedence over ranges
        (Scale(low=1, high=5, declared=True), Scale(low=1, high=5, declared=True), True),
        (Scale(low=1, high=5, declared=True), Scale(low=1, high=7, declared=True), False),
    ],
)
def test_comparable(a: Scale, b: Scale, comparable: bool) -> None:
    assert a.comparable(b) is comparable
    assert b.comparable(a) is comparable


def test_the_observed_range_ignores_what_is_missing_and_may_be_undefined() -> None:
    assert Scale.from_scores(np.array([np.nan, 2.0, 5.0, np.inf])) == Scale(low=2, high=5, n=2)
    empty = Scale.from_scores(np.array([np.nan]))
    assert np.isnan([empty.low, empty.high]).all()
    assert empty.comparable(DA)


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.booleans(), st.booleans())
def test_comparable_is_symmetric(a: float, wide_a: float, b: float, wide_b: float, said_a: bool, said_b: bool) -> None:
    first, second = Scale(low=a, high=a + wide_a, declared=said_a), Scale(low=b, high=b + wide_b, declared=said_b)
    assert first.comparable(second) is second.comparable(first)
    assert first.comparable(first)
