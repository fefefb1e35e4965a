from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.partiality.placement import bend_of
from custodes.stats.partiality.scores import (
    FEWEST_RESIDUALS,
    ScoredPeople,
    _residual_share,
    annotator_levels,
    human_side,
    two_way,
)


@pytest.mark.parametrize("n_items", [2, 3, 30])
def test_levels_of_annotators_are_effects_of_least_squares(n_items):
    rng = np.random.default_rng(0)
    ratings = rng.normal(size=(3, n_items, 2)) + np.array([0.0, 1.0, -0.5])[:, None, None]
    ratings[2, 0] = np.nan
    if n_items == 3:
        ratings[1, 1] = ratings[0, 2, 0] = np.nan
    annotator, item, system = np.nonzero(np.isfinite(ratings))
    output = item * 2 + system
    design = np.column_stack([np.eye(3)[annotator], np.eye(2 * n_items)[output]])
    coefficients, *_ = np.linalg.lstsq(design, ratings[annotator, item, system])
    residuals = ratings[annotator, item, system] - design @ coefficients
    freedom = len(annotator) - np.linalg.matrix_rank(design)
    levels = annotator_levels(ratings)
    np.testing.assert_allclose(levels.values, coefficients[:3] - coefficients[:3].mean(), atol=1e-12)
    if freedom < FEWEST_RESIDUALS:
        assert np.isinf(levels.covariance).all()
        return
    centre = np.column_stack([np.eye(3) - 1 / 3, np.zeros((3, 2 * n_items))])
    covariance = centre @ np.linalg.pinv(design.T @ design) @ centre.T * (residuals @ residuals / freedom)
    np.testing.assert_allclose(levels.covariance, covariance, atol=1e-12)
    assert freedom == (FEWEST_RESIDUALS if n_items == 3 else 4 * n_items - 4)


def test_effects_of_items_and_systems_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    mask = rng.random((12, 4)) < 0.7
    mask[3] = False
    item, system = np.nonzero(mask)
    values = rng.normal(size=(2, 12, 4)) * mask
    design = np.column_stack([np.eye(12)[item], np.eye(4)[system]])
    hat, fit = design @ np.linalg.pinv(design), two_way(values, mask)
    for k in range(2):
        effects = np.linalg.lstsq(design, values[k, mask])[0][12:]
        np.testing.assert_allclose(fit.effects[k], effects - effects.mean(), atol=1e-12)
        np.testing.assert_allclose(fit.residuals[k, mask], values[k, mask] - hat @ values[k, mask], atol=1e-12)
    # the influence of an item is the derivative of the effects with respect to its residuals
    gram = np.diag(mask.sum(axis=0)) - mask.T @ (mask / np.maximum(mask.sum(axis=1, keepdims=True), 1))
    np.testing.assert_allclose(fit.influence, fit.residuals @ np.linalg.pinv(gram), atol=1e-12)
    expected = np.zeros(mask.shape)
    expected[mask] = 1 - hat.diagonal()
    np.testing.assert_allclose(_residual_share(mask), expected, atol=1e-12)


@pytest.mark.parametrize("side", [1, -1])
def test_a_fifth_of_the_ratings_at_a_bound_bends_the_curve_by_half_of_the_latent_positions(side):
    ratings = np.random.default_rng(0).normal(size=(1, 40, 5))
    n_top = np.array([4, 6, 8, 10, 12])
    ratings[0, np.arange(40)[:, None] < n_top] = 5.0
    ratings, whole, units = side * ratings, np.ones((40, 5), dtype=np.bool_), np.arange(40)
    means = (ratings[0].mean(axis=0) - ratings.mean()) / ratings.std()
    latent = stats.norm.ppf(((n_top if side > 0 else 40 - n_top) + 0.5) / 41)
    np.testing.assert_allclose(
        human_side(ratings, whole, units).fields["bend"], 0.5 * bend_of(latent, means), atol=1e-12
    )
    ratings[0, 0, 0] *= 0.9  # less than a fifth
    assert not human_side(ratings, whole, units).fields["bend"].any()


def test_scores_become_quantiles_of_smoothed_human_means_and_wins():
    rng = np.random.default_rng(0)
    persons, metric = rng.normal(size=(1, 50, 4)), rng.integers(0, 4, (50, 4)).astype(float)
    metric[rng.random(metric.shape) < 0.3] = np.nan
    mask = np.isfinite(metric)
    mask[mask.sum(axis=1) < 2] = False  # an item with one output compares no systems
    scaled = persons / np.abs(persons).max()
    side = human_side(scaled, mask, np.arange(50))
    means = scaled[0, mask]
    means = (means - means.mean()) / means.std()
    levels, quantiles = side.quantiles
    scale = np.sqrt(1 + 0.3**2)
    expected = stats.norm.cdf((quantiles[:, None] * scale - means) / 0.3).mean(axis=1)
    np.testing.assert_allclose(levels, expected, atol=1e-12)
    assert [quantiles[0] * scale, quantiles[-1] * scale] == pytest.approx([means.min() - 1.8, means.max() + 1.8])
    placement = ScoredPeople(persons, units=np.arange(50)).placement(metric)
    mapped = np.full(metric.shape, np.nan)
    mapped[mask] = np.interp((stats.rankdata(metric[mask]) - 0.5) / mask.sum(), levels, quantiles)
    for a, b in np.ndindex(4, 4):
        if a == b:
            continue
        shared = mask[:, a] & mask[:, b]
        difference, n = (mapped[:, a] - mapped[:, b])[shared], shared.sum()
        wins = (difference > 0).mean() + 0.5 * (difference == 0).mean()
        assert placement.advantage[a, b] == pytest.approx(stats.norm.ppf(np.clip(wins, 0.5 / n, 1 - 0.5 / n)))
        assert placement.steepness[a, b] == pytest.approx(1 / difference.std())
    assert placement.spread == pytest.approx(side.fields["spread"])


def test_latent_positions_that_differ_by_a_scale_or_run_the_other_way_bend_nothing():
    positions = np.array([-1.0, 0.5, 0.0, 0.9])
    np.testing.assert_allclose(bend_of(3 * positions + 2, positions), 0, atol=1e-12)
    assert bend_of(-positions, positions).tolist() == [0.0] * 4
    assert bend_of(np.array([0.0, 0.0, 3.0]), np.array([1.0, 0.0, 2.0])) == pytest.approx([-2 / 3, 1 / 3, 1 / 3])


def test_the_best_of_a_few_ratings_of_an_annotator_is_no_bound_of_the_scale() -> None:
    rng = np.random.default_rng(1)
    ratings = np.clip(np.rint(3 + rng.normal(0, 1, (40, 6))), 1, 5)
    persons = np.full((40, 40, 6), np.nan)
    persons[np.arange(40), np.arange(40)] = ratings  # one annotator per item
    whole = np.ones((40, 6), dtype=np.bool_)
    assert (ratings == ratings.max(axis=1, keepdims=True)).mean() > 0.25
    assert (ratings == 5).mean() < 0.2
    assert not human_side(persons, whole, np.arange(40)).fields["bend"].any()
    high = np.minimum(persons, 4)
    assert human_side(high, whole, np.arange(40)).fields["bend"].any()
