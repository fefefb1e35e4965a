"""Round trip of Every Eval Ever files with the fields that schema version 0.3.0 requires."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

import custodes as cu
from tests.command_line import Run, custodes
from tests.data.input_errors import reading_error
from tests.data.study_parts import outputs_of

__all__ = ["custodes"]

ROWS = [
    {"item": item, "system": system, "rater": rater, "kind": kind, "aspect": aspect, "repeat": repeat, "score": score}
    for item in ("a", "b")
    for system in ("org/aster", "birch")
    for rater, kind, aspect, repeat, score in (
        ("ann", "human", "style", "0", 3.0),
        ("judge", "metric", "style", "0", 0.5),
        ("judge", "metric", "style", "1", 1.0),
        ("ter", "metric", "", "0", 40.25),
    )
]
AGGREGATE = {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "eval_library"}
AGGREGATE |= {"model_info", "evaluation_results"}
INSTANCE = {"schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input"}
INSTANCE |= {"answer_attribution", "evaluation"}
"""The `required` fields of eval.schema.json and instance_level_eval.schema.json."""


def export_folder(tmp_path: Path, custodes: Run) -> Path:
    pl.DataFrame(ROWS).write_csv(tmp_path / "scores.csv")
    pl.DataFrame({"rater": ["ter"], "higher_is_better": [False], "low": [0.0], "high": [100.0]}).write_csv(
        tmp_path / "raters.csv"
    )
    texts = [
        {"item": item, "system": system, "text": f"{item} by {system}", "source": f"Say {item}."}
        for item in ("a", "b")
        for system in ("org/aster", "birch")
    ]
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps(row | {"references": [row["item"]]}) for row in texts))
    inputs = [str(tmp_path / name) for name in ("scores.csv", "texts.jsonl")]
    options = ["--raters", str(tmp_path / "raters.csv"), "--to", "every-eval-ever", "-o", f"{tmp_path / 'data'}/"]
    assert custodes("convert", *inputs, *options).status == 0
    return tmp_path / "data"


def test_round_trip(tmp_path: Path, custodes: Run) -> None:
    folder = export_folder(tmp_path, custodes)
    study = cu.read(folder)
    before = cu.read([tmp_path / "scores.csv", tmp_path / "texts.jsonl"], raters=tmp_path / "raters.csv")
    columns = before.ratings.frame.columns
    assert study.ratings.frame.sort(columns).equals(before.ratings.frame.sort(columns))
    assert study.raters.kind == before.raters.kind
    assert study.raters.direction == before.raters.direction == {"ann": 1, "judge": 1, "ter": -1}
    assert outputs_of(study).texts.sort("item", "system").equals(outputs_of(before).texts.sort("item", "system"))
    facts = ("item", "source", "references")
    assert (
        outputs_of(study)
        .sources.select(facts)
        .sort("item")
        .equals(outputs_of(before).sources.select(facts).sort("item"))
    )


def test_ordered_labels_are_written_as_numbers(tmp_path: Path, custodes: Run) -> None:
    table = pl.DataFrame({"id": range(4), "judge": [5, 2, 4, 2], "human": [5, 4, 2, 2]})
    table.write_csv(tmp_path / "labels.csv")
    options = ["--column", "item=id", "--columns", "human:{rater:human}", "--columns", "metric:{rater:judge}"]
    output = f"{tmp_path / 'data'}/"
    assert (
        custodes("convert", str(tmp_path / "labels.csv"), *options, "--to", "every-eval-ever", "-o", output).status == 0
    )
    written = cu.read(tmp_path / "data").ratings.frame.sort("item")
    for rater in ("judge", "human"):
        assert written.filter(rater=rater)["score"].to_list() == table[rater].to_list()


def test_files_of_the_schema(tmp_path: Path, custodes: Run) -> None:
    folder = export_folder(tmp_path, custodes)
    runs = sorted(folder.glob("*/*/*/*.json"))
    assert [path.parts[-3:-1] for path in runs] == [("org", "aster"), ("unknown", "birch")]
    for path in runs:
        aggregate: dict[str, Any] = json.loads(path.read_text())
        assert set(aggregate) >= AGGREGATE
        named = {result["evaluation_result_id"]: result for result in aggregate["evaluation_results"]}
        assert [result["evaluation_name"] for result in named.values()] == ["ann/style", "judge/style", "ter"]
        ter = aggregate["evaluation_results"][2]
        assert ter["metric_config"]["lower_is_better"]
        assert (ter["metric_config"]["min_score"], ter["metric_config"]["max_score"]) == (0, 100)
        assert ter["score_details"]["score"] == 40.25
        samples = path.with_name(f"{path.stem}_samples.jsonl")
        assert aggregate["detailed_evaluation_results"]["file_path"] == f"data/{samples.relative_to(folder).as_posix()}"
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        assert aggregate["detailed_evaluation_results"]["total_rows"] == len(lines) == 8
        for line in lines:
            assert set(line) >= INSTANCE
            assert line["evaluation_result_id"] in named
            assert line["output"]["raw"] == [f"{line['sample_id']} by {line['model_id']}"]


def test_lines_alone_are_read(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {
            "evaluation_id": f"qa/{model}/1",
            "model_id": model,
            "evaluation_name": "qa",
            "sample_id": f"q{number}",
            "interaction_type": "multi_turn",
            "input": {"raw": "Hello?", "reference": []},
            "output": None,
            "messages": [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": f"Hello {number}."}],
            "evaluation": {"score": number, "is_correct": False},
        }
        for model in ("a", "b")
        for number in range(3)
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    study = cu.read(path)
    assert (study.systems, study.metrics) == (("a", "b"), ("qa",))
    assert study.ratings.frame["score"].to_list() == [0, 1, 2] * 2
    assert outputs_of(study).texts["text"].head(1).to_list() == ["Hello 0."]
    path.write_text(json.dumps({**lines[0], "evaluation": {}}))
    message = "samples.jsonl, line 1: this does not have the layout of an instance-level file"
    assert message in reading_error(path)


def test_convert_says_what_does_not_fit(tmp_path: Path, custodes: Run) -> None:
    battles = [{"item": 1, "model_a": "a", "model_b": "b", "winner": "model_a"}]
    pl.DataFrame(battles).write_csv(tmp_path / "battles.csv")
    into = f"{tmp_path / 'data'}/"
    ran = custodes("convert", str(tmp_path / "battles.csv"), "--to", "every-eval-ever", "-o", into)
    assert ran.status == 2
    assert "the verdicts (1) are left out" in ran.err
    assert "holds scores of outputs, but the input has no scores" in ran.err
    ran = custodes("convert", "demo", "--to", "every-eval-ever", "-o", str(tmp_path / "x.csv"))
    assert "give -o DIR/" in ran.err
