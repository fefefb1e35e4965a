from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wishart

from custodes.stats.correlation import pearson
from custodes.stats.population import population_values


def resampled(rng: np.random.Generator, n: int = 300, systems: int = 6, noise: float = 0.5) -> np.ndarray:
    """Return estimates (human and metric, 1 + B, 1, systems)."""
    truth = rng.normal(size=(2, 1, 1, systems))
    point = truth + noise * rng.normal(size=truth.shape)
    return np.concatenate([point, point + noise * rng.normal(size=(2, n, 1, systems))], axis=1)


def test_without_noise_values_are_the_means_themselves() -> None:
    draws = resampled(np.random.default_rng(0), noise=0.0)
    for values, draws_of in zip(population_values(*draws, n_units=20), draws, strict=True):
        np.testing.assert_allclose(values, (draws_of - draws_of.mean(axis=-1, keepdims=True))[1:], atol=1e-3)


def test_values_shrink_on_average_as_the_truncated_wishart_distribution_says() -> None:
    draws = resampled(np.random.default_rng(8), n=20_000, noise=0.8)
    draws[1] += 2 * draws[0]
    centred = (draws - draws.mean(axis=-1, keepdims=True))[:, :, 0]
    data, resamples = centred[:, 0], centred[:, 1:]
    errors = resamples - resamples.mean(axis=1, keepdims=True)
    noise = np.einsum("ibs,jbs->ij", errors, errors) / ((20_000 - 1) * (6 - 1)) * 20 / (20 - 1)
    root = np.linalg.cholesky(noise)
    scaled = np.linalg.solve(root, data)
    precisions = wishart(5, np.linalg.inv(scaled @ scaled.T)).rvs(20_000, random_state=1)
    sizes, axes = np.linalg.eigh(precisions)
    shrinkage = np.einsum("bij,bj,bkj->ik", axes, 1 - np.minimum(sizes, 1), axes) / 20_000
    means = np.array(population_values(*draws, n_units=20)).mean(axis=1)[:, 0]
    np.testing.assert_allclose(means, root @ shrinkage @ scaled, atol=0.01)
    assert np.abs(means - data).max() > 0.3


def test_draws_do_not_depend_on_the_order_of_systems_or_on_units() -> None:
    draws = resampled(np.random.default_rng(2))
    order = np.array([3, 1, 5, 0, 2, 4])
    human, metric = population_values(*draws, n_units=20)
    permuted = population_values(draws[0][..., order], draws[1][..., order], n_units=20)
    np.testing.assert_allclose(permuted, [human[..., order], metric[..., order]], atol=1e-9)
    scaled = population_values(draws[0] * 10 + 3, draws[1] * 0.2 - 1, n_units=20)
    np.testing.assert_allclose(scaled, [human * 10, metric * 0.2], atol=1e-8)


def test_a_metric_that_is_people_stays_people() -> None:
    human = resampled(np.random.default_rng(3))[0]
    values = population_values(human, human, n_units=20)
    np.testing.assert_allclose(*values, atol=1e-3)
    assert (pearson(*values) > 0.999).all()


def test_a_system_that_is_not_rated_has_no_value() -> None:
    draws = resampled(np.random.default_rng(4), systems=7)
    draws[1, :, :, 6] = np.nan
    draws[0, 5, :, 2] = np.nan
    human, metric = population_values(*draws, n_units=20)
    assert np.isnan([human[..., 6], metric[..., 6]]).all()
    assert np.isnan([human[4, :, 2], metric[4, :, 2]]).all()
    assert np.isfinite(metric[:, :, :6]).mean() > 0.99


@pytest.mark.parametrize("systems", [1, 2])
def test_of_one_or_two_systems_nothing_is_known(systems: int) -> None:
    draws = resampled(np.random.default_rng(5), systems=systems)
    centred = draws - draws.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(population_values(*draws, n_units=20), centred[:, 1:])


def test_without_resamples_there_is_nothing() -> None:
    draws = resampled(np.random.default_rng(6), n=0)
    assert [values.shape for values in population_values(*draws, n_units=20)] == [(0, 1, 6)] * 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("distance", [0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
def test_a_linear_function_of_people_correlates_perfectly(distance: float, seed: int) -> None:
    # `distance` from the line, in units of human values: the line is a limit and no special case
    rng = np.random.default_rng(seed)
    human = resampled(rng, n=100, noise=10.0 ** rng.uniform(-4, 1))[0]
    slope, level = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-3, 3), rng.normal() * 10
    metric = slope * (human + distance * rng.normal(size=human.shape)) + level
    values = population_values(human, metric, n_units=30)
    assert np.isfinite(values).all()
    alone = population_values(human, human, n_units=30)[0]
    if distance <= 1e-6:
        np.testing.assert_allclose(values[0], alone, atol=0.01 * np.abs(alone).max())
        np.testing.assert_allclose(values[1], slope * values[0], atol=0.01 * np.abs(slope * alone).max())


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_side_stays_constant_and_leaves_the_other_alone(constant: int) -> None:
    draws = resampled(np.random.default_rng(7))
    draws[constant] = 0.3
    values = population_values(*draws, n_units=20)
    np.testing.assert_allclose(values[constant], 0, atol=1e-9)
    assert np.median(values[1 - constant].std(axis=-1)) > 0.1
