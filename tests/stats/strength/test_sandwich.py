"""Clustered covariances against dense matrices."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import fractional_matrix_power
from scipy.sparse import csr_array

from custodes.stats.strength.battles import BattleCounts, Battles, count_by_kind
from custodes.stats.strength.davidson import Fit, fit
from custodes.stats.strength.sandwich import (
    count_effective_clusters,
    leverage_corrected,
    normal_draws,
    penalty_moments,
    widen_covariance,
)
from tests.stats.strength.battles import Arena


def fitted(size: int, *, nu: float = 0.6, n: int = 90, penalised: bool = False) -> tuple[Battles, BattleCounts, Fit]:
    battles = Arena(4, n, nu=nu, size=size).draw(np.random.default_rng(0))
    kinds = count_by_kind(battles, battles.weight)
    result = fit(kinds, component=np.zeros(4, dtype=int), ties_are_half=False, penalised=penalised)
    assert result is not None
    return battles, kinds, result


def informations(kinds: BattleCounts, model: Fit) -> np.ndarray:
    """Return the information (kinds, p, p) of one battle of each kind."""
    log_nu_column = np.eye(len(model.inverse))[-1]
    result = []
    for row, (half, tie, both) in zip(model.design.toarray(), model.variance, strict=True):
        columns = np.stack([row, log_nu_column])
        result.append(columns.T @ np.array([[half, both], [both, tie]]) @ columns)
    return np.stack(result)


@pytest.mark.parametrize("nu", [0.0, 0.6])
@pytest.mark.parametrize("size", [1, 9])
def test_scores_are_corrected_by_the_leverage_of_their_cluster(size: int, nu: float) -> None:
    battles, kinds, model = fitted(size, nu=nu)
    weight, unit = np.ones(90), battles.unit
    of_kind = informations(kinds, model)
    rng = np.random.default_rng(1)
    p, n_units = len(model.inverse), int(unit.max()) + 1
    scores = np.zeros((n_units, p))
    projection = model.inverse @ np.linalg.pinv(model.inverse)  # scores lie in the identified space
    scores[:] = rng.normal(size=(n_units, p)) @ projection
    found = leverage_corrected(csr_array(scores), model, kinds, weight=weight, unit=unit).toarray()
    for u in range(n_units):
        information = of_kind[kinds.kind[unit == u]].sum(axis=0)
        leverage = np.trace(information @ model.inverse)
        if size == 1:
            np.testing.assert_allclose(found[u], scores[u] / np.sqrt(1 - leverage))
        elif leverage > 0.2:
            root = fractional_matrix_power(np.eye(p) - information @ model.inverse, -0.5).real
            np.testing.assert_allclose(found[u] @ model.inverse, root @ scores[u] @ model.inverse, atol=1e-6)


def test_rounding_errors_of_the_leverage_do_not_change_the_correction() -> None:
    """The leverage of each of 30 equal clusters is .1: three coefficients (two strengths and ties) in 30 clusters."""
    battles = Battles(
        first=np.tile([0, 0, 1], 30),
        second=np.tile([1, 2, 2], 30),
        sign=np.random.default_rng(0).choice([-1, 0, 1], 90).astype(np.int8),
        unit=np.repeat(np.arange(30), 3),
        weight=np.ones(90),
        covariates=np.empty((90, 0)),
    )
    kinds = count_by_kind(battles, battles.weight)
    model = fit(kinds, component=np.zeros(3, dtype=int), ties_are_half=False, penalised=False)
    assert model is not None
    scores = csr_array(np.random.default_rng(1).normal(size=(30, len(model.inverse))))
    smaller, larger = (
        leverage_corrected(
            scores, replace(model, inverse=model.inverse * factor), kinds, weight=battles.weight, unit=battles.unit
        ).toarray()
        for factor in (1 - 1e-12, 1 + 1e-12)
    )
    np.testing.assert_allclose(smaller, scores.toarray() / np.sqrt(0.9))
    np.testing.assert_allclose(larger, smaller)


def test_clusters_of_battles_that_are_kinds_of_their_own_need_little_memory() -> None:
    rng, n = np.random.default_rng(0), 20_000
    battles = Battles(
        first=np.arange(n) % 4,
        second=(np.arange(n) + 1) % 4,
        sign=rng.choice([-1, 1], n).astype(np.int8),
        unit=np.arange(n) // 500,
        weight=np.ones(n),
        covariates=rng.normal(size=(n, 1)),
    )
    kinds = count_by_kind(battles, battles.weight)
    model = fit(kinds, component=np.zeros(4, dtype=int), ties_are_half=False, penalised=False)
    assert model is not None
    assert len(kinds.first) == n
    scores = csr_array(rng.normal(size=(40, len(model.inverse))))
    tracemalloc.start()
    leverage_corrected(scores, model, kinds, weight=battles.weight, unit=battles.unit)
    n_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_bytes < 40 * n * 8  # an array (clusters, kinds)


def test_effective_clusters_come_from_products_of_battles_of_a_cluster() -> None:
    battles, kinds, model = fitted(5)
    battles = replace(battles, weight=np.random.default_rng(0).uniform(0.5, 1.5, 90))
    found = count_effective_clusters(model, kinds, battles, n_systems=4)
    for system in range(4):
        c = (model.design @ model.inverse[:, system])[kinds.kind] ** 2 * model.variance[kinds.kind, 0]
        wc, wc2 = battles.weight * c, battles.weight * c**2
        products = sum(wc[battles.unit == u].sum() ** 2 - wc2[battles.unit == u].sum() for u in range(18))
        assert found[system] == pytest.approx(wc.sum() ** 2 / products)
    single, single_kinds, single_model = fitted(1)
    assert np.isinf(count_effective_clusters(single_model, single_kinds, single, n_systems=4)).all()
    doubled = replace(single, weight=np.full(90, 2.0))
    assert np.isfinite(count_effective_clusters(single_model, single_kinds, doubled, n_systems=4)).all()


def test_variances_of_few_clusters_are_widened_to_their_degrees_of_freedom() -> None:
    _, _, model = fitted(1)
    rng = np.random.default_rng(0)
    scores = 3 * rng.normal(size=(40, len(model.inverse)))
    covariance = np.diag(np.full(len(model.inverse), 0.2))
    effective = np.array([5.0, 40.0, 90.0, 1.2])
    found = widen_covariance(covariance, model, csr_array(scores), effective_clusters=effective, n_units=40.0)
    design_effect = np.trace(scores.T @ scores @ model.inverse) / (len(model.inverse) - 1)
    assert design_effect > 1
    quantile = stats.t.ppf(0.975, [4, 39, 39, 1])
    factor = (quantile / stats.t.ppf(0.975, 39)) ** 2 - 1
    floor = np.maximum(0.2, model.inverse.diagonal()[:4] * design_effect)
    expected = covariance.copy()
    expected[np.arange(4), np.arange(4)] += factor * floor
    np.testing.assert_allclose(found, expected)
    rounded = replace(model, inverse=model.inverse + 1e-15)
    again = widen_covariance(covariance, rounded, csr_array(scores), effective_clusters=effective, n_units=40.0)
    np.testing.assert_allclose(again, expected)
    small = widen_covariance(covariance, model, csr_array(0.01 * scores), effective_clusters=effective, n_units=40.0)
    assert small[0, 0] == pytest.approx(0.2 + factor[0] * max(0.2, model.inverse[0, 0]))


def test_battles_of_the_penalty_have_the_moments_of_a_win_and_a_loss() -> None:
    _, _, model = fitted(1, penalised=True)
    residuals, log_nu_column = model.residual(model.coefficients), np.eye(len(model.inverse))[-1]
    expected = np.zeros_like(model.inverse)
    for k, row in enumerate(model.design.toarray()):
        columns = np.stack([row, log_nu_column])
        for outcome in (0, 2):
            score = residuals[k, outcome] @ columns
            expected += model.pseudo[k] / 2 * np.outer(score, score)
    np.testing.assert_allclose(penalty_moments(model), expected, atol=1e-12)


def test_draws_have_exactly_the_covariance() -> None:
    covariance = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]])
    for n_draws, expected in ((50, 50), (2, 4), (4, 4), (0, 0)):
        draws = normal_draws(covariance, n_draws, np.random.default_rng(0))
        assert draws.shape == (expected, 3)
        if expected:
            np.testing.assert_allclose(np.cov(draws.T), covariance, atol=1e-12)
            np.testing.assert_allclose(draws.mean(axis=0), 0, atol=1e-12)
