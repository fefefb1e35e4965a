"""Tables of texts: read without a mapping, proposals in errors, and explicit mappings."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.outputs import Outputs

SYSTEMS = ("Aster", "Birch")
ITEMS = range(12)
Row = dict[str, Any]


def text_of(item: int, system: str) -> str:
    return f"What {system} writes about number {item}."


def prompt_of(item: int) -> str:
    return f"Write about number {item}, please."


def long(row: Callable[[int, str], Row]) -> list[Row]:
    return [row(item, system) for item in ITEMS for system in SYSTEMS]


def per_item(row: Callable[[int], Row]) -> list[Row]:
    return [row(item) for item in ITEMS]


def turns(item: int, system: str) -> list[Row]:
    parts = (("system", "Be brief."), ("user", prompt_of(item)), ("assistant", text_of(item, system)))
    return [{"role": role, "content": words} for role, words in parts]


LAYOUTS: dict[str, list[Row]] = {
    "a log": long(
        lambda item, system: {
            "request_id": f"r{item}{system}",
            "time": "2026-01-02T10:00:00Z",
            "deployment": system,
            "user_query": prompt_of(item),
            "completion": text_of(item, system),
            "latency_s": 0.1 * item,
            "cost_usd": 0.01,
            "output_tokens": 7 + item,
        }
    ),
    "names of columns alone say it": long(
        lambda item, system: {
            "task_id": item,
            "llm": system,
            "instruction": prompt_of(item),
            "hypothesis": text_of(item, system),
        }
    ),
    "a column for each system, named by a word": per_item(
        lambda item: {
            "case": item,
            "question": prompt_of(item),
            **{f"{system}_answer": text_of(item, system) for system in SYSTEMS},
            "topic": "ab"[item % 2],
        }
    ),
    "in brackets": per_item(
        lambda item: {
            "key": item,
            "src": prompt_of(item),
            **{f"Response ({system})": text_of(item, system) for system in SYSTEMS},
        }
    ),
    "an object of outputs": per_item(
        lambda item: {
            "qid": item,
            "prompt": prompt_of(item),
            "generations": {system: text_of(item, system) for system in SYSTEMS},
        }
    ),
    "a list of outputs": per_item(
        lambda item: {
            "qid": item,
            "prompt": prompt_of(item),
            "replies": [{"model": system, "output": text_of(item, system)} for system in SYSTEMS],
        }
    ),
    "conversations": long(lambda item, system: {"sample": item, "engine": system, "dialog": turns(item, system)}),
    "requests and responses": long(
        lambda item, system: {
            "request": {"model": system, "messages": turns(item, system)[:2]},
            "response": {"choices": [{"message": {"content": text_of(item, system)}}]},
            "usage": {"total_tokens": 3},
        }
    ),
    "nested texts of both": long(
        lambda item, system: {
            "instance": {"id": item, "input": {"text": prompt_of(item)}},
            "output": {"text": text_of(item, system)},
            "model": {"name": system},
        }
    ),
    "pairs": per_item(
        lambda item: {
            "prompt": prompt_of(item),
            "model_left": SYSTEMS[0],
            "model_right": SYSTEMS[1],
            "text_left": text_of(item, SYSTEMS[0]),
            "text_right": text_of(item, SYSTEMS[1]),
        }
    ),
}


def outputs_of(study: cu.Study) -> Outputs:
    assert study.outputs is not None
    return study.outputs


def as_frame(rows: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows)


def as_lines(rows: Sequence[Row], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["frame", "file"])
def test_a_table_of_texts_is_read_without_a_mapping(layout: str, form: str, tmp_path: Path) -> None:
    rows = LAYOUTS[layout]
    study = cu.read(as_frame(rows) if form == "frame" else as_lines(rows, tmp_path / "mine.jsonl"))
    texts = outputs_of(study).texts
    assert set(texts["system"]) == set(SYSTEMS)
    assert sorted(texts["text"]) == sorted(text_of(item, system) for item in ITEMS for system in SYSTEMS)
    assert texts.group_by("item").len()["len"].to_list() == [2] * len(ITEMS)
    sources = set(outputs_of(study).sources["source"])
    assert sources == {prompt_of(item) for item in ITEMS}
    assert study.raters.frame.is_empty()  # neither latency nor cost is a metric
    notes = {note.rule: note.message for note in study.notes}
    assert "read as texts with --column" in notes["guessed-columns"]


def test_the_note_gives_a_mapping_that_reads_the_same() -> None:
    frame = as_frame(LAYOUTS["in brackets"])
    note = cu.read(frame).notes[0].message
    columns = {"item": "key", "source": "src", "text": "Response ({system})"}
    assert "--column item=key --column 'text=Response ({system})' --column source=src" in note
    assert outputs_of(cu.read(frame, columns=columns)).texts.equals(outputs_of(cu.read(frame)).texts)


PROPOSED = {
    "columns of any name": per_item(
        lambda item: {"nr": item, "prompt": prompt_of(item), **{system: text_of(item, system) for system in SYSTEMS}}
    ),
    "labels beside texts": long(
        lambda item, system: {
            "id": item,
            "model": system,
            "output": text_of(item, system),
            "human_label": ["good", "bad"][item % 2],
        }
    ),
}


@pytest.mark.parametrize("layout", PROPOSED)
def test_a_doubtful_table_is_answered_with_a_mapping_that_reads_it(layout: str) -> None:
    frame = as_frame(PROPOSED[layout])
    with pytest.raises(cu.InputError, match=r"; try --column item=") as error:
        cu.read(frame)
    columns = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    texts = outputs_of(cu.read(frame, columns=columns)).texts
    assert set(texts["system"]) == set(SYSTEMS)
    assert sorted(texts["text"]) == sorted(text_of(item, system) for item in ITEMS for system in SYSTEMS)


def test_texts_and_scores_of_one_table() -> None:
    rows = long(
        lambda item, system: {
            "doc": item,
            "model": system,
            "summary": text_of(item, system),
            "human_fluency": 1 + (item + len(system)) % 5,
            "chrf": 0.1 * item,
            "latency_ms": 100 + item,
        }
    )
    with pytest.raises(cu.InputError) as error:
        cu.read(as_frame(rows))
    columns = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    assert "latency" not in str(columns)
    study = cu.read(as_frame(rows), columns=columns)
    assert (study.humans, study.metrics) == (("human",), ("chrf",))
    assert outputs_of(study).texts.height == len(rows)


NO_SYSTEMS = [
    {"id": f"s{k}", "created": f"2026-01-0{1 + k % 2}T10:00:00Z", "trace": f"t{k}", "grade": k % 2, "kind": "EVAL"}
    for k in range(12)
]


def test_neither_a_time_nor_an_id_nor_a_truth_value_is_a_system() -> None:
    more = [{**row, "passed": bool(k % 2), "day": f"{1 + k % 3}.1.2026"} for k, row in enumerate(NO_SYSTEMS)]
    for rows in (NO_SYSTEMS, more):
        assert cu.read(as_frame(rows)).systems == ("table",)  # labels of one system


def test_a_file_for_each_system(tmp_path: Path) -> None:
    for system in SYSTEMS:
        rows = [{"id": item, "prompt": prompt_of(item), "response": text_of(item, system)} for item in ITEMS]
        as_lines(rows, tmp_path / f"{system}.jsonl")
    study = cu.read(*(tmp_path / f"{system}.jsonl" for system in SYSTEMS))
    assert sorted(outputs_of(study).texts["system"].unique()) == list(SYSTEMS)


def test_turns_before_the_answer_are_source_and_context() -> None:
    conversation = [
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "Hello"},
        {"from": "human", "value": "And now?"},
        {"from": "gpt", "value": "Now this."},
    ]
    rows = [
        {"item": 1, "system": "A", "chat": conversation},
        {"item": 2, "system": "A", "chat": conversation[:3]},  # a conversation without an answer
        {
            "item": 3,
            "system": "A",
            "chat": [{"from": "human", "value": [{"type": "text", "text": "Look"}]}, conversation[1]],
        },
    ]
    outputs = outputs_of(cu.read(as_lines_of(rows), columns={"messages": "chat"}))
    assert outputs.texts.rows() == [("1", "A", "Now this."), ("3", "A", "Hello")]
    assert outputs.sources["source"].to_list() == ["And now?", "Look"]
    assert json.loads(outputs.sources["context"][0]) == [
        {"role": "human", "text": "Hi"},
        {"role": "gpt", "text": "Hello"},
    ]
    with pytest.raises(cu.InputError, match="row 1: messages must be a list of turns, each with role and content"):
        cu.read(pl.DataFrame({"item": [1], "system": "A", "chat": "Hi"}), columns={"messages": "chat"})


def as_lines_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Return the rows as a file holds them, with nested cells as JSON."""
    return pl.DataFrame(
        [{name: json.dumps(cell) if isinstance(cell, list) else cell for name, cell in row.items()} for row in rows]
    )


def test_conversations_that_end_with_the_user_are_not_proposed_as_outputs() -> None:
    ask = [{"role": "user", "content": "What is the sum of these many numbers, please?"}]
    rows = [
        {"sample": f"s{i}", "engine": system, "stuff": [*turns(i, system), *ask]}
        for i in range(12)
        for system in SYSTEMS
    ]
    with pytest.raises(cu.InputError, match="match no reader") as problem:
        cu.read(as_lines_of(rows))
    assert "text=stuff" not in str(problem.value)


def test_references_in_several_columns() -> None:
    frame = pl.DataFrame({"id": [1, 2], "ref_1": ["a", "b"], "ref_2": ["c", None], "out_A": ["x y z", "u v w"]})
    columns = {"item": "id", "text": "out_{system}", "references": "ref_*"}
    assert outputs_of(cu.read(frame, columns=columns)).sources["references"].to_list() == [["a", "c"], ["b"]]


def test_what_is_said_of_an_item_in_several_rows_is_the_first() -> None:
    rows = {"item": [1, 1, 2, 2], "system": list("ABAB"), "out": list("wxyz"), "src": ["s", "t", None, "u"]}
    study = cu.read(pl.DataFrame(rows), columns={"text": "out", "source": "src"})
    assert outputs_of(study).sources["source"].to_list() == ["s", "u"]
    assert [(note.rule, note.count) for note in study.notes] == [("sources-differ", 1)]


def test_facts_of_items_beside_texts() -> None:
    frame = pl.DataFrame({"id": [1, 2], "genre": ["n", "m"], "out_A": "x", "out_B": "y"})
    study = cu.read(frame, columns={"item": "id", "text": "out_{system}", "group": "genre"})
    assert study.items.frame["group"].to_list() == ["n", "m"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"item": "id", "text": "{system}_{aspect}"},
            "a pattern of texts needs {system} and must not have other placeholders",
        ),
        ({"item": "id", "text": "reply_{system}"}, "text='reply_{system}' matches no column"),
        ({"item": "id", "output_a": "out_A"}, "output_a needs output_b; map both outputs of a pair"),
        (
            {"text": "out_A"},
            "no column is the item, so outputs of different systems cannot be joined; map item or source",
        ),
        ({"item": "same", "text": "out_A"}, "the same output occurs twice"),
        (
            {"item": "id", "text": "out_{system}", "score": "metric:{rater:chrf}"},
            "pattern 'metric:{rater:chrf}' matches no",
        ),
    ],
)
def test_mappings_of_texts_that_do_not_fit(columns: dict[str, Any], message: str) -> None:
    frame = pl.DataFrame({"id": [1, 2], "same": "s", "out_A": ["x", "y"], "out_B": ["z", "w"]})
    with pytest.raises(cu.CustodesError) as error:
        cu.read(frame, columns=columns)
    assert message in str(error.value)


def test_a_reader_of_scores_takes_no_texts() -> None:
    frame = pl.DataFrame({"id": [1, 2], "out_A": ["x", "y"], "out_B": ["z", "w"]})
    with pytest.raises(cu.OptionError, match="reader='wide' accepts no columns of texts"):
        cu.read(frame, columns={"item": "id", "text": "out_{system}"}, reader="wide")


def test_scores_of_a_column_for_each_system() -> None:
    frame = pl.DataFrame({"item": [1, 2], "chrf_A": [0.1, 0.2], "chrf_B": [0.3, 0.4]})
    study = cu.read(frame, columns={"score": "metric:chrf_{system}"})
    assert study.ratings.frame.select("item", "system", "rater", "score").sort("score").rows() == [
        ("1", "A", "chrf", 0.1),
        ("2", "A", "chrf", 0.2),
        ("1", "B", "chrf", 0.3),
        ("2", "B", "chrf", 0.4),
    ]


def columns_of(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the mapping that the error for a table proposes."""
    with pytest.raises(cu.InputError) as error:
        cu.read(frame)
    columns: dict[str, Any] = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    return columns


def test_scores_and_texts_in_columns_for_each_system() -> None:
    rows = per_item(
        lambda item: {
            "nr": item,
            **{f"Answer - {system}": text_of(item, system) for system in SYSTEMS},
            **{f"Fluency - {system}": 1 + (item + len(system)) % 5 for system in SYSTEMS},
            **{f"chrf - {system}": 0.1 * item + len(system) for system in SYSTEMS},
        }
    )
    columns = columns_of(as_frame(rows))
    assert columns["score"] == ["human:Fluency - {system}", "metric:chrf - {system}"]
    study = cu.read(as_frame(rows), columns=columns)
    assert (study.systems, study.humans, study.metrics) == (SYSTEMS, ("Fluency",), ("chrf",))
    assert outputs_of(study).texts.height == 2 * len(ITEMS)


def test_verdicts_beside_pairs_of_outputs() -> None:
    rows = per_item(
        lambda item: {
            "query": prompt_of(item),
            "reply_1": text_of(item, SYSTEMS[0]),
            "reply_2": text_of(item, SYSTEMS[1]),
            "better": ["1", "2", "tie"][item % 3],
        }
    )
    named = [{**row, "model_1": SYSTEMS[0], "model_2": SYSTEMS[1]} for row in rows]
    for table, systems in ((named, SYSTEMS), (rows, ("a", "b"))):
        study = cu.read(as_frame(table), columns=columns_of(as_frame(table)))
        assert study.systems == systems
        assert study.preferences.frame["preference"].to_list() == [1, -1, 0] * 4
        assert set(outputs_of(study).texts["system"]) == set(systems)
        assert ("nameless-systems" in {note.rule for note in study.notes}) == (systems == ("a", "b"))


def test_a_column_with_one_name_does_not_name_the_systems() -> None:
    rows = long(
        lambda item, system: {
            "model": "base",
            "model_name": system,
            "prompt": prompt_of(item),
            "completion": text_of(item, system),
        }
    )
    for names in (("model", "model_name"), ("model_name", "model")):
        frame = as_frame(rows).select(*names, "prompt", "completion")
        assert cu.read(frame).outputs.texts["system"].unique().sort().to_list() == list(SYSTEMS)


def test_a_source_that_is_sometimes_missing_is_no_item() -> None:
    texts = {"model": ["A", "A", "A"], "prompt": ["x", None, "y"], "completion": ["one", "two", "three"]}
    columns = {"system": "model", "source": "prompt", "text": "completion"}
    with pytest.raises(cu.InputError, match="no column is the item, so outputs of different systems cannot be joined"):
        cu.read(pl.DataFrame(texts), columns=columns)
    full = pl.DataFrame(texts).with_columns(prompt=pl.Series(["x", "z", "y"]))
    assert outputs_of(cu.read(full, columns=columns)).texts["item"].to_list() == ["x", "z", "y"]
