"""HELM runs: a folder, a suite, perturbations, trials and incomplete folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from custodes.data.reading import read
from tests.data.input_errors import reading_error
from tests.data.readers.logs import MODELS, helm_instance, helm_stat, write_helm, write_json
from tests.data.study_parts import note_counts, note_messages, outputs_of

INSTANCES = [
    helm_instance(
        "id1", helm_stat("f1_score", 1.0, "valid"), helm_stat("exact_match", 1.0), helm_stat("f1_score", 0.5)
    ),
    helm_instance("id1", helm_stat("exact_match", 0.0), perturbation={"name": "typos", "computed_on": "perturbed"}),
    helm_instance("id2", helm_stat("exact_match", 0.0), helm_stat("f1_score", None)),
    helm_instance("id2", helm_stat("exact_match", 1.0), trial=1),
]


def test_a_run(tmp_path: Path) -> None:
    folder = write_helm(tmp_path, INSTANCES)
    study = read(folder)
    assert study.ratings.frame.select("item", "system", "rater", "repeat", "score").rows() == [
        ("mmlu:subject=law/id1", MODELS[0], "exact_match", "0", 1.0),
        ("mmlu:subject=law/id1", MODELS[0], "f1_score", "0", 0.5),
        ("mmlu:subject=law/id1/typos", MODELS[0], "exact_match", "0", 0.0),
        ("mmlu:subject=law/id2", MODELS[0], "exact_match", "0", 0.0),
        ("mmlu:subject=law/id2", MODELS[0], "exact_match", "1", 1.0),
    ]
    assert set(study.items.frame["group"]) == {"mmlu:subject=law"}
    assert outputs_of(study).texts.row(0) == ("mmlu:subject=law/id1", MODELS[0], f"answer of {MODELS[0]}")
    assert outputs_of(study).sources.row(0)[:3] == ("mmlu:subject=law/id1", "question id1", ["yes"])
    assert note_counts(study) == {"direction-unknown": 0, "missing-score": 1}
    assert note_messages(study) == {
        "direction-unknown": "HELM does not record for which metrics lower is better, so higher counts as better; for "
        "metrics with the opposite direction, give a raters file with higher_is_better",
        "missing-score": "1 scores are missing and count as not rated",
    }
    assert read(folder / "per_instance_stats.json").ratings.frame.equals(study.ratings.frame)


@pytest.mark.parametrize("depth", ["", "runs", "benchmark_output/runs"])
def test_a_suite_of_models_and_scenarios(depth: str, tmp_path: Path) -> None:
    for model in MODELS:
        for scenario in ("mmlu:subject=law", "gsm"):
            write_helm(tmp_path / depth / "v1", INSTANCES[:1], model=model, scenario=scenario)
    study = read(tmp_path)
    assert study.systems == MODELS
    assert set(study.items.frame["group"]) == {"mmlu:subject=law", "gsm"}
    assert study.ratings.frame.height == 8


@pytest.mark.parametrize(
    ("scenario", "task"),
    [("gsm:model_deployment=x,k=1", "gsm:k=1"), ("gsm:model_deployment=x", "gsm"), ("a:b=c:d,e", "a:b=c:d,e")],
)
def test_the_task_is_the_name_of_the_run_without_the_model(tmp_path: Path, scenario: str, task: str) -> None:
    assert set(read(write_helm(tmp_path, INSTANCES, scenario=scenario)).items.frame["group"]) == {task}


def test_one_run_in_two_suites_is_refused(tmp_path: Path) -> None:
    for suite in ("v1", "v2"):
        write_helm(tmp_path / suite, INSTANCES)
    text = reading_error(tmp_path)
    assert text.endswith("are both runs of org/aster on mmlu:subject=law; give only one of these runs")
    assert "v1/mmlu-subject" in text
    assert "v2/mmlu-subject" in text


def test_requests_for_each_reference_hold_no_answer(tmp_path: Path) -> None:
    folder = write_helm(tmp_path, INSTANCES[:1])
    request = {
        "instance": {"input": {"text": "q"}, "id": "id1"},
        "reference_index": 0,
        "result": {"completions": [{"text": "x"}]},
    }
    write_json(folder / "scenario_state.json", {"request_states": [request]})
    assert read(folder).outputs is None
    (folder / "scenario_state.json").unlink()
    assert read(folder).outputs is None


def test_runs_that_are_not_whole_are_one_line(tmp_path: Path) -> None:
    folder = write_helm(tmp_path / "a", INSTANCES)
    stats = (folder / "per_instance_stats.json").read_bytes()
    (folder / "per_instance_stats.json").write_bytes(stats[:-9])
    assert "/per_instance_stats.json: malformed JSON at column " in reading_error(folder)
    write_json(folder / "per_instance_stats.json", [{"instance_id": "id1"}])
    assert reading_error(folder).endswith(
        "mmlu-subject=law,model=org_aster/per_instance_stats.json: this does not have the layout of a run of HELM: "
        "Object missing required field `stats` - at `$[0]`"
    )
    write_json(folder / "per_instance_stats.json", [])
    assert reading_error(folder).endswith("no sample has a score; give logs with scores")
    (folder / "run_spec.json").unlink()
    assert reading_error(folder).endswith(
        "lacks run_spec.json; a run of HELM needs run_spec.json and per_instance_stats.json"
    )
