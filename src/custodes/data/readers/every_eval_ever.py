"""Every Eval Ever: JSON Lines with one line per sample and metric, and an aggregate JSON file in the same folder.

Layout of version 0.3.0 of the schema (`eval.schema.json`, `instance_level_eval.schema.json`). This module also writes
this layout.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import polars as pl

from custodes.data.outputs import SCHEMA, SOURCES, Outputs
from custodes.data.readers.logs import (
    LogRecords,
    has_keys,
    layout_type,
    log_bytes,
    log_reader,
    parse_log,
)
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.files import make_folder, write_atomically

FORMAT_NAME = "an instance-level file of Every Eval Ever"
VERSION = "0.3.0"
"""Version of the schema."""
UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}

SAMPLE = layout_type(
    {
        "evaluation_id": str,
        "model_id": str,
        "evaluation_name": str,
        "evaluation_result_id": (str, None),
        "sample_id": str,
        "input": {"raw": (str, None), "reference": ([str], [])},
        "output": ({"raw": ([str], [])}, None),
        "messages": ([{"role": str, "content": (str, None)}], None),
        "evaluation": {"score": float},
        "metadata": ({str: Any}, None),
    }
)
RESULTS = layout_type(
    {
        "evaluation_id": str,
        "evaluation_results": [
            {
                "evaluation_name": str,
                "evaluation_result_id": (str, None),
                "source_data": {"dataset_name": (str, "")},
                "metric_config": {
                    "lower_is_better": (bool, False),
                    "metric_name": (str, None),
                    "additional_details": ({str: str}, {}),
                },
            }
        ],
    }
)


def read_every_eval_ever(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores. The item is the sample, the system is the model, and the rater is the metric.

    The aggregate file names the metric; without an aggregate file, the rater is the name of the evaluation.
    """
    log_records = LogRecords(where=where)
    result_of_evaluation_and_name = _results({file.parent for file in files})
    dataset_names = {
        aggregate_result.source_data.dataset_name for aggregate_result in result_of_evaluation_and_name.values()
    }
    for sample in (
        sample for file in files for _, sample in log_records.lines(file, file.name, SAMPLE, what=FORMAT_NAME)
    ):
        aggregate_result = next(
            (
                result_of_evaluation_and_name[evaluation_and_name]
                for result_name in (sample.evaluation_result_id, sample.evaluation_name)
                if (evaluation_and_name := (sample.evaluation_id, result_name)) in result_of_evaluation_and_name
            ),
            None,
        )
        metric_details = {} if aggregate_result is None else aggregate_result.metric_config.additional_details
        metric_name = None if aggregate_result is None else aggregate_result.metric_config.metric_name
        rater_name = metric_details.get("rater") or metric_name or sample.evaluation_name
        item_label = (
            f"{aggregate_result.source_data.dataset_name}/{sample.sample_id}"
            if len(dataset_names) > 1 and aggregate_result
            else sample.sample_id
        )
        log_records.kinds.setdefault(rater_name, metric_details.get("kind", "metric"))
        log_records.scores.append(
            (
                item_label,
                sample.model_id,
                rater_name,
                metric_details.get("aspect", ""),
                str((sample.metadata or {}).get("repeat", "0")),
                sample.evaluation.score,
            )
        )
        if aggregate_result is not None and aggregate_result.metric_config.lower_is_better:
            log_records.lower.add(rater_name)
        answer_texts = [turn.content for turn in sample.messages or [] if turn.role == "assistant" and turn.content]
        output_texts = sample.output.raw[:1] if sample.output else answer_texts[-1:]
        log_records.texts.append((item_label, sample.model_id, "".join(output_texts) or None))
        log_records.sources.append((item_label, sample.input.raw or "", list(sample.input.reference)))
    return log_records.study()


def _results(folders: set[Path]) -> dict[tuple[str, str], Any]:
    """The aggregate results in the folders, by evaluation and by id or name of the result."""
    result_of_evaluation_and_name: dict[tuple[str, str], Any] = {}
    for json_path in (json_path for folder in sorted(folders) for json_path in sorted(folder.glob("*.json"))):
        if has_keys(json_path, "evaluation_id", "evaluation_results"):
            aggregate = parse_log(
                log_bytes(json_path), RESULTS, where=json_path.name, what="an aggregate file of Every Eval Ever"
            )
            for result in aggregate.evaluation_results:
                result_of_evaluation_and_name |= {
                    (aggregate.evaluation_id, result_name): result
                    for result_name in (result.evaluation_name, result.evaluation_result_id)
                    if result_name
                }
    return result_of_evaluation_and_name


def write_every_eval_ever(study: Study, into: Path) -> Iterator[Path]:
    """Write two files for each system of a study with scores, in the layout of the public data.

    The files are `BENCHMARK/DEVELOPER/MODEL/UUID.json` and `UUID_samples.jsonl` in the folder `into`.

    Each score of an output is one line. The details of the metric have the rater, the aspect and the kind. Unknown
    texts are empty. Verdicts are not written, because the schema contains only scores.
    """
    rating_rows_with_item = study.ratings.frame.filter(pl.col("item") != "")
    if not rating_rows_with_item.height:
        raise OptionError("Every Eval Ever holds scores of outputs, but the input has no scores")
    for aspect, scale in study.labels.items():
        if scale.ordered:  # scores are codes
            is_label_code = (pl.col("aspect") == aspect) & ~pl.col("rater").is_in(list(scale.scores))
            rating_rows_with_item = rating_rows_with_item.with_columns(
                score=pl.when(is_label_code)
                .then(pl.col("score").replace({float(code): float(word) for code, word in enumerate(scale.words)}))
                .otherwise("score")
            )
    outputs = study.outputs or Outputs(texts=pl.DataFrame(schema=SCHEMA), sources=pl.DataFrame(schema=SOURCES))
    text_of_item_and_system = {(item, system_name): text for item, system_name, text in outputs.texts.iter_rows()}
    source_row_of_item = {source_row["item"]: source_row for source_row in outputs.sources.iter_rows(named=True)}
    timestamp = f"{time.time():.0f}"
    for (system_name,), system_rows in rating_rows_with_item.group_by("system", maintain_order=True):
        evaluation_id = f"{study.name}/{system_name}/{timestamp}"
        developer, _, model_name = str(system_name).rpartition("/")
        relative_path = "/".join(
            re.sub(r"[^\w.-]+", "_", path_part).strip(".") or "unknown"
            for path_part in (
                (
                    study.name,
                    developer or "unknown",
                    model_name,
                    str(UUID(bytes=hashlib.sha256(evaluation_id.encode()).digest()[:16], version=4)),
                )
            )
        )
        sample_objects = [
            _format_sample(
                rating_row,
                evaluation_id,
                text_of_item_and_system.get((rating_row["item"], rating_row["system"]), ""),
                source_row_of_item.get(rating_row["item"], {}),
            )
            for rating_row in system_rows.iter_rows(named=True)
        ]
        sample_bytes = b"".join(msgspec.json.encode(sample_object) + b"\n" for sample_object in sample_objects)
        aggregate_object = _format_aggregate(study, system_rows, evaluation_id, timestamp) | {
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": f"data/{relative_path}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(sample_bytes).hexdigest(),
                "total_rows": len(sample_objects),
            }
        }
        path_without_suffix = make_folder(into / Path(relative_path).parent) / Path(relative_path).name
        yield write_atomically(f"{path_without_suffix}_samples.jsonl", sample_bytes)
        yield write_atomically(f"{path_without_suffix}.json", msgspec.json.encode(aggregate_object))


def _result_name(row: dict[str, Any]) -> str:
    return f"{row['rater']}/{row['aspect']}" if row["aspect"] else str(row["rater"])


def _format_sample(
    rating_row: dict[str, Any], evaluation_id: str, text: str, source_row: dict[str, Any]
) -> dict[str, Any]:
    """The line of one score."""
    return {
        "schema_version": VERSION,
        "evaluation_id": evaluation_id,
        "model_id": rating_row["system"],
        "evaluation_name": _result_name(rating_row),
        "evaluation_result_id": f"{evaluation_id}/{_result_name(rating_row)}",
        "sample_id": rating_row["item"],
        "interaction_type": "single_turn",
        "input": {"raw": source_row.get("source", ""), "reference": list(source_row.get("references", []))},
        "output": {"raw": [text]},
        "answer_attribution": [],
        "evaluation": {"score": rating_row["score"], "is_correct": rating_row["score"] == 1},
        **({"metadata": {"repeat": rating_row["repeat"]}} if rating_row["repeat"] != "0" else {}),
    }


def _format_aggregate(study: Study, rating_rows: pl.DataFrame, evaluation_id: str, timestamp: str) -> dict[str, Any]:
    """The aggregate of one system: the mean of each rater and aspect."""
    system_name = rating_rows["system"][0]
    mean_table = (
        rating_rows.group_by("rater", "aspect", maintain_order=True)
        .agg(pl.col("score").mean(), pl.len())
        .join(study.raters.frame, on="rater", how="left", maintain_order="left")
    )
    evaluation_results = [
        {
            "evaluation_result_id": f"{evaluation_id}/{_result_name(row)}",
            "evaluation_name": _result_name(row),
            "source_data": {"dataset_name": study.name, "source_type": "other"},
            "metric_config": {
                "metric_name": _result_name(row),
                "lower_is_better": not row["higher_is_better"],
                "score_type": "continuous",
                "min_score": "-Infinity" if row["low"] is None else row["low"],
                "max_score": "Infinity" if row["high"] is None else row["high"],
                "additional_details": {name: row[name] for name in ("rater", "aspect", "kind") if row[name]},
            },
            "score_details": {"score": row["score"], "uncertainty": {"num_samples": row["len"]}},
        }
        for row in mean_table.iter_rows(named=True)
    ]
    return {
        "schema_version": VERSION,
        "evaluation_id": evaluation_id,
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_name": study.name,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "custodes", "version": version("custodes")},
        "model_info": {
            "name": system_name,
            "id": system_name,
            "developer": system_name.rpartition("/")[0] or "unknown",
            "additional_details": UNKNOWN,
        },
        "evaluation_results": evaluation_results,
    }


READER = log_reader(
    "every_eval_ever",
    what=FORMAT_NAME,
    patterns=["*.jsonl"],
    depth=4,
    missing_contents="no .jsonl file with evaluation_id, model_id and sample_id",
    is_log=lambda file: (
        file.suffix == ".jsonl" and has_keys(file, "evaluation_id", "model_id", "sample_id", "interaction_type")
    ),
    make=read_every_eval_ever,
)
