from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correlation import pearson
from custodes.stats.population import population_values


def resampled(rng: np.random.Generator, n: int = 300, systems: int = 6, noise: float = 0.5) -> np.ndarray:
    """Return estimates (human and metric, 1 + B, 1, systems)."""
    truth = rng.normal(size=(2, 1, 1, systems))
    point = truth + noise * rng.normal(size=truth.shape)
    return np.concatenate([point, point + noise * rng.normal(size=(2, n, 1, systems))], axis=1)


def test_without_noise_values_are_the_means_themselves() -> None:
    own = resampled(np.random.default_rng(0), noise=0.0)
    for drawn, given in zip(population_values(*own, n_units=20), own, strict=True):
        np.testing.assert_allclose(drawn, (given - given.mean(axis=-1, keepdims=True))[1:], atol=1e-3)


def test_draws_do_not_depend_on_the_order_of_systems_or_on_units() -> None:
    own = resampled(np.random.default_rng(2))
    order = np.array([3, 1, 5, 0, 2, 4])
    human, metric = population_values(*own, n_units=20)
    moved = population_values(own[0][..., order], own[1][..., order], n_units=20)
    np.testing.assert_allclose(moved, [human[..., order], metric[..., order]], atol=1e-9)
    scaled = population_values(own[0] * 10 + 3, own[1] * 0.2 - 1, n_units=20)
    np.testing.assert_allclose(scaled, [human * 10, metric * 0.2], atol=1e-8)


def test_a_metric_that_is_people_stays_people() -> None:
    human = resampled(np.random.default_rng(3))[0]
    drawn = population_values(human, human, n_units=20)
    np.testing.assert_allclose(*drawn, atol=1e-3)
    assert (pearson(*drawn) > 0.999).all()


def test_a_system_that_is_not_rated_has_no_value() -> None:
    own = resampled(np.random.default_rng(4), systems=7)
    own[1, :, :, 6] = np.nan
    own[0, 5, :, 2] = np.nan
    human, metric = population_values(*own, n_units=20)
    assert np.isnan([human[..., 6], metric[..., 6]]).all()
    assert np.isnan([human[4, :, 2], metric[4, :, 2]]).all()
    assert np.isfinite(metric[:, :, :6]).mean() > 0.99


@pytest.mark.parametrize("systems", [1, 2])
def test_of_one_or_two_systems_nothing_is_known(systems: int) -> None:
    own = resampled(np.random.default_rng(5), systems=systems)
    centred = own - own.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(population_values(*own, n_units=20), centred[:, 1:])


def test_without_resamples_there_is_nothing() -> None:
    own = resampled(np.random.default_rng(6), n=0)
    assert [drawn.shape for drawn in population_values(*own, n_units=20)] == [(0, 1, 6)] * 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("distance", [0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
def test_a_linear_function_of_people_correlates_perfectly(distance: float, seed: int) -> None:
    # `distance` from the line, in units of human values: the line is a limit and no special case
    rng = np.random.default_rng(seed)
    human = resampled(rng, n=100, noise=10.0 ** rng.uniform(-4, 1))[0]
    slope, level = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-3, 3), rng.normal() * 10
    metric = slope * (human + distance * rng.normal(size=human.shape)) + level
    drawn = population_values(human, metric, n_units=30)
    assert np.isfinite(drawn).all()
    alone = population_values(human, human, n_units=30)[0]
    if distance <= 1e-6:
        np.testing.assert_allclose(drawn[0], alone, atol=0.01 * np.abs(alone).max())
        np.testing.assert_allclose(drawn[1], slope * drawn[0], atol=0.01 * np.abs(slope * alone).max())


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_side_stays_constant_and_leaves_the_other_alone(constant: int) -> None:
    own = resampled(np.random.default_rng(7))
    own[constant] = 0.3
    drawn = population_values(*own, n_units=20)
    np.testing.assert_allclose(drawn[constant], 0, atol=1e-9)
    assert np.median(drawn[1 - constant].std(axis=-1)) > 0.1
