from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from custodes.stats.learning.lasso import ALPHAS, lasso_errors, lasso_weights

SEEDS = st.integers(0, 2**32 - 1)
SOME = np.array([0.5, 0.1, 0.02])


def study(seed: int, n: int = 40, p: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return x, whose last column is constant, and y."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, p)) * 10.0 ** rng.integers(-2, 3, p) + rng.normal(size=p)
    y = 5 + x[:, 0] / np.std(x[:, 0]) - x[:, 1] / np.std(x[:, 1]) / 2 + rng.normal(size=n)
    return np.column_stack([x, np.full(n, 3.0)]), y


def standard(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    limits = by.mean(axis=0) - 3 * by.std(axis=0), by.mean(axis=0) + 3 * by.std(axis=0)
    by, values = np.clip(by, *limits), np.clip(values, *limits)
    spread = by.std(axis=0)
    return np.asarray((values - by.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf))


def scores(y: np.ndarray) -> np.ndarray:
    return np.asarray((y - y.mean()) / y.std())


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_weights_equal_scikit_learn_one_penalty_at_a_time(seed: int) -> None:
    x, y = study(seed)
    weights = lasso_weights(x, y, alphas=SOME)
    z, target = standard(x, x), scores(y)
    expected = [Lasso(alpha=alpha, tol=1e-10, max_iter=100_000).fit(z, target).coef_ for alpha in SOME]
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert np.all(weights[:, -1] == 0)


@settings(deadline=None, max_examples=8)
@given(seed=SEEDS)
def test_held_out_errors_equal_scikit_learn_in_units_of_y(seed: int) -> None:
    x, y = study(seed)
    fold = np.random.default_rng(seed).permutation(np.arange(len(y)) % 4 - 1)
    errors = lasso_errors(x, y, fold, alphas=SOME)
    assert np.isnan(errors[:, fold < 0]).all()
    for f in range(3):
        train, held = (fold >= 0) & (fold != f), fold == f
        for alpha, weights in zip(SOME, errors, strict=True):
            model = Lasso(alpha=alpha, tol=1e-10, max_iter=100_000).fit(standard(x[train], x[train]), scores(y[train]))
            predicted = y[train].mean() + y[train].std() * model.predict(standard(x[held], x[train]))
            np.testing.assert_allclose(weights[held], (y[held] - predicted) ** 2, atol=1e-6, rtol=1e-6)


def test_the_grid_starts_where_all_weights_are_zero_and_the_errors_are_those_of_the_mean() -> None:
    x, y = study(0)
    assert np.all(np.diff(ALPHAS) < 0)
    weights = lasso_weights(x, y, alphas=ALPHAS)
    assert np.all(weights[0] == 0)
    assert np.all(weights[-1, :2] != 0)
    fold = np.arange(len(y)) % 2
    means = np.where(fold == 0, y[fold == 1].mean(), y[fold == 0].mean())
    np.testing.assert_allclose(lasso_errors(x, y, fold, alphas=ALPHAS)[0], (y - means) ** 2, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_weights_are_those_of_a_minimum(seed: int) -> None:
    """At a minimum the correlations with the residual equal the penalty where a weight is not 0."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(10, 60)), int(rng.integers(1, 30))
    x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    if seed % 3 == 0:
        x = np.column_stack([x, x[:, 0], 2 * x[:, 0] + 1])[:, rng.permutation(p + 2)]  # copies
    y = x[:, 0] / x[:, 0].std() + rng.normal(size=n)
    weights = lasso_weights(x, y, alphas=ALPHAS)
    z, target = standard(x, x), scores(y)
    along = (target - weights @ z.T) @ z / n
    assert (np.abs(along) <= ALPHAS[:, np.newaxis] + 2e-8).all()
    assert (ALPHAS * np.abs(weights).sum(axis=1) - (weights * along).sum(axis=1) <= 2e-8).all()


def test_missing_values_are_at_the_mean() -> None:
    x, y = study(3)
    holes = x.copy()
    holes[::7, 0] = np.nan
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    # Missing values are set to the mean and scaled by the non-missing ones: compare predictions by unstandardised
    # weights.
    weights = lasso_weights(holes, y, alphas=SOME)[:, 1:]
    scaled = (filled[:, 0] - np.nanmean(holes[:, 0])) / np.nanstd(holes[:, 0])
    z = np.column_stack([scaled, standard(x[:, 1:], x[:, 1:])])
    expected = [Lasso(alpha=a, tol=1e-10, max_iter=100_000).fit(z, scores(y)).coef_[1:] for a in SOME]
    np.testing.assert_allclose(weights, expected, atol=1e-3)
    assert np.all(lasso_weights(np.full((4, 2), np.nan), np.arange(4.0), alphas=SOME) == 0)


def test_nothing_to_explain_gives_zero_weights_and_no_penalties_an_empty_answer() -> None:
    x = np.arange(8.0).reshape(4, 2)
    assert np.all(lasso_weights(x, np.full(4, 0.1), alphas=SOME) == 0)
    assert lasso_errors(x, np.full(4, 0.1), np.arange(4) % 2, alphas=SOME).max() < 1e-30
    assert lasso_errors(x, np.arange(4.0), np.arange(4) % 2, alphas=ALPHAS[:0]).shape == (0, 4)
    assert lasso_weights(x[:, :0], np.arange(4.0), alphas=SOME).shape == (3, 0)
