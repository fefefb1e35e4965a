"""Input and output of estimators: counts and their mirror images, intervals by t, evidence within the precision of
draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from custodes.stats.correction.estimator import Counts, Estimate, decide

TABLES = hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.just(15)), elements=st.integers(0, 3))


def counts_of(rows: np.ndarray) -> Counts:
    """Return tables from rows of 15: nine paired counts, three of the metric alone, three of annotators alone."""
    return Counts(rows[:, :9].reshape(-1, 3, 3), rows[:, 9:12], rows[:, 12:])


def mirrored(rows: np.ndarray) -> np.ndarray:
    """Return rows of tables with the two systems exchanged."""
    return np.concatenate([rows[:, 8::-1], rows[:, 11:8:-1], rows[:, :11:-1]], axis=1)


def test_both_sides_are_counted_on_all_that_they_rated():
    counts = Counts(np.arange(9).reshape(3, 3), np.array([10, 20, 30]), np.array([1, 2, 3]))
    assert counts.human.tolist() == [0 + 1 + 2 + 1, 3 + 4 + 5 + 2, 6 + 7 + 8 + 3]
    assert counts.metric.tolist() == [0 + 3 + 6 + 10, 1 + 4 + 7 + 20, 2 + 5 + 8 + 30]
    assert counts.shape == ()
    many = Counts(*(np.broadcast_to(part, (2, 5, *part.shape)) for part in counts))
    assert many.shape == (2, 5)


@given(TABLES)
@settings(deadline=None)
def test_every_table_stands_once_up_to_its_mirror_image(rows):
    rows = np.concatenate([rows, mirrored(rows)])
    distinct, even, index, swapped = counts_of(rows).distinct_tables()
    result = distinct[index]
    np.testing.assert_array_equal(np.where(swapped[:, np.newaxis], mirrored(result), result), rows)
    for table, mirror, is_even in zip(distinct, mirrored(distinct), even, strict=True):
        assert is_even == (mirror == table).all()
        assert sum((candidate == table).all() or (candidate == mirror).all() for candidate in distinct) == 1
    n_half = len(rows) // 2
    assert (index[:n_half] == index[n_half:]).all()
    assert (swapped[:n_half] != swapped[n_half:])[~even[index[:n_half]]].all()
    assert not swapped[even[index]].any()


def test_decisions_are_those_of_algorithm_1():
    theta = np.array([0.9751, 0.975, 0.5, 0.025, 0.0249, np.nan])
    decided = decide(theta, gamma=0.05)
    assert decided.tolist() == [1, 0, 0, 0, -1, 0]
    assert decided.dtype == np.int8
    np.testing.assert_array_equal(decide(1 - theta, gamma=0.05)[:5], -decided[:5])


def test_intervals_by_t_are_clipped_and_open_without_an_error():
    estimate = Estimate.from_student_t(
        np.array([0.2, 0.95, np.nan, 0.0]),
        np.array([0.1, 0.1, np.nan, 0.0]),
        np.array([9.0, np.inf, -1.0, 5.0]),
        confidence=0.9,
    )
    reach = stats.t.ppf(0.95, 9) * 0.1
    np.testing.assert_allclose(estimate.margin_low, [0.2 - reach, 0.95 - stats.norm.ppf(0.95) * 0.1, -1, 0])
    np.testing.assert_allclose(estimate.margin_high, [0.2 + reach, 1, 1, 0])
    np.testing.assert_allclose(estimate.theta, [stats.t.cdf(2, 9), stats.norm.cdf(9.5), 0.5, 0.5])


def drawn(theta: list[float], draws: float) -> Estimate:
    n = len(theta)
    p = np.tile([0.5, 0.2, 0.3], (n, 1))
    return Estimate(
        p=p,
        p_low=p - 0.1,
        p_high=p + 0.1,
        margin=np.full(n, 0.2),
        margin_low=np.full(n, -0.1),
        margin_high=np.full(n, 0.6),
        theta=np.array(theta),
        effective_draws=np.full(n, draws),
    )


def test_draws_resolve_no_more_than_their_number():
    # 98 draws on one side, and one pseudo-draw on either side for a uniform prior: 99/100.
    resolved = drawn([0.0, 0.004, 0.5, 1.0], 98.0).stopping_estimate(gamma=0.1)
    assert resolved.theta.tolist() == pytest.approx([0.01, 0.01, 0.5, 0.99])
    closed = drawn([0.0, 1e-9, 1.0], np.nan).stopping_estimate(gamma=0.1)
    assert closed.theta.tolist() == [0, 1e-9, 1]
    assert resolved.sd == pytest.approx(np.full(4, 0.7 / (2 * stats.norm.isf(0.05))))


def test_without_intervals_a_rule_takes_the_standard_deviation():
    estimate = drawn([0.0, 0.5, 1.0], 98.0)
    none = np.full(3, np.nan)
    quick = replace(estimate, margin_low=none, margin_high=none, sd=np.full(3, 0.3)).stopping_estimate(gamma=0.05)
    assert quick.theta.tolist() == pytest.approx([0.01, 0.5, 0.99])
    assert quick.sd.tolist() == [0.3] * 3
    some = quick.at(np.array([True, False, True]))
    assert some.theta.tolist() == pytest.approx([0.01, 0.99])
    assert some.p.shape == (2, 3)


def random_estimate(seed: int, n: int = 4) -> Estimate:
    rng = np.random.default_rng(seed)
    bounds = {name: rng.random((n, 3)) for name in ("p", "p_low", "p_high")}
    values = {name: rng.random(n) for name in ("margin", "margin_low", "margin_high", "theta", "effective_draws")}
    return Estimate(**bounds, **values, theta_error=rng.random(n) / 100, sd=rng.random(n))


def test_a_mirrored_estimate_exchanges_wins_and_losses():
    estimate, mask = random_estimate(2), np.array([False, True, False, True])
    mirror = estimate.swap_systems(mask)
    for k, mirrored_here in enumerate(mask):
        sign = -1 if mirrored_here else 1
        ends = ("margin_high", "margin_low") if mirrored_here else ("margin_low", "margin_high")
        assert mirror.theta[k] == (1 - estimate.theta[k] if mirrored_here else estimate.theta[k])
        for name in ("p", "p_low", "p_high"):
            assert getattr(mirror, name)[k].tolist() == getattr(estimate, name)[k][::sign].tolist()
        assert mirror.margin[k] == sign * estimate.margin[k]
        assert (mirror.margin_low[k], mirror.margin_high[k]) == tuple(sign * getattr(estimate, end)[k] for end in ends)
    for name in ("theta_error", "effective_draws", "sd"):
        np.testing.assert_array_equal(getattr(mirror, name), getattr(estimate, name))
    twice_mirrored = mirror.swap_systems(mask)
    for name in ("theta", "p", "p_low", "p_high", "margin_low", "margin_high"):
        np.testing.assert_allclose(getattr(twice_mirrored, name), getattr(estimate, name), rtol=1e-12)


def test_a_symmetric_estimate_is_its_mirror_image():
    estimate, mask = random_estimate(3), np.array([True, False, True, True])
    even = estimate.symmetrise(mask)
    assert even.theta[mask].tolist() == [0.5] * 3
    assert even.theta_error[mask].tolist() == [0] * 3
    np.testing.assert_array_equal(even.p[mask][:, 0], (estimate.p[mask][:, 0] + estimate.p[mask][:, 2]) / 2)
    np.testing.assert_array_equal(even.p[..., 1], estimate.p[..., 1])
    np.testing.assert_array_equal(even.margin_high[mask], ((estimate.margin_high - estimate.margin_low) / 2)[mask])
    mirror = even.swap_systems(mask)
    for name in ("theta", "p", "p_low", "p_high", "margin", "margin_low", "margin_high"):
        np.testing.assert_array_equal(getattr(mirror, name), getattr(even, name))
        np.testing.assert_array_equal(getattr(even, name)[1], getattr(estimate, name)[1])


def test_estimates_of_parts_are_joined_in_order():
    estimate = random_estimate(4, 6)
    parts = [np.array([4, 0]), np.array([], dtype=int), np.array([1, 2, 3, 5])]
    joined = Estimate.from_parts([(places, estimate.at(places)) for places in parts])
    for name, values in vars(estimate).items():
        np.testing.assert_array_equal(getattr(joined, name), values)
    assert joined.at(np.arange(6).reshape(2, 3)).p_low.shape == (2, 3, 3)


def test_four_errors_from_a_threshold_decide():
    theta = np.array([0.976, 0.980, 0.974, 0.0249, 0.020, 0.5])
    result = Estimate.from_margin(*np.zeros((3, 6)), theta)
    assert not result.at_threshold(gamma=0.05).any()  # without draws no error
    assert result.theta_error.shape == (6,)
    drawn = replace(result, theta_error=np.full(6, 0.001))
    assert drawn.at_threshold(gamma=0.05).tolist() == [True, False, True, True, False, False]
    mirror = replace(drawn, theta=1 - theta)
    assert mirror.at_threshold(gamma=0.05).tolist() == drawn.at_threshold(gamma=0.05).tolist()
