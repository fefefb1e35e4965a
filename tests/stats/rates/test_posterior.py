from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.clusters import influence_design_effect
from custodes.stats.rates.posterior import (
    LabelCounts,
    cell_prior,
    correlate_draws,
    joint_estimate,
    joint_posterior,
    output_influence,
    paired_posterior,
    rate_variance,
    two_sided_p,
)

COUNTS = LabelCounts(np.array([[18.0, 2.0], [6.0, 74.0]]), np.array([240.0, 760.0]))


def test_the_prior_is_a_pseudo_count_of_each_label() -> None:
    counts = LabelCounts(np.array([[15.0, 0.0], [5.0, 10.0]]), np.array([970.0, 30.0]))
    posterior = joint_posterior(counts, sampling="by-judge", rng=np.random.default_rng(0), n_draws=100_000, prior=1 / 3)
    shares, rates = posterior[1:].sum(axis=2), posterior[1:][:, :, 1] / posterior[1:].sum(axis=2)
    for level in (0.025, 0.5, 0.975):
        assert np.quantile(rates[:, 1], level) == pytest.approx(stats.beta.ppf(level, 10 + 1 / 3, 5 + 1 / 3), abs=0.005)
        assert np.quantile(rates[:, 0], level) == pytest.approx(stats.beta.ppf(level, 1 / 3, 15 + 1 / 3), abs=0.003)
        assert np.quantile(shares[:, 1], level) == pytest.approx(stats.beta.ppf(level, 30.5, 970.5), abs=0.001)


def test_estimate_is_post_stratified() -> None:
    estimate = joint_posterior(COUNTS, sampling="by-judge", rng=np.random.default_rng(0))[0]
    np.testing.assert_allclose(estimate, [[0.24 * 0.9, 0.24 * 0.1], [0.76 * 6 / 80, 0.76 * 74 / 80]])


def test_estimate_by_label_is_rogan_and_gladens() -> None:
    counts = LabelCounts(np.array([[45.0, 10.0], [5.0, 90.0]]), np.array([300.0, 700.0]))
    estimate = joint_posterior(counts, sampling="by-label", rng=np.random.default_rng(0))[0]
    assert estimate[:, 1].sum() == pytest.approx((0.7 + 0.9 - 1) / (0.9 + 0.9 - 1))  # TPR and TNR are .9
    assert estimate.sum() == pytest.approx(1)
    assert estimate[1].sum() == pytest.approx(0.7)  # the judge's rate


@pytest.mark.parametrize("sampling", ["random", "by-label"])
def test_swapping_the_labels_mirrors_the_rate(sampling: str) -> None:
    first = joint_posterior(COUNTS, sampling=sampling, rng=np.random.default_rng(1), n_draws=50_000)
    swapped = LabelCounts(COUNTS.labelled[::-1, ::-1], COUNTS.total[::-1])
    second = joint_posterior(swapped, sampling=sampling, rng=np.random.default_rng(2), n_draws=50_000)
    np.testing.assert_allclose(second[0], first[0][::-1, ::-1])
    bounds = [np.quantile(part[1:][:, :, 1].sum(axis=1), [0.025, 0.975]) for part in (first, second)]
    np.testing.assert_allclose(bounds[1], 1 - bounds[0][::-1], atol=0.006)


def test_a_judge_no_better_than_chance_leaves_the_rate_unknown_by_label() -> None:
    counts = LabelCounts(np.array([[25.0, 25.0], [25.0, 25.0]]), np.array([500.0, 500.0]))
    posterior = joint_posterior(counts, sampling="by-label", rng=np.random.default_rng(0))
    low, high = np.quantile(posterior[1:][:, :, 1].sum(axis=1), [0.025, 0.975])
    assert low < 0.03
    assert high > 0.97
    assert np.isnan(posterior[0]).all()


@pytest.mark.parametrize(("judge_rate", "expected"), [(0.05, [[0.9, 0], [0.1, 0]]), (0.95, [[0, 0.1], [0, 0.9]])])
def test_a_judges_rate_beyond_its_error_rates_is_clipped_by_label(judge_rate: float, expected: list) -> None:
    counts = LabelCounts(np.array([[45.0, 5.0], [5.0, 45.0]]), 1000 * np.array([1 - judge_rate, judge_rate]))
    np.testing.assert_allclose(joint_estimate(counts, sampling="by-label"), expected)


@pytest.mark.parametrize("prior", [1 / 2, 1 / 3])
def test_the_variance_of_the_rate_is_that_of_independent_dirichlets(prior: float) -> None:
    shares = stats.dirichlet(COUNTS.total + 1 / 2)
    rates = [stats.beta(positive + prior, negative + prior) for negative, positive in COUNTS.labelled]
    means, variances = np.array([rate.mean() for rate in rates]), np.array([rate.var() for rate in rates])
    expected = means @ shares.cov() @ means + (shares.var() + shares.mean() ** 2) @ variances
    assert rate_variance(COUNTS, prior=prior) == pytest.approx(expected)
    assert rate_variance(COUNTS) == rate_variance(COUNTS, prior=1 / 2)


def test_a_stratum_without_human_labels_is_open() -> None:
    counts = LabelCounts(np.array([[0.0, 0.0], [0.0, 40.0]]), np.array([500.0, 500.0]))
    posterior = joint_posterior(counts, sampling="random", rng=np.random.default_rng(0))
    low, high = np.quantile(posterior[1:][:, :, 1].sum(axis=1), [0.025, 0.975])
    assert low < 0.53
    assert high > 0.97
    assert posterior[0].tolist() == [[0.25, 0.25], [0.0, 0.5]]


def test_influence_is_the_derivative_of_the_estimate() -> None:
    rng = np.random.default_rng(3)
    stratum = rng.integers(0, 2, 400)
    labels = np.full((400, 2), np.nan)
    labels[:100] = np.eye(2)[(rng.random(100) < 0.3 + 0.5 * stratum[:100]).astype(int)]

    def counts(rows: np.ndarray) -> LabelCounts:
        labelled = np.zeros((2, 2))
        use = rows[rows < 100]
        np.add.at(labelled, (stratum[use], labels[use, 1].astype(int)), 1)
        return LabelCounts(labelled, np.bincount(stratum[rows], minlength=2).astype(float))

    def rate(part: LabelCounts) -> np.ndarray:
        return joint_estimate(part, sampling="random")[..., 1].sum(axis=-1)

    everything = np.arange(400)
    influence = output_influence(
        rate,
        counts(everything),
        stratum=stratum,
        labels=labels,
        labelled_weights=(everything < 100).astype(float),
        total_weights=np.ones(400),
    )
    jackknife = np.array([rate(counts(everything)) - rate(counts(np.delete(everything, i))) for i in range(400)])
    assert np.corrcoef(influence, jackknife)[0, 1] > 0.999
    np.testing.assert_allclose((influence**2).sum(), (jackknife**2).sum(), rtol=0.05)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_prior_weighs_two_outputs_and_is_neutral_on_equal_labels(k: int) -> None:
    prior = cell_prior((k, k))
    assert prior.sum() == pytest.approx(2)
    assert np.trace(prior) == pytest.approx(1)
    rng = np.random.default_rng(0)
    gold = rng.integers(0, k, 60)
    judge = np.where(rng.random(60) < 0.8, gold, rng.integers(0, k, 60))
    table = np.zeros((k, k))
    np.add.at(table, (judge, gold), 1)
    posterior = joint_posterior(LabelCounts(table, table.sum(axis=1)), sampling="random", rng=rng)
    assert np.trace(posterior[1:], axis1=1, axis2=2).mean() == pytest.approx(np.trace(table) / 60, abs=0.02)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_prior_of_two_judges_weighs_four_outputs(k: int) -> None:
    counts = np.zeros((k, k, k))
    counts[1, 0, 0] = 36
    draws = paired_posterior(counts.reshape(k * k, k), np.random.default_rng(0)).reshape(-1, k, k, k)
    assert draws.sum(axis=(1, 2, 3)) == pytest.approx(1)
    mean = draws.mean(axis=0)
    assert mean[1, 0, 0] == pytest.approx((36 + (0.5 if k == 2 else 1 / (k * (k - 1)))) / 40, abs=2e-3)
    for table in (mean.sum(axis=0), mean.sum(axis=1)):  # one judge is right in the counts, the other is wrong
        assert np.trace(table) == pytest.approx((2 + 36 * table[0, 0].round()) / 40, abs=2e-3)


def test_design_effect_of_equal_outputs_in_a_cluster_is_its_size() -> None:
    values = np.repeat(np.random.default_rng(0).standard_normal(200), 4)
    effect = influence_design_effect(values - values.mean(), np.repeat(np.arange(200), 4))
    assert float(effect.effect) == pytest.approx(4, rel=0.02)
    assert float(effect.clusters) == pytest.approx(200, rel=0.35)
    assert float(influence_design_effect(values, np.arange(800)).effect) == 1


@given(st.floats(-0.95, 0.95))
def test_copula_keeps_the_values_and_gives_the_correlation(correlation: float) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 8000))
    result = correlate_draws(first, second, correlation, rng)
    np.testing.assert_array_equal(np.sort(result), np.sort(second))
    assert np.corrcoef(first, result)[0, 1] == pytest.approx(correlation, abs=0.05)
    for sign in (1, -1):
        np.testing.assert_array_equal(np.argsort(correlate_draws(first, second, sign, rng)), np.argsort(sign * first))
    assert correlate_draws(first, second, 0.0, rng) is second


@pytest.mark.parametrize(
    ("draws", "p"),
    [
        ([-1.0] * 3 + [1.0] * 96, 2 * 4 / 100),
        ([0.0] + [1.0] * 98, 2 * 2 / 100),
        ([0.0] * 9, 1.0),
        ([1.0, 2.0, 3.0], 2 * stats.norm.sf(2 / np.sqrt(2 / 3))),
        ([0.01] * 99 + [10.0], 2 / 101),
        ([1.0] * 19, 2 / 20),
    ],
)
def test_p_value_counts_draws_of_the_rarer_sign(draws: list[float], p: float) -> None:
    columns = np.stack([draws, np.negative(draws)], axis=1)
    np.testing.assert_allclose(two_sided_p(columns), [p, p])


def test_p_value_far_from_zero_can_be_adjusted_over_many_tests() -> None:
    draws = np.random.default_rng(0).standard_normal(8192) + 6
    assert float(two_sided_p(draws)) == pytest.approx(2 * stats.norm.sf(6), rel=0.5)


def test_p_value_agrees_with_the_interval() -> None:
    for shift in np.linspace(0, 4, 30):
        draws = np.random.default_rng(0).standard_normal(4000) + shift
        outside = np.quantile(draws, 0.025) > 0
        assert abs(float(two_sided_p(draws)) - 0.05) < 0.002 or (float(two_sided_p(draws)) <= 0.05) == outside
