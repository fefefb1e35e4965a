"""People alone: every label counts, and the quick moments are those of the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.correction.estimator import Counts, Evidence
from custodes.stats.correction.human import HUMAN


def ask(paired, metric_only, human_only):
    counts = Counts(*(np.array(part) for part in (paired, metric_only, human_only)))
    return HUMAN.estimate(counts, confidence=0.95, gamma=0.05, rng=np.random.default_rng(0))


def test_people_alone_use_every_label():
    estimate = ask([[4, 1, 0], [1, 1, 0], [0, 1, 1]], (50, 0, 0), (6, 1, 0))
    wins, losses = 11, 2
    assert estimate.theta == pytest.approx(stats.beta.sf(0.5, wins + 1, losses + 1))
    np.testing.assert_allclose(estimate.p, np.array([12, 4, 3]) / 19)


def test_the_metric_says_nothing():
    table = [[4, 1, 0], [1, 1, 0], [0, 1, 1]]
    one, other = ask(table, (50, 0, 0), (6, 1, 0)), ask(np.sort(table, axis=1), (0, 0, 7), (6, 1, 0))
    for name, values in vars(one).items():
        np.testing.assert_array_equal(getattr(other, name), values)
    assert not HUMAN.uses_metric
    assert HUMAN.bets


@pytest.mark.parametrize("human", [[0, 0, 0], [7, 2, 3], [0, 9, 0], [0, 0, 40]])
def test_quick_moments_are_those_of_the_dirichlet_posterior(human):
    counts = Counts(np.zeros((1, 3, 3), dtype=int), np.array([[9, 9, 9]]), np.array([human]))
    assert HUMAN.quick
    quick = Evidence.of(HUMAN.estimate(counts, confidence=None), gamma=0.05)
    posterior = stats.dirichlet(np.array(human) + 1)
    covariance = posterior.cov()
    np.testing.assert_allclose(quick.p, [posterior.mean()])
    assert quick.margin == pytest.approx([posterior.mean()[0] - posterior.mean()[2]])
    assert quick.sd == pytest.approx([np.sqrt(covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2])])
    # a closed form: nothing is kept away from 0 and 1
    assert quick.theta == pytest.approx([stats.beta.sf(0.5, human[0] + 1, human[2] + 1)], rel=1e-9)
    assert np.isnan([quick.low, quick.high]).all()
