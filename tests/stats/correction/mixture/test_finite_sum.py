"""The finite sum against enumeration of every split, and where rounding must be noticed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import betainc, gammaln

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import finite_sum
from custodes.stats.correction.mixture.finite_sum import summed
from tests.stats.correction.mixture.test_exact import NONE, TABLES, exact_sum

# many human-only items that say otherwise than the metric: without the tilt, rounding hides the posterior
PULLED = ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [60, 10, 40], [30, 30, 400])


def ask(table, seed=0):
    counts = Counts(*(np.array(part, dtype=float) for part in table))
    return summed(counts, rng=np.random.default_rng(seed), confidence=0.95)


@pytest.mark.parametrize("table", [*TABLES.values(), PULLED], ids=[*TABLES, "pulled"])
def test_theta_and_shares_are_those_of_the_sum_by_convolution(table):
    weights, parameters = exact_sum(*table)
    got = ask(table)
    assert abs(got.theta - weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)) < 1e-11
    np.testing.assert_allclose(got.p, weights @ (parameters / parameters.sum(axis=1, keepdims=True)), atol=1e-11)
    assert got.margin == got.p[0] - got.p[2]
    assert got.theta_error < 1e-9
    total = parameters.sum(axis=1, keepdims=True)
    error = 4.5 * np.sqrt(0.025 * 0.975 / got.effective_draws)
    for bound, tail in ((got.p_low, 0.025), (got.p_high, 0.975)):
        np.testing.assert_allclose(weights @ betainc(parameters, total - parameters, bound), tail, atol=error)


@pytest.mark.parametrize(
    ("paired", "metric_only", "human_only"),
    [
        ([[2, 0, 1], [0, 1, 0], [0, 0, 3]], [3, 2, 4], NONE),
        ([[0, 0, 0], [0, 0, 0], [1, 0, 0]], [5, 0, 2], [4, 0, 1]),
        ([[1.3, 0.4, 0], [0, 0.7, 0], [0.2, 0, 2.1]], [2, 3, 3], [0.5, 1.5, 0]),
    ],
)
def test_the_mixture_matrix_by_every_split(paired, metric_only, human_only):
    """Every way to split each metric class over the human classes, one by one."""
    paired, human_only = np.array(paired, dtype=float), np.array(human_only, dtype=float)

    def splits(m):
        return [(a, m - a - b, b) for a in range(m + 1) for b in range(m + 1 - a)]

    logs, means, thetas = [], [], []
    for chosen in product(*(splits(m) for m in metric_only)):
        split = np.array(chosen, dtype=float).T  # [human, metric]
        n, s = paired.sum(axis=1), split.sum(axis=1)
        own = (gammaln(paired + split + 1) - gammaln(split + 1)).sum()
        own += (gammaln(n + human_only + s + 1) - gammaln(n + s + 3)).sum()
        logs.append(own)
        means.append(((paired + split + 1) / (n + s + 3)[:, np.newaxis]).T)
        thetas.append(betainc(n[2] + human_only[2] + s[2] + 1, n[0] + human_only[0] + s[0] + 1, 0.5))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    got = ask((paired, metric_only, human_only))
    np.testing.assert_allclose(got.mu_mean, np.tensordot(weights, np.array(means), axes=1), atol=1e-10)
    assert got.theta == pytest.approx(weights @ np.array(thetas), abs=1e-11)


def test_rounding_that_hides_the_sum_is_noticed(monkeypatch):
    assert ask(PULLED) is not None
    monkeypatch.setattr(finite_sum, "_tilt", lambda counts: np.zeros(3))
    assert ask(PULLED) is None


def test_no_seed_changes_theta_and_a_swap_mirrors_it():
    paired, metric_only, human_only = (np.array(part) for part in TABLES["a few people more"])
    one, other = ask((paired, metric_only, human_only), 1), ask((paired, metric_only, human_only), 2)
    assert one.theta == other.theta
    assert one.margin_low != other.margin_low
    np.testing.assert_allclose([one.margin_low, one.margin_high], [other.margin_low, other.margin_high], atol=0.03)
    mirror = ask((paired[::-1, ::-1], metric_only[::-1], human_only[::-1]))
    assert mirror.theta == pytest.approx(1 - one.theta, abs=1e-12)
    np.testing.assert_allclose(mirror.mu_mean, one.mu_mean[::-1, ::-1], atol=1e-11)


def test_a_thousand_items():
    """The sum against a long run of independent weighted draws."""
    from custodes.stats.correction.mixture.exact import Sample

    table = ([[14, 2, 2], [2, 7, 3], [2, 2, 9]], [580, 150, 220], [3, 1, 5])
    counts = Counts(*(np.array(part, dtype=float) for part in table))
    sample = Sample(counts, np.random.default_rng(0))
    sample.extend(300_000)
    drawn, got = sample.posterior(confidence=0.95), ask(table)
    assert abs(got.theta - drawn.theta) < 4.5 * drawn.theta_error
    assert drawn.theta_error < 0.001
    np.testing.assert_allclose(got.p, drawn.p, atol=0.002)
    np.testing.assert_allclose(got.mu_mean, drawn.mu_mean, atol=0.002)
