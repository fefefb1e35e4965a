from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.stats.learning.lasso import fit_lasso, lasso_weights
from custodes.stats.learning.systems_left_out import (
    held_out_errors,
    order_agreement,
    predicted_orders,
    win_matrix,
    win_rates,
)


def least_squares(x: np.ndarray, y: np.ndarray, groups: Any) -> Any:
    line = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    return lambda held: held @ line[:-1] + line[-1]


def rank_sums(scores: np.ndarray, systems: list[int]) -> np.ndarray:
    """Return the sum over items of the ranks among some systems (SciPy), per item and from 0 to 1."""
    ranks = stats.rankdata(scores[:, :, systems], axis=2).sum(axis=1)
    return (ranks / scores.shape[1] - 1) / (len(systems) - 1)


@pytest.fixture
def scores() -> np.ndarray:
    """Return scores of two metrics and annotators on ten systems, with ties."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=10)
    return np.round(quality + rng.normal(size=(3, 12, 10)), 1)


def test_win_rates_are_rank_sums_on_complete_data(scores: np.ndarray) -> None:
    wins = win_matrix(scores)
    np.testing.assert_allclose(win_rates(wins, np.arange(10)), rank_sums(scores, list(range(10))))
    twice = np.concatenate([scores, scores[:, :1]], axis=1)
    weights = np.array([2.0] + [1.0] * 11)
    np.testing.assert_allclose(win_matrix(scores, item_weights=weights), win_matrix(twice))


def test_missing_scores_count_no_comparison() -> None:
    wins = win_matrix(np.array([[[1.0, 2.0, np.nan], [3.0, 1.0, np.nan], [2.0, 1.0, np.nan]]]))[0]
    assert wins[0, 1] == pytest.approx(2 / 3)
    assert np.isnan(wins[2]).all()
    assert np.isnan(wins.diagonal()).all()


def test_predictions_are_those_of_ranks_without_the_systems_left_out(scores: np.ndarray) -> None:
    """The training systems are ranked without the left-out systems, and each of these is ranked against them only."""
    wins = win_matrix(scores)
    orders = predicted_orders(wins[1:], wins[0], least_squares)
    errors, spread = held_out_errors(wins[1:], wins[0], least_squares)

    def held_out(held: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, float]:
        train = [i for i in range(10) if i not in held]
        inner = rank_sums(scores, train)
        outer = np.stack([rank_sums(scores, [*train, i])[:, -1] for i in held], axis=1)
        return least_squares(inner[1:].T, inner[0], None)(outer[1:].T), outer[0], inner[0].mean()

    for k, pair in enumerate(combinations(range(10), 2)):
        first, second = held_out(pair)[0]
        assert orders[k] == np.sign(first - second)
    for system in range(10):
        prediction, truth, mean = held_out((system,))
        assert errors[system] == pytest.approx((truth[0] - prediction[0]) ** 2)
        assert spread[system] == pytest.approx((truth[0] - mean) ** 2)


def test_agreement_is_tau_b_and_weights_count_copies() -> None:
    rng = np.random.default_rng(1)
    ranks_a, ranks_b = rng.integers(4, size=(2, 9))
    first, second = np.triu_indices(9, 1)
    orders, truth = (np.sign(x[first] - x[second]) for x in (ranks_a, ranks_b))
    result = order_agreement(orders[np.newaxis], truth, weights=np.ones((1, 9)))[0, 0]
    assert result == pytest.approx(stats.kendalltau(ranks_a, ranks_b).statistic)
    weights = np.array([[0, 1, 2, 1, 1, 1, 1, 1, 1]])
    # Both raters tie the pairs of a system with its copy.
    expected = stats.kendalltau(np.repeat(ranks_a, weights[0]), np.repeat(ranks_b, weights[0])).statistic
    assert order_agreement(orders[np.newaxis], truth, weights=weights)[0, 0] == pytest.approx(expected)
    assert np.isnan(order_agreement(np.zeros((1, 36)), truth, weights=np.ones((1, 9)))).all()


def test_errors_of_the_lasso_are_of_fits_without_the_system(scores: np.ndarray) -> None:
    wins, alphas = win_matrix(scores), np.array([1.0, 0.1])
    errors, _ = held_out_errors(wins[1:], wins[0], lambda x, y, _: fit_lasso(x, y, alphas=alphas))
    train = list(range(9))
    inner, outer = rank_sums(scores, train), rank_sums(scores, [*train, 9])[:, -1]
    assert errors[0, 9] == pytest.approx((outer[0] - inner[0].mean()) ** 2)  # all weights are 0
    weights = lasso_weights(inner[1:].T, inner[0], alphas=alphas)[1]
    z = (outer[1:] - inner[1:].mean(axis=1)) / inner[1:].std(axis=1)
    predicted = inner[0].mean() + inner[0].std() * weights @ np.clip(z, -3, 3)
    assert errors[1, 9] == pytest.approx((outer[0] - predicted) ** 2)
