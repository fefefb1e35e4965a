"""Guesses of the roles of texts, and whether they are certain, for small tables."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess_texts import pair_text_roles, score_text_roles, text_guesses
from tests.data.input_errors import input_error

N = 12
PAIRED, UNIQUE, TWO = [k // 2 for k in range(N)], [f"q{k}" for k in range(N)], ["A", "B"] * 6
FLOAT, DAYS = [k / 7 for k in range(N)], [f"2024-01-{k + 1:02d}" for k in range(N)]
USUAL = {"item": "id", "system": "model", "text": "output"}


def prose(word: str) -> list[str]:
    return [f"{word} says words number {k}" for k in range(N)]


def turns(*speakers: str) -> list[str]:
    return [json.dumps([{"role": role, "content": f"{role} {k}"} for role in speakers]) for k in range(N)]


O, P, Q = prose("o"), prose("p"), prose("q")  # noqa: E741
PAIRS = {"id": UNIQUE, "model_a": TWO, "model_b": TWO[::-1], "output_a": O, "output_b": P, "prompt": Q}
OUTPUT_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "usual names": ({"id": PAIRED, "model": TWO, "output": O}, "item=id system=model text=output !"),
    "a log": (
        {"trace_id": UNIQUE, "prompt_version": TWO, "user_input": Q, "response": O},
        "item=trace_id system=prompt_version text=response source=user_input ?",
    ),
    "the version varies": (
        {"id": PAIRED, "model": ["m"] * N, "checkpoint": TWO, "output": O},
        "item=id system=checkpoint text=output !",
    ),
    "one system": ({"id": UNIQUE, "model": ["m"] * N, "output": O}, "item=id system=model text=output !"),
    "two constant columns": (
        {"id": UNIQUE, "model": ["m"] * N, "checkpoint": ["c"] * N, "output": O},
        "item=id system=model text=output ?; item=id system=checkpoint text=output ?",
    ),
    "a system by its cells": ({"id": PAIRED, "thing": TWO, "output": O}, "item=id system=thing text=output ?"),
    "an item by its cells": (
        {"key9": [f"k{k}" for k in PAIRED], "model": TWO, "output": O},
        "item=key9 system=model text=output ?; text={system:key9,output} ?",
    ),
    "the source is the item": (
        {"question": [f"what is thing number {k}" for k in PAIRED], "model": TWO, "output": O},
        "item=question system=model text=output source=question !",
    ),
    "an answer may be a reference": ({"id": UNIQUE, "answer": O}, "item=id text=answer ?"),
    "an answer of a system": ({"id": PAIRED, "model": TWO, "answer": O}, "item=id system=model text=answer !"),
    "with ratings": (
        {"id": PAIRED, "model": TWO, "output": O, "fluency": [k % 3 for k in range(N)]},
        "item=id system=model text=output ?",
    ),
    "with texts of the item": (
        {"id": UNIQUE, "output": O, "reference_1": P, "reference_2": P, "question": Q, "context": prose("c")},
        "item=id text=output source=question references=reference_* context=context !; item=question "
        "text=output source=question references=reference_* context=context !",
    ),
    "a column per system": (
        {"id": UNIQUE, "output_gpt": O, "output_llama": P, "question": Q},
        "item=id text=output_{system} source=question !; item=id text={system} source=question !",
    ),
    "the word comes last": (
        {"id": UNIQUE, "gpt answer": O, "llama answer": P, "other": Q},
        "item=id text={system} answer !; item=id text=gpt answer !; item=id text=llama answer !; item=id "
        "text={system} ?",
    ),
    "an object": (
        {"id": UNIQUE, "texts.gpt": O, "texts.llama": P},
        "item=id text=texts.{system} !; item=id text={system} !",
    ),
    "names of models": ({"id": UNIQUE, "gpt4": O, "llama3": P}, "item=id text={system} !"),
    "other names": ({"id": UNIQUE, "foo": O, "bar": P}, "item=id text={system} ?"),
    "names and a number": (
        {"id": UNIQUE, "gpt4": O, "llama3": P, "year": [1] * N},
        "item=id text={system:gpt4,llama3} !",
    ),
    "sides": ({"prompt": Q, "chosen": O, "rejected": P}, "item=prompt text={system} source=prompt !"),
    "conversations": (
        {"id": PAIRED, "model": TWO, "messages": turns("user", "assistant")},
        "item=id system=model messages=messages !; system=model messages=messages !",
    ),
    "open conversations": (
        {"id": PAIRED, "model": TWO, "messages": turns("user"), "output": O, "reference": P},
        "item=id system=model text=output references=reference messages=messages !; system=model text=output "
        "references=reference messages=messages !; item=id system=model text=output references=reference !",
    ),
    "conversations without an item": (
        {"model": TWO, "messages": turns("user", "assistant")},
        "system=model messages=messages !",
    ),
    "pairs": (PAIRS, "item=id system_a=model_a system_b=model_b source=prompt output_a=output_a output_b=output_b !"),
    "pairs with a winner": (
        {name.replace("_a", "_winner").replace("_b", "_loser"): cells for name, cells in PAIRS.items()},
        "item=id system_a=model_winner system_b=model_loser source=prompt output_a=output_winner "
        "output_b=output_loser ?",
    ),
    "two outputs of a row": (
        {"id": PAIRED, "model": TWO, "output": O, "response": P, "ref": Q},
        "item=id system=model text=output references=ref !; item=id system=model text=response references=ref !",
    ),
    "numbered and other references": (
        {"id": UNIQUE, "reference_1": P, "reference_2": P, "reference": Q, "output": O},
        "item=id text=output references=reference !; item=id text={system} references=reference ?",
    ),
    "parts of names": (
        {"id": UNIQUE, "my_ref1": P, "my_ref2": P, "gold answer": Q, "image": ["a.png"] * N, "output": O},
        "item=id text=output references=gold answer images=image !; item=id text={system} references=gold answer "
        "images=image ?",
    ),
    "lists": (
        {
            "id": UNIQUE,
            "refs": [["a", "b"]] * N,
            "imgs": [["a"]] * N,
            "source": [["a"]] * N,
            "my prompt": P,
            "output": O,
        },
        "item=id text=output source=my prompt references=refs images=imgs !; item=my prompt text=output source=my "
        "prompt references=refs images=imgs !",
    ),
    "only row numbers may be items": (
        {"day": DAYS, "nr": [*range(N)], "z": FLOAT, "c": [1] * N, "latency": [*range(N)], "output": O},
        "item=nr text=output ?",
    ),
    "only a thing may be a system": (
        {"nr": PAIRED, "label": ["good", "bad"] * 6, "kind": TWO, "thing": TWO, "topic": TWO, "output": O},
        "item=nr system=thing text=output ?",
    ),
    "no systems": (
        {"id": UNIQUE, "model": DAYS, "engine": FLOAT, "agent": P, "output": O},
        "item=id text=output ?; item=id text={system:agent,output} ?",
    ),
    "half of the items have both systems": (
        {"id": [*PAIRED[:8], 4, 5, 6, 7], "model": TWO, "output": O},
        "item=id system=model text=output !",
    ),
    "less than half of the items have both systems": (
        {"id": [*PAIRED[:6], 4, 5, 6, 7, 8, 9], "model": TWO, "output": O},
        "",
    ),
    "two outputs of an item and a system": ({"id": [k // 4 for k in range(N)], "model": TWO, "output": O}, ""),
    "items repeat": ({"id": PAIRED, "output_gpt": O, "output_llama": P}, ""),
    "two conversations": (
        {"id": UNIQUE, "messages": turns("user", "assistant"), "m2": turns("user", "GPT")},
        "item=id messages=messages !; item=id messages=m2 !; item=id text={system} ?",
    ),
    "no answers": ({"id": PAIRED, "model": TWO, "messages": turns("user")}, ""),
    "half of the conversations have an answer": (
        {"id": UNIQUE, "messages": turns("user", "assistant")[:6] + turns("user")[:6]},
        "",
    ),
    "most conversations have an answer": (
        {"id": UNIQUE, "messages": turns("user", "assistant")[:7] + turns("user")[:5]},
        "item=id messages=messages !",
    ),
    "a source and a number beside outputs": (
        {"id": UNIQUE, "output_gpt": O, "output_llama": P, "output_x": [1] * N, "output_source": Q},
        "item=id text=output_{system:gpt,llama} source=output_source !; item=id "
        "text={system:output_gpt,output_llama} source=output_source !",
    ),
    "a system without outputs": (
        {"id": UNIQUE, "output_gpt": O, "output_llama": [None] * N},
        "item=id text=output_{system} !",
    ),
    "labels of systems": ({"id": UNIQUE, "output_gpt": ["a"] * N, "output_llama": ["b"] * N}, ""),
    "objects": (
        {"id": UNIQUE, "m.gpt.output": O, "m.llama.output": P},
        "item=id text=m.{system}.output !; item=id text=m.gpt.output !; item=id text=m.llama.output !; "
        "item=id text={system} !",
    ),
    "brackets": (
        {"id": UNIQUE, "Response (gpt)": O, "Response (llama)": P},
        "item=id text=Response ({system}) !; item=id text={system} !",
    ),
    "numbers": (
        {"id": UNIQUE, "response1": O, "response2": P},
        "item=id text=response{system} !; item=id text={system} ?",
    ),
    "letters": (
        {"id": UNIQUE, "responsea": O, "responseb": P},
        "item=id text=response{system} !; item=id text={system} ?",
    ),
    "braces": (
        {"id": UNIQUE, "gpt{x} answer": O, "llama answer": P},
        "item=id text={system} answer !; item=id text=gpt{x} answer !; item=id text=llama answer !; item=id "
        "text={system} !",
    ),
    "a category": ({"nr": [*range(N)], "foo": O, "bar": P, "topic": Q}, "item=nr text={system:foo,bar} ?"),
    "no item": ({"foo": O, "bar": P}, "text={system} ?"),
    "one text": ({"id": UNIQUE, "foo": O}, ""),
    "texts beside a system": ({"id": UNIQUE, "foo": O, "bar": P, "model": TWO}, "item=id text={system:foo,bar} ?"),
    "no prose": ({"id": UNIQUE, "foo": TWO, "bar": ["c"] * N}, ""),
    "a baseline": ({"id": UNIQUE, "baseline": O, "candidate": P}, "item=id text={system} !"),
    "two pairs of texts": (
        PAIRS | {"text_a": P, "text_b": Q},
        "item=id system_a=model_a system_b=model_b source=prompt output_a=output_a output_b=output_b !",
    ),
    "pairs without an item": ({name: cells for name, cells in PAIRS.items() if name not in ("id", "prompt")}, ""),
}
"""A table, and all guesses in order: `!` marks the certain ones."""


def guesses(columns: dict[str, Any], **declared: str) -> list[tuple[dict[str, str], bool]]:
    found = text_guesses(pl.DataFrame(columns), Columns.make(declared))
    return [(dict(mapping.roles), is_certain) for mapping, is_certain in found]


@pytest.mark.parametrize(("columns", "expected"), OUTPUT_ROWS.values(), ids=OUTPUT_ROWS)
def test_all_guesses_in_order(columns: dict[str, Any], expected: str) -> None:
    texts = (
        " ".join([*(f"{role}={name}" for role, name in roles.items()), "!" if is_certain else "?"])
        for roles, is_certain in guesses(columns)
    )
    assert "; ".join(texts) == expected


def test_declared_roles_are_kept() -> None:
    columns = {"id": PAIRED, "thing": TWO, "output": O, "other": P}
    for declared, text in ((USUAL | {"system": "thing"}, "output"), ({"system": "thing", "text": "other"}, "other")):
        roles, is_certain = guesses(columns, **declared)[0]
        assert (roles["system"], roles["text"], is_certain) == ("thing", text, True)


def test_texts_in_tables_of_scores_and_of_verdicts() -> None:
    assert score_text_roles(pl.DataFrame(OUTPUT_ROWS["with texts of the item"][0]), ["id"]) == {
        "text": "output",
        "source": "question",
        "references": "reference_*",
        "context": "context",
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


def test_a_table_with_texts_and_labels_is_read_as_either() -> None:
    words = ["pass", "fail"] * 40
    texts = [f"the answer of row {row} is a short sentence" for row in range(80)]
    table = pl.DataFrame({"trace_id": [f"t{row}" for row in range(80)], "answer": texts, "human_label": words})
    message = input_error(cu.read, table)
    assert message.endswith(
        "; try --column item=trace_id --column text=answer (in Python columns={'item': 'trace_id', 'text': 'answer'}); "
        "to analyse labels instead of texts, --column item=trace_id --columns 'human:{rater:human_label}'"
    )
    labels = cu.read(table, columns={"item": "trace_id", "score": "human:{rater:human_label}"})
    assert cu.rates(labels).rates["human_rate"].to_list() == [0.5]
    assert "instead of texts" not in input_error(cu.read, table.with_columns(human_label=pl.Series(texts)))
