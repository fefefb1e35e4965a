"""Runs of HELM: the folder of a run, a suite of runs, or several suites.

`helm-run` of HELM 0.2 to 0.5 writes three files to benchmark_output/runs/SUITE/RUN: `run_spec.json`,
`per_instance_stats.json` and, for the texts, `scenario_state.json`. The layouts are those of crfm-helm.readthedocs.io
and of the classes `RunSpec`, `ScenarioState`, `PerInstanceStats`, `Stat` and `MetricName` of HELM.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from custodes.data.notes import build_notes
from custodes.data.readers.logs import Label, LogRecords, format_label, layout_type, log_reader, parse_log
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, join_labels

FORMAT_NAME = "a run of HELM"
SPEC, STATS, STATE = "run_spec.json", "per_instance_stats.json", "scenario_state.json"
TEXT = {"text": (str, "")}
LAYOUTS = {
    SPEC: layout_type({"name": str, "adapter_spec": {"model": str}}),
    STATS: layout_type(
        [
            {
                "instance_id": Label,
                "stats": [{"name": {"name": str, "split": (str, None)}, "mean": (float, None)}],
                "perturbation": ({"name": str}, None),
                "train_trial_index": (int, 0),
            }
        ]
    ),
    STATE: layout_type(
        {
            "request_states": (
                [
                    {
                        "instance": {
                            "input": TEXT,
                            "id": (Label, ""),
                            "references": ([{"output": TEXT, "tags": ([str], [])}], []),
                            "perturbation": ({"name": str}, None),
                        },
                        "reference_index": (int, None),
                        "result": ({"completions": ([TEXT], [])}, None),
                    }
                ],
                [],
            )
        }
    ),
}
"""The files of a run; the last one may be missing."""


def read_helm(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores. The item is run/instance (or run/instance/perturbation), the system is the model, and the
    rater is the name of the statistic.

    The task, which is also the group, is the name of the run without the model. Only the test split is read. Trials
    with different training examples are repeats.
    """
    log_records = LogRecords(where=where)
    for folder in sorted(file.parent for file in files):
        present_file_names = [file_name for file_name in LAYOUTS if (folder / file_name).is_file()]
        missing_file_names = {SPEC, STATS}.difference(present_file_names)
        if missing_file_names:
            raise InputError(
                f"{where}: {folder.name} lacks {join_labels(sorted(missing_file_names))}; {FORMAT_NAME} needs {SPEC} "
                f"and {STATS}"
            )
        parsed_object_of_file = {
            file_name: parse_log(
                log_records.load(folder / file_name, f"{folder.name}/{file_name}"),
                LAYOUTS[file_name],
                where=f"{folder.name}/{file_name}",
                what=FORMAT_NAME,
            )
            for file_name in present_file_names
        }
        run_spec = parsed_object_of_file[SPEC]
        model_name, task_name = run_spec.adapter_spec.model, _without_model(run_spec.name)
        log_records.run(task_name, model_name, str(folder))
        for instance_stats in parsed_object_of_file[STATS]:
            item_label = _item_label(task_name, instance_stats.instance_id, instance_stats.perturbation)
            for statistic in instance_stats.stats:
                if statistic.name.split not in ("test", None):
                    continue
                log_records.groups.setdefault(item_label, task_name)
                log_records.score(
                    item_label,
                    model_name,
                    statistic.name.name,
                    statistic.mean,
                    repeat=str(instance_stats.train_trial_index),
                )
        for request_state in parsed_object_of_file[STATE].request_states if STATE in parsed_object_of_file else ():
            instance = request_state.instance
            item_label = _item_label(task_name, instance.id, instance.perturbation)
            if request_state.reference_index is not None or item_label not in log_records.groups:
                continue  # a request that scores a single reference has no answer
            log_records.sources.append(
                (
                    item_label,
                    instance.input.text,
                    list(
                        filter(
                            None,
                            [reference.output.text for reference in instance.references if "correct" in reference.tags],
                        )
                    ),
                )
            )
            if request_state.result and request_state.result.completions:
                log_records.texts.append((item_label, model_name, request_state.result.completions[0].text))
    return log_records.study(
        notes=build_notes(
            (
                "direction-unknown",
                True,
                f"{where}: HELM does not record for which metrics lower is better, so higher counts as better; for "
                "metrics with the opposite direction, give a raters file with higher_is_better",
            ),
        )
    )


def _item_label(task: str, instance_id: Label, perturbation: Any) -> str:
    return f"{task}/{format_label(instance_id)}" + (f"/{perturbation.name}" if perturbation else "")


def _without_model(run_name: str) -> str:
    """The name of a run without the model arguments. This name is equal for runs of different models."""
    scenario_name, _, arguments_text = run_name.partition(":")
    other_arguments_text = ",".join(
        argument
        for argument in arguments_text.split(",")
        if argument and not argument.startswith(("model=", "model_deployment="))
    )
    return f"{scenario_name}:{other_arguments_text}" if other_arguments_text else scenario_name


READER = log_reader(
    "helm",
    what=FORMAT_NAME,
    patterns=[STATS],
    depth=4,
    missing_contents=f"no folder that holds {STATS}",
    is_log=lambda file: file.name == STATS,
    make=read_helm,
)
