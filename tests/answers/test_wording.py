"""Numbers and lists in sentences."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.answers.wording import (
    column_digits,
    estimate_with_interval,
    interval,
    letter_ranges,
    number,
    p_value,
    percent,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0 %"), (0.004, "under 1 %"), (0.005, "under 1 %"), (0.0051, "1 %"), (0.126, "13 %"), (0.994, "99 %")),
        *((0.995, "over 99 %"), (1, "100 %")),
    ],
)
def test_shares_do_not_round_to_nothing_or_all(value: float, text: str) -> None:
    assert percent(value) == text


def test_undefined_is_a_dash_everywhere() -> None:
    nan = float("nan")
    assert number(None) == number(nan) == percent(None) == percent(nan) == "–"
    assert interval(None, 0.1, 0.2) == "–"
    assert interval(0.1, None, 0.2) == interval(0.1, 0.0, None) == "0.10"


@given(st.floats(-10, 10))
def test_no_minus_before_a_zero_and_a_true_minus_elsewhere(value: float) -> None:
    text = number(value)
    assert "-" not in text
    assert text != "−0.00"
    assert float(text.replace("−", "-")) == pytest.approx(value, abs=0.005 + 1e-9)  # half a digit plus rounding


def test_an_estimate_with_its_interval() -> None:
    row = {"x": -0.4, "x_low": -0.5, "x_high": 0.3}
    assert estimate_with_interval(row, "x") == "−0.40 [−0.50, 0.30]"
    assert estimate_with_interval({"x": -14.2, "x_low": -26.3, "x_high": 3.9}, "x", digits=0) == "−14 [−26, 4]"
    assert (
        estimate_with_interval({"x": 0.5, "x_low": 0.2, "x_high": 0.999}, "x", write=percent)
        == "50 % [20 %, over 99 %]"
    )
    assert interval(0.5012, 0.4999, 0.5031, write=percent) == "50.12 % [49.99 %, 50.31 %]"
    assert interval(0.00012, 0.00011, 0.00014) == "0.000120 [0.000110, 0.000140]"
    assert interval(0.3, 0.0008, 0.6) == "0.30 [0.00080, 0.60]"  # a bound that excludes 0 is not shown as 0
    assert interval(0.5, 0.5, 0.5) == "0.50 [0.50, 0.50]"
    assert interval(0.0, 0.0, 0.0) == "0.00 [0.00, 0.00]"  # the bounds are exactly 0


@pytest.mark.parametrize(
    ("intervals", "digits"),
    [
        ([(0.5, 0.2, 0.8), (0.61, 0.59, 0.63)], 3),  # the narrowest interval has width 0.04
        ([(0.5, 0.2, 0.8)] * 2 + [(0.5, 0.4999, 0.5001)], 3),  # the narrowest needs 5 digits, the median 2
        ([(0.5, 0.2, 0.8), (0.5, 0.5, 0.5), (0.5, None, None)], 2),  # intervals without width do not count
        ([(0.3, 0.004, 0.6), (0.3, 0.1, 0.5)], 3),  # bound .004 excludes 0
        ([(0.3, -0.004, 0.6), (0.3, 0.1, 0.5)], 2),  # the interval includes 0
        *(([(38.21, 32.2, 45.1), (1.2, -3.1, 5.2)], 1), ([(1500.4, 1200.1, 1800.2)], 0)),
        *(([(1.0, 1.0, 2.0), (3.0, 2.0, 4.0)], 0), ([(1.0, 1.0, 1.0), (0.5, 0.4, 0.6)], 2)),
        ([(1e-12, 0.0, 1e-11), (0.5, 0.4, 0.6)], 2),  # a width that is only rounding error does not count
        ([(None, None, None)], 0),
    ],
)
def test_all_numbers_of_a_column_have_the_digits_of_its_narrowest_interval(
    intervals: list[tuple[float | None, ...]], digits: int
) -> None:
    assert column_digits(intervals, min_decimals=2) == digits


@given(st.floats(-5, 5), st.floats(1e-6, 5), st.floats(0, 1))
def test_an_interval_shows_two_digits_of_its_width_and_never_zeros_alone(low: float, width: float, at: float) -> None:
    high = low + width
    text = interval(low + at * width, low, high).replace("−", "-")
    value_, low_, high_ = (float(match) for match in re.findall(r"-?[0-9.]+", text))
    # Both bounds are exact to a twentieth of the width, so two digits of the width are readable.
    assert abs(low_ - low) <= 0.051 * width
    assert abs(high_ - high) <= 0.051 * width
    assert low_ <= value_ <= high_
    assert low_ < high_
    assert (low_, high_) != (0, 0)


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "≤ .001"), (0.001, "≤ .001"), (0.0011, ".001"), (0.0496, ".050"), (0.3, ".300"), (1.0, "1.000")],
)
def test_p_values_have_three_digits_and_are_never_0(p: float, text: str) -> None:
    assert p_value(p) == text
    assert p_value(None) == p_value(float("nan")) == "–"


def test_many_letters_of_significance_are_ranges_of_the_same_letters() -> None:
    assert letter_ranges("abcdefghijklmnopqrs") == "a–s"
    assert letter_ranges("abcdefghik") == "a–i k"
    assert letter_ranges("xyza1b1") == "x–b1"  # a1, b1 follow z
    assert letter_ranges("2abd") == "2abd"  # part 2 of systems that no comparison connects
