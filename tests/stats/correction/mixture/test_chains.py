"""Diagnostics of chains against closed forms and NumPyro's."""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.mixture.chains import chain_posterior, effective_sample_size, split_r_hat


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
    got = chain_posterior(p, confidence=0.95, method="nuts")
    share = (p[..., 0] > p[..., 2]).mean()
    assert got.theta == pytest.approx(share)
    assert 0.8 < share < 0.95
    assert got.theta_error == pytest.approx(np.sqrt(share * (1 - share) / 10_000), rel=0.1)
    assert got.effective_draws == pytest.approx(10_000, rel=0.1)
