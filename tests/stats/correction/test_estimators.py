"""Properties of all estimators: symmetry, results on known truths, tables without annotations."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from custodes.stats.correction.estimator import Counts, Estimate, decide
from custodes.stats.correction.estimators import ESTIMATORS
from tests.simulated_counts import simulate_counts

CHANNEL = np.array([[0.7, 0.1, 0.2], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])  # [human, metric]
NAMES = tuple(name for name, estimator in ESTIMATORS.items() if not estimator.needs_items)


def estimate_by(name: str, paired, metric_only=(0, 0, 0), human_only=(0, 0, 0), seed: int = 0) -> Estimate:
    counts = Counts(*(np.asarray(part) for part in (paired, metric_only, human_only)))
    return ESTIMATORS[name].estimate(counts, confidence=0.95, gamma=0.05, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("name", NAMES)
def test_they_read_whom_they_say(name):
    paired, metric_only, human_only = np.diag([9, 4, 5]) + 1, np.array([60, 20, 10]), np.array([3, 1, 8])
    estimator, answer = ESTIMATORS[name], estimate_by(name, paired, metric_only, human_only)
    other_metric = estimate_by(name, paired[:, [1, 2, 0]], metric_only[::-1], human_only)
    assert (other_metric.theta == answer.theta) == (not estimator.uses_metric)
    other_people = estimate_by(name, paired[[1, 2, 0]], metric_only, human_only[::-1])
    assert (other_people.theta == answer.theta) == (not estimator.uses_people)


@pytest.mark.parametrize("name", [name for name, estimator in ESTIMATORS.items() if estimator.quick])
def test_quick_estimates_agree_with_those_with_intervals(name):
    counts = Counts(np.diag([20, 10, 12]) + 2, np.array([300, 200, 300]), np.array([4, 1, 0]))
    options = {"confidence": None, "gamma": 0.05, "rng": np.random.default_rng(0)}
    quick = ESTIMATORS[name].estimate(counts, **options).stopping_estimate(gamma=0.05)
    careful = estimate_by(name, *counts).stopping_estimate(gamma=0.05)
    # A few hundred draws are enough far from .025 and .975; the sd of a normal is its interval / 3.92.
    assert quick.theta == pytest.approx(careful.theta, abs=0.06)
    assert quick.margin == pytest.approx(careful.margin, abs=0.02)
    assert quick.sd == pytest.approx(careful.sd, rel=0.1)
    assert np.isnan([quick.margin_low, quick.margin_high]).all()


@pytest.mark.parametrize("name", NAMES)
def test_large_counts_find_the_truth(name):
    p = np.array([0.42, 0.26, 0.32])
    paired = simulate_counts(p, CHANNEL, n=40_000, rng=0)
    metric_only = np.random.default_rng(1).multinomial(100_000, p @ CHANNEL)
    estimate = estimate_by(name, paired, metric_only)
    truth = p @ CHANNEL if name == "naive" else p
    assert estimate.margin == pytest.approx(truth[0] - truth[2], abs=0.04)
    assert estimate.margin_low < estimate.margin < estimate.margin_high
    if name != "ppi":
        np.testing.assert_allclose(estimate.p, truth, atol=0.02)
    else:
        assert np.isnan(estimate.p).all()
    # The uncorrected metric, which detects losses more often than wins, reverses the pair.
    assert decide(estimate.theta, gamma=0.05) == (-1 if name == "naive" else 1)


@pytest.mark.parametrize("name", NAMES)
def test_without_annotations_nothing_breaks(name):
    paired = np.zeros((2, 3, 3), dtype=int)
    metric_only = np.array([[0, 0, 0], [80, 10, 10]])
    estimate = estimate_by(name, paired, metric_only, np.zeros((2, 3), dtype=int))
    for field in fields(Estimate):
        values = getattr(estimate, field.name)
        assert values.shape == ((2, 3) if field.name.startswith("p") else (2,))
    if name == "naive":
        assert estimate.theta == pytest.approx([0.5, 1.0])
        return
    # The prior shifts the theta of the mixture, but decides nothing.
    assert estimate.theta == pytest.approx(0.5, abs=0.1)
    assert (estimate.margin_low < -0.5).all()
    assert (estimate.margin_high > 0.5).all()


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=4)
@given(table=hnp.arrays(np.int64, 15, elements=st.integers(0, 20)))
def test_swapping_the_systems_mirrors_it(name, table):
    single = estimate_by(name, table[:9].reshape(3, 3), table[9:12], table[12:])
    two = estimate_by(name, table[8::-1].reshape(3, 3), table[11:8:-1], table[:11:-1])
    np.testing.assert_allclose(two.p, single.p[::-1], atol=1e-9)
    np.testing.assert_allclose(two.p_low, single.p_low[::-1], atol=1e-9)
    np.testing.assert_allclose(two.margin, -single.margin, atol=1e-9)
    np.testing.assert_allclose([two.margin_low, two.margin_high], [-single.margin_high, -single.margin_low], atol=1e-7)
    np.testing.assert_allclose(two.theta, 1 - single.theta, atol=1e-9)
    np.testing.assert_allclose(two.effective_draws, single.effective_draws)


@pytest.mark.parametrize("name", NAMES)
def test_many_tables_are_answered_one_by_one(name):
    rng = np.random.default_rng(0)
    paired = rng.integers(0, 9, (2, 2, 3, 3))
    metric_only, human_only = rng.integers(0, 50, (2, 2, 2, 3))
    together = estimate_by(name, paired, metric_only, human_only)
    alone = estimate_by(name, paired[0, 1], metric_only[0, 1], human_only[0, 1])
    assert together.theta.shape == (2, 2)
    assert together.theta[0, 1] == pytest.approx(alone.theta, abs=1e-9)
    assert together.margin[0, 1] == pytest.approx(alone.margin, abs=1e-9)


def test_human_reads_all_human_labels_and_naive_all_labels_of_the_metric():
    table = np.array([[4, 1, 0], [1, 1, 0], [0, 1, 1]])
    human, naive = (
        estimate_by("human", table, (50, 0, 0), (6, 1, 0)),
        estimate_by("naive", table, (6, 1, 2), (50, 0, 0)),
    )
    for estimate, (wins, ties, losses) in ((human, (11, 3, 2)), (naive, (11, 4, 3))):
        assert estimate.theta == pytest.approx(stats.beta.sf(0.5, wins + 1, losses + 1))
        shapes, total = np.array([wins, ties, losses]) + 1, wins + ties + losses + 3
        np.testing.assert_allclose(estimate.p, shapes / total)
        for end, probability in ((estimate.p_low, 0.025), (estimate.p_high, 0.975)):
            np.testing.assert_allclose(end, stats.beta.ppf(probability, shapes, total - shapes))


@pytest.mark.parametrize("human", [[0, 0, 0], [7, 2, 3], [0, 9, 0], [0, 0, 40]])
def test_quick_moments_are_those_of_the_dirichlet_posterior(human):
    counts = Counts(np.zeros((1, 3, 3), dtype=int), np.array([[9, 9, 9]]), np.array([human]))
    quick = ESTIMATORS["human"].estimate(counts, confidence=None).stopping_estimate(gamma=0.05)
    posterior = stats.dirichlet(np.array(human) + 1)
    covariance = posterior.cov()
    np.testing.assert_allclose(quick.p, [posterior.mean()])
    assert quick.margin == pytest.approx([posterior.mean()[0] - posterior.mean()[2]])
    assert quick.sd == pytest.approx([np.sqrt(covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2])])
    # A closed form is not kept away from 0 and 1.
    assert quick.theta == pytest.approx([stats.beta.sf(0.5, human[0] + 1, human[2] + 1)], rel=1e-9)
