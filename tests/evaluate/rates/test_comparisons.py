"""Intervals of differences of rates from draws, and the correlation of two rates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.evaluate.rates.comparisons import Tails, correlation
from custodes.stats.rates.posterior import two_sided_p

DRAWS = np.random.default_rng(0).normal(0.1, 0.05, 999)


@pytest.mark.parametrize(("confidence", "n_outside"), [(0.95, 25), (0.9, 50), (0.998, 1), (0.996, 2)])
def test_bounds_are_order_statistics(confidence: float, n_outside: int) -> None:
    tails = Tails.from_draws(np.append(0.1, DRAWS), 0.89)
    found = tails.interval(confidence - 1e-9)
    ordered = np.sort(DRAWS)
    assert found == (0.1, ordered[n_outside - 1], ordered[-n_outside])
    wider = tails.interval(confidence - 1e-9, correction=0.02)
    assert wider == pytest.approx((0.1, ordered[n_outside - 1] - 0.02, ordered[-n_outside] + 0.02))


def test_few_draws_have_the_tail_of_a_normal_distribution() -> None:
    tails = Tails.from_draws(np.append(0.1, DRAWS), 0.95)
    low, high = tails.interval(1 - 1e-6)[1:]
    half = stats.norm.ppf(1 - 5e-7) * DRAWS.std()
    assert (low, high) == pytest.approx((min(DRAWS.min(), DRAWS.mean() - half), max(DRAWS.max(), DRAWS.mean() + half)))
    assert low < DRAWS.min()
    far = Tails.from_draws(np.append(0.9, DRAWS), 0.9).interval(0.95)
    assert far == (0.9, np.sort(DRAWS)[24], 0.9)  # the interval contains the estimate
    assert Tails.from_draws(np.append(0.1, 10 * DRAWS), 0.9).interval(0.95)[1:] == (
        pytest.approx(max(-1, 10 * np.sort(DRAWS)[24])),
        1.0,
    )
    assert np.isnan(Tails.from_draws(np.array([np.nan, np.nan]), 0.95).interval(0.95)).all()


@pytest.mark.parametrize("shift", [-0.22, -0.19, -0.1, 0.0])
def test_intervals_exclude_0_if_and_only_if_the_test_is_significant(shift: float) -> None:
    for confidence in (0.9, 0.95, 0.99):
        _, low, high = Tails.from_draws(np.append(0.1 + shift, DRAWS + shift), 0.9).interval(confidence)
        assert (not low <= 0 <= high) == (two_sided_p(DRAWS + shift) <= 1 - confidence)


def test_correlations_are_of_sums_over_clusters_and_shrunk_by_their_error() -> None:
    rng = np.random.default_rng(0)
    unit, copies = rng.integers(0, 20, 60), rng.integers(1, 4, 20)
    first = rng.normal(size=60)
    second = first + rng.normal(size=60)
    sums = np.array([[values[unit == u].sum() for u in range(20)] for values in (first, second)])
    weight = copies / np.sqrt(((sums**2) * copies).sum(axis=1))[:, None] / copies
    x, y = sums * weight
    r = (copies * x * y).sum()
    error = (copies * (x * y - r / 2 * (x**2 + y**2)) ** 2).sum()
    found = correlation(first, second, unit, copies[unit].astype(float))
    assert found == pytest.approx(r**3 / (r**2 + error))
    assert correlation(first, -second, unit, copies[unit].astype(float)) == pytest.approx(-found)
    assert correlation(first, np.zeros(60), unit, np.ones(60)) == 0
    assert correlation(first, -first, unit, np.ones(60)) == -0.99
