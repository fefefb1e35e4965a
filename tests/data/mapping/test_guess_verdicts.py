"""Guesses of columns of verdicts, the most likely first."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess import guesses

N = 12
TWO = ["x", "y"] * 6
SIDES = ["A", "B"] * 6
PAIR = {"item": "id", "system_a": "model_a", "system_b": "model_b"}
SYSTEMS = {"id": [*range(N)], "model_a": TWO, "model_b": TWO[::-1]}
PHRASES = ["Output A is better", "Output B is better"] * 6


def roles(columns: dict[str, Any], **declared: str) -> list[dict[str, str]]:
    return [dict(guess.roles) for guess in guesses(pl.DataFrame(columns), Columns.make(declared))]


def prose(word: str) -> list[str]:
    return [f"{word} says words number {k}" for k in range(N)]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({"choice": SIDES}, [{"winner": "choice"}]),
        ({"winner": SIDES}, [{}]),
        ({"preference": [1, 0] * 6}, [{}]),
        ({"verdict": [1, -1] * 6}, [{"winner": "verdict"}]),
        ({"choice": SIDES, "annotator": TWO}, [{"winner": "choice", "rater": "annotator"}]),
        ({"choice": SIDES, "swapped": [0, 1] * 6}, [{"winner": "choice", "order": "swapped"}]),
        (
            {"ann_choice": SIDES, "bob_choice": SIDES},
            [{"winner": "{rater:ann_choice,bob_choice}"}, {"winner": "ann_choice"}, {"winner": "bob_choice"}],
        ),
        ({"said": PHRASES}, [{"winner": "said", "phrase": "*{winner} is better*"}]),
        (
            {"said": PHRASES, "swapped": [0, 1] * 6},
            [{"winner": "said", "phrase": "*{position} is better*", "order": "swapped"}],
        ),
    ],
)
def test_verdicts_on_two_systems(verdicts: dict[str, Any], expected: list[dict[str, str]]) -> None:
    found = roles(SYSTEMS | verdicts)
    assert [guess for guess in found if guess["item"] == "id"] == [PAIR | further_roles for further_roles in expected]


def test_a_declared_pattern_of_winners_is_kept() -> None:
    columns = SYSTEMS | {"ann_choice": SIDES, "bob_choice": SIDES}
    assert roles(columns, winner="{rater}_choice")[0] == PAIR | {"winner": "{rater}_choice"}


def test_tables_without_names_of_systems() -> None:
    winner = {"id": [*range(N)], "model_winner": TWO, "model_loser": TWO[::-1]}
    with_loser = {"item": "id", "system_a": "model_winner", "system_b": "model_loser", "winner": "model_winner"}
    assert roles(winner)[0] == with_loser
    assert roles(winner | {"is_tie": [0, 1] * 6}) == []  # a winner is also named for ties
    texts = {"id": [*range(N)], "output_a": prose("o"), "output_b": prose("p"), "better": SIDES}
    assert roles(texts)[0] == {"item": "id", "output_a": "output_a", "output_b": "output_b", "winner": "better"}
    outputs = {"output_a": prose("o"), "output_b": prose("p")}
    assert roles(SYSTEMS | outputs | {"choice": SIDES})[0] == PAIR | {
        "winner": "choice",
        "output_a": "output_a",
        "output_b": "output_b",
    }
    assert roles({"id": [*range(N)], "better": SIDES}) == []


def test_each_column_has_one_role() -> None:
    columns = {"id": [*range(N)], "model_a": TWO, "model_b": TWO[::-1], "choice": SIDES, "judge": TWO, "trial": [1] * N}
    assert roles(columns)[0] == PAIR | {"winner": "choice", "rater": "judge", "repeat": "trial"}
