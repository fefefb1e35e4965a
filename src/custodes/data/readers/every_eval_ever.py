"""Every Eval Ever: JSON Lines with one line per sample and metric, and an aggregate JSON file in the same folder.

Layout of version 0.3.0 of the schema (`eval.schema.json`, `instance_level_eval.schema.json`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from custodes.data.readers.logs import LogRecords, laid_out, layout, log_bytes, log_reader, parsed, top_keys
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study

WHAT = "an instance-level file of Every Eval Ever"
SAMPLES = "_samples.jsonl"
"""Suffix of such files written by custodes."""

SAMPLE = layout(
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
RESULTS = layout(
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
    records = LogRecords(where=where)
    results = _results({file.parent for file in files})
    datasets = {result.source_data.dataset_name for result in results.values()}
    for file in files:
        for number, line in enumerate(records.load(file, file.name).split(b"\n"), start=1):
            if line.strip():
                place = f"{file.name}, line {number}"
                record = parsed(line, dict[str, Any], where=place, what=WHAT)
                _add(records, laid_out(record, SAMPLE, where=place, what=WHAT), results, several=len(datasets) > 1)
    return records.study()


def _add(records: LogRecords, sample: Any, results: dict[tuple[str, str], Any], *, several: bool) -> None:
    """Add the score and the texts in one line to the records."""
    names = (sample.evaluation_result_id, sample.evaluation_name)
    result = next((results[key] for name in names if (key := (sample.evaluation_id, name)) in results), None)
    details = {} if result is None else result.metric_config.additional_details
    metric = None if result is None else result.metric_config.metric_name
    rater = details.get("rater") or metric or sample.evaluation_name
    item = f"{result.source_data.dataset_name}/{sample.sample_id}" if several and result else sample.sample_id
    repeat = str((sample.metadata or {}).get("repeat", "0"))
    records.kinds.setdefault(rater, details.get("kind", "metric"))
    aspect = details.get("aspect", "")
    records.scores.append((item, sample.model_id, rater, aspect, repeat, sample.evaluation.score))
    if result is not None and result.metric_config.lower_is_better:
        records.lower.add(rater)
    turns = [turn.content for turn in sample.messages or [] if turn.role == "assistant" and turn.content]
    texts = list(sample.output.raw) if sample.output else turns[-1:]
    records.texts.append((item, sample.model_id, texts[0] if texts and texts[0] else None))
    records.sources.append((item, sample.input.raw or "", list(sample.input.reference)))


def _results(folders: set[Path]) -> dict[tuple[str, str], Any]:
    """The aggregate results in the folders, by evaluation and by id or name of the result."""
    results: dict[tuple[str, str], Any] = {}
    for path in (path for folder in sorted(folders) for path in sorted(folder.glob("*.json"))):
        if {"evaluation_id", "evaluation_results"} <= top_keys(path):
            run = parsed(log_bytes(path), RESULTS, where=path.name, what="an aggregate file of Every Eval Ever")
            for result in run.evaluation_results:
                for name in filter(None, (result.evaluation_name, result.evaluation_result_id)):
                    results[run.evaluation_id, name] = result
    return results


def _is_log(file: Path) -> bool:
    if file.suffix != ".jsonl" or not file.is_file():
        return False
    with file.open("rb") as stream:
        head = stream.read(2**20)
    keys = (b'"evaluation_id"', b'"model_id"', b'"sample_id"', b'"interaction_type"')
    return all(key in head for key in keys)


READER = log_reader(
    "every_eval_ever",
    what=WHAT,
    patterns=[f"{depth}*.jsonl" for depth in ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/")],
    contents="no .jsonl file with evaluation_id, model_id and sample_id",
    is_log=_is_log,
    make=read_every_eval_ever,
)
