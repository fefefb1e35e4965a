from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.data.raters import Scale


@pytest.mark.parametrize(
    ("a", "b", "comparable"),
    [
        *(((-25, 0), (0, 100), False), ((1, 5), (1, 5), True), ((1, 5), (0, 100), False), ((0, 1), (1, 5), False)),
        ((4, 5), (1, 5), True),  # a rater who gave only 4 and 5 on a 1-5 scale: they share 1 of 4
        *(((4, 5), (0, 5), True), ((4, 5), (-0.01, 5), False)),  # exactly a fifth is shared, which is enough, and less
        *(((1, 1), (1, 5), True), ((5, 5), (1, 5), True), ((3, 3), (1, 5), True)),  # a constant rater in the range
        *(((50, 50), (1, 5), False), ((3, 3), (3, 3), True)),  # outside of it, and two constant raters
        ((50, 60, 3), (1, 5), True),  # too few ratings to decide
        # declared scales take precedence over ranges
        *(((1, 5, 20, True), (1, 5, 20, True), True), ((1, 5, 20, True), (1, 7, 20, True), False)),
    ],
)
def test_comparable(a: tuple[float, ...], b: tuple[float, ...], comparable: bool) -> None:
    names, defaults = ("low", "high", "n", "declared"), (0, 0, 400, False)
    first, second = (
        Scale(**dict(zip(names, (*values, *defaults[len(values) :]), strict=True)))  # type: ignore[arg-type]
        for values in (a, b)
    )
    assert first.comparable(second) is second.comparable(first) is comparable


def test_the_observed_range_ignores_what_is_missing_and_may_be_undefined() -> None:
    assert Scale.from_scores(np.array([np.nan, 2.0, 5.0, np.inf])) == Scale(low=2, high=5, n=2)
    empty = Scale.from_scores(np.array([np.nan]))
    assert np.isnan([empty.low, empty.high]).all()
    assert empty.comparable(Scale(low=0, high=100, n=400))


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.booleans(), st.booleans())
def test_comparable_is_symmetric(a: float, wide_a: float, b: float, wide_b: float, said_a: bool, said_b: bool) -> None:
    first, second = Scale(low=a, high=a + wide_a, declared=said_a), Scale(low=b, high=b + wide_b, declared=said_b)
    assert first.comparable(second) is second.comparable(first)
    assert first.comparable(first)
