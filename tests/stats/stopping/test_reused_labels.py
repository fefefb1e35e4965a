"""Repeated tests on the same labels, against SciPy's distributions and simulated unions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.intervals import correlation_of
from custodes.stats.stopping.reused_labels import (
    LARGEST_Z,
    NextTest,
    Precision,
    level_after,
    next_level,
    posterior_z,
    proportion_z,
    spending_share,
)


def equal_correlation(n: int, value: float) -> np.ndarray:
    matrix = np.full((n, n), value)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def test_the_level_is_divided_without_a_rest() -> None:
    positions = sum(spending_share(k) for k in range(1, 100_001))
    assert positions == pytest.approx(1, abs=1e-5)
    assert sum(level_after(n, 0.05) for n in range(100_000)) == pytest.approx(0.05, abs=1e-6)


def test_a_test_may_use_a_part_of_what_earlier_ones_left() -> None:
    full = [0.04 * spending_share(k) for k in (1, 2, 3)]
    assert next_level(0.04, full[:2]) == pytest.approx(full[2])
    assert next_level(0.04, [full[0] / 2, full[1]]) == pytest.approx(full[2] + 0.02 * full[0] / 2)
    assert [level_after(n, 0.05) for n in (0, 2)] == pytest.approx([0.05 * 0.8, 0.05 * 0.2 * spending_share(2)])
    assert next_level(0.04, [full[0], full[0]]) == 0


def test_the_next_crossing_is_that_of_a_bivariate_normal_distribution() -> None:
    for rho in (0.0, 0.6, 0.95):
        test = NextTest(equal_correlation(2, rho), [1.9], rng=np.random.default_rng(0), n_draws=200_000)
        both_below = stats.multivariate_normal([0, 0], equal_correlation(2, rho)).cdf([1.9, 2.2])
        assert test.exceedance_probability(2.2) == pytest.approx(stats.norm.cdf(1.9) - both_below, rel=0.03)
        assert test.exceedance_probability(test.critical(0.004)) == pytest.approx(0.004, rel=1e-3)


def test_equal_candidates_and_a_level_of_zero_have_critical_values() -> None:
    test = NextTest(equal_correlation(2, 1.0), [1.9], rng=np.random.default_rng(0))
    assert test.critical(0.005) < 1.9
    assert test.critical(0.0) == LARGEST_Z
    first = NextTest(np.ones((1, 1)), [], rng=np.random.default_rng(0))
    assert first.critical(0.01) == pytest.approx(stats.norm.isf(0.01), abs=1e-3)
    assert first.critical(1.0) == -LARGEST_Z


def test_any_of_thirty_candidates_crosses_with_the_level_spent() -> None:
    rng, critical = np.random.default_rng(0), list[float]()
    for k in range(30):
        test = NextTest(equal_correlation(k + 1, 0.8), critical, rng=rng)
        critical.append(test.critical(0.04 * spending_share(k + 1)))
    draws = 100_000
    values = np.sqrt(0.8) * rng.standard_normal((draws, 1)) + np.sqrt(0.2) * rng.standard_normal((draws, 30))
    spent = sum(0.04 * spending_share(k + 1) for k in range(30))
    assert (values > critical).any(axis=1).mean() == pytest.approx(spent, abs=0.003)
    assert critical[-1] < stats.norm.isf(0.04 * spending_share(30)) - 0.5  # Bonferroni


def test_scores_are_those_of_exact_tests() -> None:
    for successes in (150, 177, 199):
        assert stats.norm.sf(proportion_z(successes, 200, 0.8)) == pytest.approx(
            stats.binom.sf(successes - 1, 200, 0.8)
        )
    assert proportion_z(0, 10, 0.5) == -LARGEST_Z
    draws = stats.logistic.cdf(np.random.default_rng(0).normal(1.0, 0.25, 100_000))
    assert posterior_z(2 * draws - 1, 0.0, (-1.0, 1.0)) == pytest.approx(4, abs=0.03)
    assert posterior_z(np.array([0.5, 1.0]), 0.5, (0.0, 1.0)) == pytest.approx(1)


def test_power_and_attained_values_are_those_of_the_binomial_distribution() -> None:
    exact = Precision(0.8, trials=200, whole=True)
    critical = exact.effective_critical(3.0)
    fewest = next(x for x in range(201) if stats.norm.isf(stats.binom.sf(x - 1, 200, 0.8)) > 3.0)
    assert critical == pytest.approx(stats.norm.isf(stats.binom.sf(fewest - 1, 200, 0.8)), abs=1e-6)
    assert proportion_z(fewest, 200, 0.8) > critical > proportion_z(fewest - 1, 200, 0.8)
    assert exact.power(0.09, critical) == pytest.approx(stats.binom.sf(fewest - 1, 200, 0.89))
    assert exact.with_labels(2) == exact._replace(trials=400.0)
    assert exact.with_labels(0.013) == exact._replace(trials=3.0)
    assert Precision(0.5, error=0.03).with_labels(4) == Precision(0.5, error=0.015)
    assert exact.effective_critical(99.0) == pytest.approx(LARGEST_Z)
    assert exact.power(0.09, 99.0) == 0
    assert Precision(0.5).power(0.09, 2.0) == 0
    assert Precision(0.5, trials=10.0).effective_critical(1.0) == 1.0
    normal = Precision(0.5, error=0.03)
    assert normal.effective_critical(3.0) == 3.0
    assert normal.power(0.09, 2.0) == pytest.approx(stats.norm.sf(2 - 3))


def test_a_candidate_without_influences_counts_as_independent() -> None:
    results = np.array([[1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    assert correlation_of(results) == pytest.approx(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
