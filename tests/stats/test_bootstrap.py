from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.bootstrap import (
    bootstrap_blocks,
    bootstrap_weights,
    same_outputs,
    sign_flips,
    unit_sums,
    weighted_sums,
    with_point,
)
from custodes.stats.intervals import (
    ANY,
    CORRELATION,
    POSITIVE,
    SHARE,
    expanded_interval,
    percentile_interval,
    student_interval,
)


def test_bootstrap_weights_are_multinomial_counts() -> None:
    weights = bootstrap_weights(8, 20_000, np.random.default_rng(1))[1:]
    assert weights.shape == (20_000, 8)
    assert (weights.sum(axis=1) == 8).all()
    assert np.array_equal(weights, np.rint(weights))
    # multinomial(n, 1/n): mean 1, variance 1 - 1/n, covariance -1/n; 5 standard errors are about .04
    np.testing.assert_allclose(weights.mean(axis=0), 1, atol=0.04)
    covariance = np.cov(weights.T)
    np.testing.assert_allclose(np.diag(covariance), 1 - 1 / 8, atol=0.06)
    np.testing.assert_allclose(covariance[np.triu_indices(8, 1)], -1 / 8, atol=0.05)


def test_the_same_generator_state_gives_the_same_weights() -> None:
    first, second = (bootstrap_weights(5, 4, np.random.default_rng(0))[1:] for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, bootstrap_weights(5, 4, np.random.default_rng(1))[1:])


@pytest.mark.parametrize("n_units", [1, 7, 5000, 100_000])
def test_blocks_bytes_and_floats_are_the_same_draws(n_units: int) -> None:
    n = 90 if n_units == 100_000 else 5
    parts = [own[:, :50] for _, own in bootstrap_blocks(n_units, n, np.random.default_rng(3))]
    assert len(parts) == (2 if n_units == 100_000 else 1)
    counts = bootstrap_weights(n_units, n, np.random.default_rng(3), dtype=np.uint8)
    assert counts.dtype == np.uint8
    assert (counts.sum(axis=1) == n_units).all()
    assert np.array_equal(np.concatenate(parts), counts[:, :50])
    if n == 5:
        assert np.array_equal(counts, bootstrap_weights(n_units, n, np.random.default_rng(3)))


def test_many_units_are_drawn_by_the_same_law() -> None:
    counts = bootstrap_weights(5000, 200, np.random.default_rng(2), dtype=np.uint8)[1:]
    # a binomial of 5000 draws with probability 1 / 5000: variance 1 - 1 / 5000; 5 standard errors of a million are .007
    assert abs(counts.var() - 1) < 0.01
    shares = np.bincount(counts.ravel(), minlength=5)[:5] / counts.size
    np.testing.assert_allclose(shares, stats.binom.pmf(np.arange(5), 5000, 1 / 5000), atol=0.003)


def test_weights_of_a_byte_give_the_same_sums() -> None:
    counts = bootstrap_weights(100_000, 90, np.random.default_rng(4), dtype=np.uint8)
    values = np.random.default_rng(5).normal(size=(2, 100_000))
    np.testing.assert_allclose(weighted_sums(counts, values), counts.astype(float) @ values.T, rtol=1e-9, atol=1e-6)


def test_the_point_comes_first() -> None:
    weights = np.array([[0.0, 3.0, 0.0]])
    assert with_point(weights).tolist() == [[1, 1, 1], [0, 3, 0]]
    assert with_point(np.empty((0, 2))).tolist() == [[1, 1]]


@given(seed=st.integers(0, 2**32 - 1))
def test_unit_sums_add_what_belongs_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_items, n_units = rng.integers(0, 12), rng.integers(1, 6)
    values, units = rng.normal(size=(2, 3, n_items)), rng.integers(0, n_units, n_items)
    sums = unit_sums(values, units=units, n_units=n_units)
    expected = np.stack([values[..., units == u].sum(axis=-1) for u in range(n_units)], axis=-1)
    np.testing.assert_allclose(sums, expected, atol=1e-12)
    weights = rng.integers(0, 3, (4, n_units)).astype(float)
    repeated = np.stack([np.repeat(values, w[units].astype(int), axis=-1).sum(axis=-1) for w in weights])
    np.testing.assert_allclose(weighted_sums(weights, sums), repeated, atol=1e-12)


def test_integers_add_up_without_overflow() -> None:
    signs = np.ones((1, 300), dtype=np.int8)
    assert unit_sums(signs, units=np.zeros(300, dtype=int), n_units=1).item() == 300


def test_metrics_that_share_their_outputs_are_grouped() -> None:
    human = np.array([[1.0, 2.0], [np.nan, 4.0]])
    metrics = np.zeros((3, 2, 2))
    metrics[1, 0, 0] = np.nan
    metrics[2, 1, 0] = np.nan  # the person lacks it as well
    groups = {tuple(m): o.tolist() for m, o in same_outputs(human, metrics)}
    assert groups == {(0, 2): [0, 1, 3], (1,): [1, 3]}


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_percentile_interval_equals_numpy_quantile(confidence: float) -> None:
    draws = np.random.default_rng(0).normal(size=(37, 2, 3))
    draws[:5, 0, 1] = np.nan
    low, high = percentile_interval(draws, confidence=confidence)
    np.testing.assert_allclose(low, np.nanquantile(draws, (1 - confidence) / 2, axis=0))
    np.testing.assert_allclose(high, np.nanquantile(draws, (1 + confidence) / 2, axis=0))


def test_an_interval_needs_half_of_its_draws() -> None:
    draws = np.tile(np.array([[1.0], [2.0], [3.0], [4.0]]), 3)
    draws[:2, 0] = np.nan
    draws[:3, 1] = np.nan
    draws[:, 2] = np.nan
    low, high = percentile_interval(draws, confidence=0.5)
    assert low[0] == 3.25
    assert high[0] == 3.75
    assert np.isnan(low[1:]).all()
    assert np.isnan(high[1:]).all()


def test_no_draws_give_no_interval() -> None:
    low, high = percentile_interval(np.full((1, 2), np.nan), confidence=0.95)
    assert np.isnan([low, high]).all()
    for none in percentile_interval(np.empty((0, 2, 3)), confidence=0.95):
        assert none.shape == (2, 3)
        assert np.isnan(none).all()


def test_sign_flips_are_fair() -> None:
    flips = sign_flips(50, 2_000, np.random.default_rng(0))
    assert flips.dtype == np.int8
    assert set(np.unique(flips)) == {-1, 1}
    assert abs(flips.mean()) < 5 / np.sqrt(flips.size)
    assert np.abs(flips.mean(axis=0)).max() < 5 / np.sqrt(2_000)


def test_students_interval_of_a_mean_is_that_of_a_textbook() -> None:
    values = np.random.default_rng(0).normal(size=9)
    draws = bootstrap_weights(9, 200_000, np.random.default_rng(1))[1:] @ values / 9
    ends = student_interval(np.append(values.mean(), draws), confidence=0.9, n_units=9, bounds=ANY)
    expected = stats.t.interval(0.9, 8, loc=values.mean(), scale=stats.sem(values))  # SciPy
    np.testing.assert_allclose(ends, expected, atol=0.005)


@pytest.mark.parametrize("bounds", [SHARE, CORRELATION, ANY])
def test_students_interval_turns_with_the_statistic(bounds: tuple[float, float]) -> None:
    draws = np.random.default_rng(0).uniform(0.1, 0.9, size=(50, 4))
    turned = sum(bounds) - draws if np.isfinite(bounds[1]) else -draws
    low, high = student_interval(draws, confidence=0.9, n_units=7, bounds=bounds)
    back = sum(bounds) if np.isfinite(bounds[1]) else 0.0
    other_low, other_high = student_interval(turned, confidence=0.9, n_units=7, bounds=bounds)
    np.testing.assert_allclose([back - other_high, back - other_low], [low, high], atol=1e-12)


@pytest.mark.parametrize("bounds", [SHARE, CORRELATION, POSITIVE, (0.0, 2.0), (1.0, np.inf)])
@pytest.mark.parametrize("n_units", [2, 12])
def test_students_interval_holds_the_estimate_within_bounds(bounds: tuple[float, float], n_units: int) -> None:
    least, largest = bounds
    draws = np.random.default_rng(0).uniform(least, min(largest, 5.0), size=(40, 200))
    draws[0, :2] = least, min(largest, 5.0)
    low, high = student_interval(draws, confidence=0.95, n_units=n_units, bounds=bounds)
    assert (low <= draws[0]).all()
    assert (high >= draws[0]).all()
    assert (low >= least).all()
    assert (high <= largest).all()


def test_students_interval_needs_an_estimate_half_of_the_draws_and_two_clusters() -> None:
    draws = np.random.default_rng(0).normal(size=(9, 4))
    draws[0, 0] = np.nan
    draws[0, 1] = np.inf
    draws[1:6, 2] = np.nan
    low, high = student_interval(draws, confidence=0.95, n_units=8, bounds=ANY)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, True, True, False]
    for few, n_units in ((draws, 1), (draws[:1], 8), (draws[:2], 8)):
        assert np.isnan(student_interval(few, confidence=0.95, n_units=n_units, bounds=ANY)).all()


def test_expanded_percentiles_are_those_of_t_and_hold_the_estimate() -> None:
    draws = np.random.default_rng(0).normal(size=(2000, 2))
    low, high = expanded_interval(np.array([0.0, 9.0]), draws, confidence=0.9, n_units=12, bounds=ANY)
    level = stats.norm.cdf(stats.t.ppf(0.95, 11))  # SciPy
    np.testing.assert_allclose(low, np.quantile(draws, 1 - level, axis=0))
    np.testing.assert_allclose(high, [np.quantile(draws[:, 0], level), 9.0])
    assert np.isnan(expanded_interval(np.array([np.nan, 1.0]), draws, confidence=0.9, n_units=12, bounds=ANY)[0][0])


def test_units_that_add_nothing_are_left_out_of_sums() -> None:
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4, (6, 20))
    few, none = np.zeros((3, 2, 20)), np.zeros((2, 20))
    few[..., [2, 7, 19]] = rng.normal(size=(3, 2, 3))
    few[1, 0, 7] = np.nan
    for kind in (np.float64, np.uint8):
        np.testing.assert_allclose(weighted_sums(weights.astype(kind), few), np.einsum("bu,kmu->bkm", weights, few))
        assert (weighted_sums(weights.astype(kind), none) == np.zeros((6, 2))).all()
