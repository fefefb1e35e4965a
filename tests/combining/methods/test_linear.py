"""The best metric, the mean, ridge and logistic regression against references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.stats.learning import ridge
from tests.combining.methods.training_sets import fill, fitted, tau, training

WEIGHED = ("best", "equal", "pairwise", "gp")
"""Methods whose prediction is an increasing function of a weighted sum."""


@pytest.mark.parametrize(
    ("by", "agreement"),
    [
        ("kendall", tau),
        ("spearman", lambda a, b: stats.spearmanr(a, b).statistic),
        ("pearson", lambda a, b: stats.pearsonr(a, b).statistic),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_best_is_the_metric_that_agrees_most(by: Any, agreement: Any, seed: int) -> None:
    of = training(seed, by=by)
    x = fill(of) ** np.array([1, 1, 20, 1, 1])  # a skewed column distinguishes ranks from values
    of = replace(of, x=x, y=of.y + 2 * x[:, 2])
    assert fitted("best", of).used_positions.tolist() == [int(np.argmax([agreement(column, of.y) for column in x.T]))]


def test_best_by_accuracy_looks_within_items_alone() -> None:
    level = np.repeat(np.random.default_rng(0).normal(size=20), 2)
    within = np.tile([0.0, 1.0], 20)
    x = np.column_stack([level / level.max() / 2 - 0.1 * within, 0.2 + 0.5 * within])
    of = replace(training(systems=2), x=x, y=10 * level + within)
    assert fitted("best", replace(of, by="accuracy")).used_positions.tolist() == [1]
    assert fitted("best", replace(of, by="kendall")).used_positions.tolist() == [0]


def test_equal_is_the_mean_of_what_varies() -> None:
    of = training()
    x = np.column_stack([of.x, np.full(len(of.x), 0.5)])
    weights = fitted("equal", replace(of, x=x)).weights
    assert weights[5] == 0
    assert weights[0] > 0
    np.testing.assert_allclose(weights[:5], weights[0])


def test_ridge_is_that_of_its_stats() -> None:
    of = training(p=7, by="pearson")
    learnt = ridge.ridge(of.x, of.y, groups=of.groups)
    np.testing.assert_allclose(fitted("ridge", of).predict(of.x), ridge.predict(learnt, of.x), rtol=0, atol=1e-12)
    edges = np.array([np.zeros(7), np.ones(7), np.full(7, np.nan)])
    np.testing.assert_allclose(fitted("ridge", of).predict(edges), ridge.predict(learnt, edges), rtol=0, atol=1e-12)


@pytest.mark.parametrize("by", ["kendall", "spearman"])
def test_for_rank_correlations_ridge_predicts_ranks_on_the_scale_of_the_ratings(by: Any) -> None:
    of, fresh = training(p=4, by=by), training(9, p=4).x
    skewed = replace(of, y=np.exp(4 * of.y))
    learnt = ridge.ridge(of.x, stats.rankdata(of.y), groups=of.groups)
    in_ranks = ridge.predict(learnt, of.x)
    slope, intercept = np.polyfit(in_ranks, skewed.y, 1)
    expected = intercept + slope * ridge.predict(learnt, fresh)
    np.testing.assert_allclose(fitted("ridge", skewed).predict(fresh), expected, rtol=1e-9)


def test_the_limits_of_ridge_stay_within_the_scale() -> None:
    of = training(p=3)
    x = of.x.copy()
    x[:, 2] = np.where(
        np.arange(len(x)) < 2, 1.0, 0.01 * x[:, 2]
    )  # an outlier: three standard deviations are less than 1
    formula = fitted("ridge", replace(of, x=x))
    assert (formula.low >= 0).all()
    assert (formula.high <= 1).all()
    assert formula.high[2] < 0.7
    assert formula.high[0] == 1
    assert (formula.fill >= 0).all()
    assert (formula.fill <= 1).all()


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("against", [False, True])
def test_the_prediction_rises_with_the_weighted_sum_even_against_people(name: str, against: bool) -> None:
    of = training()
    of = replace(of, y=-of.y) if against else of
    formula = fitted(name, of)
    total = fill(of) @ formula.weights
    predicted = formula.predict(of.x)
    assert tau(np.round(total, 12), np.round(predicted, 12)) == pytest.approx(1)
    if name != "pairwise":
        assert (formula.weights >= 0).all()
        assert formula.weights.any()
    if not against:  # least squares
        assert predicted.mean() == pytest.approx(of.y.mean())
        slope = np.polyfit(total, of.y, 1)[0]
        assert np.polyfit(total, predicted, 1)[0] == pytest.approx(slope)


def test_one_group_leaves_pairwise_without_a_choice_of_penalty() -> None:
    of = training(items=2)  # one group
    assert len(set(of.groups)) == 1
    assert np.isfinite(fitted("pairwise", of).predict(of.x)).all()
