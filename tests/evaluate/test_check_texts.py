"""Checks of texts alone: counts of outputs, and outputs that are missing, equal or the same for every item."""

from __future__ import annotations

import polars as pl
import pytest

import custodes as cu

ROWS = [(str(item), system, f"{system} says {item}.") for item in range(6) for system in ("Aster", "Birch")]
SAME = [(str(item), "Cedar", "I cannot help with that.") for item in range(6)]
COPY = [("0", "Dill", "Aster says 0."), ("1", "Dill", " "), ("2", "Dill", "Dill says two things.")]


def study(rows: list[tuple[str, str, str]]) -> cu.Study:
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "text"], orient="row"))


def test_texts_alone_are_summarised_by_system() -> None:
    texts = cu.check(study([*ROWS, *SAME, *COPY])).texts.drop("aspect")
    assert texts.columns == ["system", "items", "outputs", "missing", "duplicates", "distinct", "words"]
    assert texts.rows() == [
        ("Aster", 6, 6, 0, 1, 6, 3.0),
        ("Birch", 6, 6, 0, 0, 6, 3.0),
        ("Cedar", 6, 6, 0, 0, 1, 5.0),
        ("Dill", 6, 2, 4, 1, 2, 3.5),
    ]


def test_problems_of_texts_alone() -> None:
    problems = {row["rule"]: row for row in cu.check(study([*ROWS, *SAME, *COPY])).problems.iter_rows(named=True)}
    assert problems.keys() == {"missing-outputs", "constant-outputs", "duplicate-outputs", "texts-only"}
    assert problems["missing-outputs"]["message"].startswith("4 of 24 outputs are missing or empty: Dill (4).")
    assert problems["constant-outputs"]["examples"] == ["Cedar"]
    assert problems["duplicate-outputs"]["message"].startswith("2 outputs equal the output of another system")
    assert problems["texts-only"]["message"].startswith("there are texts of 4 systems on 6 items")


def test_sound_texts_have_no_problem_and_rated_texts_no_such_table() -> None:
    result = cu.check(study(ROWS))
    assert result.problems["rule"].to_list() == ["texts-only"]
    assert result.status == 0
    assert cu.check("demo").texts.is_empty()


def test_systems_with_the_same_texts_are_named() -> None:
    rows = [
        (str(item), system, f"{item} by {system[0]}") for item in range(30) for system in ("Aster", "Another", "Birch")
    ]
    problems = cu.check(study(rows)).problems
    assert "Another, Aster" in problems.filter(rule="identical-systems")["message"].item()


def test_a_question_of_systems_says_what_texts_lack() -> None:
    with pytest.raises(
        cu.InputError,
        match="the texts have no scores or verdicts; add scores or verdicts with custodes score, judge or annotate",
    ):
        cu.leaderboard(study(ROWS))
