"""The estimator of the mixture model: when its draws stop, and the paper's sampler beside it."""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.mixture import MIXTURE


def ask(paired, metric_only, human_only, *, gamma=0.05):
    counts = Counts(np.array(paired), np.array(metric_only), np.array(human_only))
    return MIXTURE.estimate(counts, confidence=0.95, gamma=gamma, rng=np.random.default_rng(0))


def test_draws_stop_where_theta_is_known_or_clear():
    paired, metric_only = np.array([[10, 2, 3], [2, 5, 2], [3, 2, 8]]), np.array([30, 10, 25])
    known = ask(paired, metric_only, np.zeros(3), gamma=None)
    assert 0 < known.theta_error <= 0.005
    # theta is .66: after the first draws a decision at .05 is clear by far
    clear = ask(paired, metric_only, np.zeros(3))
    assert clear.effective_draws < known.effective_draws
    assert abs(clear.theta - known.theta) < 4 * (clear.theta_error + known.theta_error)


def test_the_papers_sampler_has_the_papers_lengths():
    # Appendix B of Deriu et al. 2023
    assert MIXTURE.samplers["nuts"].keywords == {"chains": 5, "warmup": 2000, "draws": 10_000}
    assert list(MIXTURE.samplers) == ["nuts"]


@pytest.mark.slow
def test_the_papers_sampler_gives_the_same_posterior():
    pytest.importorskip("numpyro")
    counts = np.diag([20, 10, 12]) + 2, np.array([300, 200, 300]), np.array([4, 1, 0])
    exact = ask(*counts)
    nuts = MIXTURE.samplers["nuts"](
        Counts(*counts), confidence=0.95, rng=np.random.default_rng(0), chains=2, warmup=300, draws=2000
    )
    assert nuts.theta == pytest.approx(exact.theta, abs=0.06)
    np.testing.assert_allclose(nuts.p, exact.p, atol=0.02)
    np.testing.assert_allclose([nuts.margin_low, nuts.margin_high], [exact.margin_low, exact.margin_high], atol=0.06)
