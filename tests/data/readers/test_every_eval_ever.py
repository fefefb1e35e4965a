"""Round trip of Every Eval Ever files in the layout of schema version 0.3.0."""

from __future__ import annotations

import hashlib
import json
import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl

import custodes as cu
from custodes.data.readers.every_eval_ever import write_every_eval_ever
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
UNBOUNDED = ("-Infinity", "Infinity")


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
    name = cu.read(tmp_path / "scores.csv", tmp_path / "texts.jsonl").name
    runs = sorted(folder.glob("*/*/*/*.json"))
    assert [path.parts[-4:-1] for path in runs] == [
        (re.sub(r"[^\w.-]+", "_", name), *parts) for parts in (("org", "aster"), ("unknown", "birch"))
    ]
    for path, system, developer in zip(runs, ("org/aster", "birch"), ("org", "unknown"), strict=True):
        aggregate: dict[str, Any] = json.loads(path.read_text())
        timestamp = aggregate["retrieved_timestamp"]
        assert 1.7e9 < int(timestamp) <= time.time() + 1
        run = f"{name}/{system}/{timestamp}"
        assert path.stem == str(UUID(bytes=hashlib.sha256(run.encode()).digest()[:16], version=4))
        samples = path.with_name(f"{path.stem}_samples.jsonl")
        assert aggregate == {
            "schema_version": "0.3.0",
            "evaluation_id": run,
            "retrieved_timestamp": timestamp,
            "source_metadata": {
                "source_name": name,
                "source_type": "evaluation_run",
                "source_organization_name": "unknown",
                "evaluator_relationship": "other",
            },
            "eval_library": {"name": "custodes", "version": version("custodes")},
            "model_info": {
                "name": system,
                "id": system,
                "developer": developer,
                "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
            },
            "evaluation_results": [
                {
                    "evaluation_result_id": f"{run}/{metric}",
                    "evaluation_name": metric,
                    "source_data": {"dataset_name": name, "source_type": "other"},
                    "metric_config": {
                        "metric_name": metric,
                        "lower_is_better": metric == "ter",
                        "score_type": "continuous",
                        "min_score": low,
                        "max_score": high,
                        "additional_details": details,
                    },
                    "score_details": {"score": mean, "uncertainty": {"num_samples": n}},
                }
                for metric, low, high, mean, n, details in (
                    ("ann/style", *UNBOUNDED, 3.0, 2, {"rater": "ann", "aspect": "style", "kind": "human"}),
                    ("judge/style", *UNBOUNDED, 0.75, 4, {"rater": "judge", "aspect": "style", "kind": "metric"}),
                    ("ter", 0, 100, 40.25, 2, {"rater": "ter", "kind": "metric"}),
                )
            ],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": f"data/{samples.relative_to(folder).as_posix()}",
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(),
                "total_rows": 8,
            },
        }
        assert [json.loads(line) for line in samples.read_text().splitlines()] == [
            {
                "schema_version": "0.3.0",
                "evaluation_id": run,
                "model_id": system,
                "evaluation_name": metric,
                "evaluation_result_id": f"{run}/{metric}",
                "sample_id": item,
                "interaction_type": "single_turn",
                "input": {"raw": f"Say {item}.", "reference": [item]},
                "output": {"raw": [f"{item} by {system}"]},
                "answer_attribution": [],
                "evaluation": {"score": score, "is_correct": repeat == "1"},
                **({"metadata": {"repeat": "1"}} if repeat == "1" else {}),
            }
            for item in ("a", "b")
            for metric, repeat, score in (
                ("ann/style", "0", 3.0),
                ("judge/style", "0", 0.5),
                ("judge/style", "1", 1.0),
                ("ter", "0", 40.25),
            )
        ]


def test_labels_in_an_order_are_written_as_their_numbers(tmp_path: Path) -> None:
    table = pl.DataFrame({"id": range(4), "judge": [5, 3, 3, 4], "human": [5, 3, 4, None], "length": [0.5, 2, 7, 8.25]})
    scores = ["human:{rater:human}", "metric:{rater:judge}", "metric:{rater:length}"]
    study = cu.read(table, columns={"item": "id", "score": scores})
    assert (study.labels[""].words, study.labels[""].scores) == (("3", "4", "5"), {"length"})
    files = list(write_every_eval_ever(study, tmp_path))
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert {line["evaluation_name"]: [] for line in lines}.keys() == {"human", "judge", "length"}
    for rater in ("human", "judge", "length"):
        written = {line["sample_id"]: line["evaluation"]["score"] for line in lines if line["evaluation_name"] == rater}
        assert written == {str(k): score for k, score in enumerate(table[rater]) if score is not None}
    assert {(line["input"]["raw"], *line["output"]["raw"]) for line in lines} == {("", "")}


def test_aggregate_files_name_metrics_and_data_sets(tmp_path: Path) -> None:
    def result(name: str, dataset: str, **config: object) -> dict[str, object]:
        return {"evaluation_name": name, "source_data": {"dataset_name": dataset}, "metric_config": config}

    results = {
        "e1": [
            result("first", "qa", metric_name="loss", lower_is_better=True) | {"evaluation_result_id": "r1"},
            result("second", "qa", additional_details={"kind": "human"}),
        ],
        "e2": [result("first", "math", metric_name="acc", additional_details={"rater": "r", "aspect": "tone"})],
    }
    for evaluation, of_evaluation in results.items():
        content = {"evaluation_id": evaluation, "evaluation_results": of_evaluation}
        (tmp_path / f"{evaluation}.json").write_text(json.dumps(content))
    chat = [
        ("system", "s"),
        ("assistant", "one"),
        ("user", "u"),
        ("assistant", "two"),
        ("assistant", None),
        ("user", "v"),
    ]
    messages = [{"role": role, "content": text} for role, text in chat]
    lines = [
        {
            "evaluation_id": evaluation,
            "model_id": f"m{score}",
            "evaluation_name": name,
            "sample_id": "s",
            "interaction_type": "single_turn",
            "input": {},
            "evaluation": {"score": score},
            **more,
        }
        for score, (evaluation, name, more) in enumerate(
            [
                ("e1", "x", {"evaluation_result_id": "r1", "output": {"raw": ["a", "b"]}, "messages": messages}),
                ("e1", "second", {"evaluation_result_id": "r2", "messages": messages, "metadata": {"repeat": 2}}),
                ("e2", "first", {"output": {"raw": []}, "messages": messages, "metadata": {"seed": 1}}),
                ("e3", "first", {}),
            ]
        )
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, lines)))
    study = cu.read(tmp_path / "samples.jsonl")
    assert study.ratings.frame.rows() == [
        ("qa/s", "m0", "loss", "", "0", 0.0),
        ("qa/s", "m1", "second", "", "2", 1.0),
        ("math/s", "m2", "r", "tone", "0", 2.0),
        ("s", "m3", "first", "", "0", 3.0),
    ]
    assert study.raters.kind == {"loss": "metric", "second": "human", "r": "metric", "first": "metric"}
    assert study.raters.direction == {"loss": -1, "second": 1, "r": 1, "first": 1}
    assert outputs_of(study).texts.rows() == [("qa/s", "m0", "a"), ("qa/s", "m1", "two")]
    (tmp_path / "e2.json").unlink()  # without a second data set, the items have no name of a data set
    assert cu.read(tmp_path / "samples.jsonl").ratings.frame["item"].unique().to_list() == ["s"]


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
    message = (
        "samples.jsonl, line 1: this does not have the layout of an instance-level file of Every Eval Ever: Object "
        "missing required field `score` - at `$.evaluation`; it has the keys evaluation_id, model_id, evaluation_name, "
        "sample_id, interaction_type, input, output, messages and 1 more"
    )
    assert reading_error(path) == message
    (tmp_path / "run.json").write_text('{"evaluation_id": "e", "evaluation_results": 3}')
    assert reading_error(path) == (
        "run.json: this does not have the layout of an aggregate file of Every Eval Ever: Expected `array`, got `int` "
        "- at `$.evaluation_results`; it has the keys evaluation_id, evaluation_results"
    )


def test_convert_says_what_does_not_fit(tmp_path: Path, custodes: Run) -> None:
    battles = [{"item": 1, "model_a": "a", "model_b": "b", "winner": "model_a"}]
    pl.DataFrame(battles).write_csv(tmp_path / "battles.csv")
    into = f"{tmp_path / 'data'}/"
    ran = custodes("convert", str(tmp_path / "battles.csv"), "--to", "every-eval-ever", "-o", into)
    assert ran.status == 2
    assert "the verdicts (1) are left out" in ran.err
    assert "custodes: Every Eval Ever holds scores of outputs, but the input has no scores\n" in ran.err
    ran = custodes("convert", "demo", "--to", "every-eval-ever", "-o", str(tmp_path / "x.csv"))
    assert "give -o DIR/" in ran.err
