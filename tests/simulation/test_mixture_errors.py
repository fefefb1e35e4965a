from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from custodes.stats.correction.estimator import Counts, decide
from custodes.stats.correction.mixture import mixture_posterior
from custodes.stats.correction.tempering import tempering_posterior
from tests.stats.correction.mixture_oracles import FiniteSum

TABLES = {"posterior": 200, "tempered": 60}


def hard_tables(n: int, rng: np.random.Generator) -> list[Counts]:
    """Tables with 0 to 7 paired items, 50 to 199 metric-only items, and up to 300 human-only items, which may
    contradict the metric."""
    results = []
    for _ in range(n):
        p, mu = rng.dirichlet(np.ones(3)), rng.dirichlet(np.full(3, 0.5), 3)
        joint = p[:, np.newaxis] * mu
        paired = rng.multinomial(rng.integers(0, 8), joint.ravel()).reshape(3, 3)
        metric_only = rng.multinomial(rng.integers(50, 200), joint.sum(axis=0))
        other = rng.dirichlet(np.ones(3)) if rng.random() < 0.3 else p
        human_only = rng.multinomial(rng.choice([0, 0, 3, 60, 300]), other)
        results.append(Counts(*(part.astype(np.float64) for part in (paired, metric_only, human_only))))
    return results


def error_sizes(method: str, *, seed: int) -> NDArray[np.float64]:
    """(theta - truth) / error of each table."""
    rng = np.random.default_rng(seed)
    sizes = []
    for counts in hard_tables(TABLES[method], rng):
        truth = FiniteSum.of(*counts).theta
        if method == "tempered":
            got = tempering_posterior(counts.rows, seed=[seed], confidence=0.95, precision=0.0, gamma=0.05)
        else:
            got = mixture_posterior(counts, confidence=0.95, gamma=0.05, rng=rng)
        # unmarked decisions equal the true ones
        assert got.at_threshold(gamma=0.05) or decide(got.theta, gamma=0.05) == decide(truth, gamma=0.05)
        sizes.append(float(np.squeeze((got.theta - truth) / np.maximum(got.theta_error, 1e-12))))
    return np.array(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("method", TABLES)
def test_errors_are_no_smaller_than_reported(method: str) -> None:
    sizes = error_sizes(method, seed=1)
    assert np.sqrt((sizes**2).mean()) < 1.1
    assert (np.abs(sizes) > 4).sum() == 0
