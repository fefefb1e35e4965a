"""Several intervals at once: against rectangles of the normal distribution, single intervals, and by symmetry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from custodes.stats.intervals import (
    ANY,
    CORRELATION,
    SHARE,
    ResampledEstimate,
    expanded_interval,
    fieller_interval,
    simultaneous_intervals,
    student_interval,
)


def estimates_of(draws: np.ndarray, **more: object) -> list[ResampledEstimate]:
    """draws (1 + B, k)."""
    about = {"population": None, "n_units": 200, "bounds": ANY, "width": 1.0}
    return [ResampledEstimate(draws=own, **{**about, **more}) for own in draws.T]  # type: ignore[arg-type]


def normal(correlation: np.ndarray, n: int = 4000, seed: int = 0) -> np.ndarray:
    """(1 + n, k) with exactly this correlation, around 0."""
    made = np.random.default_rng(seed).normal(size=(n, len(correlation)))
    made -= made.mean(axis=0)
    made = (
        made
        @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(made.T, ddof=0)))).T
        @ np.linalg.cholesky(correlation).T
    )
    return np.concatenate([np.zeros((1, len(correlation))), made])


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, -0.45])
def test_the_level_is_that_of_a_rectangle_of_the_normal_distribution(rho: float) -> None:
    # reference: scipy's numerical integral of the multivariate normal density over a cube
    correlation = np.full((3, 3), rho) + (1 - rho) * np.eye(3)
    of_normal = stats.multivariate_normal(np.zeros(3), correlation)
    q = brentq(lambda z: of_normal.cdf([z] * 3, lower_limit=[-z] * 3) - 0.95, 1.5, 3.0, xtol=1e-4)
    made = simultaneous_intervals(estimates_of(normal(correlation)), [0.0] * 3, confidence=0.95)
    assert made.level == pytest.approx(2 * stats.norm.cdf(q) - 1, abs=0.0015)


def test_one_estimate_has_the_interval_that_it_has_alone() -> None:
    draws = np.clip(0.7 + 0.1 * normal(np.eye(1), 500), 0, 1)
    (share,) = estimates_of(draws, bounds=SHARE, n_units=12)
    made = simultaneous_intervals([share], [0.5], confidence=0.9)
    low, high = student_interval(draws[:, 0], confidence=0.9, n_units=12, bounds=SHARE, few_draws=True)
    assert (made.level, made.low[0], made.high[0]) == (0.9, low, high)
    population = np.random.default_rng(1).beta(8, 3, 500)
    (over_systems,) = estimates_of(draws, population=population, n_units=12)
    made = simultaneous_intervals([over_systems], [0.5], confidence=0.9)
    low, high = expanded_interval(draws[0, 0], population, confidence=0.9, n_units=12, bounds=ANY)
    assert (made.low[0], made.high[0]) == (low, high)


def test_p_of_one_is_that_of_students_t() -> None:
    draws = normal(np.eye(1), 300)
    draws[0] = 1.5
    made = simultaneous_intervals(estimates_of(draws, n_units=10), [0.2], confidence=0.95)
    error = draws[1:].std(ddof=1) * np.sqrt(10 / 9)
    degrees = 1 / (1 / 9 + 1 / 299)  # Satterthwaite: of 10 clusters and of 300 resamples
    assert made.p_value[0] == pytest.approx(2 * stats.t.sf(1.3 / error, degrees), rel=1e-6)


@pytest.mark.parametrize("n_draws", [20, 50, 1000])
def test_few_draws_keep_the_level(n_draws: int) -> None:
    # A normal estimate with a known error, from so many normal draws: the level is that of a simulation.
    rng, hits, n = np.random.default_rng(n_draws), 0, 4000
    for _ in range(n):
        draws = np.concatenate([[rng.normal()], rng.normal(size=n_draws)])
        draws[1:] += draws[0]
        low, high = student_interval(draws, confidence=0.95, n_units=10_000, bounds=ANY, few_draws=True)
        hits += low <= 0.0 <= high
    assert abs(hits / n - 0.95) < 3 * np.sqrt(0.95 * 0.05 / n)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_p_is_small_where_the_interval_leaves_the_value_out(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(400, k)) @ rng.normal(size=(k, k)) * 0.1
    at = draws[0] + draws.std(axis=0) * rng.normal(0, 3, k)
    made = simultaneous_intervals(estimates_of(draws, n_units=int(rng.integers(8, 100))), at, confidence=0.9)
    known = np.isfinite(made.low)
    out = (at < made.low) | (at > made.high)
    np.testing.assert_array_equal(made.p_value[known] <= 0.1, out[known])
    assert 0.9 <= made.level <= 1 - 0.1 / k + 1e-12


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_negated_and_permuted_and_scaled_estimates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws = np.concatenate([np.zeros((1, 4)), rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))])
    at, order = rng.normal(size=4), rng.permutation(4)
    asked = {"confidence": 0.95}
    made = simultaneous_intervals(estimates_of(draws), at, **asked)
    mirrored = simultaneous_intervals(estimates_of(-draws), -at, **asked)
    np.testing.assert_allclose([mirrored.low, mirrored.high], [-made.high, -made.low], rtol=1e-9)
    np.testing.assert_allclose(mirrored.p_value, made.p_value)
    scaled = simultaneous_intervals(estimates_of(3 * draws), 3 * at, **asked)
    np.testing.assert_allclose(scaled.low, 3 * made.low, rtol=1e-9)
    moved = simultaneous_intervals(estimates_of(draws[:, order]), at[order], **asked)
    np.testing.assert_allclose(moved.low, made.low[order], rtol=0.02)  # other directions


def test_the_same_estimate_many_times_costs_nothing() -> None:
    same = np.repeat(normal(np.eye(1)), 8, axis=1)
    made = simultaneous_intervals(estimates_of(same), [0.1] * 8, confidence=0.95)
    assert made.level == pytest.approx(0.95, abs=0.002)


def test_where_no_resample_departs_the_error_is_unknown_and_not_0() -> None:
    # By definition: had a share p of clusters been unlike the others, none of 30 would be met with (1 - p)^30.
    (alike,) = estimates_of(np.ones((101, 1)), bounds=SHARE, n_units=30)
    low, high = alike.interval(0.95)
    assert (low**30, high) == (pytest.approx(0.025), 1.0)
    (correlation,) = estimates_of(np.ones((101, 1)), bounds=CORRELATION, width=2.0, n_units=30)
    assert correlation.interval(0.95)[0] == pytest.approx(1 - 2 * (1 - low))
    (difference,) = estimates_of(np.zeros((101, 1)), n_units=30)
    low, high = difference.interval(0.95)
    assert low == pytest.approx(-high)
    assert low < -0.05
    made = simultaneous_intervals([alike], [0.9], confidence=0.95)
    assert made.p_value[0] == pytest.approx(2 * 0.9**30, rel=1e-6)


def test_too_few_clusters_or_draws_tell_nothing() -> None:
    draws = normal(np.eye(1), 200)
    told = {n: np.isfinite(estimates_of(draws, n_units=n)[0].interval(0.95)[0]) for n in (1, 2, 5, 6)}
    assert told == {1: False, 2: False, 5: False, 6: True}  # 2 ** -4 > .05 >= 2 ** -5
    population = np.random.default_rng(0).normal(size=100)
    (few,) = estimates_of(draws, population=population)
    assert np.isfinite(few.interval(0.95)[0])
    assert np.isnan(few.interval(0.999)[0])
    (half,) = estimates_of(np.where(np.arange(201)[:, None] % 3 == 0, draws, np.nan))
    assert np.isnan(half.interval(0.95)[0])


def test_undefined_estimates_are_not_of_the_family() -> None:
    draws = normal(np.eye(2))
    known = estimates_of(draws)
    few = replace(known[0], n_units=3)
    undefined = replace(known[0], draws=np.full(10, np.nan))
    alone = simultaneous_intervals(known, [0.0, 2.0], confidence=0.95)
    made = simultaneous_intervals([None, few, *known, undefined], [0.0] * 3 + [2.0, 0.0], confidence=0.95)
    np.testing.assert_array_equal(made.low[[2, 3]], alone.low)
    np.testing.assert_array_equal(made.p_value[[2, 3]], alone.p_value)
    assert np.isnan(made.low[[0, 1, 4]]).all()
    np.testing.assert_array_equal(np.isnan(made.estimate), [True, False, False, False, True])
    nothing = simultaneous_intervals([None], [0.0], confidence=0.95)
    assert np.isnan([nothing.low, nothing.p_value]).all()


def test_intervals_hold_all_true_values_together() -> None:
    # Means of 25 clusters of correlated, skewed values: 100 studies of 5 estimates; the standard error is .022.
    rng, held = np.random.default_rng(3), 0
    for _ in range(100):
        data = (rng.gamma(4, size=(25, 1)) + rng.gamma(4, size=(25, 5))) / 8 - 1
        times = rng.multinomial(25, np.full(25, 1 / 25), size=300) / 25
        draws = np.concatenate([data.mean(axis=0, keepdims=True), times @ data])
        made = simultaneous_intervals(estimates_of(draws, n_units=25), [0.0] * 5, confidence=0.95)
        held += bool(((made.low <= 0) & (made.high >= 0)).all())
    assert held / 100 >= 0.95 - 1.645 * 0.022


def test_the_distance_to_a_bound_is_where_the_interval_reaches_it() -> None:
    # Without spread the interval at a level with tail t reaches 1 - t^(1 / G) up: to 1 from .9 where t = .9^G.
    (same,) = estimates_of(np.full((101, 1), 0.9), bounds=(0.0, 1.0), n_units=10)
    assert same.distance(1.0) == pytest.approx(-stats.norm.ppf(0.9**10), abs=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_fieller_bounds_are_the_ratios_that_are_not_rejected(correlation: float) -> None:
    numerator, denominator = 1.0, 2.0
    covariance = np.array([[0.09, 0.06 * correlation], [0.06 * correlation, 0.04]])

    def z(ratio: float) -> float:
        variance = covariance[0, 0] - 2 * ratio * covariance[0, 1] + ratio**2 * covariance[1, 1]
        return (numerator - ratio * denominator) / np.sqrt(variance)

    low, high = fieller_interval(numerator, denominator, covariance, 1.96)
    assert (z(low), z(high)) == (pytest.approx(1.96), pytest.approx(-1.96))
    # Where the denominator is not significantly different from 0, no ratio is large enough to be rejected.
    for error in (1.0, 1.1):
        assert np.isnan(fieller_interval(numerator, denominator, np.diag([0.09, error**2]), 2.0)).all()
