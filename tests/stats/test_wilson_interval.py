"""Intervals of proportions against statsmodels' formula by hand, at the bounds, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.intervals import SHARE, expanded_interval, student_interval, wilson_interval


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
@pytest.mark.parametrize("p", [0.5, 0.9, 0.97, 1.0])
@pytest.mark.parametrize("n", [12, 50, 200])
def test_coverage(n: int, p: float, size: int) -> None:
    """400 studies, an intraclass correlation of .3 in clusters of five; see docs/explanation/statistics.md."""
    rng, clusters = np.random.default_rng(0), n // size
    times = bootstrap_weights(clusters, 200, rng)[1:]
    if size == 1 or p == 1:
        right = rng.random((400, clusters, size)) < p
    else:
        right = rng.random((400, clusters, size)) < rng.beta(p * 7 / 3, (1 - p) * 7 / 3, (400, clusters, 1))
    share = right.mean(axis=2)
    draws = np.concatenate([share.mean(axis=1)[np.newaxis], times @ share.T / clusters])
    low, high = student_interval(draws, confidence=0.95, n_units=clusters, bounds=SHARE)
    held = float(((low <= p + 1e-12) & (p <= high + 1e-12)).mean())
    assert held >= 0.89
    assert (high > low).all()


def test_at_the_bound_resamples_tell_how_much_an_observation_is_worth() -> None:
    # decisions of three pairs that turn in resamples are about three observations, however many items there are
    rng = np.random.default_rng(0)
    resamples = rng.binomial(3, 0.8, 2000) / 3
    low, high = student_interval(np.append(1.0, resamples), confidence=0.95, n_units=100, bounds=SHARE)
    expected, _ = wilson_interval(1.0, 3 * 99 / 100, quantile=1.984)
    assert low.item() == pytest.approx(float(expected), abs=0.02)
    assert high.item() == 1
    steady, _ = student_interval(np.ones(100), confidence=0.95, n_units=100, bounds=SHARE)
    assert low.item() < 0.5 < 0.96 < steady.item() < 1


def test_percentiles_of_a_certain_proportion_have_a_width() -> None:
    low, high = expanded_interval(np.array(1.0), np.ones(100), confidence=0.95, n_units=50, bounds=SHARE)
    assert 0.9 < low.item() < high.item() == 1
