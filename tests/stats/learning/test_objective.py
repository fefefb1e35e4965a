from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.learning.objective import OBJECTIVES, Objective, objective

SEEDS = st.integers(0, 2**32 - 1)
each_kind = pytest.mark.parametrize("kind", OBJECTIVES)


def reference(kind: str, target: np.ndarray, prediction: np.ndarray, items: np.ndarray) -> float:
    if kind == "accuracy":
        pairs = [(i, j) for i, j in combinations(range(len(items)), 2) if items[i] == items[j]]
        signs = [np.sign([target[i] - target[j], prediction[i] - prediction[j]]) for i, j in pairs]
        right = [human == metric for human, metric in signs if human != 0]
        return float(np.mean(right)) if right else np.nan
    if len(target) < 2 or np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return np.nan
    correlate = {"kendall": stats.kendalltau, "spearman": stats.spearmanr, "pearson": stats.pearsonr}
    return float(correlate[kind](target, prediction).statistic)


def study(seed: int, *, largest: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return target (n,), predictions (5, n), items (n,): with and without ties, constants, few and many items."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, largest)
    target = np.round(rng.normal(size=n), rng.choice([0, 1, 8]))
    predictions = np.round(target + rng.normal(size=(5, n)), rng.choice([0, 1, 8]))
    predictions[0] = 3.0
    return target, predictions, rng.integers(-3, rng.choice([-2, 1, 30]), n)


@settings(deadline=None)
@given(seed=SEEDS)
@each_kind
def test_equals_scipy_and_the_definition(kind: Objective, seed: int) -> None:
    target, predictions, items = study(seed)
    agreement = objective(kind, target, items=items)
    values, alone = agreement(predictions), np.concatenate([agreement(row[np.newaxis]) for row in predictions])
    assert values.shape == (5,)
    np.testing.assert_allclose(alone, values, atol=1e-12)  # The first prediction is tied.
    expected = [reference(kind, target, prediction, items) for prediction in predictions]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize(("n", "decimals"), [(70_000, 9), (70_000, 1), (30_000, 4)])
def test_kendall_of_many_rows_equals_scipy(n: int, decimals: int) -> None:
    # more than 2^16 distinct targets, few, and about half as many as rows
    rng = np.random.default_rng(n + decimals)
    target = np.round(rng.normal(size=n), decimals)
    predictions = np.stack([target + rng.normal(size=n), np.round(rng.normal(size=n), 1)])
    values = objective("kendall", target, items=np.zeros(n, dtype=int))(predictions)
    expected = [stats.kendalltau(target, prediction).statistic for prediction in predictions]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@each_kind
def test_what_is_not_finite_or_constant_is_undefined(kind: Objective) -> None:
    target = np.arange(4.0)
    items = np.zeros(4, dtype=int)
    predictions = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, np.nan, 2.0, 3.0], [0.0, 1.0, np.inf, 3.0]])
    np.testing.assert_allclose(objective(kind, target, items=items)(predictions), [1, np.nan, np.nan])
    assert np.isnan(objective(kind, np.ones(4), items=items)(predictions)).all()
    constant = objective(kind, target, items=items)(np.full((1, 4), 0.1))
    assert np.isnan(constant) or (kind == "accuracy" and constant == 0)
    assert objective(kind, target, items=items)(np.empty((0, 4))).shape == (0,)


@each_kind
def test_very_many_predictions_equal_few(kind: Objective) -> None:
    rng = np.random.default_rng(0)
    target, predictions, items = rng.normal(size=30), rng.normal(size=(9_001, 30)), np.arange(30) // 5
    agreement = objective(kind, target, items=items)
    values = agreement(predictions)  # several chunks
    np.testing.assert_array_equal(values[::500], agreement(predictions[::500]))
