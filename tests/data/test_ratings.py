from __future__ import annotations

import polars as pl
import pytest

from custodes.data.ratings import SCHEMA, Ratings
from custodes.errors import InputError
from tests.data.input_errors import input_error
from tests.messages import exactly

GOOD = {"item": ["1", "1", "2"], "system": ["A", "B", "A"], "rater": ["ann"] * 3, "score": ["4", "", "5"]}


def ratings_of(**changes: list[object]) -> Ratings:
    return Ratings.make(pl.DataFrame(GOOD | changes), where="r.csv")[0]


def test_rows_without_a_score_are_absent_and_counted() -> None:
    ratings, notes = Ratings.make(pl.DataFrame(GOOD), where="r.csv")
    assert ratings.frame.rows() == [("1", "A", "ann", "", "0", 4.0), ("2", "A", "ann", "", "0", 5.0)]
    assert ratings.frame.schema == pl.Schema(SCHEMA)
    assert [(note.rule, note.count) for note in notes] == [("missing-score", 1)]
    assert notes[0].message == "r.csv: 1 rows have no score and count as not rated"


def test_scores_whose_squares_are_numbers_are_kept() -> None:
    scores: list[object]
    for scores in ([-1e100, 0.0, None], [1e-100, 0.0, None], [0.0, 0.0, 0.0]):
        assert ratings_of(score=scores).frame["score"].to_list() == [score for score in scores if score is not None]


def test_repeats_and_aspects_make_keys_unlike() -> None:
    ratings = ratings_of(
        item=["1"] * 3, system=["A"] * 3, score=[1, 2, 3], repeat=["", "2", "2"], aspect=["x", "x", "y"]
    )
    assert ratings.frame["repeat"].to_list() == ["0", "2", "2"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"score": ["4", "good", "x"]},
            "r.csv: score 'good' in row 2, 3 is not a number; write numbers with a decimal point and without thousands "
            "separators; if nothing was rated, leave the cell empty",
        ),
        (
            {"score": ["pass", "fail", None]},
            "r.csv: score 'pass' in row 1, 2 is not a number; if these are labels, add a column kind that says which "
            "raters are human and which are a metric",
        ),
        ({name: [] for name in GOOD}, "r.csv: no rows; a study needs at least one rating"),
        (
            {"score": [1e100, -1.5e100, None]},
            "r.csv: score is infinite or beyond 1e+100 in row 2; a score must be finite (empty where not rated)",
        ),
        (
            {"item": ["1", "1", "1"]},
            "r.csv: the same rating occurs twice, in rows 1, 3 (item '1', system 'A', rater 'ann', repeat '0'); "
            "number the runs of a rater in a column 'repeat', or remove the duplicate row",
        ),
    ],
)
def test_bad_rows_raise(changes: dict[str, list[object]], message: str) -> None:
    assert input_error(ratings_of, **changes) == message


def test_scores_that_a_file_calls_invalid_are_told_by_their_reasons() -> None:
    frame = pl.DataFrame(
        {
            "item": [1, 2, 3, 4],
            "system": "A",
            "rater": "j",
            "score": ["4", "", "", ""],
            "invalid": ["", "label", "", "label"],
        }
    )
    ratings, notes = Ratings.make(frame, where="r.csv")
    assert ratings.frame.height == 1
    assert [(note.rule, note.count, note.message) for note in notes] == [
        ("missing-score", 1, "r.csv: 1 rows have no score and count as not rated"),
        ("invalid-score", 2, "r.csv: 2 scores are invalid and count as not rated (label 2)"),
    ]
    with pytest.raises(
        InputError,
        match=(
            exactly("r.csv: row 1 has both a score and a reason in 'invalid' ('label'); remove the score or the reason")
        ),
    ):
        Ratings.make(frame.head(1).with_columns(invalid=pl.lit("label")), where="r.csv")
