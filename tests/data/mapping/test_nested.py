"""Nested tables: cells addressed by a path, and the columns that an error proposes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.loading.records import find_tables
from custodes.data.mapping.nested import DEPTH, LONGEST, MAX_COLUMNS, flatten_nested, nested_columns
from tests.data.input_errors import reading_error
from tests.data.mapping.tables import proposed, rows
from tests.data.study_parts import outputs_of

SYSTEMS = ("Aster", "Birch")


def rating_row(item: int, system: str, **more: Any) -> dict[str, Any]:
    up = len(system) % 2
    return {
        "source": {"id": f"d{item}", "text": f"The document number {item} says much."},
        "generator": {"name": system},
        "hypothesis": {"text": f"{system} on document {item} in short."},
        "ratings": {"fluency": [3 + up, 4, 2], "depth": [2, 3 + item % 2, 3]},
        "metrics": {"chrf": 0.1 * item + up, "bleu": 0.3},
        "latency": 0.5 * item,
        **more,
    }


ROWS = [rating_row(item, system) for item in range(12) for system in SYSTEMS]


def test_cells_become_columns_by_their_path() -> None:
    frame = flatten_nested(
        pl.DataFrame({"id": [1, 2], "a": ['{"b": {"c": 1.50}, "d": [true, null]}', '{"b": null, "e": "x"}']})
    )
    assert frame.to_dict(as_series=False) == {
        "id": [1, 2],
        "a.b.c": ["1.50", None],
        "a.d.0": ["true", None],
        "a.e": [None, "x"],
    }


def test_lists_of_numbers_become_columns_and_others_stay() -> None:
    frame = pl.DataFrame(
        {"n": [[1, 0], [2, None]], "words": [["x", "y"], ["z"]], "turns": [[{"role": "u", "content": "c"}]] * 2}
    )
    flat = flatten_nested(frame)
    assert flat.columns == ["n.0", "n.1", "words", "turns"]
    assert flat["n.1"].to_list() == [0, None]
    assert flat["words"].to_list() == ['["x", "y"]', '["z"]']
    assert flatten_nested(frame, ["words.1"])["words.1"].to_list() == ["y", None]


def test_a_list_of_objects_is_a_row_of_each() -> None:
    frame = pl.DataFrame(
        {"id": [1, 2], "runs": ['[{"model": "A", "t": "x"}, {"model": "B", "t": "y"}]', '[{"model": "A", "t": "z"}]']}
    )
    flat = flatten_nested(frame, ["runs.*.model", "runs.*.t"])
    assert flat.rows() == [(1, "A", "x"), (1, "B", "y"), (2, "A", "z")]
    assert flat.columns == ["id", "runs.*.model", "runs.*.t"]


def test_texts_that_look_like_objects_are_not_opened() -> None:
    frame = pl.DataFrame({"text": ["{not JSON}", "[1, 2"], "empty": ["", None], "n": [1, 2]})
    assert nested_columns(frame) == []
    assert flatten_nested(frame).equals(frame)
    braces = pl.DataFrame({"text": ['{"a": 1}', '{"a": 2}', "{braces}"]})
    assert [nested_columns(rows) for rows in (braces, braces.head(2))] == [[], ["text"]]
    assert "there is no column of scores, only item, system" in reading_error(
        pl.DataFrame({"doc": ["d0"], "model": [{"name": None}]}), columns={"item": "doc", "system": "model"}
    )


@pytest.mark.parametrize(
    ("columns", "n_values", "is_expanded"), [({}, 0, True), ({}, 1, False), ({"id": [1]}, 0, False)]
)
def test_a_cell_of_too_many_values_stays(columns: dict[str, list[int]], n_values: int, *, is_expanded: bool) -> None:
    cell = json.dumps({str(k): k for k in range(MAX_COLUMNS + n_values)})
    assert flatten_nested(pl.DataFrame({**columns, "big": [cell]})).width == (
        MAX_COLUMNS if is_expanded else len(columns) + 1
    )


def nested_object(depth: int) -> dict[str, Any]:
    return {"k": nested_object(depth - 1)} if depth else {"end": 1}


TURN = {"role": "user", "content": "c"}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (nested_object(DEPTH - 1), {f"x{'.k' * (DEPTH - 1)}.end": "1"}),
        (nested_object(DEPTH), {f"x{'.k' * DEPTH}": '{"end": "1"}'}),
        ([*range(LONGEST)], {f"x.{k}": f"{k}" for k in range(LONGEST)}),
        ([1] * (LONGEST + 1), {"x": json.dumps(["1"] * (LONGEST + 1))}),
        ([None, 1], {"x.1": "1"}),
        ([None], {"x": "[null]"}),
        ([], {"x": "[]"}),
        ([{"a": 1}, {"a": 2}], {"x.0.a": "1", "x.1.a": "2"}),
        ([{"a": None}, {"a": 2, "b": {"c": 1}}], {"x": '[{"a": null}, {"a": "2", "b": {"c": "1"}}]'}),
        ([{"a": "é"}, {"a": "f"}], {"x": '[{"a": "é"}, {"a": "f"}]'}),
        ([{"a": "f"}], {"x.0.a": "f"}),
        ([{"a": 1}, {}], {"x": '[{"a": "1"}, {}]'}),
        ([TURN], {"x": json.dumps([TURN])}),
        ({"a": {}, "b": True}, {"x.b": "true"}),
    ],
)
def test_values_that_become_columns(cell: Any, expected: dict[str, str]) -> None:
    frame = flatten_nested(pl.DataFrame({"x": [f" {json.dumps(cell)} "]}))
    assert dict(zip(frame.columns, frame.row(0), strict=True)) == expected


def test_a_column_with_the_name_of_a_path_stays() -> None:
    frame = pl.DataFrame({"a": [{"b": 1, "c": 2}], "a.b": [3]})
    assert flatten_nested(frame).to_dicts() == [{"a.c": 2, "a.b": 3}]


@pytest.mark.parametrize("form", ["file", "frame"])
def test_a_nested_table_answers_with_a_mapping_that_reads_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / "rated.json"
    path.write_text(json.dumps(ROWS))
    source = path if form == "file" else pl.DataFrame(ROWS)
    columns = proposed(source)
    assert columns["score"] == ["human:ratings.*", "metric:metrics.*"]
    study = cu.read(source, columns=columns)
    assert (study.humans, study.aspects) == (("0", "1", "2"), ("fluency", "depth"))
    assert study.metrics == ("chrf", "bleu")  # without the latency
    assert study.systems == SYSTEMS
    assert study.outputs is not None


def test_paths_of_scores() -> None:
    columns = {"item": "source.id", "system": "generator.name"}
    short = cu.read(pl.DataFrame(ROWS), columns={**columns, "human": "ratings.*", "metric": "metrics.*"})
    patterns = ["human:ratings.{aspect}.{rater}", "metric:metrics.{rater}"]
    assert short.ratings.frame.equals(cu.read(pl.DataFrame(ROWS), columns={**columns, "score": patterns}).ratings.frame)
    study = cu.read(pl.DataFrame(ROWS), columns={**columns, "score": "human:ratings.depth.*"})
    assert (study.humans, study.aspects) == (("ratings_depth",), ("0", "1", "2"))
    with pytest.raises(cu.OptionError, match=r"pattern 'metric:scores\.\*' matches no column"):
        cu.read(pl.DataFrame(ROWS), columns={**columns, "metric": "scores.*"})


def test_the_list_of_objects_in_an_object_is_the_table(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    table = rows("item=item, system=system, rater=m, score=item", SYSTEMS, 2)
    path.write_text(json.dumps({"version": 2, "out": {"rows": table, "prompts": [{"p": 1}]}}))
    study = cu.read(path)
    assert study.ratings.frame.height == 4
    assert study.notes[0].message == (
        "log.json: the rows are read from the list 'out.rows'; other lists: log.json::out.prompts"
    )
    assert cu.read(f"{path}::out.rows").ratings.frame.equals(study.ratings.frame)
    with pytest.raises(cu.InputError, match=r"log.json: no list named 'out.row' \(did you mean 'out.rows'\?\)"):
        cu.read(f"{path}::out.row")
    path.write_text(json.dumps({"a": table, "b": table}))
    with pytest.raises(cu.InputError, match=r"log.json: holds 2 lists; select one with log.json::LIST: a, b"):
        cu.read(path)
    path.write_text(json.dumps(table))
    with pytest.raises(cu.InputError, match="log.json: the file holds one table and has no parts; remove '::a'"):
        cu.read(f"{path}::a")


def test_an_object_of_similar_objects_is_a_table() -> None:
    assert find_tables({"q1": {"x": 1}, "q2": {"x": 2}}) == {"*": [{"key": "q1", "x": 1}, {"key": "q2", "x": 2}]}
    assert find_tables({"config": {"x": 1}, "other": {"y": 2}}) == {}


def test_a_list_of_ratings_that_name_their_raters() -> None:
    marks = [{"annotator": who, "scores": {"fluency": 1 + k, "overall": k}} for k, who in enumerate("xy")]
    frame = pl.DataFrame([{**row, "marks": marks} for row in rows("doc=item, model=system", SYSTEMS, 6)])
    columns = {
        "item": "doc",
        "system": "model",
        "rater": "marks.*.annotator",
        "score": ["human:marks.*.scores.{aspect}"],
    }
    names = pl.DataFrame(rows("doc=item, model=system, ratings.al=mark, ratings.bo=mark:2", SYSTEMS, 6))
    assert proposed(names)["score"] == ["human:ratings.{rater}"]  # names that are no aspects are those of raters
    study = cu.read(frame, columns=columns)
    assert (study.humans, study.aspects, study.ratings.frame.height) == (("x", "y"), ("fluency", "overall"), 48)


def test_a_list_of_outputs_with_their_ratings() -> None:
    table = [
        {
            "topic": f"t{item}",
            "replies": [
                {
                    "system": name,
                    "text": f"{name} on topic {item}.",
                    "natural": [1 + item % 3, 2],
                    "useful": [2, item % 2],
                }
                for name in SYSTEMS
            ],
        }
        for item in range(6)
    ]
    columns = {
        "item": "topic",
        "system": "replies.*.system",
        "text": "replies.*.text",
        "score": ["human:replies.*.{aspect}.{rater:[0-9]*}"],
    }
    study = cu.read(pl.DataFrame(table), columns=columns)
    assert (study.systems, study.humans, study.aspects) == (SYSTEMS, ("0", "1"), ("natural", "useful"))
    assert outputs_of(study).texts.height == 12


def test_advice_names_the_paths_of_nested_values() -> None:
    systems = {name: {"output": f"{name} in short.", "human": 3} for name in SYSTEMS}
    entries = [{"system": name, "text": f"{name} in short.", "bleu": 0.5} for name in SYSTEMS]
    by_system = pl.DataFrame([{"id": f"d{item}", "systems": systems} for item in range(6)])
    assert reading_error(by_system).endswith(
        "Paths of nested values: systems.Aster.output, systems.Aster.human, systems.Birch.output, systems.Birch.human"
    )
    in_a_list = pl.DataFrame([{"id": f"d{item}", "outputs": entries} for item in range(6)])
    assert reading_error(in_a_list).endswith("Paths of nested values: outputs.*.system, outputs.*.text, outputs.*.bleu")


def test_scores_of_chosen_and_rejected_outputs_name_no_systems() -> None:
    scores = {"chosen": {"rm-a": 0.5, "rm-b": 1.25}, "rejected": {"rm-a": 0.25, "rm-b": -1.5}}
    rows_of_pairs = [{"id": f"p{item}", "prompt": f"What is {item}?", "scores": scores} for item in range(6)]
    assert "system_a=scores" not in reading_error(pl.DataFrame(rows_of_pairs))


def segment(k: int) -> dict[str, Any]:
    """Return a segment in the layout of the scripts of WMT25's human evaluation."""
    systems = {"GPT-4.1": 80, "NLLB": 60, "B.X": 70}
    scores = {
        name: {
            "human1": float(quality + k % 7),
            "errors1": [{"start_i": 0, "end_i": 4, "severity": "minor"}] * (k % 3),
            "annotator1": f"en-de_#_annotator{k % 3}",
            "times1": [1754386211.242 + k, 1754386231.242 + k],
            "human2": float(quality - k % 5),
            "MetricX-25": k % 4 / 4,
        }
        for name, quality in systems.items()
    }
    return {
        "scores": scores if k < 20 else {},
        "src_text": f"source text {k}",
        "tgt_text": {name: f"translation {k} by {name}" for name in ("refA", *systems)},
        "doc_id": f"en-de_DE_#_news_#_doc{k // 4}_#_{k % 4}",
    }


def test_texts_and_scores_by_system(tmp_path: Path) -> None:
    file = tmp_path / "wmt25-genmt-humeval.jsonl"
    file.write_text("".join(json.dumps(segment(k)) + "\n" for k in range(24)))
    mapping = {
        "item": "doc_id",
        "text": "tgt_text.{system}",
        "source": "src_text",
        "score": ["human:scores.{system}.{rater:human1,human2}", "metric:scores.{system}.{rater:MetricX-25}"],
    }
    study = cu.read(file, columns=mapping)
    assert study.raters.kind == {"human1": "human", "human2": "human", "MetricX-25": "metric"}
    assert study.ratings.frame.height == 20 * 3 * 3
    row = study.ratings.frame.filter(item=segment(9)["doc_id"], system="GPT-4.1", rater="human2")
    assert row["score"].to_list() == [76.0]
    assert set(outputs_of(study).texts["system"]) == {"GPT-4.1", "NLLB", "B.X", "refA"}
