"""Damaged and mutated logs give a valid study or `CustodesError`, and no file is changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custodes.data.reading import read
from custodes.errors import CustodesError
from tests.data.readers import logs

ODD = (
    st.sampled_from([None, True, "", " ", "nan", "x", 0, -1, 2**70, 1e400, float("nan"), [], {}, [[]], {"a": [1]}])
    | st.sampled_from(["\ud800", "\x1b[2J", "é", "a/b", "9" * 5000, 10**400])
    | st.text(max_size=3)
    | st.integers()
    | st.floats()
)
Maker = Callable[[Path, Any], Path]


def write_lines(path: Path, value: Any) -> Path:
    lines = value if isinstance(value, list) else [value]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def helm(folder: Path, value: Any) -> Path:
    run = logs.write_helm(folder, [])
    for name, content in value.items() if isinstance(value, dict) else [("per_instance_stats.json", value)]:
        if "/" not in name and "\0" not in name and len(name) < 99 and name.endswith(".json"):
            logs.write_json(run / name, content)
    return run


def eval_file(folder: Path, value: Any) -> Path:
    try:
        return logs.write_eval(folder / "log.eval", value)
    except (TypeError, KeyError, AttributeError, ValueError, UserWarning):  # the value cannot even be packed as a log
        return logs.write_json(folder / "log.json", value)


SAMPLES = [logs.inspect_sample(1, "C"), logs.inspect_sample(2, {"a": 1, "b": "P"}, epoch=2)]
HELM = {
    "run_spec.json": {"name": "mmlu:subject=law,model=m", "adapter_spec": {"model": "org/m"}},
    "per_instance_stats.json": [
        logs.helm_instance("id1", logs.helm_stat("em", 1.0), perturbation={"name": "typos"}),
        logs.helm_instance("id2", logs.helm_stat("em", 0.5), logs.helm_stat("em", 0.5, "valid")),
    ],
    "scenario_state.json": {
        "request_states": [
            {
                "instance": {
                    "input": {"text": "q"},
                    "id": "id2",
                    "references": [{"output": {"text": "a"}, "tags": ["correct"]}],
                },
                "result": {"completions": [{"text": "answer"}]},
            }
        ]
    },
}
PROMPTS = [
    {"id": "1", "subset": "Math", "prompt": "q", "chosen": ["a"], "rejected": ["b", "c"]},
    {"id": 2, "subset": "Ties", "prompt": "r", "chosen": "i", "rejected": ["k"]},
]
SEEDS: dict[str, tuple[Any, Maker]] = {
    "inspect_ai": (logs.inspect_log(SAMPLES), lambda folder, value: logs.write_json(folder / "log.json", value)),
    "inspect_ai zip": (logs.inspect_log(SAMPLES), eval_file),
    "lm_eval": (
        [logs.lm_eval_sample(0, acc=1, bleu=[1]), logs.lm_eval_sample(1, filter="strict", acc=0.5)],
        lambda folder, value: write_lines(folder / "samples_task_2025-01-01T00-00-00.0.jsonl", value),
    ),
    "helm": (HELM, helm),
    "rewardbench2": (logs.rewardbench2(), lambda folder, value: logs.write_json(folder / "scores.json", value)),
    "rewardbench": (logs.rewardbench(), lambda folder, value: logs.write_json(folder / "scores.json", value)),
    "rewardbench2_data": (PROMPTS, lambda folder, value: logs.write_json(folder / "data.json", value)),
}


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path to every value inside a nested one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for name, child in inner for place in places(child, (*at, name)))]


@st.composite
def mutated(draw: st.DrawFn, seed: Any) -> Any:
    """Draw a copy of a nested value with some parts replaced, removed, duplicated or renamed."""
    value = deepcopy(seed)
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(places(value)))
        if not way:
            continue
        holder = value
        for name in way[:-1]:
            holder = holder[name]
        last, change = way[-1], draw(st.integers(0, 9))
        if change == 0:
            del holder[last]
        elif change == 1 and isinstance(holder, list):
            holder.append(deepcopy(holder[last]))
        elif change == 2 and isinstance(holder, dict):
            holder[draw(st.text(max_size=3))] = holder.pop(last)
        else:
            holder[last] = deepcopy(draw(ODD))
    return value


def try_reading(path: Path, reader: str | None, invalid: str) -> None:
    files = [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    before = {file: file.read_bytes() for file in files}
    try:
        study = read(path, reader=reader, invalid=invalid)  # type: ignore[arg-type]
    except CustodesError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most mutations are refused, with a one-line error
    else:
        assert study.ratings.frame["score"].is_finite().all()
        assert study.ratings.frame.height or study.preferences.frame.height
        labels = study.ratings.frame.select("system", "rater")
        assert not (labels == "").sum().sum_horizontal().item()
    assert {file: file.read_bytes() for file in files} == before


EXAMPLES = pytest.mark.parametrize("examples", [20, pytest.param(10_000, marks=pytest.mark.slow)])


@EXAMPLES
@pytest.mark.parametrize("name", SEEDS)
def test_mutated_logs(name: str, examples: int) -> None:
    seed, write = SEEDS[name]
    reader = {"rewardbench": "rewardbench2", "inspect_ai zip": "inspect_ai"}.get(name, name)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(value=mutated(seed), forced=st.booleans(), invalid=st.sampled_from(["error", "drop"]))
    def mutations(value: Any, forced: bool, invalid: str) -> None:
        with TemporaryDirectory() as folder:
            try:
                path = write(Path(folder), value)
            except ValueError:  # a number that Python cannot serialise
                return
            try_reading(path, reader if forced else None, invalid)

    mutations()


@EXAMPLES
@pytest.mark.parametrize("name", SEEDS)
def test_damaged_logs(name: str, examples: int) -> None:
    seed, write = SEEDS[name]
    with TemporaryDirectory() as base_folder:
        whole = write(Path(base_folder), deepcopy(seed))

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(
            edits=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
            cut=st.none() | st.integers(0, 10**6),
            which=st.integers(0, 9),
        )
        def damage(edits: list[tuple[int, bytes, int]], cut: int | None, which: int) -> None:
            with TemporaryDirectory() as folder:
                path = Path(folder) / whole.name
                (shutil.copytree if whole.is_dir() else shutil.copy)(whole, path)
                files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
                file = files[which % len(files)]
                data = file.read_bytes()
                for at, new, old in edits:
                    at %= len(data) + 1
                    data = data[:at] + new + data[at + old :]
                file.write_bytes(data if cut is None else data[: cut % (len(data) + 1)])
                try_reading(path, None, "error")

        damage()


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_read(name: str, tmp_path: Path) -> None:
    seed, write = SEEDS[name]
    assert read(write(tmp_path, deepcopy(seed))).metrics or name == "rewardbench2_data"
