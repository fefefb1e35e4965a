"""The Monte Carlo error of theta: how often the truth, a finite sum, is further away than it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from custodes.stats.correction.estimator import Counts, decide
from custodes.stats.correction.mixture import exact
from custodes.stats.correction.mixture.finite_sum import summed
from custodes.stats.correction.mixture.tempering import tempered

TABLES = {"exact": 200, "tempered": 60}


def hard_tables(n: int, rng: np.random.Generator) -> list[Counts]:
    """0 to 7 paired items, 100 to 399 of the metric alone, up to 300 of people alone, who may contradict the metric."""
    made = []
    for _ in range(n):
        p, mu = rng.dirichlet(np.ones(3)), rng.dirichlet(np.full(3, 0.5), 3)
        joint = p[:, np.newaxis] * mu
        paired = rng.multinomial(rng.integers(0, 8), joint.ravel()).reshape(3, 3)
        metric_only = rng.multinomial(rng.integers(100, 400), joint.sum(axis=0))
        other = rng.dirichlet(np.ones(3)) if rng.random() < 0.3 else p
        human_only = rng.multinomial(rng.choice([0, 0, 3, 60, 300]), other)
        made.append(Counts(*(part.astype(np.float64) for part in (paired, metric_only, human_only))))
    return made


def sizes(method: str, *, seed: int) -> NDArray[np.float64]:
    """(theta - truth) / error, a table each."""
    rng = np.random.default_rng(seed)
    found = []
    for counts in hard_tables(TABLES[method], rng):
        truth = float(summed(counts.rows[np.newaxis], seed=[seed], confidence=0.95).theta[0])
        assert np.isfinite(truth)
        options = {"confidence": 0.95, "precision": None, "gamma": 0.05}
        if method == "tempered":
            got = tempered(counts, rng=rng, **options)
        else:
            got = exact._posterior(counts.rows, None, seed=[int(rng.integers(2**32))], max_draws=100_000, **options)
        # what is not marked has the decision of the truth
        assert got.at_threshold(gamma=0.05) or decide(got.theta, gamma=0.05) == decide(truth, gamma=0.05)
        found.append((got.theta - truth) / got.theta_error)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("method", TABLES)
def test_errors_are_no_smaller_than_they_say(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_MOST_CELLS", 0)
    found = sizes(method, seed=1)
    assert np.sqrt((found**2).mean()) < 1.1
    assert (np.abs(found) > 4).sum() == 0
