"""Runs of HELM: the folder of a run, a suite of runs, or several suites.

`helm-run` of HELM 0.2 to 0.5 writes three files to benchmark_output/runs/SUITE/RUN: `run_spec.json`,
`per_instance_stats.json` and, for the texts, `scenario_state.json`. The layouts are those of crfm-helm.readthedocs.io
and of the classes `RunSpec`, `ScenarioState`, `PerInstanceStats`, `Stat` and `MetricName` of HELM.
"""

from __future__ import annotations

from collections import Counter
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

    The name of a run without the model is the task, which is also the group. Only the test split is read. Trials with
    different training examples are repeats.
    """
    records = LogRecords(where=where)
    split_counts: Counter[str] = Counter()
    for folder in sorted(file.parent for file in files):
        file_names = [name for name in LAYOUTS if (folder / name).is_file()]
        missing_files = {SPEC, STATS}.difference(file_names)
        if missing_files:
            raise InputError(
                f"{where}: {folder.name} lacks {join_labels(sorted(missing_files))}; {FORMAT_NAME} needs {SPEC} and "
                f"{STATS}"
            )
        content_of_file = {name: records.load(folder / name, f"{folder.name}/{name}") for name in file_names}
        parsed_content_of_file = {
            name: parse_log(content_of_file[name], LAYOUTS[name], where=f"{folder.name}/{name}", what=FORMAT_NAME)
            for name in file_names
        }
        model, task = parsed_content_of_file[SPEC].adapter_spec.model, _without_model(parsed_content_of_file[SPEC].name)
        records.run(task, model, str(folder))
        for instance in parsed_content_of_file[STATS]:
            item = _item_label(task, instance.instance_id, instance.perturbation)
            for stat in instance.stats:
                if stat.name.split not in ("test", None):
                    split_counts[stat.name.split] += 1
                    continue
                records.groups.setdefault(item, task)
                records.score(item, model, stat.name.name, stat.mean, repeat=str(instance.train_trial_index))
        for request in parsed_content_of_file[STATE].request_states if STATE in parsed_content_of_file else ():
            instance = request.instance
            item = _item_label(task, instance.id, instance.perturbation)
            if request.reference_index is not None or item not in records.groups:
                continue  # a request that scores a single reference has no answer
            references = [reference.output.text for reference in instance.references if "correct" in reference.tags]
            records.sources.append((item, instance.input.text, list(filter(None, references))))
            if request.result and request.result.completions:
                records.texts.append((item, model, request.result.completions[0].text))
    notes = build_notes(
        (
            "other-splits",
            split_counts.total(),
            f"{where}: {split_counts.total()} statistics of other splits are not read ({join_labels(split_counts)})",
        ),
        (
            "direction-unknown",
            True,
            f"{where}: HELM does not record for which metrics lower is better, so higher counts as better; for "
            "metrics with the opposite direction, give a raters file with higher_is_better",
        ),
    )
    return records.study(notes=notes)


def _item_label(task: str, instance_id: Label, perturbation: Any) -> str:
    return f"{task}/{format_label(instance_id)}" + (f"/{perturbation.name}" if perturbation else "")


def _without_model(name: str) -> str:
    """The name of a run without the model arguments. This name is equal for runs of different models."""
    scenario, _, arguments = name.partition(":")
    other_arguments = [
        argument
        for argument in arguments.split(",")
        if argument and not argument.startswith(("model=", "model_deployment="))
    ]
    return f"{scenario}:{','.join(other_arguments)}" if other_arguments else scenario


READER = log_reader(
    "helm",
    what=FORMAT_NAME,
    patterns=[STATS],
    depth=4,
    contents=f"no folder that holds {STATS}",
    is_log=lambda file: file.name == STATS,
    make=read_helm,
)
