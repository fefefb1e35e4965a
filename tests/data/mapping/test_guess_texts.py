"""The first guess of the roles of texts, and whether it is certain, for small tables."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess_texts import pair_text_roles, score_text_roles, system_column_layouts, text_guesses

N = 12
PAIRED, UNIQUE, TWO = [k // 2 for k in range(N)], [f"q{k}" for k in range(N)], ["A", "B"] * 6
USUAL = {"item": "id", "system": "model", "text": "output"}


def prose(word: str) -> list[str]:
    return [f"{word} says words number {k}" for k in range(N)]


def turns(*speakers: str) -> list[str]:
    return [json.dumps([{"role": role, "content": f"{role} {k}"} for role in speakers]) for k in range(N)]


O, P, Q = prose("o"), prose("p"), prose("q")  # noqa: E741
OUTPUT_ROWS: dict[str, tuple[dict[str, Any], dict[str, str], bool]] = {
    "usual names": ({"id": PAIRED, "model": TWO, "output": O}, USUAL, True),
    "the version varies": (
        {"id": PAIRED, "model": ["m"] * N, "checkpoint": TWO, "output": O},
        USUAL | {"system": "checkpoint"},
        True,
    ),
    "one system": ({"id": UNIQUE, "model": ["m"] * N, "output": O}, USUAL, True),
    "two constant columns": ({"id": UNIQUE, "model": ["m"] * N, "checkpoint": ["c"] * N, "output": O}, USUAL, False),
    "a system by its cells": ({"id": PAIRED, "thing": TWO, "output": O}, USUAL | {"system": "thing"}, False),
    "an item by its cells": (
        {"key9": [f"k{k}" for k in PAIRED], "model": TWO, "output": O},
        USUAL | {"item": "key9"},
        False,
    ),
    "the source is the item": (
        {"question": [f"what is thing number {k}" for k in PAIRED], "model": TWO, "output": O},
        USUAL | {"item": "question", "source": "question"},
        True,
    ),
    "an answer may be a reference": ({"id": UNIQUE, "answer": O}, {"item": "id", "text": "answer"}, False),
    "an answer of a system": ({"id": PAIRED, "model": TWO, "answer": O}, USUAL | {"text": "answer"}, True),
    "with ratings": ({"id": PAIRED, "model": TWO, "output": O, "fluency": [k % 3 for k in range(N)]}, USUAL, False),
    "with texts of the item": (
        {"id": UNIQUE, "output": O, "reference_1": P, "reference_2": P, "question": Q, "context": prose("c")},
        {"item": "id", "text": "output", "source": "question", "references": "reference*", "context": "context"},
        True,
    ),
    "a column per system": (
        {"id": UNIQUE, "output_gpt": O, "output_llama": P, "question": Q},
        {"item": "id", "text": "output_{system}", "source": "question"},
        True,
    ),
    "the word comes last": (
        {"id": UNIQUE, "gpt answer": O, "llama answer": P, "other": Q},
        {"item": "id", "text": "{system} answer"},
        True,
    ),
    "an object": ({"id": UNIQUE, "texts.gpt": O, "texts.llama": P}, {"item": "id", "text": "texts.{system}"}, True),
    "names of models": ({"id": UNIQUE, "gpt4": O, "llama3": P}, {"item": "id", "text": "{system}"}, True),
    "other names": ({"id": UNIQUE, "foo": O, "bar": P}, {"item": "id", "text": "{system}"}, False),
    "names and a number": (
        {"id": UNIQUE, "gpt4": O, "llama3": P, "year": [1] * N},
        {"item": "id", "text": "{system:gpt4,llama3}"},
        True,
    ),
    "sides": (
        {"prompt": Q, "chosen": O, "rejected": P},
        {"item": "prompt", "text": "{system}", "source": "prompt"},
        True,
    ),
    "conversations": (
        {"id": PAIRED, "model": TWO, "messages": turns("user", "assistant")},
        {"item": "id", "system": "model", "messages": "messages"},
        True,
    ),
    "open conversations": (
        {"id": PAIRED, "model": TWO, "messages": turns("user"), "output": O, "reference": P},
        USUAL | {"references": "reference", "messages": "messages"},
        True,
    ),
    "conversations without an item": (
        {"model": TWO, "messages": turns("user", "assistant")},
        {"system": "model", "messages": "messages"},
        True,
    ),
}
PAIR_ROLES = {
    "item": "id",
    "system_a": "model_a",
    "system_b": "model_b",
    "output_a": "output_a",
    "output_b": "output_b",
    "source": "prompt",
}
PAIRS = {"id": UNIQUE, "model_a": TWO, "model_b": TWO[::-1], "output_a": O, "output_b": P, "prompt": Q}
OUTPUT_ROWS["pairs"] = (PAIRS, PAIR_ROLES, True)
OUTPUT_ROWS["pairs with a winner"] = (
    {name.replace("_a", "_winner").replace("_b", "_loser"): cells for name, cells in PAIRS.items()},
    {role: name.replace("_a", "_winner").replace("_b", "_loser") for role, name in PAIR_ROLES.items()},
    False,
)


def guesses(columns: dict[str, Any], **declared: str) -> list[tuple[dict[str, str], bool]]:
    found = text_guesses(pl.DataFrame(columns), Columns.make(declared))
    return [(dict(mapping.roles), is_certain) for mapping, is_certain in found]


@pytest.mark.parametrize(("columns", "roles", "is_certain"), OUTPUT_ROWS.values(), ids=OUTPUT_ROWS)
def test_the_first_guess(columns: dict[str, Any], roles: dict[str, str], *, is_certain: bool) -> None:
    assert guesses(columns)[0] == (roles, is_certain)


@pytest.mark.parametrize(
    "columns",
    [
        {"id": UNIQUE, "model": TWO, "output": O},  # no item has outputs of both systems
        {"id": [k // 4 for k in range(N)], "model": TWO, "output": O},  # two outputs of an item and a system
        {"id": PAIRED, "output_gpt": O, "output_llama": P},  # items repeat
        {"id": PAIRED, "model": TWO, "messages": turns("user")},  # no answers
        {"id": UNIQUE, "foo": O},
    ],
)
def test_tables_without_a_guess(columns: dict[str, Any]) -> None:
    assert guesses(columns) == []


def test_declared_roles_are_kept() -> None:
    columns = {"id": PAIRED, "thing": TWO, "output": O, "other": P}
    for declared, text in ((USUAL | {"system": "thing"}, "output"), ({"system": "thing", "text": "other"}, "other")):
        roles, is_certain = guesses(columns, **declared)[0]
        assert (roles["system"], roles["text"], is_certain) == ("thing", text, True)


def test_columns_of_texts_and_scores_of_each_system() -> None:
    texts = {"id": UNIQUE, "answer_gpt": O, "answer_llama": P}
    roles = {"item": "id", "text": "answer_{system}"}

    def layouts(**scores: list[float]) -> list[tuple[dict[str, str], tuple[str, ...]]]:
        frame = pl.DataFrame(texts | scores)
        return list(system_column_layouts(frame, frame.columns))

    whole, half, tenth = [1, 2] * 6, [1.0, 2.5] * 6, [0.1, 0.2] * 6
    assert layouts(human_gpt=whole, human_llama=whole, bleu_gpt=tenth, bleu_llama=tenth) == [
        (roles, ("human:human_{system}", "metric:bleu_{system}"))
    ]
    assert layouts(fluency_gpt=half, fluency_llama=whole, rating_gpt=tenth, rating_llama=whole, lone_gpt=whole) == [
        (roles, ("human:fluency_{system}", "metric:rating_{system}"))
    ]
    assert layouts(lone_gpt=whole) == layouts(xgpt=whole, xllama=whole) == []
    nested = {"id": UNIQUE, "texts.gpt": O, "texts.llama": P}
    nested |= {f"scores.{system}.{name}": tenth for system in ("gpt", "llama") for name in ("bleu", "comet")}
    frame = pl.DataFrame(nested)
    assert list(system_column_layouts(frame, frame.columns)) == [
        ({"item": "id", "text": "texts.{system}"}, ("metric:scores.{system}.{rater:bleu,comet}",))
    ]


def test_texts_in_tables_of_scores_and_of_verdicts() -> None:
    columns, roles, _ = OUTPUT_ROWS["with texts of the item"]
    assert score_text_roles(pl.DataFrame(columns), ["id"]) == {
        role: name for role, name in roles.items() if role != "item"
    }
    assert score_text_roles(pl.DataFrame({"text": ["a"], "output": ["one two three"]}), []) == {"text": "text"}
    assert score_text_roles(pl.DataFrame({"x": [1], "output": ["a"]}), []) == {}
    outputs = pl.DataFrame({"output": O, "answer": P})
    assert score_text_roles(outputs, []) == {"text": "output", "references": "answer"}
    assert score_text_roles(outputs, ["output"]) == {"text": "answer"}
    assert pair_text_roles(pl.DataFrame(PAIRS), ["id"]) == {
        "output_a": "output_a",
        "output_b": "output_b",
        "source": "prompt",
    }
    assert pair_text_roles(pl.DataFrame(PAIRS), ["id", "output_a"]) == {}
