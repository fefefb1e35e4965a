from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.learning.heldout import (
    held_out_statistic,
    predict_out_of_fold,
)
from custodes.stats.learning.objective import ordering_accuracy
from custodes.stats.pooled_correlation import pooled_correlation

pooled_kendall = partial(pooled_correlation, "kendall")
SEEDS = st.integers(0, 2**32 - 1)


def mean(values: list[float]) -> float:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else np.nan


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return target, predictions, fold (by row: items are split), units, weights; with ties, missing cells, unused
    rows."""
    rng = np.random.default_rng(seed)
    n_items, n_systems, m = rng.integers(1, 8), rng.integers(1, 5), rng.integers(1, 4)
    target = rng.integers(0, 4, (n_items, n_systems)).astype(float)
    predictions = np.round(target + rng.normal(size=(m, n_items, n_systems)), 1)
    target[rng.random(target.shape) < 0.1] = np.nan
    predictions[rng.random(predictions.shape) < rng.choice([0, 0.1])] = np.nan
    n_units = rng.integers(1, n_items + 1)
    units = rng.permutation(np.concatenate([np.arange(n_units), rng.integers(0, n_units, n_items - n_units)]))
    weights = np.vstack([np.ones(n_units), rng.integers(0, 4, (4, n_units))])
    return target, predictions, rng.integers(-1, 3, target.shape), units, weights


def test_a_fold_with_a_constant_prediction_is_left_out() -> None:
    target = np.array([[1.0, 2.0], [1.0, 2.0]])
    fold = np.array([[0, 0], [1, 1]])
    options = {"units": np.arange(2), "weights": np.ones((1, 2))}
    half = held_out_statistic(pooled_kendall, target, np.array([[[3.0, 3.0], [1.0, 5.0]]]), fold, **options)
    assert half.item() == pytest.approx(1.0)
    assert np.isnan(held_out_statistic(pooled_kendall, target, np.full((1, 2, 2), 3.0), fold, **options)).all()
    assert np.isnan(
        held_out_statistic(pooled_kendall, target, np.ones((2, 2, 2)), np.full((2, 2), -1), **options)
    ).all()


def test_no_row_is_predicted_by_a_model_that_saw_its_fold() -> None:
    rng = np.random.default_rng(0)
    y, groups = np.arange(30.0), np.repeat(np.arange(10), 3)
    x, fold = y[:, np.newaxis] * [1, 2], np.repeat(rng.integers(-1, 4, 10), 3)
    calls = []

    def fit(x_train: np.ndarray, y_train: np.ndarray, groups_train: np.ndarray):
        assert np.array_equal(x_train, y_train[:, np.newaxis] * [1, 2])
        assert np.array_equal(groups_train, y_train // 3)
        calls.append(set(y_train))

        def predict(new: np.ndarray) -> np.ndarray:
            assert not set(new[:, 0]) & calls[-1]
            return -new[:, 1]

        return predict

    predicted = predict_out_of_fold(x, y, fold, groups=groups, fit=fit)
    np.testing.assert_array_equal(predicted, np.where(fold < 0, np.nan, -2 * y))
    assert all(not rows & set(y[fold < 0]) for rows in calls)
    assert len(calls) == len(set(fold) - {-1})


def defined(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    keep = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    return None if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0 else (x, y)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [("kendall", stats.kendalltau), ("spearman", stats.spearmanr), ("pearson", stats.pearsonr)],
)
def test_any_statistic_by_fold_equals_scipy_on_repeated_data(kind, reference) -> None:
    for seed in range(15):
        target, predictions, fold, units, weights = study(seed)
        result = held_out_statistic(
            partial(pooled_correlation, kind), target, predictions, fold, units=units, weights=weights
        )
        for row, values in zip(weights, result, strict=True):
            items = np.repeat(np.arange(len(target)), row[units].astype(int))
            y, f = target[items], fold[items]
            parts = [[defined(y[f == k], p[items][f == k]) for k in range(3)] for p in predictions]
            expected = [
                mean([reference(*pair).statistic if pair else np.nan for pair in fold_pairs]) for fold_pairs in parts
            ]
            np.testing.assert_allclose(values, expected, atol=1e-12)


def accuracy(target: np.ndarray, prediction: np.ndarray) -> tuple[int, int]:
    """Return the accuracy on pairs of one item that the human ratings order."""
    right, decided = 0, 0
    for i in range(len(target)):
        for j in range(i):
            if target[i] < target[j] or target[i] > target[j]:
                if np.isnan(prediction[i] - prediction[j]):
                    continue
                decided += 1
                right += (target[i] - target[j]) * (prediction[i] - prediction[j]) > 0
    return right, decided


@settings(deadline=None)
@given(seed=SEEDS)
def test_ordering_accuracy_counts_pairs_of_one_item(seed: int) -> None:
    target, predictions, _, units, weights = study(seed)
    result = ordering_accuracy(target, predictions, units=units, weights=weights)
    for row, values in zip(weights, result, strict=True):
        items = np.repeat(np.arange(len(target)), row[units].astype(int))
        for prediction, value in zip(predictions, values, strict=True):
            right, decided = np.sum([accuracy(target[i], prediction[i]) for i in items] or [(0, 0)], axis=0)
            if decided:
                assert value == pytest.approx(right / decided)
            else:
                assert np.isnan(value)


def test_ordering_accuracy_at_its_edges() -> None:
    single = {"units": np.arange(1), "weights": np.ones((1, 1))}
    human = np.array([[3.0, 2.0, 1.0]])
    metrics = np.stack([human, -human, human * 0])
    assert ordering_accuracy(human, metrics, **single).tolist() == [[1.0, 0.0, 0.0]]
    assert np.isnan(ordering_accuracy(human * 0, metrics, **single)).all()
    assert np.isnan(ordering_accuracy(human[:, :1], metrics[:, :, :1], **single)).all()
