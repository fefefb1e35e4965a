"""PPI++ against ppi_py on the labels, and cases that ppi_py does not cover against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from scipy import stats

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.ppi import PPI, ppi_margin

SIGNS = np.array([1.0, 0.0, -1.0])
NOTHING = np.zeros(3, dtype=np.int64)


def labels(paired: np.ndarray, metric_only: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    human, metric = np.indices((3, 3)).reshape(2, 9)
    repeated = np.repeat(np.arange(9), paired.ravel())
    return SIGNS[human[repeated]], SIGNS[metric[repeated]], np.repeat(SIGNS, metric_only)


def ppi(paired: np.ndarray, metric_only: np.ndarray, human_only: np.ndarray = NOTHING, confidence: float = 0.95):
    return PPI.estimate(Counts(paired, metric_only, human_only), confidence=confidence)


@pytest.mark.parametrize("seed", range(10))
def test_equals_ppi_py(seed):
    rng = np.random.default_rng(seed)
    n, many = rng.integers(50, 300), rng.integers(1, 3000)
    paired = rng.multinomial(n, rng.dirichlet(np.ones(9))).reshape(3, 3)
    metric_only = rng.multinomial(many, rng.dirichlet(np.ones(3)))
    data = labels(paired, metric_only)
    margin, error, freedom = ppi_margin(Counts(paired, metric_only, NOTHING))
    assert margin == pytest.approx(ppi_mean_pointestimate(*data).item(), abs=1e-9)
    assert freedom == np.inf
    for confidence in (0.8, 0.95):
        low, high = (bound.item() for bound in ppi_mean_ci(*data, alpha=1 - confidence))
        z = stats.norm.ppf((1 + confidence) / 2)
        assert [margin - z * error, margin + z * error] == pytest.approx([low, high], abs=1e-9)
        estimate = ppi(paired, metric_only, confidence=confidence)
        assert [estimate.margin_low, estimate.margin_high] == pytest.approx(np.clip([low, high], -1, 1), abs=1e-9)


@pytest.mark.parametrize("n", [2, 10, 49])
def test_t_quantiles_under_50_labels(n):
    rng = np.random.default_rng(n)
    paired = rng.multinomial(n - 2, np.full(9, 1 / 9)).reshape(3, 3) + np.diag([1, 0, 1])
    metric_only = np.array([40, 20, 30])
    data = labels(paired, metric_only)
    low, high = (bound.item() for bound in ppi_mean_ci(*data, alpha=0.05))
    margin, error, freedom = ppi_margin(Counts(paired, metric_only, NOTHING))
    assert freedom == n - 1
    assert ppi_margin(Counts(paired, metric_only, np.array([50 - n, 0, 0])))[2] == np.inf
    if error > (high - low) / 2 / stats.norm.ppf(0.975) + 1e-9:
        # Two labels that equal the metric's have no variance, so a pseudo-error is added.
        assert n == 2
        return
    assert error == pytest.approx((high - low) / 2 / stats.norm.ppf(0.975))
    estimate = ppi(paired, metric_only)
    assert estimate.margin_high == pytest.approx(min(margin + stats.t.ppf(0.975, n - 1) * error, 1))
    assert estimate.theta == pytest.approx(stats.t.cdf(margin / error, n - 1))


def test_without_metric_labels_it_is_the_mean():
    paired, human_only = np.array([[20, 5, 3], [4, 6, 2], [3, 5, 12]]), np.array([9, 3, 4])
    outcome = paired.sum(axis=1) + human_only
    values = np.repeat(SIGNS, outcome)
    margin, error, _ = ppi_margin(Counts(np.zeros((3, 3)), NOTHING, outcome))
    assert margin == pytest.approx(values.mean())
    assert error == pytest.approx(values.std() / np.sqrt(len(values)))
    # If the metric adds no information, human labels are used like any others.
    assert ppi_margin(Counts(paired, NOTHING, NOTHING))[0] == pytest.approx(np.repeat(SIGNS, paired.sum(axis=1)).mean())


def test_human_only_labels_enter_by_inverse_variance():
    paired, metric_only = np.array([[20, 5, 3], [4, 6, 2], [3, 5, 12]]), np.array([300, 200, 350])
    human_only = np.array([30, 10, 15])
    alone = np.repeat(SIGNS, human_only)
    margin_with_metric, error_with_metric, _ = ppi_margin(Counts(paired, metric_only, NOTHING))
    pooled_variance = np.repeat(SIGNS, paired.sum(axis=1) + human_only).var()
    precision = 1 / error_with_metric**2, len(alone) / pooled_variance
    margin, error, _ = ppi_margin(Counts(paired, metric_only, human_only))
    assert margin == pytest.approx(np.average([margin_with_metric, alone.mean()], weights=precision))
    assert error == pytest.approx(sum(precision) ** -0.5)


@pytest.mark.parametrize(("wins", "decided"), [(1, False), (4, False), (5, False), (8, True)])
def test_few_equal_labels_decide_nothing(wins, decided):
    paired = np.zeros((3, 3), dtype=np.int64)
    paired[0, 0] = wins
    assert (ppi(paired, np.array([100, 0, 0])).theta > 0.975) == decided


def test_without_labels_nothing_is_known():
    estimate = ppi(np.zeros((3, 3)), np.array([100, 0, 0]))
    assert np.isnan(estimate.margin)
    assert (estimate.margin_low, estimate.margin_high, estimate.theta) == (-1, 1, 0.5)


def test_the_tuning_weight_is_at_most_one():
    # Human labels are win or loss, and the metric gives ties on half of either: its labels vary less than the human
    # ones and would have to be scaled up.
    paired, metric_only = np.array([[30, 30, 0], [0, 0, 0], [0, 30, 30]]), np.array([1600, 7000, 1400])
    human, metric, more = labels(paired, metric_only)
    assert np.cov(human, metric, ddof=0)[0, 1] / np.append(metric, more).var(ddof=1) / (1 + 120 / 10_000) > 1.5
    margin, _, _ = ppi_margin(Counts(paired, metric_only, NOTHING))
    assert margin == pytest.approx(human.mean() - metric.mean() + more.mean())
    assert margin == pytest.approx(ppi_mean_pointestimate(human, metric, more).item())
