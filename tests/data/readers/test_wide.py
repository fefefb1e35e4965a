"""The wide table: a column of scores for each rater."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError


def test_wide() -> None:
    frame = pl.DataFrame(
        {
            "item": ["1", "2"],
            "system": ["A", "A"],
            "aspect": ["x", "x"],
            "repeat": ["", "3"],
            "H:ann": ["4", ""],
            "bleu": [1.0, 2.0],
        }
    )
    study = read(frame)
    assert study.ratings.frame.rows() == [
        ("1", "A", "H:ann", "x", "0", 4.0),
        ("1", "A", "bleu", "x", "0", 1.0),
        ("2", "A", "bleu", "x", "3", 2.0),
    ]
    assert study.raters.kind == {"H:ann": "", "bleu": ""}
    assert [(note.rule, note.count) for note in study.notes] == [("missing-score", 1)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "table: no column of scores beside item, system; give one column per rater"),
        ({"": [1]}, "table: a column has no name (a saved index?); name it after its rater, or take it out"),
        ({"bleu": ["high"]}, "table: bleu 'high' in row 1 is not a number"),
    ],
)
def test_columns_are_checked(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame({"item": ["1"], "system": ["A"]} | columns), reader="wide")
    assert str(error.value).startswith(message)


def test_an_output_stands_in_one_row() -> None:
    frame = pl.DataFrame({"item": ["1", "1"], "system": ["A", "A"], "bleu": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"one row per output; number the runs in a column 'repeat'"):
        read(frame)
    assert read(frame.with_columns(repeat=pl.Series([0, 1]))).ratings.frame.height == 2
