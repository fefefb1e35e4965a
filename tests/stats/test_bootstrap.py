from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from custodes.stats.bootstrap import (
    bootstrap_weights,
    group_by_outputs,
    sign_flips,
    unit_sums,
    weighted_sums,
)
from custodes.stats.intervals import (
    ANY,
    CORRELATION,
    POSITIVE,
    SHARE,
    ResampledEstimate,
    expanded_interval,
    percentile_interval,
    simultaneous_intervals,
    student_interval,
    wilson_interval,
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


@pytest.mark.parametrize("n_units", [1, 7, 5000, 100_000])
def test_blocks_bytes_and_floats_are_the_same_draws(n_units: int) -> None:
    counts = bootstrap_weights(n_units, 5, np.random.default_rng(3), dtype=np.uint8)
    assert counts.dtype == np.uint8
    assert (counts.sum(axis=1) == n_units).all()
    assert np.array_equal(counts, bootstrap_weights(n_units, 5, np.random.default_rng(3)))
    more = bootstrap_weights(n_units, 90, np.random.default_rng(3), dtype=np.uint8)  # two blocks of 100,000 units
    assert np.array_equal(more[:6], counts)
    assert (more.sum(axis=1) == n_units).all()


def test_many_units_are_drawn_by_the_same_law() -> None:
    counts = bootstrap_weights(5000, 200, np.random.default_rng(2), dtype=np.uint8)[1:]
    # a binomial of 5000 draws with probability 1 / 5000: variance 1 - 1 / 5000; 5 standard errors of a million are .007
    assert abs(counts.var() - 1) < 0.01
    assert counts.sum(axis=0, dtype=np.int64).min() > 0  # the first and the last unit are drawn, too
    shares = np.bincount(counts.ravel(), minlength=5)[:5] / counts.size
    np.testing.assert_allclose(shares, stats.binom.pmf(np.arange(5), 5000, 1 / 5000), atol=0.003)


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
    metrics[2, 1, 0] = np.nan  # the annotator lacks it as well
    groups = {tuple(m): o.tolist() for m, o in group_by_outputs(human, metrics)}
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
    fewest = student_interval(np.array([1.0, 0.5, 1.5]), confidence=0.9, n_units=2, bounds=ANY)
    half_width = stats.t.ppf(0.95, 1) * np.std([0.5, 1.5], ddof=1) * np.sqrt(2)
    assert fewest == (pytest.approx(1 - half_width), pytest.approx(1 + half_width))


def test_expanded_percentiles_are_those_of_t_and_hold_the_estimate() -> None:
    draws = np.random.default_rng(0).normal(size=(2000, 2))
    low, high = expanded_interval(np.array([0.0, 9.0]), draws, confidence=0.9, n_units=12, bounds=ANY)
    level = stats.norm.cdf(stats.t.ppf(0.95, 11))  # SciPy
    np.testing.assert_allclose(low, np.quantile(draws, 1 - level, axis=0))
    np.testing.assert_allclose(high, [np.quantile(draws[:, 0], level), 9.0])
    assert np.isnan(expanded_interval(np.array([np.nan, 1.0]), draws, confidence=0.9, n_units=12, bounds=ANY)[0][0])


def test_percentiles_beyond_the_draws_are_extrapolated() -> None:
    draws = np.random.default_rng(0).normal(size=999)
    low, high = expanded_interval(np.array(0.0), draws, confidence=0.95, n_units=2.75, bounds=ANY)
    extension = stats.t.ppf(0.975, 1.75) / stats.norm.ppf(0.99)  # SciPy
    np.testing.assert_allclose([low, high], extension * np.quantile(draws, [0.01, 0.99]))
    low, high = expanded_interval(np.array(0.5), draws / 20 + 0.5, confidence=0.95, n_units=2.75, bounds=SHARE)
    assert 0 <= low < (draws / 20 + 0.5).min()
    assert 1 >= high > (draws / 20 + 0.5).max()
    skewed = -np.random.default_rng(1).exponential(size=99)  # never narrower than the percentiles themselves
    low, high = expanded_interval(np.array(-0.5), skewed, confidence=0.95, n_units=4, bounds=ANY)
    level = 2 * stats.norm.cdf(stats.t.ppf(0.975, 3)) - 1
    assert low <= np.quantile(skewed, (1 - level) / 2)
    assert high >= np.quantile(skewed, (1 + level) / 2)


def test_units_that_add_nothing_are_left_out_of_sums() -> None:
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4, (6, 20))
    few, none = np.zeros((3, 2, 20)), np.zeros((2, 20))
    few[..., [2, 7, 19]] = rng.normal(size=(3, 2, 3))
    few[1, 0, 7] = np.nan
    for kind in (np.float64, np.uint8):
        np.testing.assert_allclose(weighted_sums(weights.astype(kind), few), np.einsum("bu,kmu->bkm", weights, few))
        assert (weighted_sums(weights.astype(kind), none) == np.zeros((6, 2))).all()


@pytest.mark.parametrize(("right", "n"), [(0, 12), (12, 12), (7, 12), (49, 50)])
def test_as_scipy(right: int, n: int) -> None:
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    low, high = wilson_interval(right / n, n, quantile=stats.norm.ppf(0.975))
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_has_a_width_where_no_resample_departs_from_it(value: float) -> None:
    widths = []
    for n in (6, 12, 50, 200):
        low, high = student_interval(np.full(201, value), confidence=0.95, n_units=n, bounds=SHARE)
        assert low <= value <= high
        assert {float(low), float(high)} & {value}
        widths.append(float(high - low))
    assert widths == sorted(widths, reverse=True)
    assert widths[1] == pytest.approx(1 - 12 / (12 + stats.t.ppf(0.975, 11) ** 2))


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("p", [0.5, 0.97, 1.0])
@pytest.mark.parametrize("n", [12, 200])
def test_coverage(n: int, p: float, size: int) -> None:
    """400 studies, an intraclass correlation of .3 in clusters of 5; see docs/explanation/statistics/intervals.md."""
    rng, clusters = np.random.default_rng(0), n // size
    times = bootstrap_weights(clusters, 200, rng)[1:]
    if size == 1 or p == 1:
        right = rng.random((400, clusters, size)) < p
    else:
        right = rng.random((400, clusters, size)) < rng.beta(p * 7 / 3, (1 - p) * 7 / 3, (400, clusters, 1))
    share = right.mean(axis=2)
    draws = np.concatenate([share.mean(axis=1)[np.newaxis], times @ share.T / clusters])
    low, high = student_interval(draws, confidence=0.95, n_units=clusters, bounds=SHARE)
    coverage = float(((low <= p + 1e-12) & (p <= high + 1e-12)).mean())
    assert coverage >= 0.89
    assert (high > low).all()


def test_at_the_bound_resamples_tell_how_much_an_observation_is_worth() -> None:
    # The decisions of three pairs that change in resamples amount to about three observations for any number of items.
    rng = np.random.default_rng(0)
    resamples = rng.binomial(3, 0.8, 2000) / 3
    low, high = student_interval(np.append(1.0, resamples), confidence=0.95, n_units=100, bounds=SHARE)
    expected, _ = wilson_interval(1.0, 3 * 99 / 100, quantile=1.984)
    assert low.item() == pytest.approx(float(expected), abs=0.02)
    assert high.item() == 1
    certain, _ = student_interval(np.ones(100), confidence=0.95, n_units=100, bounds=SHARE)
    assert low.item() < 0.5 < 0.96 < certain.item() < 1


def test_percentiles_of_a_certain_proportion_have_a_width() -> None:
    low, high = expanded_interval(np.array(1.0), np.ones(100), confidence=0.95, n_units=50, bounds=SHARE)
    assert 0.9 < low.item() < high.item() == 1


def estimates_of(draws: np.ndarray, **more: object) -> list[ResampledEstimate]:
    """Return estimates with the data first: draws (1 + B, k)."""
    about = {"population": None, "n_units": 200, "bounds": ANY, "width": 1.0, **more}
    return [ResampledEstimate(draws=draw, n_effective_units=about["n_units"], **about) for draw in draws.T]  # type: ignore[arg-type]


def normal(correlation: np.ndarray, n: int = 4000, seed: int = 0) -> np.ndarray:
    """Return normal draws (1 + n, k) around 0 with exactly this correlation."""
    result = np.random.default_rng(seed).normal(size=(n, len(correlation)))
    result -= result.mean(axis=0)
    result = (
        result
        @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(result.T, ddof=0)))).T
        @ np.linalg.cholesky(correlation).T
    )
    return np.concatenate([np.zeros((1, len(correlation))), result])


@pytest.mark.parametrize("rho", [0.0, 0.9, -0.45])
def test_the_level_is_that_of_a_rectangle_of_the_normal_distribution(rho: float) -> None:
    # reference: scipy's numerical integral of the multivariate normal density over a cube
    correlation = np.full((3, 3), rho) + (1 - rho) * np.eye(3)
    of_normal = stats.multivariate_normal(np.zeros(3), correlation)
    q = brentq(lambda z: of_normal.cdf([z] * 3, lower_limit=[-z] * 3) - 0.95, 1.5, 3.0, xtol=1e-4)
    _, level = simultaneous_intervals(estimates_of(normal(correlation)), [0.0] * 3, confidence=0.95)
    assert level == pytest.approx(2 * stats.norm.cdf(q) - 1, abs=0.0015)


def test_one_estimate_has_the_interval_that_it_has_alone() -> None:
    draws = np.clip(0.7 + 0.1 * normal(np.eye(1), 500), 0, 1)
    (share,) = estimates_of(draws, bounds=SHARE, n_units=12)
    result, level = simultaneous_intervals([share], [0.5], confidence=0.9)
    low, high = student_interval(draws[:, 0], confidence=0.9, n_units=12, bounds=SHARE, adjust_for_few_draws=True)
    assert (level, result.low[0], result.high[0]) == (0.9, low, high)
    population = np.random.default_rng(1).beta(8, 3, 500)
    (over_systems,) = estimates_of(draws, population=population, n_units=12)
    result = simultaneous_intervals([over_systems], [0.5], confidence=0.9)[0]
    low, high = expanded_interval(draws[0, 0], population, confidence=0.9, n_units=12, bounds=ANY)
    assert (result.low[0], result.high[0]) == (low, high)


def test_p_of_one_is_that_of_students_t() -> None:
    draws = normal(np.eye(1), 300)
    draws[0] = 1.5
    result = simultaneous_intervals(estimates_of(draws, n_units=10), [0.2], confidence=0.95)[0]
    error = draws[1:].std(ddof=1) * np.sqrt(10 / 9)
    degrees = 1 / (1 / 9 + 1 / 299)  # Satterthwaite: of 10 clusters and of 300 resamples
    assert result.p_value[0] == pytest.approx(2 * stats.t.sf(1.3 / error, degrees), rel=1e-6)


@settings(max_examples=4)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_p_is_small_where_the_interval_leaves_the_value_out(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(400, k)) @ rng.normal(size=(k, k)) * 0.1
    at = draws[0] + draws.std(axis=0) * rng.normal(0, 3, k)
    intervals = simultaneous_intervals(estimates_of(draws, n_units=int(rng.integers(8, 100))), at, confidence=0.9)
    result, level = intervals
    defined = np.isfinite(result.low)
    out = (at < result.low) | (at > result.high)
    np.testing.assert_array_equal(result.p_value[defined] <= 0.1, out[defined])
    assert 0.9 <= level <= 1 - 0.1 / k + 1e-12


@settings(max_examples=1)
@given(st.integers(0, 10**6))
def test_negated_and_permuted_and_scaled_estimates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws = np.concatenate([np.zeros((1, 4)), rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))])
    at, order = rng.normal(size=4), rng.permutation(4)
    options = {"confidence": 0.95}
    result = simultaneous_intervals(estimates_of(draws), at, **options)[0]
    mirrored = simultaneous_intervals(estimates_of(-draws), -at, **options)[0]
    np.testing.assert_allclose([mirrored.low, mirrored.high], [-result.high, -result.low], rtol=1e-9)
    np.testing.assert_allclose(mirrored.p_value, result.p_value)
    scaled = simultaneous_intervals(estimates_of(3 * draws), 3 * at, **options)[0]
    np.testing.assert_allclose(scaled.low, 3 * result.low, rtol=1e-9)
    permuted = simultaneous_intervals(estimates_of(draws[:, order]), at[order], **options)[0]
    np.testing.assert_allclose(permuted.low, result.low[order], rtol=0.02)  # other directions


def test_where_no_resample_departs_the_error_is_unknown_and_not_0() -> None:
    # By definition: if a proportion p of clusters differed from the others, none of 30 would be sampled with (1 -
    # p)^30.
    (constant,) = estimates_of(np.ones((101, 1)), bounds=SHARE, n_units=30)
    low, high = constant.interval(0.95)
    assert (low**30, high) == (pytest.approx(0.025), 1.0)
    (correlation,) = estimates_of(np.ones((101, 1)), bounds=CORRELATION, width=2.0, n_units=30)
    assert correlation.interval(0.95)[0] == pytest.approx(1 - 2 * (1 - low))
    (difference,) = estimates_of(np.zeros((101, 1)), n_units=30)
    low, high = difference.interval(0.95)
    assert low == pytest.approx(-high)
    assert low < -0.05
    result = simultaneous_intervals([constant], [0.9], confidence=0.95)[0]
    assert result.p_value[0] == pytest.approx(2 * 0.9**30, rel=1e-6)


def test_too_few_clusters_or_draws_tell_nothing() -> None:
    draws = normal(np.eye(1), 200)
    is_defined = {n: np.isfinite(estimates_of(draws, n_units=n)[0].interval(0.95)[0]) for n in (1, 2, 5, 6)}
    assert is_defined == {1: False, 2: False, 5: False, 6: True}  # 2 ** -4 > .05 >= 2 ** -5
    population = np.random.default_rng(0).normal(size=100)
    (few,) = estimates_of(draws, population=population)
    assert np.isfinite(few.interval(0.95)[0])
    assert np.isnan(few.interval(0.999)[0])
    (half,) = estimates_of(np.where(np.arange(201)[:, None] % 3 == 0, draws, np.nan))
    assert np.isnan(half.interval(0.95)[0])


def test_undefined_estimates_are_not_of_the_family() -> None:
    draws = normal(np.eye(2))
    estimates = estimates_of(draws)
    few = replace(estimates[0], n_units=3)
    undefined = replace(estimates[0], draws=np.full(10, np.nan))
    alone = simultaneous_intervals(estimates, [0.0, 2.0], confidence=0.95)[0]
    result = simultaneous_intervals([None, few, *estimates, undefined], [0.0] * 3 + [2.0, 0.0], confidence=0.95)[0]
    np.testing.assert_array_equal(result.low[[2, 3]], alone.low)
    np.testing.assert_array_equal(result.p_value[[2, 3]], alone.p_value)
    assert np.isnan(result.low[[0, 1, 4]]).all()
    np.testing.assert_array_equal(np.isnan(result.estimate), [True, False, False, False, True])
    empty = simultaneous_intervals([None], [0.0], confidence=0.95)[0]
    assert np.isnan([empty.low, empty.p_value]).all()


def test_the_distance_to_a_bound_is_where_the_interval_reaches_it() -> None:
    # Without variation the interval at a level with tail t extends 1 - t^(1 / G) upwards: from .9 to 1 for t = .9^G.
    (same,) = estimates_of(np.full((101, 1), 0.9), bounds=(0.0, 1.0), n_units=10)
    assert same.distance(1.0) == pytest.approx(-stats.norm.ppf(0.9**10), abs=1e-6)


def test_no_draws_give_no_interval() -> None:
    low, high = percentile_interval(np.full((1, 2), np.nan), confidence=0.95)
    assert np.isnan([low, high]).all()
    for none in percentile_interval(np.empty((0, 2, 3)), confidence=0.95):
        assert none.shape == (2, 3)
        assert np.isnan(none).all()
