"""Unreadable verdicts are refused with their rows, or dropped and counted per rater."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.readers.verdicts import read_verdicts
from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.input_errors import reading_error


def test_unreadable_verdicts_are_refused_or_dropped_and_counted() -> None:
    frame = pl.DataFrame({"item": [1, 2, 3, 4], "model_a": "A", "model_b": "B", "rater": list("jjjk")}).with_columns(
        winner=pl.Series(["model_a", "garbage", None, "???"])
    )
    assert reading_error(frame) == (
        "table: 2 of 3 verdicts cannot be read ('garbage' in row 2, '???' in row 4); allowed: "
        "model_a, model_b, tie, both_bad, A, B, C, 1, 2, left, right, the name of a system "
        "(full list: documentation, data), or empty; that is 66.7 % of the file, but "
        "invalid='drop' allows at most 5 % per file and rater; correct these verdicts, or drop all of them with "
        "--invalid force (in Python invalid='force')"
    )
    study = read(frame, invalid="force")
    assert study.preferences.frame["item"].to_list() == ["1"]
    assert study.preferences.missing.select("item", "rater", "why").rows() == [
        ("2", "j", "unreadable"),
        ("3", "j", "empty"),
        ("4", "k", "unreadable"),
    ]
    assert [(note.rule, note.count, note.message) for note in study.notes] == [
        ("missing-verdict", 1, "table: 1 verdicts are empty and count as not rated"),
        ("unreadable-verdict", 2, "table: 2 verdicts could not be read and were dropped (j 1, k 1)"),
    ]


def verdicts(*words: str, **more: object) -> pl.DataFrame:
    """Return verdicts of one rater: "+" prefers the first system, "" is missing, and other words cannot be read."""
    columns = {"item": [f"i{k}" for k in range(len(words))], "system_a": "A", "system_b": "B", "rater": "j"}
    preference = [1.0 if word == "+" else None for word in words]
    return pl.DataFrame({**columns, "verdict": words, "preference": preference, **more})


def test_examples_are_named_with_their_rows() -> None:
    for table, message in (
        (
            verdicts("b", "+", "a", "c", "a", "d"),
            r"5 of 6 .* \('a' 2 times from row 3, 'b' in row 1, 'c' in row 4 and 1",
        ),
        (verdicts("+", "bad", row=[4, 7]), "'bad' in row 7"),
    ):
        with pytest.raises(InputError, match=message):
            read_verdicts(table, where="x", allowed="+", invalid="error")


def test_empty_verdicts_are_counted_and_not_refused() -> None:
    preferences, notes = read_verdicts(verdicts("+", "", ""), where="x", allowed="+", invalid="error")
    assert preferences.frame["item"].to_list() == ["i0"]
    assert [(note.rule, note.count) for note in notes] == [("missing-verdict", 2)]


def verdicts_by_rater(words_by_rater: dict[str, list[str]]) -> pl.DataFrame:
    """Return verdicts of several raters, each on different items."""
    rows = [
        {"item": f"{rater}{k}", "model_a": "Aster", "model_b": "Birch", "rater": rater, "winner": word}
        for rater, words in words_by_rater.items()
        for k, word in enumerate(words)
    ]
    return pl.DataFrame(rows)


def test_drop_takes_one_in_twenty_of_the_file_and_of_each_rater_or_a_single_one() -> None:
    for words, n in (({"j": ["garbage", *["A"] * 19]}, 19), ({"judge": ["A"] * 40, "ann": ["besser", "A"]}, 41)):
        assert read(verdicts_by_rater(words), invalid="drop").preferences.frame.height == n
    frame = verdicts_by_rater({"j": ["garbage", "oh", *["A"] * 37]})
    assert reading_error(frame, invalid="drop").endswith(
        "that is 5.1 % of the file, 5.1 % of j, but invalid='drop' allows at most 5 % per file and rater; correct "
        "these verdicts, or drop all of them with --invalid force (in Python invalid='force')"
    )
    assert read(frame, invalid="force").preferences.frame.height == 37
    message = reading_error(verdicts_by_rater({"judge": ["A"] * 400, "ann": ["besser"] * 20}), invalid="drop")
    assert "'besser' 20 times from row 401" in message
    assert "4.8 % of the file, 100.0 % of ann," in message
    several = verdicts_by_rater({"a": ["A", "x", "x"], **{rater: ["x", "x"] for rater in "bcd"}})
    text = "that is 88.9 % of the file, 100.0 % of b, 100.0 % of c, 100.0 % of d and 1 more, but invalid='drop' allows"
    assert text in reading_error(several, invalid="drop")


def test_the_most_frequent_unreadable_words_are_named_first_and_equal_ones_in_the_order_of_the_file() -> None:
    words = ["zz", "q1", "aa", "q1", "mm", "model_a"]
    frame = pl.DataFrame({"item": range(6), "model_a": "A", "model_b": "B", "rater": "j", "winner": words})
    assert "5 of 6 verdicts cannot be read ('q1' 2 times from row 2, 'zz' in row 1, 'aa' in row 3 and 1 more)" in (
        reading_error(frame)
    )
    long = frame.with_columns(winner=pl.Series(["z" * 41] + ["model_a"] * 5))
    assert f"1 of 6 verdicts cannot be read ('{'z' * 40}' in row 1)" in reading_error(long)
    same = frame.with_columns(winner=pl.Series(["zz"] * 2 + ["model_a"] * 4))
    assert "2 of 6 verdicts cannot be read ('zz' 2 times from row 1)" in reading_error(same)
