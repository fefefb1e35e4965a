from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.stats.correction.draw_sums import (
    DrawSums,
    interval_bounds,
    is_precise_enough,
    weighted_quantiles,
    with_bounds,
)


@pytest.mark.parametrize("cautious", [False, True])
def test_sums_of_batches_are_weighted_moments_of_all_draws(*, cautious: bool) -> None:
    rng = np.random.default_rng(0)
    p, log_weights = rng.dirichlet([2, 1, 1], (3, 50)).transpose(2, 0, 1), 3 * rng.normal(size=(3, 50)) + 700
    sums = DrawSums(np.full(4, -np.inf), np.zeros((8, 4)))
    rows = np.array([0, 1, 3])
    for part in (slice(0, 10), slice(10, 35), slice(35, 50)):
        sums.add(rows, DrawSums.from_draws(p[..., part], log_weights[:, part]))
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    shares = weights / weights.sum(axis=1, keepdims=True)
    n_effective = 1 / (shares**2).sum(axis=1)
    np.testing.assert_allclose(sums.effective[rows], n_effective)
    assert np.isnan(sums.effective[2])
    found = sums.estimate(rows, cautious=True) if cautious else sums.estimate(rows)
    margin = p[0] - p[2]
    theta = (shares * (margin > 0)).sum(axis=1)
    np.testing.assert_allclose(found.p, (shares * p).sum(axis=2).T)
    np.testing.assert_allclose(found.margin, (shares * margin).sum(axis=1))
    np.testing.assert_allclose(found.theta, theta)
    spread = (shares * (margin - found.margin[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.sd, np.sqrt(spread))
    delta = np.sqrt((shares**2 * ((margin > 0) - theta[:, None]) ** 2).sum(axis=1))
    one_draw = shares.max(axis=1) if cautious else 1 / n_effective
    np.testing.assert_allclose(found.theta_error, np.hypot(delta, one_draw))
    assert np.isnan(found.p_low).all()
    bounds = np.stack([interval_bounds(p[:, t], log_weights[t], 0.9) for t in range(3)], axis=1)
    bounded = with_bounds(found, bounds)
    np.testing.assert_array_equal(np.column_stack([bounded.p_low, bounded.margin_low]), bounds[0])
    np.testing.assert_array_equal(np.column_stack([bounded.p_high, bounded.margin_high]), bounds[1])


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9).filter(any), st.integers(0, 99))
def test_quantiles_with_whole_weights_are_those_of_repeated_draws(copies: list[int], seed: int) -> None:
    total, rng = sum(copies), np.random.default_rng(seed)
    # Every draw with weight c appears c times; draws of weight 0 fill up to `total` draws.
    values = rng.permutation(len(copies)).astype(float)
    weights = np.array([*copies, *[0] * max(0, total - len(copies))], dtype=float)
    padded = np.append(values, np.full(len(weights) - len(values), -99.0))
    if len(weights) != total:
        return  # more draws than total weight: not whole copies
    expected = np.sort(np.repeat(values, copies))
    probabilities = (0.0, 0.1, 0.5, 0.9, 1.0)
    found = weighted_quantiles(np.stack([padded, -padded]), weights, probabilities)
    positions = [max(int(np.ceil(q * total)), 1) - 1 for q in probabilities]
    np.testing.assert_array_equal(found[0], expected[positions])
    np.testing.assert_array_equal(found[1], np.sort(-expected)[positions])


def test_bounds_are_tails_of_equal_weights_and_ignore_draws_without_weight() -> None:
    p = np.random.default_rng(0).dirichlet([2, 1, 1], 1000).T
    draws = np.concatenate([p, p[:1] - p[2:]])
    log_weights = np.full(1000, -800.0)
    expected = np.sort(draws, axis=1)[:, [49, 949]].T
    np.testing.assert_array_equal(interval_bounds(p, log_weights, 0.9), expected)
    doubled = np.concatenate([p, np.ones_like(p)], axis=1)
    ignored = interval_bounds(doubled, np.append(log_weights, np.full(1000, -2000.0)), 0.9)
    np.testing.assert_allclose(ignored, expected, atol=0.01)


def test_precision_is_enough_up_to_its_limit_or_far_from_the_thresholds() -> None:
    p, log_weights = np.tile(np.array([[0.5], [0.1], [0.4]]), (2, 1, 40)).transpose(1, 0, 2), np.zeros((2, 40))
    sums = DrawSums(np.full(2, -np.inf), np.zeros((8, 2)))
    sums.add(np.arange(2), DrawSums.from_draws(p, log_weights))
    estimate = sums.estimate(np.arange(2))
    assert estimate.theta_error == pytest.approx(1 / 40)
    limits = np.array([1 / 40 + 1e-12, 0.01])
    assert is_precise_enough(estimate, precision=limits, gamma=None).tolist() == [True, False]
    exact = is_precise_enough(estimate, precision=estimate.theta_error, gamma=None)
    assert exact.all()
