"""Verdicts that cannot be read: refused with their rows, or dropped and counted for each rater."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.readers.verdicts import read_verdicts
from custodes.data.reading import read
from custodes.errors import InputError


def test_unreadable_verdicts_are_refused_or_dropped_and_counted() -> None:
    frame = pl.DataFrame({"item": [1, 2, 3, 4], "model_a": "A", "model_b": "B", "rater": list("jjjk")}).with_columns(
        winner=pl.Series(["model_a", "garbage", None, "???"])
    )
    with pytest.raises(InputError) as error:
        read(frame)
    assert str(error.value) == (
        "table: 2 verdicts cannot be read ('garbage' in row 2, '???' in row 4); allowed: model_a, model_b, tie,"
        " both_bad, or nothing; mend them, or drop and count them with invalid='drop' (--invalid drop)"
    )
    study = read(frame, invalid="drop")
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


def told(*verdicts: str, **more: object) -> pl.DataFrame:
    """Verdicts of one rater: a plus is for the first system, nothing is nothing, the rest cannot be read."""
    return pl.DataFrame(
        {
            "item": [f"i{k}" for k in range(len(verdicts))],
            "system_a": "A",
            "system_b": "B",
            "rater": "j",
            "verdict": verdicts,
            "preference": [1.0 if verdict == "+" else None for verdict in verdicts],
            **more,
        }
    )


def test_three_examples_are_named_each_with_its_first_row() -> None:
    with pytest.raises(
        InputError, match=r"5 verdicts cannot be read \('b' in row 1, 'a' in row 3, 'c' in row 4 and 1 more\)"
    ):
        read_verdicts(told("b", "+", "a", "c", "a", "d"), where="x", allowed="+", invalid="error")


def test_rows_are_those_of_the_file_where_it_says_so() -> None:
    with pytest.raises(InputError, match="'bad' in row 7"):
        read_verdicts(told("+", "bad", row=[4, 7]), where="x", allowed="+", invalid="error")


def test_empty_verdicts_are_counted_and_not_refused() -> None:
    preferences, notes = read_verdicts(told("+", "", ""), where="x", allowed="+", invalid="error")
    assert preferences.frame["item"].to_list() == ["i0"]
    assert [(note.rule, note.count) for note in notes] == [("missing-verdict", 2)]
    _, nothing = read_verdicts(told("+"), where="x", allowed="+", invalid="error")
    assert nothing == []
