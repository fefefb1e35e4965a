"""Runs of HELM: the folder of a run, a suite of runs, or several suites.

Layout: what `helm-run` of HELM 0.2 to 0.5 writes to benchmark_output/runs/SUITE/RUN (crfm-helm.readthedocs.io, and the
classes `RunSpec`, `ScenarioState`, `PerInstanceStats`, `Stat`, `MetricName` there): `run_spec.json`,
`per_instance_stats.json` and, for the texts, `scenario_state.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from custodes.data.notes import noted
from custodes.data.readers.logs import Label, LogRecords, label, log_reader, parsed
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, listed
from custodes.sealed import layout

WHAT = "a run of HELM"
SPEC, STATS, STATE = "run_spec.json", "per_instance_stats.json", "scenario_state.json"


@layout
class _Adapter(msgspec.Struct):
    model: str


@layout
class _Spec(msgspec.Struct):
    name: str
    adapter_spec: _Adapter


@layout
class _Perturbation(msgspec.Struct):
    name: str


@layout
class _Name(msgspec.Struct):
    name: str
    split: str | None = None


@layout
class _Stat(msgspec.Struct):
    name: _Name
    mean: float | None = None


@layout
class _Instance(msgspec.Struct):
    instance_id: Label
    stats: list[_Stat]
    perturbation: _Perturbation | None = None
    train_trial_index: int = 0


@layout
class _Text(msgspec.Struct):
    text: str = ""


@layout
class _Reference(msgspec.Struct):
    output: _Text
    tags: list[str] = []


@layout
class _RequestInstance(msgspec.Struct):
    input: _Text
    id: Label = ""
    references: list[_Reference] = []
    perturbation: _Perturbation | None = None


@layout
class _Result(msgspec.Struct):
    completions: list[_Text] = []


@layout
class _Request(msgspec.Struct):
    instance: _RequestInstance
    reference_index: int | None = None
    result: _Result | None = None


@layout
class _State(msgspec.Struct):
    request_states: list[_Request] = []


def read_helm(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores: item = run/instance (run/instance/perturbation), system = model, rater = name of the stat.

    A run is called by its name without the model, which is also the group. Only the test split is read. Trials with
    other training examples are repeats.
    """
    records = LogRecords(where=where)
    splits: Counter[str] = Counter()
    for folder in sorted(file.parent for file in files):
        names = [name for name in (SPEC, STATS, STATE) if (folder / name).is_file()]
        missing = [name for name in (SPEC, STATS) if name not in names]
        if missing:
            raise InputError(f"{where}: {folder.name} lacks {listed(missing)}; {WHAT} holds {SPEC} and {STATS}")
        data = {name: records.load(folder / name, f"{folder.name}/{name}") for name in names}
        spec = parsed(data[SPEC], _Spec, where=f"{folder.name}/{SPEC}", what=WHAT)
        model, task = spec.adapter_spec.model, _without_model(spec.name)
        records.run(task, model, str(folder))
        for instance in parsed(data[STATS], list[_Instance], where=f"{folder.name}/{STATS}", what=WHAT):
            item = _item(task, instance.instance_id, instance.perturbation)
            for stat in instance.stats:
                if stat.name.split not in ("test", None):
                    splits[str(stat.name.split)] += 1
                    continue
                records.groups.setdefault(item, task)
                records.score(item, model, stat.name.name, stat.mean, repeat=str(instance.train_trial_index))
        if STATE in data:
            _add_texts(parsed(data[STATE], _State, where=f"{folder.name}/{STATE}", what=WHAT), task, model, records)
    notes = noted(
        (
            "other-splits",
            splits.total(),
            f"{where}: {splits.total()} stats of other splits are not read ({listed(splits)})",
        ),
        (
            "direction-unknown",
            True,
            f"{where}: a run does not say of which stats less is better: more is taken to be better; a raters file can"
            " say otherwise (higher_is_better)",
        ),
    )
    return records.study(notes=notes)


def _add_texts(state: _State, task: str, model: str, records: LogRecords) -> None:
    """Sources and the model's answers; requests that score one reference each hold no answer."""
    for request in state.request_states:
        instance = request.instance
        item = _item(task, instance.id, instance.perturbation)
        if request.reference_index is not None or item not in records.groups:
            continue
        references = [reference.output.text for reference in instance.references if "correct" in reference.tags]
        records.source(item, instance.input.text, references)
        if request.result and request.result.completions:
            records.text(item, model, request.result.completions[0].text)


def _item(task: str, instance: Label, perturbation: _Perturbation | None) -> str:
    return f"{task}/{label(instance)}" + (f"/{perturbation.name}" if perturbation else "")


def _without_model(name: str) -> str:
    """The name of a run without the arguments that name its model: runs of other models have the same."""
    scenario, _, arguments = name.partition(":")
    others = [word for word in arguments.split(",") if word and not word.startswith(("model=", "model_deployment="))]
    return f"{scenario}:{','.join(others)}" if others else scenario


READER = log_reader(
    "helm",
    what=WHAT,
    patterns=[f"{depth}{STATS}" for depth in ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/")],
    contents=f"no folder that holds {STATS}",
    is_log=lambda file: file.name == STATS,
    make=read_helm,
)
