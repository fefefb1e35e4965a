"""Boosted trees against XGBoost, the blend against its components, and pruning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xgboost
from scipy import stats

from custodes.stats.learning import boost, ridge
from tests.combining.methods.training_sets import fill, fitted, training


def trained(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the prediction function of XGBoost with the settings of the package."""
    options = {"max_depth": 2, "learning_rate": 0.05, "subsample": 0.8, "seed": 0, "nthread": 1, "tree_method": "hist"}
    model = xgboost.train(options, xgboost.DMatrix(x, label=y), num_boost_round=15)
    return lambda rows: model.predict(xgboost.DMatrix(rows)).astype(np.float64)


def test_xgboost_is_xgboost_and_blend_its_mean_with_ridge_and_the_best_metric() -> None:
    of, fresh = training(3, by="pearson"), training(4)
    reference = trained(of.x, of.y)(fresh.x)
    np.testing.assert_allclose(fitted("xgboost", of).predict(fresh.x), reference, atol=1e-6)
    learnt = ridge.ridge(of.x, of.y, groups=of.groups)
    limits = learnt.scaling.low, learnt.scaling.high
    clipped = trained(np.clip(of.x, *limits), of.y)(np.clip(fresh.x, *limits))
    (place,) = fitted("best", of).used_positions
    slope, intercept = np.polyfit(fill(of)[:, place], of.y, 1)
    column = np.clip(fresh.x[:, place], limits[0][place], limits[1][place])
    single = intercept + slope * np.where(np.isnan(column), np.nanmean(of.x[:, place]), column)
    mean = (single + ridge.predict(learnt, fresh.x) + clipped) / 3
    np.testing.assert_allclose(fitted("blend", of).predict(fresh.x), mean, atol=1e-6)
    np.testing.assert_allclose(fitted("half-blend", of).predict(fresh.x), (single + mean) / 2, atol=1e-6)


def test_for_kendall_trees_predict_ranks_on_the_scale_of_the_ratings() -> None:
    of, fresh = training(3, by="kendall"), training(4).x
    skewed = replace(of, y=np.exp(4 * of.y))
    ranks = stats.rankdata(of.y)
    model = trained(of.x, (ranks - ranks.mean()) / ranks.std())
    slope, intercept = np.polyfit(model(of.x), skewed.y, 1)
    np.testing.assert_allclose(fitted("xgboost", skewed).predict(fresh), intercept + slope * model(fresh), rtol=1e-5)


def test_trees_keep_only_what_they_split_on_and_predict_the_same() -> None:
    of = training(p=2)
    idle = np.full((len(of.x), 3), 0.5)
    whole = fitted("xgboost", replace(of, x=np.column_stack([idle, of.x])))
    assert whole.used_positions.tolist() == [3, 4]
    assert whole.importance.sum() == pytest.approx(1)
    alone = fitted("xgboost", of)
    rows = np.column_stack([idle + 0.3, of.x])
    np.testing.assert_array_equal(whole.predict(rows), alone.predict(of.x))


def test_pruning_tells_its_steps_and_keeps_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 40)
    of = training(items=40, p=6)
    formula = fitted("xgboost-pruned", replace(of, x=fill(of)))
    assert [len(step.columns) for step in formula.pruned] == [6, 5, 4, 3, 2, 1]
    assert sorted(step.removed for step in formula.pruned) == list(range(6))
    assert {step.removed for step in formula.pruned[-2:]} == {0, 1}
    best = max(range(6), key=lambda k: (formula.pruned[k].score, k))
    assert set(formula.used_positions) <= {step.removed for step in formula.pruned[best:]}
    assert {0, 1} <= set(formula.used_positions)
