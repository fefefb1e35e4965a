"""Populations led to the posterior: the finite sum as oracle, and whether disagreement is seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import tempering
from custodes.stats.correction.mixture.finite_sum import summed
from custodes.stats.correction.mixture.tempering import tempered
from tests.stats.correction.mixture.test_exact import exact_sum

NONE = [0, 0, 0]
HARD = {
    "people who disagree with the metric": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [100, 25, 75], [30, 30, 40]),
    "one paired, many people": ([[1, 0, 0], NONE, NONE], [20, 5, 15], [60, 30, 45]),
    "two classes empty": ([[2, 0, 1], NONE, NONE], [390, 0, 10], NONE),
    "nothing paired": ([NONE, NONE, NONE], [100, 50, 80], [1, 0, 0]),
}


def counts_of(table) -> Counts:
    return Counts(*(np.array(part, dtype=float) for part in table))


def ask(table, seed=0, *, precision=0.003):
    rng = np.random.default_rng(seed)
    return tempered(counts_of(table), rng=rng, confidence=0.95, precision=precision, gamma=None)


@pytest.mark.parametrize("name", HARD)
def test_equals_the_finite_sum(name):
    got, exact = ask(HARD[name]), summed(counts_of(HARD[name]).rows[np.newaxis], seed=[1], confidence=0.95)
    assert got.method == "tempered"
    assert got.r_hat < 1.01
    assert abs(got.theta - exact.theta[0]) < 4 * got.theta_error
    assert got.theta_error < 0.01
    np.testing.assert_allclose(got.p, exact.p[0], atol=0.02)
    assert got.margin_low == pytest.approx(exact.low[0, 3], abs=0.06)
    assert got.margin_high == pytest.approx(exact.high[0, 3], abs=0.06)


def test_effective_counts():
    table = ([[1.4, 0, 0.3], [0, 0.2, 0], [0, 0, 0.4]], [60, 10, 30], [2.5, 0.1, 0.7])
    got, (weights, shapes) = ask(table), exact_sum(*table)
    assert abs(got.theta - weights @ betainc(shapes[:, 2], shapes[:, 0], 0.5)) < 4 * got.theta_error
    np.testing.assert_allclose(got.p, weights @ (shapes / shapes.sum(axis=1, keepdims=True)), atol=0.02)


def test_people_and_a_million_items_of_the_metric_that_disagree():
    """Gibbs chains give R-hat 3 to 4 here. p is nearly known from people; the metric's answers move mu, not p."""
    people = ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [600_000, 100_000, 300_000], [30, 30, 200])
    one, other = ask(people, 0), ask(people, 1)
    assert max(one.r_hat, other.r_hat) < 1.01
    np.testing.assert_allclose(one.p, other.p, atol=0.01)
    # 45 wins, 39 ties and 213 losses by people alone
    np.testing.assert_allclose(one.p, np.array([45, 39, 213]) / 297, atol=0.03)
    assert one.theta < 0.01


def test_draws_go_on_only_while_a_decision_is_open(monkeypatch):
    monkeypatch.setattr(tempering, "_MOST_ROUNDS", 4)
    clear = tempered(
        counts_of(HARD["one paired, many people"]),
        rng=np.random.default_rng(0),
        confidence=0.95,
        precision=None,
        gamma=0.9,  # thresholds .45 and .55
    )
    more = ask(HARD["one paired, many people"], precision=1e-9)
    assert clear.effective_draws < 0.6 * more.effective_draws


def test_populations_apart_are_seen():
    rng = np.random.default_rng(0)
    together = rng.normal(size=(40, 16, 64))
    r_hat, effective = tempering._agreement(together)
    assert r_hat < 1.01
    assert effective > 10_000
    apart = together + np.where(np.arange(16) < 5, 3.0, 0.0)[:, np.newaxis]
    r_hat, effective = tempering._agreement(apart)
    assert r_hat > 1.3
    assert effective < 40
    # none moves, all in agreement at first and elsewhere later
    drift = together + np.linspace(0, 2, 40)[:, np.newaxis, np.newaxis]
    assert tempering._agreement(drift)[0] > 1.1


def test_populations_that_never_move_do_not_agree(monkeypatch):
    """People never say tie, the metric nothing else: the margin is near 1 or near -1, and resampling alone decides how
    many of a population are where."""
    table = ([[10, 0, 0], NONE, [1, 0, 9]], [0, 10_000, 0], NONE)
    assert ask(table, precision=0.1).r_hat < 1.01
    for name, times in {"_MOST_ROUNDS": 1, "_THIN": 1, "_STEP_MOVES": 0, "_LAST_MOVES": 0}.items():
        monkeypatch.setattr(tempering, name, times)
    stuck = ask(table)
    assert stuck.r_hat > 1.05
    assert stuck.effective_draws < 100
    # the error of a single population, which holds the truth
    assert stuck.theta_error > 0.1
    assert abs(stuck.theta - 0.5) < 4 * stuck.theta_error


def test_the_mean_of_populations_counts_by_their_evidence():
    """A population that met four times the evidence counts four times."""
    mean, error = tempering._pooled(np.array([0.2, 0.4, 0.9]), np.array([4, 1, 1]) / 6)
    assert mean == pytest.approx((4 * 0.2 + 0.4 + 0.9) / 6)
    assert error > 0.1
    assert tempering._pooled(np.full(3, 0.3), np.full(3, 1 / 3))[1] == 0
    # equal shares: the standard error of a mean, as much larger as Student's four-sigma quantile with 15 degrees
    values = np.random.default_rng(0).normal(size=16)
    plain = values.std(ddof=1) / 4
    assert tempering._pooled(values, np.full(16, 1 / 16))[1] == pytest.approx(1.4 * plain)
    assert stats.t.isf(stats.norm.sf(4), 15) == pytest.approx(4 * 1.4, rel=0.03)
