"""The long table of ratings: kinds where a column says them, open where none does."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError

ROWS = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "rater": ["ann", "bleu"], "score": [4.0, 0.5]})


def test_who_is_human_is_left_open_without_a_column() -> None:
    study = read(ROWS)
    assert study.raters.kind == {"ann": "", "bleu": ""}
    assert study.name == "table"
    assert study.ratings.frame.select("item", "system", "rater", "aspect", "score").rows() == [
        ("1", "A", "ann", "", 4.0),
        ("1", "B", "bleu", "", 0.5),
    ]


def test_a_column_says_who_is_human() -> None:
    assert read(ROWS.with_columns(kind=pl.Series(["human", "metric"]))).raters.kind == {
        "ann": "human",
        "bleu": "metric",
    }
    with pytest.raises(InputError, match="kind"):
        read(ROWS.with_columns(kind=pl.Series(["human", "boss"])))


def test_empty_scores_are_counted() -> None:
    study = read(ROWS.with_columns(score=pl.Series([4.0, None])))
    assert study.ratings.frame.height == 1
    assert [(note.rule, note.count) for note in study.notes] == [("missing-score", 1)]
