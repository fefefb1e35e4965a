"""Tests of a random part against quadratic forms with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.strength.random_part import p_random, p_random_within_pairs
from custodes.stats.strength.strengths import fit_battles
from tests.stats.strength.battles import Arena, chances


def hotelling(features: np.ndarray, surplus: np.ndarray, unit: np.ndarray, variance: np.ndarray | None = None) -> float:
    """Return the p-value of the sums of surplus x feature, with the covariance of a random part or of clusters."""
    n, mean = len(surplus), features.mean(axis=0)
    sums = features.T @ surplus
    if len(set(unit)) == n:
        variance = np.full(n, surplus.var(ddof=1)) if variance is None else variance
        covariance = features.T @ np.diag(variance) @ features - variance.sum() * np.outer(mean, mean)
        size = float((surplus > 0).sum())
    else:
        parts = np.stack([((features - mean) * surplus[:, None])[unit == u].sum(axis=0) for u in np.unique(unit)])
        covariance = parts.T @ parts
        squares = np.array([(surplus[unit == u] ** 2).sum() for u in np.unique(unit)])
        size = squares.sum() ** 2 / (squares**2).sum()
    keep = np.sqrt(covariance.diagonal().clip(0)) > 1e-8
    if not keep.any():
        return np.nan
    covariance, sums = covariance[np.ix_(keep, keep)], sums[keep]
    rank = np.linalg.matrix_rank(covariance, tol=1e-7)
    statistic = sums @ np.linalg.pinv(covariance, rcond=1e-8, hermitian=True) @ sums
    if size <= rank + 1:
        return np.nan
    return float(stats.f.sf(statistic * (size - rank) / (rank * (size - 1)), rank, size - rank))


def bonferroni(p_values: list[float]) -> float:
    return min(1.0, np.isfinite(p_values).sum() * np.nanmin(p_values)) if np.isfinite(p_values).any() else np.nan


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("rate", [0.04, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_random_part_is_tested_by_three_quadratic_forms(size: int, rate: float, seed: int) -> None:
    arena, rng = Arena(4, 240, nu=0.6, size=size), np.random.default_rng(seed)
    data = arena.draw(rng)
    annotated = rng.random(240) < rate * np.where(data.sign == 1, 1.6, 0.7)
    metric = fit_battles(data, n_systems=4, ties="davidson")
    coefficients = metric.fit.coefficients
    eta = coefficients[data.first] - coefficients[data.second] + data.covariates[:, 0] * coefficients[4]
    p = chances(eta, np.exp(coefficients[-1]))
    half = data.sign / 2 - p @ [0.5, 0, -0.5]
    tie = (data.sign == 0) - p[:, 1]
    sides = np.zeros((240, 4))
    sides[np.arange(240), data.first], sides[np.arange(240), data.second] = 1, -1
    tested = np.abs(sides).sum(axis=0) * annotated.mean() >= 5
    scalar = np.stack([np.abs(eta), half * np.where(eta < 0, -1, 1), tie, half * data.covariates[:, 0]], axis=1)
    surplus = annotated - annotated.mean()
    tests = [scalar, np.abs(sides[:, tested]), half[:, None] * sides[:, tested]]
    expected = bonferroni([hotelling(features, surplus, data.unit) for features in tests if features.shape[1]])
    assert p_random(metric, annotated) == pytest.approx(expected, rel=1e-5)


def test_without_a_part_there_is_no_test() -> None:
    data = Arena(3, 60).draw(np.random.default_rng(0))
    metric = fit_battles(data, n_systems=3, ties="davidson")
    for annotated in (np.zeros(60, dtype=bool), np.ones(60, dtype=bool)):
        assert np.isnan(p_random(metric, annotated))
    within = {"unit": np.arange(4), "n_systems": 3}
    whole_pairs = np.array([True, True, False, False])  # within each pair, all or no battles are annotated
    arrays = (np.array([0, 0, 0, 0]), np.array([1, 1, 2, 2]), np.array([1, -1, 0, 1], dtype=np.int8), whole_pairs)
    assert np.isnan(p_random_within_pairs(*arrays, **within))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("selected_by", ["ties", "wins of a system"])
def test_within_pairs_the_proportions_of_pairs_do_not_matter(size: int, seed: int, selected_by: str) -> None:
    rng = np.random.default_rng(seed)
    n, pairs = 180, np.array([[0, 1], [0, 2], [1, 2]])
    code = rng.integers(0, 3, n)
    first, second = pairs[code].T
    sign = rng.choice([-1, 0, 1], n, p=[0.5, 0.2, 0.3]).astype(np.int8)
    wins = np.where(first == 1, sign == 1, (second == 1) & (sign == -1))  # of the second system
    rarely = sign == 0 if selected_by == "ties" else wins
    annotated = rng.random(n) < np.array([0.1, 0.5, 0.8])[code] * np.where(rarely, 0.5, 1)
    unit = np.arange(n) // size

    def centred(values: np.ndarray) -> np.ndarray:
        return values - np.array([values[code == k].mean() for k in range(3)])[code]

    surplus, signs, ties = (centred(values.astype(float)) for values in (annotated, sign, sign == 0))
    variance = np.array([surplus[code == k] @ surplus[code == k] / ((code == k).sum() - 1) for k in range(3)])[code]
    stronger = np.where([sign[code == k].sum() < 0 for k in range(3)], -1, 1)[code]
    sides = np.zeros((n, 3))
    sides[np.arange(n), first], sides[np.arange(n), second] = 1, -1
    tests = [np.stack([signs * stronger, ties], axis=1), signs[:, None] * sides]
    expected = bonferroni([hotelling(features, surplus, unit, variance) for features in tests])
    options = {"unit": unit, "n_systems": 3}
    assert p_random_within_pairs(first, second, sign, annotated, **options) == pytest.approx(expected, rel=1e-5)
