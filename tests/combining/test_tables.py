"""Tables of a fit against their definitions: differences, spread, groups, favoritism, weights and pruning steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.errors import OptionError
from tests.combining.runs import QUICK, column, folds_used, held_out, rules, run_combine
from tests.combining.tasks import ITEMS, N_SYSTEMS, planted, table_of_items
from tests.evaluate.judged_studies import Scores, judged, rows_of, study_from

pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize("objective", ["kendall", "accuracy"])
def test_differences_are_those_of_the_comparison(objective: Any) -> None:
    result = run_combine(planted(), method=QUICK, resamples=50, objective=objective)
    score = column(result.comparison, objective)
    assert result.differences.height == 15
    for _, a, b, difference, low, high in result.differences.iter_rows():
        assert difference == pytest.approx(score[a] - score[b], abs=1e-12)
        assert low <= high
    assert QUICK.index(result.differences["method_a"][0]) < QUICK.index(result.differences["method_b"][0])


def test_repeats_deal_again_and_show_their_spread() -> None:
    scores = planted()
    result = run_combine(scores, method=("ridge", "best"), repeats=4)
    assert (result.comparison["spread"] > 0).all()
    assert (result.comparison["spread"] < 0.1).all()
    assert result.model.validation["repeats"] == 4
    single = []
    for fold in folds_used(judged(scores), repeats=4):
        fold_table = table_of_items(fold=[str(f) for f in fold[:, 0]])
        single.append(_with_file(scores, fold_table))
    assert result.comparison["kendall"][0] == pytest.approx(np.mean(single))
    assert result.comparison["spread"][0] == pytest.approx(np.std(single, ddof=1))


def _with_file(scores: Scores, folds: pl.DataFrame) -> float:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        folds.write_csv(f"{place}/folds.csv")
        return run_combine(scores, folds=f"{place}/folds.csv").comparison["kendall"].item()


def test_groups_show_where_a_combination_fails() -> None:
    scores = planted(items=40)
    scores["ann", ""][30:] = np.round(3 * np.random.default_rng(3).normal(size=(10, N_SYSTEMS)))
    labels = ["good"] * 30 + ["bad"] * 10
    study = judged(scores).describe(items=table_of_items(40, group=labels))
    result = run_combine(study, method=("ridge", "best"), resamples=50)
    rows = {(row["method"], row["group"]): row for row in result.groups.iter_rows(named=True)}
    assert set(rows) == {(name, group) for name in ("ridge", "best") for group in ("good", "bad")}
    assert rows["ridge", "good"]["score"] > 0.5
    assert abs(rows["ridge", "bad"]["score"]) < 0.3
    assert (rows["ridge", "good"]["items"], rows["ridge", "bad"]["items"]) == (30, 10)
    assert rows["ridge", "good"]["score_low"] < rows["ridge", "good"]["score"] < rows["ridge", "good"]["score_high"]
    (fold,) = folds_used(study)
    predicted, human = held_out(result, "ridge", items=40), scores["ann", ""]
    inside = np.array(labels) == "bad"
    taus = [
        stats.kendalltau(human[inside & (fold[:, 0] == f)], predicted[inside & (fold[:, 0] == f)]).statistic
        for f in range(5)
    ]
    assert rows["ridge", "bad"]["score"] == pytest.approx(np.nanmean(taus))
    assert run_combine(planted()).groups.is_empty()


def test_favoritism_is_that_of_the_held_out_ratings() -> None:
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(40, 3))
    scores = {
        ("ann", ""): np.round(2 * quality),
        ("fair", ""): quality + rng.normal(size=(40, 3)),
        ("fond", ""): quality + [0, 0, 3] + 0.3 * rng.normal(size=(40, 3)),
    }
    result = run_combine(scores, method=("ridge", "equal"), resamples=100)
    human = rows_of({("ann", ""): scores["ann", ""]})
    combined = result.held_out.frame.select("item", "system", "rater", "aspect", "score")
    direct = cu.favoritism(study_from(pl.concat([human, combined.select(human.columns)])), resamples=100)
    table = result.favoritism.rename({"method": "metric"})
    for name in ("mean_abs_favi", "sample_accuracy"):
        assert column(table, name, "metric") == pytest.approx(column(direct.metrics, name, "metric"))
    assert column(table, "mean_abs_favi", "metric")["equal"] > 0.5  # it adds a metric that over-rates C
    assert set(result.favoritism["method"]) == {"ridge", "equal"}


def test_no_favoritism_without_two_ratings_of_an_item() -> None:
    scores = planted()
    mask = np.arange(N_SYSTEMS) == (np.arange(ITEMS) % N_SYSTEMS)[:, np.newaxis]
    scores["ann", ""][~mask] = np.nan
    result = run_combine(scores)
    assert result.favoritism.is_empty()
    assert "no item has human ratings of two outputs, so favoritism is not computed" in rules(result)["no-favoritism"]
    assert np.isfinite(result.comparison["kendall"].item())
    with pytest.raises(
        OptionError, match="objective='accuracy' compares outputs of an item.*one output of each item; choose"
    ):
        run_combine(scores, objective="accuracy")


def test_weights_are_those_of_the_file_with_intervals_from_refits() -> None:
    result = run_combine(planted(items=30), resamples=50)
    weights = {row["metric"]: row for row in result.weights.iter_rows(named=True)}
    for part in result.model.columns:
        assert weights[part.metric]["weight"] == part.weight
    assert list(weights) == sorted(weights, key=lambda name: -abs(weights[name]["weight"]))
    assert weights["a"]["weight_low"] > weights["noise"]["weight_high"]
    assert weights["noise"]["weight_low"] < 0.3
    none = run_combine(planted(), resamples=0).weights
    assert none["weight_low"].is_null().all()
    trees = run_combine(planted(), method="xgboost", resamples=20).weights
    assert trees["weight"].sum() == pytest.approx(1)


def test_pruning_is_told_of_the_saved_model_alone() -> None:
    result = run_combine(planted(), method=("xgboost-pruned", "ridge"))
    assert result.pruning["metrics"].to_list() == [3, 2, 1]
    assert sorted(result.pruning["removed"]) == ["a", "b", "noise"]
    assert result.pruning["removed"][0] == "noise"
    assert run_combine(planted(), method=("ridge", "xgboost-pruned")).pruning.is_empty()


def test_systems_left_out_are_not_compared_by_different_models() -> None:
    result = run_combine(planted(), folds="system")
    assert result.favoritism.is_empty()
    assert {"no-favoritism", "same-items"} <= set(rules(result))
