"""Pruning of boosted trees, against its definition written with XGBoost."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost
from scipy import stats

from custodes.stats.learning.boost import prune_columns

SETTINGS = {"rounds": 12, "depth": 2, "rate": 0.3, "subsample": 0.7}
OPTIONS = {
    "max_depth": 2,
    "learning_rate": 0.3,
    "subsample": 0.7,
    "seed": 3,
    "nthread": 1,
    "tree_method": "hist",
    "objective": "reg:squarederror",
}


def loss(y: np.ndarray):
    """Return minus the mean squared error with equal weights of folds."""

    def score(predicted: np.ndarray, fold: np.ndarray) -> float:
        return float(np.mean([-np.mean((predicted[fold == f] - y[fold == f]) ** 2) for f in np.unique(fold)]))

    return score


def reference(x: np.ndarray, y: np.ndarray, fold: np.ndarray) -> list[tuple[list[int], int, float]]:
    """Return the columns of the model, the removed column, and the held-out score of each step."""
    steps, columns = [], list(range(x.shape[1]))
    while columns:
        predicted, gain = np.zeros(len(y)), dict.fromkeys(columns, 0.0)
        for f in np.unique(fold):
            train = fold != f
            model = xgboost.train(OPTIONS, xgboost.DMatrix(x[train][:, columns], label=y[train]), num_boost_round=12)
            predicted[~train] = model.predict(xgboost.DMatrix(x[~train][:, columns]))
            gains = model.get_score(importance_type="total_gain")
            for name, value in gains.items():
                gain[columns[int(name[1:])]] += value / sum(gains.values())
        least = min(reversed(columns), key=lambda column: gain[column])
        steps.append((list(columns), least, loss(y)(predicted, fold)))
        columns.remove(least)
    return steps


@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_that_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(90, 5))
    y = x[:, 1] + np.abs(x[:, 3]) + rng.normal(size=90)
    x[rng.random(x.shape) < 0.1] = np.nan
    fold = rng.integers(0, 3, 90)
    steps, best_columns = prune_columns(x, y, fold, score=loss(y), settings=SETTINGS, seed=3)
    expected = reference(x, y, fold)
    assert [(step.columns.tolist(), step.removed) for step in steps] == [(columns, out) for columns, out, _ in expected]
    np.testing.assert_allclose([step.score for step in steps], [score for *_, score in expected], rtol=1e-5)
    best = max(range(5), key=lambda k: expected[k][2])
    assert best_columns.tolist() == expected[best][0]


def test_between_equal_scores_the_fewest_columns_and_an_undefined_one_never() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 4))
    fold = np.arange(40) % 2
    options = {"settings": SETTINGS, "seed": 0}
    _, best_columns = prune_columns(x, x[:, 2], fold, score=lambda predicted, fold: 1.0, **options)
    assert best_columns.tolist() == [2]
    for returned in ([0.1, 0.5, np.nan, np.nan], [-0.5, -0.1, np.nan, np.nan]):
        scores = iter(returned)
        assert (
            len(
                prune_columns(
                    x, x[:, 2], fold, score=lambda predicted, fold, scores_left=scores: next(scores_left), **options
                )[1]
            )
            == 3
        )


def test_rows_without_a_fold_are_not_used() -> None:
    rng = np.random.default_rng(2)
    x, y, fold = rng.normal(size=(60, 3)), rng.normal(size=60), np.arange(60) % 3 - 1
    seen: list[np.ndarray] = []

    def score(predicted: np.ndarray, fold: np.ndarray) -> float:
        seen.append(np.isnan(predicted))
        return float(stats.kendalltau(predicted[fold >= 0], y[fold >= 0]).statistic)

    steps, _ = prune_columns(x, y, fold, score=score, settings=SETTINGS, seed=0)
    assert all((lost == (fold < 0)).all() for lost in seen)
    poisoned = np.where(fold < 0, 1e6, y)
    repeated_steps, _ = prune_columns(x, poisoned, fold, score=score, settings=SETTINGS, seed=0)
    assert [step.score for step in repeated_steps] == [step.score for step in steps]
