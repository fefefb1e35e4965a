"""The posterior from human ratings alone, against SciPy's distributions, draws and exchanged systems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import beta

from custodes.stats.correction.dirichlet import human_posterior, human_theta

COUNTS = np.array(
    [
        [8, 1, 1],
        [0, 0, 0],
        [0, 0, 1],
        [3, 0, 0],
        [5, 500, 3],
        [1000, 0, 900],
        [100_000, 5000, 90_000],
        [0, 50_000, 1],
        [0, 0, 100_000],
        [2, 1_000_000, 2],
    ]
)


@pytest.mark.parametrize("counts", [(8, 1, 1), (0, 0, 0), (2, 7, 4)])
def test_theta_by_integration(counts):
    win, tie, loss = counts

    def density(y, x):
        return x**win * y**loss * (1 - x - y) ** tie

    whole = dblquad(density, 0, 1, 0, lambda x: 1 - x)[0]
    better = dblquad(density, 0, 1, 0, lambda x: min(x, 1 - x), epsabs=1e-12)[0]
    assert human_theta(win, loss) == pytest.approx(better / whole, abs=1e-6)


def test_shares_are_beta():
    result = human_posterior(COUNTS, confidence=0.9)
    a, b = COUNTS + 1, COUNTS.sum(axis=1, keepdims=True) - COUNTS + 2
    np.testing.assert_allclose(result.p, beta.mean(a, b))
    np.testing.assert_allclose(result.p_low, beta.ppf(0.05, a, b), rtol=1e-9)
    np.testing.assert_allclose(result.p_high, beta.ppf(0.95, a, b), rtol=1e-9)


@pytest.mark.parametrize("counts", COUNTS)
def test_margin_interval_holds_its_share_of_draws(counts):
    draws = 200_000
    p = np.random.default_rng(0).dirichlet(counts + 1, draws)
    margin = p[:, 0] - p[:, 2]
    result = human_posterior(counts, confidence=0.95)
    error = 4.5 * np.sqrt(0.025 * 0.975 / draws)
    assert (margin < result.margin_low).mean() == pytest.approx(0.025, abs=error)
    assert (margin > result.margin_high).mean() == pytest.approx(0.025, abs=error)


def test_margin_interval_in_closed_form():
    # Without ratings p_win - p_loss has the density 1 - |x|, so its lower 2.5 % bound is sqrt(.05) - 1.
    result = human_posterior(np.zeros(3), confidence=0.95)
    np.testing.assert_allclose(
        [result.margin_low, result.margin_high], [np.sqrt(0.05) - 1, 1 - np.sqrt(0.05)], atol=1e-8
    )
    # close to the median, where the density has its kink
    narrow = human_posterior(np.zeros(3), confidence=0.02)
    np.testing.assert_allclose(narrow.margin_low, np.sqrt(0.98) - 1, atol=1e-8)
