"""Intervals against the formulas of textbooks and against other libraries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from custodes.stats.intervals import (
    ANY,
    CORRELATION,
    POSITIVE,
    SHARE,
    ResampledEstimate,
    cluster_intervals,
    correlation_of,
    expanded_interval,
    percentile_interval,
    simultaneous_intervals,
    student_interval,
    student_quantile,
    wilson_interval,
)

NAN = np.nan


def test_quantiles_have_at_least_one_degree_of_freedom() -> None:
    for n_units, degrees in ((12, 11), (2.5, 1.5), (2, 1), (1, 1), (0.5, 1)):
        assert student_quantile(0.9, n_units) == pytest.approx(stats.t.ppf(0.95, degrees))


def test_wilson_is_that_of_statsmodels() -> None:
    counts, n = np.array([0, 1, 7, 19, 20]), 20
    low, high = wilson_interval(counts / n, n, quantile=stats.norm.ppf(0.975))
    np.testing.assert_allclose((low, high), proportion_confint(counts, n, method="wilson"), atol=1e-12)
    assert (low[0], high[-1]) == (0, 1)
    assert np.isnan(wilson_interval(np.array([NAN]), n, quantile=2.0)).all()
    low, high = wilson_interval(np.array([[0.0], [1.0]]), np.arange(1, 100) / 3, quantile=2.0)
    assert (low.min(), high.max()) == (0, 1)  # despite rounding errors


def test_percentiles_need_half_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(40, 3))
    draws[:20, 1], draws[:21, 2] = NAN, NAN
    low, high = percentile_interval(draws, confidence=0.8)
    for column in (0, 1):
        defined = draws[~np.isnan(draws[:, column]), column]
        assert (low[column], high[column]) == pytest.approx(tuple(np.quantile(defined, [0.1, 0.9])))
    assert np.isnan([low[2], high[2]]).all()
    assert np.isnan(percentile_interval(draws[:0], confidence=0.8)).all()


def scale(values: np.ndarray | float, bounds: tuple[float, float]) -> np.ndarray:
    low, high = bounds
    if np.isfinite(high):
        return np.arcsin(np.sqrt((np.asarray(values) - low) / (high - low)))
    return np.sqrt(np.asarray(values) - low) if np.isfinite(low) else np.asarray(values)


def back(values: np.ndarray | float, bounds: tuple[float, float]) -> np.ndarray:
    low, high = bounds
    if np.isfinite(high):
        return low + (high - low) * np.sin(np.clip(values, 0, np.pi / 2)) ** 2
    return low + np.maximum(values, 0) ** 2 if np.isfinite(low) else np.asarray(values)


@pytest.mark.parametrize("bounds", [ANY, POSITIVE, CORRELATION, (2.0, 5.0), (-3.0, np.inf)])
@pytest.mark.parametrize("few_draws", [False, True])
@pytest.mark.parametrize("n_units", [2, 9])
def test_student_intervals_are_symmetric_on_the_scale_of_the_bounds(
    bounds: tuple[float, float], few_draws: bool, n_units: int
) -> None:
    start = {ANY: 0.0, POSITIVE: 0.5, CORRELATION: 0.4}.get(bounds, bounds[0] + 1.5)
    draws = np.clip(start + 0.2 * np.random.default_rng(1).normal(size=31), *bounds)
    draws[[5, 9]] = NAN
    scaled = scale(draws, bounds)
    error = np.nanstd(scaled[1:], ddof=1) * np.sqrt(n_units / (n_units - 1))
    degrees = max(1 / (1 / (n_units - 1) + 1 / 29), 1) if few_draws else n_units - 1
    half = stats.t.ppf(0.95, degrees) * error
    found = student_interval(draws, confidence=0.9, n_units=n_units, bounds=bounds, adjust_for_few_draws=few_draws)
    assert (float(found[0]), float(found[1])) == pytest.approx(
        (float(back(scaled[0] - half, bounds)), float(back(scaled[0] + half, bounds)))
    )


def test_student_intervals_of_proportions_are_wilson_intervals_of_effective_observations() -> None:
    rng = np.random.default_rng(2)
    draws = np.clip(0.3 + 0.1 * rng.normal(size=(41, 4)), 0, 1)
    draws[0, 1], draws[:, 2], draws[:, 3] = 0.0, 1.0, 0.25  # an estimate of 0, no error at 1, and none inside
    low, high = student_interval(draws, confidence=0.95, n_units=8, bounds=SHARE)
    variance = draws[1:].var(axis=0, ddof=1) * 8 / 7
    mean = draws[1:, 1].mean()
    sizes = [0.3 * 0.7, mean * (1 - mean), None, None]
    sizes[0] = draws[0, 0] * (1 - draws[0, 0])
    n = [sizes[k] / variance[k] for k in (0, 1)] + [8, 8]
    expected = wilson_interval(draws[0], np.array(n), quantile=stats.t.ppf(0.975, 7))
    np.testing.assert_allclose((low, high), expected)


def test_student_intervals_are_undefined_with_one_cluster_one_draw_or_half_of_the_draws() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(11, 4))
    draws[1:6, 1], draws[1:7, 2], draws[0, 3] = NAN, NAN, NAN
    low, high = student_interval(draws, confidence=0.9, n_units=np.array([9, 9, 9, 9]), bounds=ANY)
    assert np.isfinite(low).tolist() == np.isfinite(high).tolist() == [True, True, False, False]
    mixed = student_interval(draws[:, :2], confidence=0.9, n_units=np.array([1, 2]), bounds=ANY)
    assert np.isfinite(mixed[0]).tolist() == [False, True]
    assert np.isnan(student_interval(draws[:2, :1], confidence=0.9, n_units=9, bounds=ANY)).all()
    assert np.isfinite(
        student_interval(draws[:3, :1], confidence=0.9, n_units=9, bounds=ANY, adjust_for_few_draws=True)
    ).all()
    infinite = student_interval(np.append(np.inf, rng.normal(size=9)), confidence=0.9, n_units=9, bounds=POSITIVE)
    assert np.isnan(infinite).all()


@pytest.mark.parametrize("bounds", [ANY, CORRELATION, SHARE])
@pytest.mark.parametrize(("n_draws", "n_units"), [(2000, 30), (60, 4), (11, 4), (10, 4), (3, 4)])
def test_expanded_percentiles_are_extrapolated_beyond_the_draws(
    bounds: tuple[float, float], n_draws: int, n_units: int
) -> None:
    rng = np.random.default_rng(n_draws)
    draws = np.clip(0.4 + 0.15 * rng.normal(size=n_draws), 0, 1)
    estimate = 0.5
    t = stats.t.ppf(0.975, n_units - 1)
    low, high = np.quantile(draws, [stats.norm.cdf(-t), stats.norm.cdf(t)])
    low, high = min(low, estimate), max(high, estimate)
    if t > stats.norm.isf(1 / (n_draws + 1)):
        z = max(stats.norm.isf(10 / (n_draws + 1)), 1.0) if n_draws > 10 else 1.0
        inner = scale(np.quantile(draws, [stats.norm.cdf(-z), stats.norm.cdf(z)]), bounds)
        centre = scale(estimate, bounds)
        outer = back(centre + t / z * (inner - centre), bounds)
        low, high = min(low, outer[0]), max(high, outer[1])
    found = expanded_interval(np.array(estimate), draws, confidence=0.95, n_units=n_units, bounds=bounds)
    assert (float(found[0]), float(found[1])) == pytest.approx((float(low), float(high)))


def test_expanded_percentiles_of_a_constant_proportion_are_wilson_intervals() -> None:
    for estimate, draw in ((0.0, 0.0), (1.0, 1.0)):
        found = expanded_interval(np.array(estimate), np.full(500, draw), confidence=0.9, n_units=20, bounds=SHARE)
        assert found == pytest.approx(wilson_interval(estimate, 20, quantile=stats.t.ppf(0.95, 19)))
    inside = expanded_interval(np.array(0.5), np.full(500, 0.5), confidence=0.9, n_units=20, bounds=SHARE)
    assert (float(inside[0]), float(inside[1])) == pytest.approx((0.5, 0.5))
    assert np.isnan(expanded_interval(np.array(NAN), np.ones(9), confidence=0.9, n_units=9, bounds=SHARE)).all()


def resampled(draws: np.ndarray, n_units: int = 30, **options: object) -> ResampledEstimate:
    basic = {"population": None, "n_units": n_units, "n_effective_units": float(n_units), "bounds": ANY, "width": 2.0}
    return ResampledEstimate(draws=draws, **{**basic, **options})  # type: ignore[arg-type]


def test_there_is_no_interval_if_sign_flips_could_not_be_significant() -> None:
    draws = np.random.default_rng(0).normal(size=200)
    for n_units, level, exists in ((5, 0.9375, True), (5, 0.94, False), (6, 0.95, True), (1, 0.01, False)):
        assert np.isfinite(resampled(draws, n_units).interval(level)).tolist() == [exists] * 2
    effective = resampled(draws, 30, n_effective_units=7.5).interval(0.95)
    expected = student_interval(draws, confidence=0.95, n_units=7.5, bounds=ANY, adjust_for_few_draws=True)
    assert effective == pytest.approx((float(expected[0]), float(expected[1])))
    assert np.isnan(resampled(np.append(NAN, draws), 30).interval(0.95)).all()


def test_resamples_that_do_not_vary_have_the_bound_of_unseen_clusters() -> None:
    half = 2.0 * (1 - 0.025 ** (1 / 10))
    constant = np.full(100, 0.7)
    assert resampled(constant, 10).interval(0.95) == pytest.approx((0.7 - half, 0.7 + half))
    assert resampled(constant, 10, bounds=(0.6, 0.8)).interval(0.95) == pytest.approx((0.6, 0.8))
    nearly = np.append(constant, 0.7 + 1e-6)
    assert np.ptp(resampled(nearly, 10).interval(0.95)) < 1e-5


def test_a_population_needs_draws_beyond_the_percentile_of_equal_clusters() -> None:
    draws = np.random.default_rng(0).normal(size=400)
    estimate = resampled(draws, 8, n_effective_units=6.0)
    for n_draws in range(20, 400, 20):
        exists = stats.norm.cdf(-stats.t.ppf(0.975, 7)) * (n_draws + 1) >= 1
        found = replace(estimate, population=draws[:n_draws]).interval(0.95)
        assert np.isfinite(found).all() == exists
    expected = expanded_interval(draws[0], draws[:380], confidence=0.95, n_units=6.0, bounds=ANY)
    assert found == pytest.approx((float(expected[0]), float(expected[1])))
    assert replace(estimate, population=draws[:9]).correlation_draws.shape == (9,)
    assert estimate.correlation_draws.shape == (399,)


def test_distances_are_the_z_values_of_t_tests() -> None:
    draws = np.append(1.0, np.random.default_rng(0).normal(1, 0.5, 5000))
    estimate = resampled(draws, 12)
    error = draws[1:].std(ddof=1) * np.sqrt(12 / 11)
    degrees = 1 / (1 / 11 + 1 / 4999)
    for at in (0.0, 2.5, 1.2):
        p_value = 2 * stats.t.sf(abs(1 - at) / error, degrees)
        assert 2 * stats.norm.sf(estimate.distance(at)) == pytest.approx(p_value, rel=1e-6)
    assert estimate.distance(1.0) == pytest.approx(0, abs=1e-6)


def test_intervals_of_few_clusters_are_left_out() -> None:
    draws = np.random.default_rng(0).normal(size=(100, 4))
    low, high = cluster_intervals(draws, np.array([9, 10, 11, 40]), confidence=0.9, bounds=ANY, fewest=10)
    assert np.isfinite(low).tolist() == np.isfinite(high).tolist() == [False, True, True, True]
    assert (low[3], high[3]) == pytest.approx(resampled(draws[:, 3], 40).interval(0.9))
    assert np.isnan(cluster_intervals(draws[:1], np.full(4, 40), confidence=0.9, bounds=ANY, fewest=10)).all()


def test_simultaneous_intervals_of_independent_estimates_are_those_of_sidak() -> None:
    rng = np.random.default_rng(0)
    point = np.array([0.3, 0.0, 2.0])
    draws = np.vstack([point, rng.normal(point, size=(4000, 3))])
    family = [resampled(column, 400) for column in draws.T]
    short = resampled(draws[:, 0], 3)  # no interval at the level
    result, level = simultaneous_intervals([family[0], None, *family[1:], short], [0.0] * 5, confidence=0.95)
    assert np.isnan(result.estimate).tolist() == [False, True, False, False, False]
    assert np.isnan(result.p_value).tolist() == np.isnan(result.low).tolist() == [False, True, False, False, True]
    assert level == pytest.approx(0.95 ** (1 / 3), abs=0.002)
    for k, estimate in zip((0, 2, 3), family, strict=True):
        assert (result.low[k], result.high[k]) == pytest.approx(estimate.interval(level))
        single = 2 * stats.norm.sf(estimate.distance(0.0))
        assert result.p_value[k] == pytest.approx(1 - (1 - single) ** 3, abs=0.01)
        assert single <= result.p_value[k] <= min(3 * single, 1)
    (alone,) = simultaneous_intervals(family[2:], [0.5], confidence=0.9)[0].p_value
    assert alone == pytest.approx(2 * stats.norm.sf(family[2].distance(0.5)))
    for at in np.linspace(1.5, 4.5, 7):
        tested = simultaneous_intervals(family, [0.0, 0.0, float(at)], confidence=0.95)[0]
        assert (tested.p_value[2] <= 0.05) == (not tested.low[2] <= at <= tested.high[2])


def test_correlations_ignore_the_scale_and_constant_estimates() -> None:
    influences = np.random.default_rng(0).normal(size=(3, 50)) * [[1], [100], [0.01]]
    influences -= influences.mean(axis=1, keepdims=True)
    expected = np.eye(4)
    expected[:3, :3] = np.corrcoef(influences)
    np.testing.assert_allclose(correlation_of(np.vstack([influences, np.zeros(50)])), expected, atol=1e-12)
    draws = np.concatenate([np.zeros((1, 2)), np.tile(influences[0, :, None], 2)])
    draws[3, 0] = NAN  # an undefined resample counts as the mean
    family = [resampled(column, 400) for column in draws.T]
    assert simultaneous_intervals(family, [0.0, 0.0], confidence=0.95)[1] < 0.96
