"""Pooled margins against statsmodels' clustered least squares, and the level of the test of additivity."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from custodes.stats import ABSENT
from custodes.stats.bootstrap import sign_flips
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import PairItems, Remark
from custodes.stats.correction.pooled import FEWEST_CLUSTERS, POOLED, PooledEstimate, pooled_estimate, pooled_margins


def pairs(n_systems: int) -> np.ndarray:
    return np.array(list(combinations(range(n_systems), 2)))


def additive(levels: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return signs (..., pairs, items) with E[sign of (a, b)] = level_a - level_b and a fifth of ties."""
    margin = (levels[pairs(len(levels))] @ [1, -1])[:, None]
    u = rng.random((*shape[:-1], len(margin), shape[-1]))
    return np.where(u < (0.8 + margin) / 2, 1, np.where(u < 0.8, -1, 0)).astype(np.int8)


def fitted(signs: np.ndarray, systems: np.ndarray, units: np.ndarray, flips: int = 0, seed: int = 0):
    items = PairItems(human=signs, systems=systems, units=units)
    return pooled_margins(items, n_flips=flips, rng=np.random.default_rng(seed))


def estimate(signs: np.ndarray, systems: np.ndarray) -> PooledEstimate:
    items = PairItems(human=signs, systems=systems, units=np.arange(signs.shape[-1]))
    return pooled_estimate(items, confidence=0.95, rng=np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(5))
def test_is_clustered_least_squares(seed):
    rng = np.random.default_rng(seed)
    n_systems, n_items = 5, 40
    systems, units = pairs(n_systems), rng.permutation(np.arange(n_items) % 13)
    signs = additive(rng.uniform(-0.3, 0.3, n_systems), (n_items,), rng)
    signs[rng.random(signs.shape) < rng.uniform(0, 0.8)] = ABSENT
    pair, item = np.nonzero(signs != ABSENT)
    design = np.zeros((len(pair), n_systems))
    design[np.arange(len(pair)), systems[pair, 0]] = 1
    design[np.arange(len(pair)), systems[pair, 1]] = -1
    # The first system's level is 0; statsmodels' correction has (N - 1) / (N - K) besides G / (G - 1).
    model = OLS(signs[pair, item].astype(float), design[:, 1:])
    groups = {"groups": units[item], "use_correction": False}
    result = model.fit(cov_type="cluster", cov_kwds=groups)
    contrast = np.zeros((len(systems), n_systems))
    contrast[np.arange(len(systems)), systems[:, 0]] = 1
    contrast[np.arange(len(systems)), systems[:, 1]] = -1
    g = len(np.unique(units[item]))
    fit = fitted(signs, systems, units)
    np.testing.assert_allclose(fit.margin, contrast[:, 1:] @ result.params, atol=1e-9)
    covariance = contrast[:, 1:] @ result.cov_params() @ contrast[:, 1:].T
    np.testing.assert_allclose(fit.error, np.sqrt(np.diag(covariance) * g / (g - 1)), rtol=1e-7)
    assert (fit.clusters, fit.freedom) == (g, g - 1)


def test_two_systems_are_their_own_margin():
    signs = np.array([[1, 1, 0, -1, 1, ABSENT]])
    fit = fitted(signs, np.array([[0, 1]]), np.arange(6), flips=99)
    values = signs[0, :5].astype(float)
    assert fit.margin == pytest.approx([values.mean()])
    assert fit.error == pytest.approx([values.std(ddof=1) / np.sqrt(5)])
    assert np.isnan(fit.additivity_p)


def test_what_no_annotation_joins_is_undefined():
    systems = pairs(4)
    signs = np.full((6, 30), ABSENT, dtype=np.int8)
    signs[[0, 5]] = 1  # 0-1 and 2-3 only
    fit = fitted(signs, systems, np.arange(30))
    assert np.isfinite(fit.margin).tolist() == [True, False, False, False, False, True]
    answer = estimate(signs, systems)
    np.testing.assert_array_equal(answer.theta[1:5], 0.5)
    np.testing.assert_array_equal(answer.margin_low[1:5], -1)
    nothing = fitted(np.full((6, 30), ABSENT, dtype=np.int8), systems, np.arange(30), flips=9)
    assert np.isnan(nothing.margin).all()
    assert nothing.clusters == 0


@pytest.mark.parametrize("n_items", [FEWEST_CLUSTERS - 1, FEWEST_CLUSTERS])
def test_no_decision_with_few_clusters(n_items):
    signs = np.where(np.arange(n_items) % 10 == 0, -1, 1) * np.ones((3, 1), dtype=np.int8)
    answer = estimate(signs.astype(np.int8), np.array([[0, 1], [1, 2], [0, 3]]))
    assert answer.clusters == n_items
    assert ((answer.theta > 0.975) == (n_items >= FEWEST_CLUSTERS)).all()
    few = "pooled decides no pair of x: there are 19 annotated items or clusters, and at least 20 are needed"
    expected = [Remark("few-clusters", few, 19)] if n_items < FEWEST_CLUSTERS else []
    assert [*POOLED.remarks(replace(answer, additivity_p=np.array(0.051)), " of x")] == expected


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_turning_a_pair_round_negates_it_alone(seed, pair_index):
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), (6, 12))
    changed, systems = signs.copy(), pairs(4)
    changed[pair_index] = np.where(signs[pair_index] == ABSENT, ABSENT, -signs[pair_index])
    other_systems = systems.copy()
    other_systems[pair_index] = systems[pair_index, ::-1]
    first, second = fitted(signs, systems, np.arange(12), 19), fitted(changed, other_systems, np.arange(12), 19)
    side = np.where(np.arange(6) == pair_index, -1, 1)
    np.testing.assert_allclose(second.margin, side * first.margin, atol=1e-9)
    np.testing.assert_allclose(second.error, first.error, atol=1e-9)
    assert second.additivity_p == pytest.approx(first.additivity_p, nan_ok=True)


def test_replications_are_independent():
    rng = np.random.default_rng(0)
    signs = additive(np.array([0.2, 0.0, -0.1, -0.2]), (3, 50), rng)
    signs[rng.random(signs.shape) < 0.5] = ABSENT
    together = fitted(signs, pairs(4), np.arange(50), 99)
    for k in range(3):
        alone = fitted(signs[k], pairs(4), np.arange(50), 99)
        np.testing.assert_allclose(together.margin[k], alone.margin)
        np.testing.assert_allclose(together.error[k], alone.error)
        assert together.additivity_p[k] == alone.additivity_p


def test_a_circle_is_not_additive_and_falls_back_to_each_pair():
    rng = np.random.default_rng(0)
    signs = additive(np.zeros(3), (2, 80), rng)
    signs[0] = np.where(rng.random((3, 80)) < 0.7, 1, -1) * np.array([[1], [-1], [1]])  # a > b > c > a
    answer = estimate(signs, pairs(3))
    assert answer.additivity_p[0] <= 0.01
    assert answer.additivity_p[1] > 0.05
    counts = np.stack([(signs[0] == kind).sum(axis=1) for kind in (1, 0, -1)], axis=1)
    alone = human_posterior(counts, confidence=0.95)
    np.testing.assert_allclose(answer.theta[0], alone.theta)
    np.testing.assert_allclose(answer.p[0], alone.p)
    assert np.isnan(answer.p[1]).all()
    fit = fitted(signs, pairs(3), np.arange(80))
    np.testing.assert_allclose(answer.margin[1], fit.margin[1])
    at_level = replace(answer, clusters=np.array(20), additivity_p=np.array(0.05))
    message = (
        "margins are not differences of system levels of x (p = 0.050); therefore the rows of pooled equal the rows of"
        " human"
    )
    assert [*POOLED.remarks(at_level, " of x")] == [Remark("not-additive", message)]


def test_each_pair_of_its_own_respects_clusters():
    # A former version counted copies of an item as items. With 80 clusters the design effect of copies is 5 * 80 / 79.
    rng = np.random.default_rng(0)
    systems, signs = pairs(3), additive(np.zeros(3), (80,), rng)
    signs[0] = np.where(rng.random(80) < 0.8, 1, -1)
    signs[2], signs[1] = signs[0], -signs[0]
    items = PairItems(human=np.repeat(signs, 5, axis=1), systems=systems, units=np.repeat(np.arange(80), 5))
    copied, alone = pooled_estimate(items, confidence=0.95, rng=np.random.default_rng(0)), estimate(signs, systems)
    assert max(copied.additivity_p, alone.additivity_p) <= 0.05
    widths = [estimate_of.margin_high - estimate_of.margin_low for estimate_of in (copied, alone)]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.06)


@pytest.mark.parametrize(("seed", "n_items"), [(0, 12), (1, 30), (2, 60)])
def test_the_test_of_additivity_by_its_definition(seed, n_items):
    # A pair's mean minus its pooled margin, times the root of its annotations, is a sum over clusters: the cluster's
    # residuals in this pair minus its influence on the pooled margin. The null distribution flips the signs of whole
    # clusters.
    rng = np.random.default_rng(seed)
    systems, units = pairs(3), np.arange(n_items) // 2
    signs = additive(rng.uniform(-0.3, 0.3, 3), (n_items,), rng)
    signs[rng.random(signs.shape) < 0.4] = ABSENT
    fit = fitted(signs, systems, units, flips=199, seed=seed)
    contrast = np.zeros((3, 3))
    contrast[np.arange(3), systems[:, 0]], contrast[np.arange(3), systems[:, 1]] = 1, -1
    pair, item = np.nonzero(signs != ABSENT)
    design, y = contrast[pair], signs[pair, item].astype(float)
    inverse = np.linalg.pinv(design.T @ design)
    margin = contrast @ inverse @ design.T @ y
    residual = y - margin[pair]
    gap = np.zeros((3, units.max() + 1))
    for p in range(3):
        n = (pair == p).sum()
        for row, (estimate_of, i) in enumerate(zip(pair, item, strict=True)):
            pull = contrast[p] @ inverse @ design[row]
            gap[p, units[i]] += residual[row] * np.sqrt(n) * ((estimate_of == p) / n - pull)
    flips = sign_flips(units.max() + 1, 199, np.random.default_rng(seed))
    largest = np.abs(gap.sum(axis=1)).max()
    beyond = sum(np.abs(gap @ turn).max() >= largest - 1e-9 for turn in flips)
    np.testing.assert_allclose(fit.margin, margin, atol=1e-9)
    assert fit.additivity_p == pytest.approx((beyond + 1) / 200)
    assert np.isfinite(fitted(signs, systems, units, flips=1).additivity_p)
