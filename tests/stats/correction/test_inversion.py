"""Inversion against a linear solver, its interval against a bootstrap, its limits against definitions."""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.inversion import inversion_margin
from tests.simulated_counts import simulate_counts

NOTHING = np.zeros(3, dtype=np.int64)
CHANNEL = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])  # [human, metric]


def answer(paired, metric_only, human_only=NOTHING, confidence=0.95, seed=0):
    rng = np.random.default_rng(seed)
    counts = Counts(np.asarray(paired), np.asarray(metric_only), np.asarray(human_only))
    return inversion_margin(counts, confidence=confidence, rng=rng)


def solved(paired: np.ndarray, metric_only: np.ndarray) -> float:
    """Return the margin of mu^-1 q for mu [metric, human] with columns that sum to 1."""
    mu = (paired / paired.sum(axis=1, keepdims=True)).T
    q = paired.sum(axis=0) + metric_only
    p = np.linalg.solve(mu, q / q.sum())
    return float(p[0] - p[2])


@pytest.mark.parametrize("seed", range(8))
def test_solves_the_mixture(seed):
    rng = np.random.default_rng(seed)
    paired = simulate_counts(rng.dirichlet(np.full(3, 5)), CHANNEL, n=150, rng=rng) + np.eye(3, dtype=np.int64)
    metric_only = rng.multinomial(500, rng.dirichlet(np.ones(3)))
    expected = np.clip(solved(paired, metric_only), -1, 1)
    assert answer(paired, metric_only).margin == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "confidence", "tolerance"), [(100, 0.95, 0.2), (400, 0.95, 0.2), (400, 0.5, 0.1)])
def test_interval_is_that_of_the_bootstrap(n, confidence, tolerance):
    rng = np.random.default_rng(n)
    paired = simulate_counts([0.4, 0.3, 0.3], CHANNEL, n=n, rng=rng)
    metric_only = np.array([320, 300, 380])
    resampled = rng.multinomial(n, paired.ravel() / n, size=2000).reshape(-1, 3, 3)
    more = rng.multinomial(1000, metric_only / 1000, size=2000)
    margins = np.array([solved(a, b) for a, b in zip(resampled, more, strict=True)])
    low, high = np.quantile(margins, ((1 - confidence) / 2, (1 + confidence) / 2))
    result = answer(paired, metric_only, confidence=confidence)
    # The bootstrap of counts and that of Dirichlet weights agree up to O(1/n) and Monte Carlo error.
    assert [result.margin_low, result.margin_high] == pytest.approx([low, high], abs=tolerance * (high - low))
    assert result.theta == pytest.approx(np.mean(margins > 0), abs=0.06)


def test_people_alone_enter_by_their_number():
    paired, metric_only, human_only = 20 * np.eye(3, dtype=int) + 2, np.array([50, 20, 30]), np.array([30, 5, 15])
    n, alone = 78 + 100, human_only.sum()
    expected = (n * solved(paired, metric_only) + human_only[0] - human_only[2]) / (n + alone)
    assert answer(paired, metric_only, human_only).margin == pytest.approx(expected)


def test_a_singular_channel_has_no_solution():
    result = answer(np.tile([10, 5, 10], (3, 1)), [500, 100, 400])
    assert np.isnan(result.margin)
    assert (result.margin_low, result.margin_high) == pytest.approx((-1, 1), abs=0.05)
    assert 0.2 < result.theta < 0.8


def test_without_metric_only_items_it_is_the_margin_of_people():
    assert answer([[10, 2, 3], [4, 4, 2], [1, 1, 8]], NOTHING).margin == pytest.approx((15 - 10) / 35)
    assert answer(np.zeros((3, 3), dtype=int), [9, 0, 0], [6, 1, 1]).margin == pytest.approx(5 / 8)


def test_a_table_without_annotations_stays_unknown_among_others():
    paired = np.stack([np.zeros((3, 3), dtype=int), np.diag([9, 2, 4])])
    result = answer(paired, [[30, 5, 10]] * 2, [[0, 0, 0], [3, 0, 1]])
    assert np.isnan(result.margin).tolist() == [True, False]
    assert (result.margin_low[0], result.margin_high[0], result.theta[0]) == (-1, 1, 0.5)
    assert -1 < result.margin_low[1] < result.margin_high[1] < 1


def test_a_margin_at_the_end_of_the_range_is_no_tie():
    # The metric reverses human ratings and then predicts only wins: many draws are below -1, all below 0.
    result = answer([[3, 0, 30], [0, 5, 0], [40, 0, 2]], [500, 0, 0])
    assert result.margin_low == -1
    assert result.margin < -0.9
    assert result.theta < 0.01
