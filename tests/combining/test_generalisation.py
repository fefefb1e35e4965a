"""The gain over the best single metric on unseen items, systems and data sets: no leak, and the same unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.combining import generalisation
from custodes.combining import training as training_of
from custodes.combining.combine import Combine
from custodes.combining.generalisation import GAIN, NO_GAIN, conclusion, estimate_generalisation
from custodes.combining.methods import TrainingData
from custodes.combining.settings import Terms
from custodes.combining.task import task
from custodes.combining.trial import cross_validate
from custodes.data.study import Study
from custodes.progress import silent
from tests.combining import runs
from tests.combining.runs import rules
from tests.combining.tasks import ITEMS, N_SYSTEMS, planted, table_of_items
from tests.evaluate.judged_studies import Scores, judged

pytestmark = pytest.mark.usefixtures("small")


def run_combine(study: Study | Scores, **options: Any) -> Combine:
    return runs.run_combine(study, **{"method": ("ridge", "best", "equal"), "unseen": "fast", **options})


def row(result: Combine, unseen: str, method: str = "ridge") -> dict[str, Any]:
    return result.generalisation.row(
        by_predicate=(pl.col("unseen") == unseen) & (pl.col("method") == method), named=True
    )


def fingerprints(seed: int = 0, *, items: int = 40, systems: int = 8) -> Scores:
    """Return one metric of quality and, for each system, a metric that marks only its outputs."""
    rng = np.random.default_rng(seed)
    quality = 1.5 * rng.normal(size=systems) + rng.normal(size=(items, systems))
    marks = {
        (f"print{k}", ""): np.broadcast_to(np.arange(systems) == k, quality.shape)
        + 0.1 * rng.normal(size=quality.shape)
        for k in range(systems)
    }
    return {
        ("ann", ""): np.round(quality + 0.5 * rng.normal(size=quality.shape), 1),
        ("sees", ""): 0.7 * quality + rng.normal(size=quality.shape),
        **marks,
    }


def test_what_was_learnt_of_systems_is_no_gain_on_others() -> None:
    # Regression: the only figure was that of unseen items, where the combination has a large gain.
    result = run_combine(fingerprints(items=80))
    items, systems = row(result, "items"), row(result, "systems")
    assert items["conclusion"] == GAIN
    assert items["gain"] > 0.05
    assert systems["conclusion"] == NO_GAIN
    assert systems["gain"] < 0.02
    assert systems["seen"] == pytest.approx(items["score"])
    assert systems["single"] == pytest.approx(items["single"], abs=0.02)  # the same comparisons
    assert (items["n"], systems["n"]) == (80, 8)


def test_a_gain_that_holds_on_other_systems_is_said() -> None:
    result = run_combine(planted(items=40, systems=8))
    assert [row(result, unseen)["conclusion"] for unseen in ("items", "systems")] == [GAIN, GAIN]


def test_items_are_those_of_the_comparison_and_of_the_differences() -> None:
    result = run_combine(planted(), repeats=2)
    scores = dict(result.comparison.select("method", "kendall").iter_rows())
    ahead = result.differences.filter(method_a="ridge", method_b="best").row(0, named=True)
    row_of_items = row(result, "items")
    assert row_of_items["score"] == pytest.approx(scores["ridge"])
    assert row_of_items["single"] == pytest.approx(scores["best"])
    assert [row_of_items[f"gain{end}"] for end in ("", "_low", "_high")] == pytest.approx(
        [ahead[f"difference{end}"] for end in ("", "_low", "_high")]
    )
    assert row_of_items["seen"] is None
    assert set(result.generalisation["method"]) == {"ridge", "equal"}  # the best single metric has no gain over itself


@pytest.mark.parametrize("objective", ["kendall", "accuracy"])
def test_the_best_single_metric_need_not_be_among_the_methods(objective: str) -> None:
    alone = run_combine(planted(), method="ridge", objective=objective).generalisation
    beside = run_combine(planted(), method=("ridge", "best"), objective=objective).generalisation
    assert alone.equals(beside)


def training_sets(study: Study, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[TrainingData], list[np.ndarray]]:
    """Return every training set of `ridge` except those of the item folds, with the training part that it came from."""
    training: list[TrainingData] = []
    parts: list[np.ndarray] = []
    terms = runs.terms("ridge", unseen="fast")
    rng = np.random.default_rng(0)
    trial = cross_validate(task(study.select(), None), terms, rng, silent)
    whole = training_of.training_data

    def spy(of: Any, terms: Terms, train: np.ndarray, rng: np.random.Generator, inner: Any) -> Any:
        result = whole(of, terms, train, rng, inner)
        training.append(result[1])
        parts.append(train)
        return result

    def in_turn(answer: Any, jobs: Any, rng: np.random.Generator, **rest: Any) -> list[Any]:
        return [answer(job, rng) for job in jobs]

    with monkeypatch.context() as patch:
        patch.setattr(training_of, "training_data", spy)
        patch.setattr(training_of, "map_parts", in_turn)
        estimate_generalisation(trial, rng, silent)
    return trial, training, parts


def test_neither_item_nor_system_nor_group_of_an_output_is_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    study = judged(planted()).describe(items=table_of_items(group=["x", "y"] * 10))
    trial, training, parts = training_sets(study, monkeypatch)
    assert len(training) == 5 * N_SYSTEMS + 2
    for k, (_, fold) in enumerate(trial.jobs):
        for system in range(N_SYSTEMS):
            train = parts[k * N_SYSTEMS + system]
            assert not train[:, system].any()
            assert not train[trial.folds[0] == fold].any()
            assert train.sum() == len(training[k * N_SYSTEMS + system].y) == 16 * (N_SYSTEMS - 1)
    for out, train in zip((0, 1), parts[-2:], strict=True):
        assert not train[out::2].any()
        assert train[1 - out :: 2].all()


def test_data_sets_are_held_out_and_compared_within() -> None:
    scores = planted(items=40)
    # In y the human ratings follow the other metric.
    scores["ann", ""][20:] = np.round(scores["noise", ""][20:] * 3)
    result = run_combine(judged(scores).describe(items=table_of_items(40, dataset=["x"] * 20 + ["y"] * 20)))
    sets = row(result, "data sets")
    assert sets["n"] == 2
    assert sets["seen"] > 0.3
    assert sets["score"] < 0.15
    assert sets["conclusion"] == NO_GAIN
    assert set(result.generalisation["unseen"]) == {"items", "systems", "data sets"}


def test_groups_that_are_the_data_sets_are_held_out_once() -> None:
    labels = ["x", "y"] * (ITEMS // 2)
    result = run_combine(
        judged(planted()).describe(items=table_of_items(dataset=labels, group=[label * 2 for label in labels]))
    )
    assert set(result.generalisation["unseen"]) == {"items", "systems", "data sets"}


def test_what_cannot_be_told_has_no_row_and_a_note() -> None:
    few = run_combine({key: values[:, :3] for key, values in planted().items()})
    assert set(few.generalisation["unseen"]) == {"items"}
    assert rules(few)["unseen-not-tested"] == (
        "unseen systems are not tested: 4 systems are needed, and annotators rated only 3"
    )
    straddling = table_of_items(cluster=[f"c{k // 2}" for k in range(ITEMS)], group=["x", "y"] * (ITEMS // 2))
    mixed = run_combine(judged(planted()).describe(items=straddling))
    assert "groups" not in set(mixed.generalisation["unseen"])
    assert "items of one cluster are in different folds" in rules(mixed)["unseen-not-tested"]


def test_slow_methods_are_tried_when_asked() -> None:
    few = planted(items=10)
    fast = run_combine(few, method=("pairwise", "ridge"))
    assert fast.generalisation.filter(unseen="systems")["method"].to_list() == ["ridge"]
    assert "fits of pairwise are slow" in rules(fast)["unseen-not-tried"]
    whole = run_combine(few, method=("pairwise", "ridge"), unseen="all")
    assert whole.generalisation.filter(unseen="systems")["method"].to_list() == ["pairwise", "ridge"]
    assert "unseen-not-tried" not in rules(whole)
    none = run_combine(few, unseen="none")
    assert set(none.generalisation["unseen"]) == {"items"}
    by_system = run_combine(few, folds="system")
    assert set(by_system.generalisation["unseen"]) == {"system"}


def test_many_systems_are_held_out_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generalisation, "MOST_FOLDS", 4)
    result = run_combine(planted(systems=8))
    assert row(result, "systems")["n"] == 8
    assert row(result, "systems")["gain_low"] < row(result, "systems")["gain"] < row(result, "systems")["gain_high"]


def test_the_model_file_tells_of_it_and_of_the_best_single_metric() -> None:
    result = run_combine(planted())
    validation = result.model.validation
    assert validation["single"] == {"metric": "a", "aspect": "", "higher_is_better": True}
    assert [entry["unseen"] for entry in validation["unseen"]] == ["items", "systems"]
    assert validation["unseen"][1]["gain"] == row(result, "systems")["gain"]


def test_conclusions_follow_the_lower_end() -> None:
    assert [conclusion(low) for low in (0.001, 0.0, -0.1, np.nan)] == [GAIN, NO_GAIN, NO_GAIN, None]


def test_verdicts_say_nothing_of_unseen_systems() -> None:
    rng = np.random.default_rng(0)
    better = rng.normal(size=(30, 4))
    rows = [
        {"item": f"i{i:02}", "system": "ABCD"[k], "rater": name, "kind": "metric", "score": better[i, k] + rng.normal()}
        for i in range(30)
        for k in range(4)
        for name in ("a", "b")
    ]
    battles = [
        {"item": f"i{i:02}", "model_a": "ABCD"[x], "model_b": "ABCD"[y], "rater": "ann", "kind": "human", "winner": won}
        for i in range(30)
        for x in range(4)
        for y in range(x)
        for won in ["model_a" if better[i, x] > better[i, y] else "model_b"]
    ]
    result = run_combine(cu.read(pl.DataFrame(rows), pl.DataFrame(battles)))
    assert set(result.generalisation["unseen"]) == {"items"}
    assert "verdicts" in rules(result)["unseen-not-tested"]
