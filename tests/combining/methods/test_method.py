"""Formulas and training data: prediction by row, grouped folds, weights on the human scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.combining.methods import Formula
from custodes.combining.methods.method import clip_and_scale
from tests.combining.methods.training_sets import fill, tau, training

SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_a_row_is_predicted_the_same_to_the_bit_alone_and_among_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 60))
    x = rng.random((17, p))
    x[rng.random(x.shape) < 0.2] = np.nan
    formula = Formula(
        weights=rng.normal(size=p) * 10.0 ** rng.integers(-3, 4, p),
        fill=rng.random(p),
        low=rng.random(p) / 3,
        high=1 - rng.random(p) / 3,
        importance=np.zeros(p),
        intercept=rng.normal(),
    )
    together = formula.predict(x)
    alone = np.concatenate([formula.predict(row[np.newaxis]) for row in x])
    assert together.tobytes() == alone.tobytes()
    assert formula.predict(np.asfortranarray(x)).tobytes() == together.tobytes()
    assert formula.predict(np.repeat(x, 40, axis=0))[::40].tobytes() == together.tobytes()
    assert formula.predict(x[::-1])[::-1].tobytes() == together.tobytes()


def test_inner_folds_keep_groups_whole() -> None:
    of = training()
    fold = of.inner_folds()
    assert set(fold) == set(range(5))
    assert all(len(set(fold[of.groups == group])) == 1 for group in set(of.groups))
    few = of.part(of.groups < 3)
    assert set(few.inner_folds()) == {0, 1, 2}


def test_scores_are_clipped_to_limits_and_scaled_again() -> None:
    x = np.array([[0.1, 0.9, 0.3], [0.5, np.nan, 0.8]])
    result = clip_and_scale(x, np.array([0.2, 0.0, 0.4]), np.array([0.7, 0.5, 0.4]))
    np.testing.assert_allclose(result, [[0, 1, 0], [0.6, np.nan, 0]])


def test_a_formula_by_hand() -> None:
    formula = Formula(weights=np.array([2.0, 0.0, -1.0]), fill=np.array([0.5, 0.5, 0.25]), intercept=1.0)
    assert formula.used_positions.tolist() == [0, 2]
    assert formula.predict(np.array([[0.5, 9, 0.5], [np.nan, 9, np.nan]])).tolist() == [1.5, 1.75]
    # without weights the prediction is the intercept
    assert replace(formula, weights=np.zeros(3)).predict(np.ones((2, 3))).tolist() == [1.0, 1.0]


def test_missing_scores_are_filled_by_the_mean_of_their_metric() -> None:
    of = training(3)
    x, means = of.mean_imputation
    np.testing.assert_allclose(means, np.nanmean(of.x, axis=0))
    np.testing.assert_allclose(x, fill(of))
    empty = replace(of, x=np.full_like(of.x, np.nan))
    assert (empty.mean_imputation[1] == 0.5).all()


def test_ratings_are_standardised_and_constant_ones_are_not_divided() -> None:
    of = training(1, by="pearson")
    y, mean, spread = of.target_standardisation
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(y * spread + mean, of.y)
    assert replace(of, y=np.full(80, 3.0)).target_standardisation[1:] == (3.0, 1.0)
    y, mean, spread = replace(of, by="kendall").target_standardisation
    np.testing.assert_allclose(y * spread + mean, stats.rankdata(of.y) / 80)


def test_weights_are_put_on_people_s_scale_by_least_squares_and_never_turn() -> None:
    of = training(2)
    weights = np.array([1.0, 0.5, 0.0, 0.0, 0.0])
    score = fill(of) @ weights
    slope, intercept = np.polyfit(score, of.y, 1)
    result = of.formula_from_weights(weights)
    np.testing.assert_allclose(result.weights, slope * weights)
    assert result.intercept == pytest.approx(intercept)
    against = replace(of, y=-of.y).formula_from_weights(weights)
    np.testing.assert_allclose(against.weights, 1e-6 * weights)
    assert replace(of, x=np.full_like(of.x, 0.5)).formula_from_weights(weights).predict(of.x).std() < 1e-5


def test_scores_of_folds_are_those_of_their_rows() -> None:
    of = training(5)
    fold, predicted = np.arange(80) % 4, fill(of)[:, 0]
    expected = [tau(predicted[fold == f], of.y[fold == f]) for f in range(4)]
    np.testing.assert_allclose(of.fold_scores(predicted, fold), expected)


@pytest.mark.parametrize("seed", range(4))
def test_a_resample_is_its_groups_one_after_the_other(seed: int) -> None:
    of = training(seed, items=30)
    shuffled = of.part(np.random.default_rng(seed).permutation(len(of.y))[: 90 + seed])
    again = shuffled.resample_clusters(np.random.default_rng(seed))
    sample = np.random.default_rng(seed).choice(np.unique(shuffled.groups), size=len(np.unique(shuffled.groups)))
    rows = [np.flatnonzero(shuffled.groups == group) for group in sample]
    np.testing.assert_array_equal(again.x, shuffled.x[np.concatenate(rows)])
    np.testing.assert_array_equal(again.groups, shuffled.groups[np.concatenate(rows)])
    copies = [(copy, item) for copy, group_rows in enumerate(rows) for item in shuffled.items[group_rows]]
    places = {both: place for place, both in enumerate(sorted(set(copies)))}
    assert np.unique(again.items, return_inverse=True)[1].tolist() == [places[both] for both in copies]
