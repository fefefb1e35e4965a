"""Guesses of columns of verdicts, the most likely first."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from custodes.data.mapping.guess_verdicts import assign_roles, verdict_layouts

N = 12
TWO = ["x", "y"] * 6
PAIR = {"item": "id", "system_a": "model_a", "system_b": "model_b"}
SYSTEMS = {"id": [*range(N)], "model_a": TWO, "model_b": TWO[::-1]}
PHRASES = ["Output A is better", "Output B is better"] * 6
ROLES = ("winner", "rater", "aspect", "kind", "repeat", "order")


def layouts(columns: dict[str, Any], candidates: dict[str, list[str]]) -> list[dict[str, str]]:
    found = verdict_layouts(pl.DataFrame(columns), list(columns), dict.fromkeys(ROLES, []) | candidates, ["id"])  # noqa: RUF024
    return [roles for roles, _ in found]


def prose(word: str) -> list[str]:
    return [f"{word} says words number {k}" for k in range(N)]


@pytest.mark.parametrize(
    ("verdicts", "candidates", "expected"),
    [
        ({"winner": TWO}, {"winner": ["winner"]}, [{"winner": "winner"}]),
        (
            {"preference": [1, 0] * 6},
            {"winner": ["preference"]},
            [{"preference": "preference"}, {"winner": "preference"}],
        ),
        ({"v": [1, -1] * 6}, {"winner": ["v"]}, [{"winner": "v"}, {"preference": "v"}]),
        ({"v": [1, 0] * 6, "ann": TWO}, {"winner": ["v"], "rater": ["ann"]}, [{"winner": "v", "rater": "ann"}]),
        (
            {"ann_choice": TWO, "bob_choice": TWO},
            {"winner": ["ann_choice", "bob_choice"]},
            [{"winner": "{rater}_choice"}, {"winner": "{rater:ann_choice,bob_choice}"}],
        ),
        (
            {"said": PHRASES},
            {},
            [
                {"winner": "said", "phrase": "Output {winner} is better*"},
                {"winner": "said", "phrase": "Output {position} is better*"},
            ],
        ),
        (
            {"said": PHRASES, "shown": ["ab"] * N},
            {"order": ["shown"]},
            [
                {"winner": "said", "phrase": "Output {position} is better*", "order": "shown"},
                {"winner": "said", "phrase": "Output {winner} is better*", "order": "shown"},
            ],
        ),
    ],
)
def test_verdicts_on_two_systems(verdicts: dict, candidates: dict, expected: list[dict[str, str]]) -> None:
    assert layouts(SYSTEMS | verdicts, candidates)[: len(expected)] == [PAIR | roles for roles in expected]


@pytest.mark.parametrize(("second", "are_positions"), [(["A", "B"], False), (["B", "A"], True), (["A", "A"], False)])
@pytest.mark.parametrize("pattern", ["winner_{order}", "{order} choice", "{{x}} {order} (best)"])
def test_letters_of_two_orders_are_positions_if_orders_contradict_each_other(
    pattern: str, second: list[str], *, are_positions: bool
) -> None:
    orders = ("Original", "swapped") if "x" in pattern else ("ab", "BA")
    names = [pattern.format(order=order) for order in orders]
    columns = SYSTEMS | dict(zip(names, (["A", "b."] * 6, second * 6), strict=True))
    meanings = [PAIR | {"winner": pattern}, PAIR | {"winner": pattern, "phrase": "{position}"}]
    assert layouts(columns, {"winner": names})[:2] == (meanings[::-1] if are_positions else meanings)


def test_tables_without_names_of_systems() -> None:
    winner = {"id": [*range(N)], "model_winner": TWO, "model_loser": TWO[::-1]}
    roles = {"item": "id", "system_a": "model_winner", "system_b": "model_loser", "winner": "model_winner"}
    assert layouts(winner, {}) == [roles]
    texts = {"id": [*range(N)], "output_a": prose("o"), "output_b": prose("p"), "better": TWO}
    assert layouts(texts, {"winner": ["better"]}) == [
        {"item": "id", "output_a": "output_a", "output_b": "output_b", "winner": "better"}
    ]
    with_texts = layouts(
        SYSTEMS | {"output_a": prose("o"), "output_b": prose("p"), "winner": TWO}, {"winner": ["winner"]}
    )
    assert with_texts == [
        PAIR | {"winner": "winner", "output_a": "output_a", "output_b": "output_b"},
        PAIR | {"winner": "winner"},
    ]
    assert layouts({"id": [*range(N)], "better": TWO}, {"winner": ["better"]}) == []


def test_each_column_has_one_role() -> None:
    candidates = {"rater": ["i", "r"], "kind": ["r", "k"], "aspect": ["r"]}
    assert assign_roles({"item": "i"}, candidates, ["rater", "kind", "aspect"]) == {"rater": "r", "kind": "k"}
