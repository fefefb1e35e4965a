"""Power by brute force over all outcomes, correlation by enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.stopping.power import human_power, preference_correlation


def test_power_is_exact() -> None:
    shares, n = (
        np.array([[0.45, 0.35, 0.2], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        np.array([13, 9, 4, 6]),
    )
    better, worse = human_power(shares, n, gamma=0.1)
    for k, (p, size) in enumerate(zip(shares, n, strict=True)):
        outcomes = np.array([c for c in product(range(size + 1), repeat=3) if sum(c) == size])
        theta = human_theta(outcomes[:, 0], outcomes[:, 2])
        chance = multinomial.pmf(outcomes, size, p)
        assert better[k] == pytest.approx(chance[theta > 0.95].sum(), abs=1e-9)
        assert worse[k] == pytest.approx(chance[theta < 0.05].sum(), abs=1e-9)
    # Without ties: a binomial tail. theta(35, 15) is above .975 and theta(32, 18) is not.
    wins = next(w for w in range(51) if human_theta(np.array(w), np.array(50 - w)) > 0.975)
    assert human_power(np.array([[0.7, 0, 0.3]]), np.array([50]), gamma=0.05)[0][0] == pytest.approx(
        binom.sf(wins - 1, 50, 0.7)
    )


def test_correlation_by_enumerating_both_preferences() -> None:
    rng = np.random.default_rng(1)
    shares, channel = rng.dirichlet([1, 1, 1], 20), rng.dirichlet([1, 1, 1], 3)
    correlations = preference_correlation(shares, channel)
    value = np.array([1, 0, -1])
    for share, r in zip(shares, correlations, strict=True):
        joint = share[:, None] * channel
        mean_h, mean_m = value @ joint.sum(axis=1), value @ joint.sum(axis=0)
        covariance = sum(
            joint[h, m] * (value[h] - mean_h) * (value[m] - mean_m) for h, m in product(range(3), repeat=2)
        )
        var_h = sum(share[h] * (value[h] - mean_h) ** 2 for h in range(3))
        var_m = sum(joint[:, m].sum() * (value[m] - mean_m) ** 2 for m in range(3))
        assert r == pytest.approx(covariance / np.sqrt(var_h * var_m))
    assert preference_correlation(np.array([0.3, 0.4, 0.3]), np.eye(3)[::-1]) == pytest.approx(-1)
    silent = np.tile([0.0, 1.0, 0.0], (3, 1))  # the metric always ties
    assert preference_correlation(shares, silent).tolist() == [0] * 20
