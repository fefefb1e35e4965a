from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from custodes.stats.learning import pairwise
from custodes.stats.learning.folds import splits
from custodes.stats.learning.objective import ordered_pairs
from custodes.stats.learning.pairwise import pairwise_logistic


def sample(seed: int, *, n_items: int = 20, p: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, coarse y with ties, and items of 1 to 6 rows in mixed order; columns differ in scale and offset."""
    rng = np.random.default_rng(seed)
    items = rng.permutation(np.repeat(np.arange(n_items) * 7, rng.integers(1, 7, n_items)))
    quality = rng.normal(size=len(items))
    noise = rng.normal(size=(len(items), p))
    x = (quality[:, np.newaxis] * rng.uniform(-0.5, 1, p) + noise) * 10.0 ** rng.integers(-2, 3, p) + 3
    return x, np.round(2 * quality + rng.normal(size=len(items))), items


def differences(x: np.ndarray, y: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return differences of x within pairs of an item by definition, and the human preferences; ties are left out."""
    pairs = [(a, b) for a, b in combinations(range(len(y)), 2) if items[a] == items[b] and y[a] != y[b]]
    return np.array([x[a] - x[b] for a, b in pairs]).reshape(-1, x.shape[1]), np.array([y[a] > y[b] for a, b in pairs])


def within_spread(x: np.ndarray, items: np.ndarray) -> np.ndarray:
    centred = x.copy()
    for item in np.unique(items):
        centred[items == item] -= x[items == item].mean(axis=0)
    return np.sqrt((centred**2).mean(axis=0))


def by_sklearn(x: np.ndarray, y: np.ndarray, items: np.ndarray, *, penalty: float, scale: np.ndarray) -> np.ndarray:
    d, won = differences(x, y, items)
    model = LogisticRegression(C=1 / (penalty * len(d)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    return model.fit(d / scale, won).coef_[0] / scale


@pytest.mark.parametrize("penalty", [3.0, 0.1, 1e-3])
@pytest.mark.parametrize("seed", [0, 1])
def test_weights_are_those_of_sklearn(seed: int, penalty: float) -> None:
    x, y, items = sample(seed)
    weights = pairwise_logistic(x, y, items=items, groups=items, penalties=np.array([penalty]))
    scale = within_spread(x, items)
    np.testing.assert_allclose(
        weights * scale, by_sklearn(x, y, items, penalty=penalty, scale=scale) * scale, atol=2e-6
    )


@pytest.mark.parametrize("more", [-1, 0, 1, 60])
def test_more_columns_than_rows_change_nothing(more: int) -> None:
    x, y, items = sample(2, n_items=8)
    x = np.random.default_rng(2).normal(size=(len(y), len(y) + more)) + x[:, :1] / x[:, 0].std()
    weights = pairwise_logistic(x, y, items=items, groups=items, penalties=np.array([0.1]))
    scale = within_spread(x, items)
    np.testing.assert_allclose(weights * scale, by_sklearn(x, y, items, penalty=0.1, scale=scale) * scale, atol=2e-6)


@pytest.mark.parametrize(("seed", "by"), [(3, "item"), (4, "two clusters"), (5, "three clusters"), (3, "row")])
def test_the_penalty_is_that_of_the_highest_held_out_likelihood(seed: int, by: str) -> None:
    """Folds also split items: a pair between two folds is neither trained on nor held out."""
    x, y, items = sample(seed)
    groups = {
        "item": items.astype(str),
        "two clusters": items % 2,
        "three clusters": items % 3,
        "row": np.arange(len(y)),
    }[by]
    penalties = np.random.default_rng(0).permutation(np.logspace(1, -2, 13))
    fold = np.unique(groups, return_inverse=True)[1] % 5
    scale = within_spread(x, items)
    likelihood = []
    for penalty in penalties:
        total = 0.0
        for train, held in splits(fold):
            weights = by_sklearn(x[train], y[train], items[train], penalty=penalty, scale=scale)
            d, won = differences(x[held], y[held], items[held])
            total += -np.logaddexp(0, -np.where(won, 1, -1) * (d @ weights)).sum()
        likelihood.append(total)
    best = penalties[[int(np.argmax(likelihood))]]
    np.testing.assert_allclose(
        pairwise_logistic(x, y, items=items, groups=groups, penalties=penalties),
        pairwise_logistic(x, y, items=items, groups=groups, penalties=best),
        rtol=1e-6,
    )


def test_between_equal_penalties_the_larger() -> None:
    # Every item is a fold. The column varies in one item only, so the held-out likelihood does not depend on the
    # penalty.
    x = np.array([[1.0], [1.0], [1.0], [1.0], [2.0], [1.0]])
    y = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    items = np.repeat(np.arange(3), 2)
    weights = pairwise_logistic(x, y, items=items, groups=items, penalties=np.array([0.1, 2.0]))
    larger = pairwise_logistic(x, y, items=items, groups=items, penalties=np.array([2.0]))
    np.testing.assert_array_equal(weights, larger)


def test_noise_gets_the_largest_penalty() -> None:
    _, y, items = sample(5)
    noise = np.random.default_rng(1).normal(size=(len(y), 12))
    weights = pairwise_logistic(noise, y, items=items, groups=items, penalties=np.array([1e4, 0.01, 1e-3]))
    largest = pairwise_logistic(noise, y, items=items, groups=items, penalties=np.array([1e4]))
    np.testing.assert_array_equal(weights, largest)


def test_columns_that_say_nothing_have_no_weight() -> None:
    x, y, items = sample(5)
    useless = np.stack([np.full(len(y), 3.7), 1e6 + items / 3.0, np.full(len(y), np.nan)], axis=1)
    weights = pairwise_logistic(np.hstack([x, useless]), y, items=items, groups=items)
    assert weights[4:].tolist() == [0, 0, 0]
    np.testing.assert_allclose(weights[:4], pairwise_logistic(x, y, items=items, groups=items))


def test_missing_values_count_as_the_mean() -> None:
    x, y, items = sample(6)
    x[np.random.default_rng(6).random(x.shape) < 0.2] = np.nan
    filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    np.testing.assert_allclose(
        pairwise_logistic(x, y, items=items, groups=items), pairwise_logistic(filled, y, items=items, groups=items)
    )


def test_unrated_rows_and_float_noise_are_no_preference() -> None:
    x, y, items = sample(7)
    unrated = np.where(np.arange(len(y)) % 5 == 0, np.nan, y)
    complete = ~np.isnan(unrated)
    scale = np.array([1e-9])  # so small that the scale of columns, over all rows, has no effect
    expected = pairwise_logistic(
        x[complete], y[complete], items=items[complete], groups=items[complete], penalties=scale
    )
    np.testing.assert_allclose(
        pairwise_logistic(x, unrated, items=items, groups=items, penalties=scale), expected, rtol=1e-5
    )
    noisy = y + np.random.default_rng(7).uniform(-1e-12, 1e-12, len(y))
    np.testing.assert_array_equal(
        pairwise_logistic(x, noisy, items=items, groups=items), pairwise_logistic(x, y, items=items, groups=items)
    )


@pytest.mark.parametrize("y", [np.ones(6), np.full(6, np.nan), np.array([1.0, 1, 2, 2, 3, 3])])
def test_without_a_decided_pair_all_weights_are_zero(y: np.ndarray) -> None:
    items = np.repeat(np.arange(3), 2)
    x = np.random.default_rng(8).normal(size=(6, 2))
    assert pairwise_logistic(x, y, items=items, groups=items).tolist() == [0, 0]
    alone = np.arange(6)
    assert pairwise_logistic(x, np.arange(6.0), items=alone, groups=alone).tolist() == [0, 0]


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_separable_data_have_a_finite_answer(size: float) -> None:
    rng = np.random.default_rng(9)
    items = np.repeat(np.arange(40), 3)
    x = rng.normal(size=(120, 3)) * size
    weights = pairwise_logistic(x, x[:, 1] / size, items=items, groups=items)
    assert np.isfinite(weights).all()
    assert np.argmax(np.abs(weights)) == 1
    assert weights[1] * size > 1
    tiny = pairwise_logistic(x, x[:, 1] / size, items=items, groups=items, penalties=np.array([1e-8]))
    assert np.isfinite(tiny).all()
    assert tiny[1] * size > 10 * weights[1] * size


@pytest.mark.parametrize(("tolerance", "error"), [(1e-8, 1e-6), (1e-4, 1e-2)])
def test_newton_halves_a_step_that_overshoots(tolerance: float, error: float) -> None:
    """Far from the optimum, where the curvature vanishes, a full step would overshoot a thousandfold."""
    z = np.array([[1.0], [-1.0]] * 3)
    pairs = pairwise._Pairs(z, *ordered_pairs(np.array([1.0, 0, 1, 0, 0, 1]), np.repeat(np.arange(3), 2)))
    far = pairwise._fit(pairs, 1e-9, np.array([25.0]), tolerance=tolerance)
    np.testing.assert_allclose(far, [np.log(2) / 2], rtol=error)  # two of three wins: exp(2w) = 2
