"""Gibbs sampling against the exact sampler, closed forms and known diagnostics."""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.gibbs import chain_posterior, effective_sample_size, gibbs_chains, split_r_hat
from custodes.stats.correction.mixture.posterior import stack

TABLES = [
    ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [30, 10, 25], [0, 0, 0]),
    ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [20, 5, 15], [50, 30, 60]),
    ([[9, 1, 4], [0, 0, 0], [4, 1, 7]], [25, 4, 20], [0, 0, 0]),
    ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [6, 1, 4], [2, 1, 0]),
]


def gibbs(paired, metric_only, human_only, *, chains=40, draws=400, seed=0):
    """Each table from chains that start at Dirichlet draws, with its own stream of random numbers."""
    counts = Counts(np.array(paired), np.array(metric_only), np.array(human_only))
    posteriors = []
    for *table, rng in zip(*counts.flat, np.random.default_rng(seed).spawn(int(np.prod(counts.shape))), strict=True):
        start = rng.dirichlet(table[0].ravel() + 1.0, chains).reshape(chains, 3, 3)
        posteriors.append(gibbs_chains(Counts(*table), start=start, rng=rng, confidence=0.95, warmup=100, draws=draws))
    return stack(posteriors, counts.shape)


def test_agrees_with_the_exact_sampler():
    arrays = [np.array(counts) for counts in zip(*TABLES, strict=True)]
    got = gibbs(*arrays)
    exact = mixture_posterior(
        Counts(*arrays), rng=np.random.default_rng(1), confidence=0.95, precision=0.003, gamma=None, max_draws=2**18
    )
    assert got.theta.shape == (4,)
    assert (exact.method == "exact").all()
    assert (got.method == "gibbs").all()
    assert (got.r_hat < 1.02).all()
    assert (got.effective_draws > 1000).all()
    np.testing.assert_array_less(np.abs(got.theta - exact.theta), 4.5 * np.hypot(got.theta_error, exact.theta_error))
    np.testing.assert_allclose(got.p, exact.p, atol=0.02)
    np.testing.assert_allclose(got.mu_mean, exact.mu_mean, atol=0.03)
    for name in ("p_low", "p_high", "margin_low", "margin_high"):
        np.testing.assert_allclose(getattr(got, name), getattr(exact, name), atol=0.04, err_msg=name)


def test_without_metric_only_items_draws_are_independent():
    paired, human_only = np.array([[5, 1, 0], [1, 2, 2], [0, 1, 2]]), np.array([3, 0, 1])
    got = gibbs(paired, [0, 0, 0], human_only)
    human = human_posterior(paired.sum(axis=1) + human_only, confidence=0.95)
    assert got.effective_draws > 0.8 * 40 * 400
    assert abs(got.theta - human.theta) < 4.5 * got.theta_error
    np.testing.assert_allclose(got.p, human.p, atol=0.01)
    np.testing.assert_allclose(got.mu_mean, ((paired + 1) / (paired.sum(axis=1, keepdims=True) + 3)).T, atol=0.01)


def test_seed_repeats_and_tables_have_their_own_streams():
    both = gibbs(*(np.array([c, c]) for c in TABLES[0]), draws=50)
    again = gibbs(*(np.array([c, c]) for c in TABLES[0]), draws=50)
    np.testing.assert_array_equal(both.theta, again.theta)
    assert both.p[0, 0] != both.p[1, 0]
    first = gibbs(*(np.array([c]) for c in TABLES[0]), draws=50)
    assert first.p[0, 0] == both.p[0, 0]


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.9])
def test_effective_sample_size_of_an_autoregression(rho):
    rng = np.random.default_rng(0)
    values = np.empty((4000, 8))
    values[0] = rng.normal(size=8)
    for t in range(1, len(values)):
        values[t] = rho * values[t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=8)
    expected = values.size * (1 - rho) / (1 + rho)  # textbook, AR(1)
    assert effective_sample_size(values) == pytest.approx(expected, rel=0.15)
    assert split_r_hat(values) == pytest.approx(1, abs=0.01)


def test_chains_apart_are_seen():
    values = np.random.default_rng(0).normal(size=(500, 4))
    values[:, 0] += 3
    assert split_r_hat(values) > 1.5
    assert effective_sample_size(values) < 20
    drift = np.random.default_rng(0).normal(size=(500, 4)) + np.linspace(0, 3, 500)[:, np.newaxis]
    assert split_r_hat(drift) > 1.1


def test_constant_values_are_not_an_error():
    assert split_r_hat(np.ones((10, 2))) == 1
    assert effective_sample_size(np.ones((10, 2))) == 20


def test_diagnostics_equal_numpyro():
    diagnostics = pytest.importorskip("numpyro.diagnostics", reason="NumPyro is not installed")
    values = np.random.default_rng(0).normal(size=(600, 4)).cumsum(axis=0) * 0.05
    values += np.random.default_rng(1).normal(size=values.shape)
    assert split_r_hat(values) == pytest.approx(float(diagnostics.split_gelman_rubin(values.T)), rel=1e-6)
    for draws in (601, 602):  # a draw too many for two halves; halves of an odd number
        mixed = np.random.default_rng(2).normal(size=(draws, 4))
        mixed[1:] += 0.7 * mixed[:-1]
        half = draws // 2
        halves = np.concatenate([mixed[:half], mixed[half : 2 * half]], axis=1)
        expected = float(diagnostics.effective_sample_size(halves.T))
        assert effective_sample_size(mixed) == pytest.approx(expected, rel=1e-6)


def test_the_error_of_theta_is_that_of_a_share_of_the_draws():
    # independent draws, so the binomial formula
    p = np.random.default_rng(0).dirichlet([8, 6, 4], (2000, 5))
    got = chain_posterior(p, np.eye(3), confidence=0.95, method="gibbs")
    share = (p[..., 0] > p[..., 2]).mean()
    assert got.theta == pytest.approx(share)
    assert 0.8 < share < 0.95
    assert got.theta_error == pytest.approx(np.sqrt(share * (1 - share) / 10_000), rel=0.1)
    assert got.effective_draws == pytest.approx(10_000, rel=0.1)
