from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy import integrate, special, stats
from scipy.spatial.distance import cdist

from custodes.stats.learning import bayesopt
from custodes.stats.learning.bayesopt import maximise

Function = Callable[[np.ndarray], np.ndarray]


def branin(points: np.ndarray) -> np.ndarray:
    """Return the negative of Branin's function: its three maxima are all -0.397887 (Dixon and Szego 1978)."""
    x, y = 15 * points[:, 0] - 5, 15 * points[:, 1]
    bowl = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    return -(bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


def corner(points: np.ndarray) -> np.ndarray:
    """Return a function with maximum 0 where the first half of the coordinates is 1 and the other 0."""
    half = points.shape[1] // 2
    return -((1 - points[:, :half]) ** 2).sum(axis=1) - (points[:, half:] ** 2).sum(axis=1)


class Search(NamedTuple):
    """The result of a search with its evaluations, in calls of one or more points."""

    point: np.ndarray
    value: float
    calls: list[np.ndarray]
    values: np.ndarray

    @property
    def points(self) -> np.ndarray:
        return np.concatenate(self.calls)


def searched(function: Function, *, seed: int = 0, n_dims: int = 2, n_iterations: int = 10) -> Search:
    calls: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def recorded(points: np.ndarray) -> np.ndarray:
        calls.append(points)
        values.append(function(points))
        return values[-1]

    rng = np.random.default_rng(seed)
    point = maximise(recorded, n_dims=n_dims, n_initial=5, n_iterations=n_iterations, rng=rng)
    return Search(point, function(point[np.newaxis]).item(), calls, np.concatenate(values))


@pytest.mark.parametrize("seed", range(3))
def test_finds_the_maximum_of_branin(seed: int) -> None:
    assert searched(branin, seed=seed, n_iterations=40).value == pytest.approx(-0.397887, abs=0.01)


def test_finds_a_corner_of_many_dimensions() -> None:
    # The best of 105 random points is about -5.
    assert searched(corner, n_dims=30, n_iterations=100).value > -0.5


def test_the_best_evaluated_point_is_returned() -> None:
    result = searched(branin)
    assert [len(points) for points in result.calls] == [5, *[1] * 10]
    assert result.value == pytest.approx(result.values.max())
    np.testing.assert_array_equal(result.point, result.points[result.values.argmax()])
    assert ((result.points >= 0) & (result.points <= 1)).all()


@pytest.mark.parametrize(("shift", "factor"), [(0.0, 0.25), (1.0, 1.0), (-30.0, 7.0), (0.01, 1e-3), (0.0, 1e6)])
def test_shift_and_factor_of_the_objective_change_nothing(shift: float, factor: float) -> None:
    plain, changed = searched(branin), searched(lambda points: shift + factor * branin(points))
    np.testing.assert_allclose(changed.points, plain.points, atol=1e-6)
    np.testing.assert_allclose(changed.values, shift + factor * plain.values, atol=1e-4 * factor)


def test_nan_counts_as_the_lowest_value_seen() -> None:
    plain, holed = np.array([3.0, 1.0, 1.0, 2.0]), np.array([3.0, 1.0, np.nan, 2.0])
    np.testing.assert_array_equal(bayesopt._standardise_values(holed), bayesopt._standardise_values(plain))


def test_nan_is_avoided() -> None:
    result = searched(lambda points: np.where(points[:, 0] > 0.3, np.nan, branin(points)), n_iterations=30)
    assert result.value == pytest.approx(np.nanmax(result.values))
    assert result.value == pytest.approx(-0.397887, abs=0.01)  # one of the three maxima is at 0.12
    assert np.isnan(result.values).sum() < 10


def test_where_nothing_is_defined_the_optimum_is_nan() -> None:
    result = searched(lambda points: np.full(len(points), np.nan))
    assert np.isnan([result.value, *result.point]).all()
    assert len(np.unique(result.points, axis=0)) == 15


def test_a_constant_objective_is_explored() -> None:
    result = searched(lambda points: np.ones(len(points)))
    assert result.value == 1
    assert len(np.unique(result.points, axis=0)) == 15


def test_without_iterations_it_is_random_search() -> None:
    result = searched(branin, n_iterations=0)
    np.testing.assert_array_equal(result.points, np.random.default_rng(0).random((5, 2)))


def matern(a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    """Return the kernel by its general definition (Rasmussen and Williams 2006, equation 4.14) with nu = 5/2."""
    r = np.maximum(cdist(a, b), 1e-9) * np.sqrt(5) / length
    return 2**-1.5 / special.gamma(2.5) * r**2.5 * special.kv(2.5, r)


@pytest.mark.parametrize(("length", "noise"), [(0.3, 1e-4), (2.0, 1e-2)])
def test_expected_improvement_equals_its_definition(length: float, noise: float) -> None:
    rng = np.random.default_rng(0)
    points, candidates = rng.random((20, 3)), rng.random((50, 3))
    y = bayesopt._standardise_values(np.sin(5 * points).sum(axis=1))
    gain = bayesopt._expected_improvement(points, y, length, noise)(candidates)

    cross, kernel = matern(candidates, points, length), matern(points, points, length) + noise * np.eye(20)
    by = np.linalg.solve(kernel, cross.T).T
    variance = y @ np.linalg.solve(kernel, y) / 20 * (1 - (by * cross).sum(axis=1))
    for mean, deviation, value in zip(by @ y, np.sqrt(variance), gain, strict=True):
        x = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 20_001)
        expected = integrate.trapezoid(np.maximum(x - y.max(), 0) * stats.norm.pdf(x, mean, deviation), x)
        assert value == pytest.approx(expected, abs=1e-6)


def test_length_and_noise_are_the_likeliest() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((25, 2))
    y = bayesopt._standardise_values(np.sin(6 * points).sum(axis=1) + 0.1 * rng.normal(size=25))

    def likelihood(length: float, noise: float) -> float:
        kernel = matern(points, points, length) + noise * np.eye(25)
        variance = y @ np.linalg.solve(kernel, y) / 25
        return float(stats.multivariate_normal.logpdf(y, cov=variance * kernel))

    grid = [(length * np.sqrt(2), noise) for length in bayesopt._LENGTHS for noise in bayesopt._NOISES]
    assert bayesopt._fit_hyperparameters(points, y) == pytest.approx(max(grid, key=lambda pair: likelihood(*pair)))
