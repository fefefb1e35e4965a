from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from custodes.stats.clusters import few_clusters
from custodes.stats.judging.calibration import (
    bins_of,
    brier,
    confidence_and_correctness,
    constant_forecast,
    correct_count_variance,
    estimate_overconfidence,
    expected_error,
    share_by_bin,
)


def test_the_test_knows_the_variance_of_what_is_sure() -> None:
    # Fifty correct verdicts at probability .97 have probability .97 ** 50 = .22, so miscalibration is not significant.
    sure, right = np.full(50, 0.97), np.ones(50)
    variance = 50 * 0.97 * 0.03
    result = estimate_overconfidence(sure, right, least_variance=variance, units=np.arange(50), confidence=0.95)
    assert result.estimate == pytest.approx(-0.03)
    assert result.p_value == pytest.approx(0.219, abs=0.001)  # t = .03 / sqrt(.97 * .03 / 50), 49 degrees
    assert result.low < 0 < result.high


CONFIDENCES = np.array([0.9, 0.6, 0.7, 0.5, 0.8, 0.7, 0.9, 0.6, 0.95, 0.85])
CORRECT = np.array([1.0, 1, 0, 1, 0, 0, 1, 0, 1, 1])
BINS, CLUSTERS = np.repeat([0, 1], [4, 6]), np.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 5])


def cluster_sums(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Return the sum in each cluster of values minus their mean."""
    return np.array([(values - values.mean())[clusters == cluster].sum() for cluster in np.unique(clusters)])


def test_rates_and_errors_of_bins_by_their_definition() -> None:
    rates = share_by_bin(CORRECT, BINS, units=CLUSTERS, confidence=0.9)
    errors, expected_errors = [], []
    for k in (0, 1):
        correct, units, confidence = (values[k == BINS] for values in (CORRECT, CLUSTERS, CONFIDENCES))
        n, rate, sums = len(correct), correct.mean(), cluster_sums(correct, units)
        variance = (sums**2).sum() * len(sums) / (len(sums) - 1)
        n_effective = n / max(1, variance / (n * rate * (1 - rate)))
        low, high = proportion_confint(rate * n_effective, n_effective, alpha=0.1, method="wilson")
        assert [values[k] for values in rates] == pytest.approx([rate, low, high])
        excess = confidence - correct
        error_variance = max((confidence * (1 - confidence)).sum(), (cluster_sums(excess, units) ** 2).sum())
        errors.append(n / 10 * abs(excess.mean()))
        expected_errors.append(n / 10 * np.sqrt(error_variance) / n * np.sqrt(2 / np.pi))
    expected = sum(errors), sum(expected_errors)
    assert expected_error(CONFIDENCES, CORRECT, BINS, units=CLUSTERS) == pytest.approx(expected)


@pytest.mark.parametrize("clusters", [CLUSTERS, np.array([0, 1] * 5)])
def test_overconfidence_has_an_interval_of_students_t(clusters: np.ndarray) -> None:
    excess, sums = CONFIDENCES - CORRECT, cluster_sums(CONFIDENCES - CORRECT, clusters)
    n = len(sums)
    error = np.sqrt(few_clusters(np.array(n)) * (sums**2).sum() * n / (n - 1)) / 10
    result = estimate_overconfidence(CONFIDENCES, CORRECT, least_variance=0.0, units=clusters, confidence=0.9)
    quantile = stats.t.ppf(0.95, n - 1)
    assert result.estimate == pytest.approx(excess.mean())
    assert [result.low, result.high] == pytest.approx(
        [excess.mean() - quantile * error, excess.mean() + quantile * error]
    )
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(excess.mean()) / error, n - 1))


@pytest.mark.parametrize(("n", "n_bins"), [(1, 1), (59, 1), (60, 2), (89, 2), (90, 3), (299, 9), (300, 10), (900, 10)])
def test_bins_have_thirty_verdicts(n: int, n_bins: int) -> None:
    sizes = np.bincount(bins_of(np.linspace(0.4, 1, n)))
    assert len(sizes) == n_bins
    assert np.ptp(sizes) <= 1


def test_the_known_variance_is_that_of_outcomes_and_not_of_verdicts() -> None:
    # By hand: equal probabilities on one outcome have variance 2 ** 2 times .8 * .2; for opposite outcomes one always
    # occurs.
    equal, opposite = np.array([[0.8, 0, 0.2]] * 2), np.array([[0.8, 0, 0.2], [0.2, 0, 0.8]])
    assert correct_count_variance(equal, np.array([0, 1])) == pytest.approx(0.32)
    assert correct_count_variance(equal, np.array([5, 5])) == pytest.approx(0.64)
    assert correct_count_variance(opposite, np.array([5, 5])) == pytest.approx(0.0)
    # .7 and .9 on one outcome, which occurs with .8
    assert correct_count_variance(np.array([[0.7, 0, 0.3], [0.9, 0, 0.1]]), np.zeros(2, int)) == pytest.approx(
        4 * 0.8 * 0.2
    )
    # The first and the last outcome are equally probable, and half of them occur unless it is a tie: (.8)(.2) / 4.
    assert correct_count_variance(np.array([[0.4, 0.2, 0.4]]), np.zeros(1, int)) == pytest.approx(0.04)


def test_a_bin_where_all_came_counts_clusters_and_not_verdicts() -> None:
    # Wilson's lower bound of 15 of 15: 15 / (15 + 1.96 ** 2)
    _, low, _ = share_by_bin(np.ones(60), np.zeros(60, int), units=np.arange(60) % 15, confidence=0.95)
    assert low[0] == pytest.approx(0.796, abs=0.001)


def test_what_cannot_be_told_is_nan() -> None:
    result = estimate_overconfidence(
        np.array([0.9]), np.array([1.0]), least_variance=0.09, units=np.zeros(1, int), confidence=0.95
    )
    assert np.isnan([result.low, result.high, result.p_value]).all()
    certain = estimate_overconfidence(np.ones(9), np.ones(9), least_variance=0.0, units=np.arange(9), confidence=0.95)
    assert certain.estimate == 0
    assert np.isnan(certain.p_value)


@given(st.lists(st.sampled_from([0.4, 0.5, 0.9, 0.99]), min_size=1, max_size=200))
def test_bins_are_in_order_and_none_is_empty(sure: list[float]) -> None:
    values = np.array(sure)
    bins = bins_of(values)
    assert set(bins) == set(range(len(set(bins))))
    assert (np.diff(bins[np.argsort(values, kind="stable")]) >= 0).all()
    for value in set(sure):
        assert len(set(bins[values == value])) == 1


def test_a_constant_forecast_has_the_rate_of_ties_and_halves_the_rest() -> None:
    assert constant_forecast(np.array([0, 1, 1, 2, 2, 2, 0, 0])).tolist() == [0.375, 0.25, 0.375]


def test_scores_of_forecasts_by_their_definition() -> None:
    forecasts, outcomes = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]]), np.array([1, 2, 0])
    assert brier(forecasts, outcomes) == pytest.approx([0.5, 0.14, 2 / 3])
    confidence, correctness = confidence_and_correctness(forecasts, outcomes)
    assert confidence == pytest.approx([0.5, 0.7, 1 / 3])
    assert correctness == pytest.approx([0.5, 1.0, 1 / 3])
    assert confidence_and_correctness(forecasts, np.array([2, 0, 1]))[1] == pytest.approx([0.0, 0.0, 1 / 3])
