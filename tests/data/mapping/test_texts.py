"""Tables of texts: read without a mapping, proposals in errors, and explicit mappings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.outputs import Outputs
from tests.data.mapping.tables import proposed, rows
from tests.data.study_parts import note_counts
from tests.messages import exactly

SYSTEMS = ("Aster", "Birch")
ITEMS = range(12)
OUTPUTS = sorted(f"What {system} writes about number {item}." for item in ITEMS for system in SYSTEMS)
Rows = list[dict[str, Any]]

A_LOG = (
    "request_id=item, time=time, deployment=system, user_query=prompt, completion=text, latency_s=share, "
    "cost_usd=0.01, output_tokens=number"
)
LAYOUTS: dict[str, Rows] = {
    "a log": [{**row, "request_id": f"r{place}"} for place, row in enumerate(rows(A_LOG, SYSTEMS))],
    "names of columns alone say it": rows("task_id=item, llm=system, instruction=prompt, hypothesis=text", SYSTEMS),
    "a column for each system, named by a word": [
        {**row, "topic": "ab"[place % 2]}
        for place, row in enumerate(
            rows("case=item, question=prompt, Aster_answer=text:Aster, Birch_answer=text:Birch, topic=a")
        )
    ],
    "in brackets": rows("key=item, src=prompt, Response (Aster)=text:Aster, Response (Birch)=text:Birch"),
    "an object of outputs": rows("qid=item, prompt=prompt, replies.Aster=text:Aster, replies.Birch=text:Birch"),
    "conversations": rows("sample=item, engine=system, dialog=messages", SYSTEMS),
    "requests and responses": [
        {"request": row["request"], "response": {"choices": [row["choice"]]}, "usage": {"total_tokens": 3}}
        for row in rows("request.model=system, request.messages=question, choice.message.content=text", SYSTEMS)
    ],
    "nested texts of both": rows(
        "instance.id=item, instance.input.text=prompt, output.text=text, model.name=system", SYSTEMS
    ),
    "pairs": rows("prompt=prompt, model_left=Aster, model_right=Birch, text_left=text:Aster, text_right=text:Birch"),
}


def outputs_of(study: cu.Study) -> Outputs:
    assert study.outputs is not None
    return study.outputs


def as_lines(table: Rows, path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["frame", "file"])
def test_a_table_of_texts_is_read_without_a_mapping(layout: str, form: str, tmp_path: Path) -> None:
    table = LAYOUTS[layout]
    study = cu.read(pl.DataFrame(table) if form == "frame" else as_lines(table, tmp_path / "mine.jsonl"))
    texts = outputs_of(study).texts
    assert set(texts["system"]) == set(SYSTEMS)
    assert sorted(texts["text"]) == OUTPUTS
    assert texts.group_by("item").len()["len"].to_list() == [2] * len(ITEMS)
    assert set(outputs_of(study).sources["source"]) == {row["prompt"] for row in rows("prompt=prompt")}
    assert study.raters.frame.is_empty()  # neither latency nor cost is a metric
    notes = {note.rule: note.message for note in study.notes}
    assert "read as texts with --column" in notes["guessed-columns"]


def test_the_note_gives_a_mapping_that_reads_the_same() -> None:
    frame = pl.DataFrame(LAYOUTS["in brackets"])
    note = cu.read(frame).notes[0].message
    columns = {"item": "key", "source": "src", "text": "Response ({system})"}
    assert note == (
        "table: read as texts with --column item=key --column 'text=Response ({system})' --column source=src; give "
        "other columns if this is wrong"
    )
    for reader in (None, "outputs"):
        texts = outputs_of(cu.read(frame, columns=columns, reader=reader)).texts
        assert texts.equals(outputs_of(cu.read(frame)).texts)


PROPOSED = {
    "columns of any name": rows("nr=item, prompt=prompt, Aster=text:Aster, Birch=text:Birch"),
    "labels beside texts": [
        {**row, "human_label": ["good", "bad"][row["id"] % 2]}
        for row in rows("id=item, model=system, output=text", SYSTEMS)
    ],
}


@pytest.mark.parametrize("layout", PROPOSED)
def test_a_doubtful_table_is_answered_with_a_mapping_that_reads_it(layout: str) -> None:
    frame = pl.DataFrame(PROPOSED[layout])
    texts = outputs_of(cu.read(frame, columns=proposed(frame))).texts
    assert set(texts["system"]) == set(SYSTEMS)
    assert sorted(texts["text"]) == OUTPUTS


def test_texts_and_scores_of_one_table() -> None:
    frame = pl.DataFrame(
        rows("doc=item, model=system, summary=text, human_fluency=mark, chrf=share, latency_ms=number", SYSTEMS)
    )
    columns = proposed(frame)
    assert "latency" not in str(columns)
    study = cu.read(frame, columns=columns)
    assert (study.humans, study.metrics) == (("human",), ("chrf",))
    assert outputs_of(study).texts.height == frame.height


NO_SYSTEMS = [
    {"id": f"s{k}", "created": f"2026-01-0{1 + k % 2}T10:00:00Z", "trace": f"t{k}", "grade": k % 2, "kind": "EVAL"}
    for k in range(12)
]


def test_neither_a_time_nor_an_id_nor_a_truth_value_is_a_system() -> None:
    more = [{**row, "passed": bool(k % 2), "day": f"{1 + k % 3}.1.2026"} for k, row in enumerate(NO_SYSTEMS)]
    for table in (NO_SYSTEMS, more):
        assert cu.read(pl.DataFrame(table)).systems == ("table",)  # labels of one system


def test_a_file_for_each_system(tmp_path: Path) -> None:
    for system in SYSTEMS:
        as_lines(rows("id=item, prompt=prompt, response=text", [system]), tmp_path / f"{system}.jsonl")
    study = cu.read(*(tmp_path / f"{system}.jsonl" for system in SYSTEMS))
    assert sorted(outputs_of(study).texts["system"].unique()) == list(SYSTEMS)


def test_turns_before_the_answer_are_source_and_context() -> None:
    conversation = [
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "Hello"},
        {"from": "human", "value": "And now?"},
        {"from": "gpt", "value": "Now this."},
    ]
    parts = [{"from": "human", "value": [{"type": "text", "text": "Look"}]}, conversation[1]]
    chats = [conversation, conversation[:3], parts]  # the second conversation has no answer
    frame = pl.DataFrame({"item": [1, 2, 3], "system": "A", "chat": [json.dumps(chat) for chat in chats]})
    outputs = outputs_of(cu.read(frame, columns={"messages": "chat"}))
    assert outputs.texts.rows() == [("1", "A", "Now this."), ("3", "A", "Hello")]
    assert outputs.sources["source"].to_list() == ["And now?", "Look"]
    assert json.loads(outputs.sources["context"][0]) == [
        {"role": "human", "text": "Hi"},
        {"role": "gpt", "text": "Hello"},
    ]
    with pytest.raises(cu.InputError, match="row 1: messages must be a list of turns, each with role and content"):
        cu.read(pl.DataFrame({"item": [1], "system": "A", "chat": "Hi"}), columns={"messages": "chat"})


def test_conversations_that_end_with_the_user_are_not_proposed_as_outputs() -> None:
    ask = {"role": "user", "content": "What is the sum of these many numbers, please?"}
    table = rows("sample=item, engine=system, stuff=messages", SYSTEMS)
    table = [{**row, "sample": f"s{row['sample']}", "stuff": json.dumps([*row["stuff"], ask])} for row in table]
    with pytest.raises(
        cu.InputError,
        match=exactly(
            "table: columns sample, engine, stuff match no reader; the most similar reader is wide (item, "
            "system), which also needs 'item' and 'system'. Map your columns, as in --column item=NAME "
            "--column system=NAME. Paths of nested values: stuff.*.role, stuff.*.content"
        ),
    ):
        cu.read(pl.DataFrame(table))


def test_references_in_several_columns() -> None:
    frame = pl.DataFrame({"id": [1, 2], "ref_1": ["a", "b"], "ref_2": ["c", None], "out_A": ["x y z", "u v w"]})
    columns = {"item": "id", "text": "out_{system}", "references": "ref_*"}
    assert outputs_of(cu.read(frame, columns=columns)).sources["references"].to_list() == [["a", "c"], ["b"]]


def test_what_is_said_of_an_item_in_several_rows_is_the_first() -> None:
    frame = pl.DataFrame(
        {"item": [1, 1, 2, 2], "system": list("ABAB"), "out": list("wxyz"), "src": ["s", "t", None, "u"]}
    )
    study = cu.read(frame, columns={"text": "out", "source": "src"})
    assert outputs_of(study).sources["source"].to_list() == ["s", "u"]
    assert note_counts(study) == {"sources-differ": 1}


def test_facts_of_items_beside_texts() -> None:
    frame = pl.DataFrame({"id": [1, 2], "genre": ["n", "m"], "out_A": "x", "out_B": "y"})
    study = cu.read(frame, columns={"item": "id", "text": "out_{system}", "group": "genre"})
    assert study.items.frame["group"].to_list() == ["n", "m"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"item": "id", "text": "{system}_{aspect}"},
            "columns: text='{system}_{aspect}': a pattern of texts needs {system} and must not have other placeholders",
        ),
        (
            {"item": "id", "text": "reply_{system}"},
            "columns: text='reply_{system}' matches no column that is still without a role; columns: id, same, "
            "out_A, out_B",
        ),
        ({"item": "id", "output_a": "out_A"}, "columns: only one of output_a and output_b is mapped; map both"),
        (
            {"item": "same", "text": "out_A"},
            "table: the same output occurs twice, in rows 1, 2 (item 's', system 'table'); one row per output",
        ),
        (
            {"item": "id", "text": "out_{system}", "reader": "wide"},
            "reader='wide' accepts no columns of texts; leave out the reader or the mapping of texts",
        ),
        (
            {"item": "id", "text": "out_{system}", "score": "metric:{rater:chrf}"},
            "columns: pattern 'metric:{rater:chrf}' matches no column that is still without a role; columns: same",
        ),
    ],
)
def test_mappings_of_texts_that_do_not_fit(columns: dict[str, Any], message: str) -> None:
    frame = pl.DataFrame({"id": [1, 2], "same": "s", "out_A": ["x", "y"], "out_B": ["z", "w"]})
    with pytest.raises(cu.CustodesError) as error:
        cu.read(frame, reader=columns.pop("reader", None), columns=columns)
    assert str(error.value) == message


def test_scores_of_a_column_for_each_system() -> None:
    frame = pl.DataFrame({"item": [1, 2], "chrf_A": [0.1, 0.2], "chrf_B": [0.3, 0.4]})
    study = cu.read(frame, columns={"score": "metric:chrf_{system}"})
    assert study.ratings.frame.select("item", "system", "rater", "score").sort("score").rows() == [
        ("1", "A", "chrf", 0.1),
        ("2", "A", "chrf", 0.2),
        ("1", "B", "chrf", 0.3),
        ("2", "B", "chrf", 0.4),
    ]


def test_verdicts_beside_pairs_of_outputs() -> None:
    pairs = pl.DataFrame(rows("query=prompt, reply_1=text:Aster, reply_2=text:Birch"))
    nameless = pairs.with_columns(better=pl.Series(["1", "2", "tie"] * 4))
    named = nameless.with_columns(model_1=pl.lit("Aster"), model_2=pl.lit("Birch"))
    for frame, systems in ((named, SYSTEMS), (nameless, ("a", "b"))):
        study = cu.read(frame, columns=proposed(frame))
        assert study.systems == systems
        assert study.preferences.frame["preference"].to_list() == [1, -1, 0] * 4
        assert set(outputs_of(study).texts["system"]) == set(systems)
        assert ("nameless-systems" in {note.rule for note in study.notes}) == (systems == ("a", "b"))


def test_a_column_with_one_name_does_not_name_the_systems() -> None:
    frame = pl.DataFrame(rows("model=base, model_name=system, prompt=prompt, completion=text", SYSTEMS))
    for names in (("model", "model_name"), ("model_name", "model")):
        study = cu.read(frame.select(*names, "prompt", "completion"))
        assert outputs_of(study).texts["system"].unique().sort().to_list() == list(SYSTEMS)


def test_a_source_that_is_sometimes_missing_is_no_item() -> None:
    texts = {"model": ["A", "A", "A"], "prompt": ["x", None, "y"], "completion": ["one", "two", "three"]}
    columns = {"system": "model", "source": "prompt", "text": "completion"}
    with pytest.raises(cu.InputError, match="no column has the role item, so outputs of an item cannot be joined"):
        cu.read(pl.DataFrame(texts), columns=columns)
    full = pl.DataFrame(texts).with_columns(prompt=pl.Series(["x", "z", "y"]))
    assert outputs_of(cu.read(full, columns=columns)).texts["item"].to_list() == ["x", "z", "y"]
