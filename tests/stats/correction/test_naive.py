"""The metric at its word: the posterior of its labels as if they were people's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.naive import NAIVE


def ask(paired, metric_only, human_only):
    counts = Counts(*(np.array(part) for part in (paired, metric_only, human_only)))
    return NAIVE.estimate(counts, confidence=0.95, gamma=0.05, rng=np.random.default_rng(0))


def test_the_naive_estimate_is_the_posterior_of_all_the_metrics_labels():
    # wins 4 + 1 + 0 and 6 more, losses 0 + 0 + 1 and 2 more
    estimate = ask([[4, 1, 0], [1, 1, 0], [0, 1, 1]], (6, 1, 2), (50, 0, 0))
    assert estimate.theta == pytest.approx(stats.beta.sf(0.5, 11 + 1, 3 + 1))
    np.testing.assert_allclose(estimate.p, np.array([12, 5, 4]) / 21)
    np.testing.assert_allclose(estimate.p_low, [stats.beta.ppf(0.025, a, 21 - a) for a in (12, 5, 4)])


def test_people_say_nothing_and_each_end_has_its_probability():
    one, other = (ask([[4, 1, 0], [1, 1, 0], [0, 1, 1]], (6, 1, 2), human) for human in ((0, 0, 0), (5, 5, 50)))
    for name, values in vars(one).items():
        np.testing.assert_array_equal(getattr(other, name), values)
    np.testing.assert_allclose(one.p_high, [stats.beta.ppf(0.975, a, 21 - a) for a in (12, 5, 4)])
    assert (NAIVE.uses_metric, NAIVE.uses_people, NAIVE.bets, NAIVE.quick) == (True, False, False, False)
