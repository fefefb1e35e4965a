"""Numbers and lists as a reader meets them."""

import pytest

from custodes.answers.wording import UNDEFINED, interval, names, number, percent, plural, sentence, with_ends

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.126, 2, "0.13"),
        (-0.126, 2, "−0.13"),
        (-0.001, 2, "0.00"),  # no minus before a zero
        (-0.001, 3, "−0.001"),
        (12.0, 0, "12"),
        (None, 2, UNDEFINED),
        (NAN, 2, UNDEFINED),
    ],
)
def test_numbers(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits=digits) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (0.0049, "under 1 %"),
        (0.005, "under 1 %"),
        (0.0051, "1 %"),
        (0.016, "2 %"),
        (0.994, "99 %"),
        (0.995, "over 99 %"),
        (1.0, "100 %"),
        (None, UNDEFINED),
        (NAN, UNDEFINED),
    ],
)
def test_shares(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_intervals_are_there_where_both_ends_are() -> None:
    assert interval(0.4, -0.1, 0.9, digits=1) == "0.4 [−0.1, 0.9]"
    assert interval(0.4, None, 0.9) == interval(0.4, 0.1, None) == "0.40"
    assert interval(None, 0.1, 0.9) == UNDEFINED
    assert interval(0.4, 0.1, 0.9, shown=percent) == "40 % [10 %, 90 %]"
    row = {"tau": 0.4, "tau_low": 0.1, "tau_high": 0.9}
    assert with_ends(row, "tau", digits=1) == interval(0.4, 0.1, 0.9, digits=1)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b, c and 1 more"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_lists(labels: list[str], text: str) -> None:
    assert names(labels, limit=3) == text


def test_counts_and_sentences() -> None:
    assert [plural(n, "pair") for n in (0, 1, 2)] == ["0 pairs", "1 pair", "2 pairs"]
    assert plural(2, "study", "studies") == "2 studies"
    assert [sentence(text) for text in ("so", "So.", "so?", "so!", "")] == ["So.", "So.", "So?", "So!", "."]
