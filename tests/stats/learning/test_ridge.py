from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from custodes.stats.learning.ridge import predict, ridge, scaling, standardise_columns

SEEDS = st.integers(0, 2**32 - 1)


def prepared(train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both parts clipped, filled and standardised by the first, column by column by definition."""
    columns = []
    for column, new_column in zip(train.T, new.T, strict=True):
        present = column[~np.isnan(column)]
        if len(present) == 0 or np.ptp(present) == 0:
            columns.append((np.zeros(len(column)), np.zeros(len(new_column))))
            continue
        low, high = present.mean() - 3 * present.std(), present.mean() + 3 * present.std()
        mean, sd = np.clip(present, low, high).mean(), np.clip(present, low, high).std()
        parts = [np.where(np.isnan(v), 0.0, (np.clip(v, low, high) - mean) / sd) for v in (column, new_column)]
        columns.append((parts[0], parts[1]))
    return np.column_stack([c[0] for c in columns]), np.column_stack([c[1] for c in columns])


def reference(x: np.ndarray, y: np.ndarray, new: np.ndarray, penalty: float) -> np.ndarray:
    z, z_new = prepared(x, new)
    return np.asarray(Ridge(alpha=penalty * len(y)).fit(z, y).predict(z_new))


def study(seed: int, *, missing: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and groups, with outliers, missing values, a constant column and an empty column."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(12, 40), rng.integers(1, 9)
    x = rng.standard_t(2, (n, p)) * 10.0 ** rng.integers(-3, 4, p) + rng.normal(size=p)
    y = x[:, 0] / np.std(x[:, 0]) + rng.normal(size=n)
    x[rng.random(x.shape) < missing] = np.nan
    return np.column_stack([x, np.full(n, 7.0), np.full(n, np.nan)]), y, rng.integers(0, 6, n)


@settings(deadline=None, max_examples=50)
@given(seed=SEEDS, penalty=st.sampled_from([1e-3, 0.1, 10.0]))
def test_ridge_equals_scikit_learn(seed: int, penalty: float) -> None:
    x, y, groups = study(seed)
    new = np.where(np.isnan(x), np.nan, x * 1.5 + 0.1)
    linear = ridge(x, y, groups=groups, penalties=np.array([penalty]))
    np.testing.assert_allclose(predict(linear, new), reference(x, y, new, penalty), atol=1e-8)
    assert linear.weights[-2:].tolist() == [0.0, 0.0]
    assert linear.scaling.mean[-2] == 7.0


@settings(deadline=None, max_examples=10)
@given(seed=SEEDS)
def test_the_penalty_is_that_of_grouped_cross_validation(seed: int) -> None:
    x, y, _ = study(seed)
    groups = np.random.default_rng(seed).permutation(np.arange(len(y)) % 7)
    penalties = np.array([1e-3, 0.1, 1.0, 30.0])
    errors = [
        sum(
            np.sum((reference(x[groups % 5 != f], y[groups % 5 != f], x[groups % 5 == f], penalty) - held) ** 2)
            for f in range(5)
            for held in [y[groups % 5 == f]]
        )
        for penalty in penalties
    ]
    chosen = ridge(x, y, groups=groups * 3 - 50, penalties=penalties)
    best = ridge(x, y, groups=groups, penalties=penalties[[int(np.argmin(errors))]])
    np.testing.assert_allclose(predict(chosen, x), predict(best, x), atol=1e-9)


def test_more_columns_than_rows_and_next_to_no_penalty_interpolates() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(10, 30)), rng.normal(size=10)
    linear = ridge(x, y, groups=np.arange(10), penalties=np.array([1e-12]))
    np.testing.assert_allclose(predict(linear, x), y, atol=1e-8)


def test_nothing_to_learn_from_gives_the_mean() -> None:
    y = np.array([1.0, 2.0, 6.0, 3.0])
    for x in (np.full((4, 2), np.nan), np.ones((4, 2)), np.empty((4, 0))):
        linear = ridge(x, y, groups=np.arange(4))
        assert predict(linear, x).tolist() == [3.0] * 4
        assert np.all(linear.weights == 0)


def test_an_outlier_counts_as_the_limit() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 1))
    y = x[:, 0] + 0.1 * rng.normal(size=200)
    x[0] = 1e6
    linear = ridge(x, y, groups=np.arange(200))
    assert predict(linear, np.array([[1e9]])).tolist() == predict(linear, np.array([linear.scaling.high])).tolist()
    missing = predict(linear, np.array([[np.nan]]))
    # Columns are centred, so the mean of x predicts the mean of y.
    np.testing.assert_allclose(missing, y.mean(), atol=1e-9)


def test_a_column_with_one_value_is_constant() -> None:
    by = scaling(np.array([[np.nan, 1.0], [7.0, 2.0], [np.nan, 3.0]]))
    assert (by.mean[0], by.low[0], by.high[0]) == (7, 7, 7)
    assert np.isnan(by.scale).tolist() == [True, False]
    assert ridge(np.array([[np.nan], [7.0]]), np.arange(2.0), groups=np.arange(2)).scaling.mean.tolist() == [7.0]


def test_between_equal_penalties_the_larger() -> None:
    # Only the first group has values, which are missing in the other groups, so every penalty has the same error.
    x = np.array([[1.0], [2.0], [4.0], [np.nan], [np.nan], [np.nan]])
    y, groups = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 5.0]), np.array([0, 0, 0, 1, 1, 2])
    chosen = ridge(x, y, groups=groups, penalties=np.array([0.1, 2.0, 0.5]))
    np.testing.assert_array_equal(chosen.weights, ridge(x, y, groups=groups, penalties=np.array([2.0])).weights)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_scaling_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rng.integers(1, 40), 6)) ** 3 * np.logspace(-90, 90, 6) + rng.choice([0, 1e6], 6)
    x[:, rng.integers(6)] = 0.1  # constant
    x[rng.random(x.shape) < rng.choice([0, 0.3])] = np.nan
    mean, deviation = np.nanmean(x, axis=0), np.nanmax(np.abs(x - np.nanmean(x, axis=0)), axis=0, initial=0)
    unit = np.where(deviation > 1e-12 * np.abs(mean), deviation, np.nan)
    reach = np.nan_to_num(3 * unit * np.sqrt(np.nanmean(((x - mean) / unit) ** 2, axis=0)))
    clipped = np.clip(x, mean - reach, mean + reach)
    middle = np.nanmean(clipped, axis=0)
    spread = unit * np.sqrt(np.nanmean(((clipped - middle) / unit) ** 2, axis=0))
    by = scaling(x)
    for values, expected in zip(by, (mean - reach, mean + reach, middle, spread), strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-9)
    np.testing.assert_allclose(standardise_columns(x, by), np.nan_to_num((clipped - middle) / spread), atol=1e-8)
