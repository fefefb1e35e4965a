"""Poststratification: its moments against draws, and its limits against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.poststratified import POSTSTRATIFIED, STRATUM_PRIOR, poststratified_moments

NOTHING = np.zeros(3, dtype=np.int64)
TABLES = [
    ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [400, 200, 400], [0, 0, 0]),
    ([[3, 0, 0], [1, 2, 1], [0, 0, 0]], [10, 90, 7], [4, 1, 0]),
    ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [10, 90, 7], [4, 1, 0]),
    ([[2, 0, 1], [0, 0, 0], [1, 0, 4]], [500, 0, 300], [0, 0, 0]),
]


def drawn(paired: np.ndarray, metric_only: np.ndarray, human_only: np.ndarray, n: int) -> np.ndarray:
    """Return the human outcome drawn from the model, stratum by stratum: (n, 3)."""
    rng = np.random.default_rng(0)
    sizes = paired.sum(axis=0) + (metric_only if paired.any() else 0) + STRATUM_PRIOR
    alpha = np.append(sizes, human_only.sum())
    gammas = rng.standard_gamma(alpha, (n, 4))
    q = gammas / gammas.sum(axis=1, keepdims=True)
    answers = [*paired.T, human_only]
    nu = np.stack([rng.dirichlet(answer + STRATUM_PRIOR, n) for answer in answers], axis=1)
    return np.einsum("nr,nrh->nh", q, nu)


@pytest.mark.parametrize("table", TABLES)
def test_is_the_posterior_of_the_model(table):
    table = [np.array(part) for part in table]
    p = drawn(*table, n=200_000)
    values = np.column_stack([p, p[:, 0] - p[:, 2]])
    mean, variance = poststratified_moments(Counts(*table))
    # Monte Carlo: the sd of a mean of 200,000 draws is at most .0015, that of a relative variance about .005.
    np.testing.assert_allclose(mean, values.mean(axis=0), atol=0.004)
    np.testing.assert_allclose(variance, values.var(axis=0), rtol=0.04)
    estimate = POSTSTRATIFIED.estimate(Counts(*table), confidence=0.9)
    # The Beta distribution with these moments is an approximation. Over random tables the largest error of theta was
    # .05 with 10 annotations and .01 with 50; here, with few or none, it is .08.
    assert estimate.theta == pytest.approx(np.mean(values[:, 3] > 0), abs=0.1)
    low, high = np.quantile(values[:, 3], (0.05, 0.95))
    assert [estimate.margin_low, estimate.margin_high] == pytest.approx([low, high], abs=0.05)
    low, high = np.quantile(p, (0.05, 0.95), axis=0)
    np.testing.assert_allclose(estimate.p_low, low, atol=0.05)
    np.testing.assert_allclose(estimate.p_high, high, atol=0.05)


def test_a_stratum_without_annotations_holds_all_answers_alike():
    paired = np.zeros((3, 3))
    paired[0, 0] = 1e6  # Annotators and metric agree on wins; the metric's losses have no human ratings.
    mean, variance = poststratified_moments(Counts(paired, np.array([0, 0, 1e6]), NOTHING))
    np.testing.assert_allclose(mean[:3], [0.5 + 0.5 / 3, 0.5 / 3, 0.5 / 3], atol=1e-5)
    # half the weight, and a stratum of one pseudo-annotation: variance of a margin on (1/3, 1/3, 1/3) over 1 + 1
    assert variance[3] == pytest.approx(0.25 * (2 / 3) / 2, rel=1e-4)


@given(hnp.arrays(np.int64, 15, elements=st.integers(0, 30)))
def test_variance_is_that_of_products_of_independent_dirichlets(table):
    paired, metric_only, human_only = table[:9].reshape(3, 3), table[9:12], table[12:]
    answers = np.array([*paired.T, human_only])
    sizes = answers.sum(axis=1) + np.append((metric_only if paired.any() else NOTHING) + STRATUM_PRIOR, 0.0)
    non_empty = sizes > 0  # The stratum of human ratings without the metric is empty.
    q = stats.dirichlet(sizes[non_empty])
    nu = [stats.dirichlet(counts_of + STRATUM_PRIOR) for counts_of in answers[non_empty]]
    mean, variance = poststratified_moments(Counts(paired, metric_only, human_only))
    for k, function in enumerate(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, -1]])):
        counts_of = np.array([posterior_of.mean() @ function for posterior_of in nu])
        spread = np.array([function @ posterior_of.cov() @ function for posterior_of in nu])
        assert mean[k] == pytest.approx(q.mean() @ counts_of)
        # law of total variance: E[q_r^2] is its variance plus the square of its mean
        assert variance[k] == pytest.approx(counts_of @ q.cov() @ counts_of + (q.var() + q.mean() ** 2) @ spread)
