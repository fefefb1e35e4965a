"""Samples of lm-evaluation-harness: `samples_TASK_DATE.jsonl`, or a folder with one folder per model.

`lm_eval --output_path DIR --log_samples` writes DIR/MODEL/samples_TASK_DATE.jsonl and DIR/MODEL/results_DATE.json. The
layout is that of versions 0.4.3 to 0.4.9 of lm-evaluation-harness (`docs/interface.md` and `EvaluationTracker`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from custodes.data.notes import build_notes
from custodes.data.readers.logs import (
    Label,
    LogRecords,
    format_label,
    has_keys,
    layout_type,
    log_bytes,
    log_reader,
    parse_log,
    parse_number,
)
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, join_labels

FORMAT_NAME = "samples of lm-evaluation-harness"
NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl")
NON_METRIC_KEYS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash", "input"),
}
"""Keys of a sample that are not metrics."""


SAMPLE = layout_type(
    {
        "doc_id": Label,
        "resps": list[Any],
        "target": (Any, None),
        "arguments": (Any, None),
        "filter": (str, ""),
        "metrics": ([str], None),
    }
)
RESULTS = layout_type({"model_name": (str, None), "higher_is_better": (dict[str, dict[str, bool | None]], {})})


def read_lm_eval(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores. The item is task/doc_id, the system is the model, and the rater is the metric (or
    metric/filter).

    The group is the task. A filter is a step that processes answers before they are scored. The results file of the run
    gives the model and the directions. Without a results file, the system is the name of the folder and higher is
    better.
    """
    log_records = LogRecords(where=where)
    is_higher_better_of_rater: dict[str, bool] = {}
    systems_named_after_folders: dict[str, None] = {}
    non_number_count_of_metric: Counter[str] = Counter()
    latest_file_of_folder_and_task = {
        (file.parent, _task_name(file)): file
        for file in sorted(files)  # in the order of their dates
    }
    older_files = set(files).difference(latest_file_of_folder_and_task.values())
    for (_, task_name), file in latest_file_of_folder_and_task.items():
        run_results = _results(file)
        model_name = run_results.model_name or file.resolve().parent.name
        if not run_results.model_name:
            systems_named_after_folders[model_name] = None
        is_higher_better_of_metric = run_results.higher_is_better.get(task_name, {})
        metric_of_rater = _add_samples(file, task_name, model_name, log_records, non_number_count_of_metric)
        for rater_name, metric_name in metric_of_rater.items():
            is_higher_better = is_higher_better_of_metric.get(metric_name.split("/")[0])
            if is_higher_better is None:
                continue
            if is_higher_better_of_rater.setdefault(rater_name, is_higher_better) != is_higher_better:
                raise InputError(
                    f"{where}: higher is better for {rater_name} in one task and lower is better in another "
                    f"({task_name}); read these tasks separately"
                )
    log_records.lower = {rater for rater, is_higher_better in is_higher_better_of_rater.items() if not is_higher_better}
    return log_records.study(
        notes=build_notes(
            (
                "older-runs",
                len(older_files),
                f"{where}: only the last of several runs is read; these files are not read: "
                f"{join_labels(file.name for file in sorted(older_files))}",
            ),
            (
                "system-from-folder",
                len(systems_named_after_folders),
                f"{where}: no results file names the model, so systems are named after their folders: "
                f"{join_labels(systems_named_after_folders)}",
            ),
            (
                "score-not-number",
                non_number_count_of_metric.total(),
                f"{where}: {non_number_count_of_metric.total()} values are not single numbers and were dropped "
                f"({join_labels(non_number_count_of_metric)})",
            ),
        )
    )


def _add_samples(
    file: Path, task: str, model: str, log_records: LogRecords, non_number_count_of_metric: Counter[str]
) -> dict[str, str]:
    """Add the lines of one file to the records. Return, for each rater, the name of its metric in the file."""
    metric_of_rater: dict[str, str] = {}
    for record, sample in log_records.lines(file, f"{model}/{file.name}", SAMPLE, what=FORMAT_NAME):
        item_label = f"{task}/{format_label(sample.doc_id)}"
        log_records.groups.setdefault(item_label, task)
        log_records.texts.append((item_label, model, _text(sample.resps)))
        references = [sample.target] if isinstance(sample.target, str) and sample.target else []
        log_records.sources.append((item_label, _prompt(sample.arguments), references))
        filter_suffix = "" if sample.filter in ("", "none") else f"/{sample.filter}"
        for metric_name in sample.metrics or [field_name for field_name in record if field_name not in NON_METRIC_KEYS]:
            score_number = parse_number(record.get(metric_name))
            if score_number is None and record.get(metric_name) is not None:
                non_number_count_of_metric[metric_name] += 1
            else:
                log_records.score(item_label, model, metric_name + filter_suffix, score_number)
                metric_of_rater[metric_name + filter_suffix] = metric_name
    if not metric_of_rater and not non_number_count_of_metric:
        raise InputError(
            f"{file.name}: no line has a metric; a metric is any key other than "
            f"{join_labels(sorted(NON_METRIC_KEYS), limit=3)}"
        )
    return metric_of_rater


def _text(responses: list[Any]) -> str | None:
    """The answer that the model generated. None for multiple choice, where the model only computes likelihoods."""
    first_response = responses[0] if responses else None
    while isinstance(first_response, list) and len(first_response) == 1:
        first_response = first_response[0]
    return first_response if isinstance(first_response, str) else None


def _prompt(arguments: Any) -> str:
    for argument_key in ("gen_args_0", "arg_0"):
        arguments = arguments.get(argument_key) if isinstance(arguments, dict) else None
    return arguments if isinstance(arguments, str) else ""


def _task_name(file: Path) -> str:
    name_match = NAME.fullmatch(file.name)
    return name_match["task"] if name_match else file.stem


def _results(file: Path) -> Any:
    """The results file that belongs to a sample file: the results file of the same date or, if there is none, the last
    results file in the folder."""
    name_match = NAME.fullmatch(file.name)
    results_paths = sorted(file.parent.glob("results_*.json"))
    preferred_paths = [
        results_path
        for results_path in results_paths
        if name_match and results_path.name == f"results_{name_match['date']}.json"
    ] or results_paths
    if not preferred_paths:
        return RESULTS()
    return parse_log(
        log_bytes(preferred_paths[-1]), RESULTS, where=preferred_paths[-1].name, what="results of lm-evaluation-harness"
    )


READER = log_reader(
    "lm_eval",
    what=FORMAT_NAME,
    patterns=["samples_*.jsonl"],
    depth=2,
    missing_contents="no file samples_TASK_DATE.jsonl",
    is_log=lambda file: NAME.fullmatch(file.name) is not None and has_keys(file, "doc_id", "resps"),
    make=read_lm_eval,
)
