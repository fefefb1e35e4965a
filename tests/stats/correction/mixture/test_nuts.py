"""NUTS, the paper's sampler, against ours: the same posterior within Monte Carlo error."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from custodes.errors import MissingExtraError
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import nuts
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.nuts import nuts_posterior

needs_numpyro = pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None, reason="NumPyro is not installed (pip install 'custodes[nuts]')"
)
NONE = [0, 0, 0]
TABLES = {
    "typical": ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [400, 200, 400], NONE),
    "typical, close": ([[60, 8, 22], [9, 12, 11], [25, 7, 46]], [520, 60, 420], NONE),
    "clear winner": ([[50, 5, 5], [5, 10, 5], [4, 3, 8]], [700, 100, 200], NONE),
    "weak metric": ([[20, 10, 18], [9, 10, 11], [17, 8, 22]], [380, 250, 370], NONE),
    "metric without ties": ([[20, 0, 6], [9, 0, 8], [5, 0, 12]], [520, 0, 480], NONE),
    "people without ties": ([[20, 3, 6], NONE, [5, 2, 12]], [500, 100, 400], NONE),
    "no ties at all": ([[30, 0, 12], NONE, [14, 0, 25]], [520, 0, 480], NONE),
    "rare ties of the metric": ([[30, 1, 12], [5, 0, 4], [14, 0, 25]], [520, 10, 470], NONE),
    "never a loss": ([[30, 4, 0], [6, 12, 0], NONE], [300, 150, 0], NONE),
    "anticorrelated": ([[3, 2, 20], [2, 8, 3], [25, 3, 4]], [300, 100, 280], NONE),
    "nothing paired": ([NONE, NONE, NONE], [50, 10, 40], NONE),
    "one paired": ([[1, 0, 0], NONE, NONE], [50, 10, 40], NONE),
    "five paired": ([[2, 0, 0], [0, 1, 0], [0, 1, 1]], [500, 100, 400], NONE),
    "few metric-only": ([[8, 2, 1], [1, 4, 1], [2, 0, 5]], [2, 0, 1], NONE),
    "no metric-only": ([[8, 2, 1], [1, 4, 1], [2, 0, 5]], NONE, NONE),
    "very large": ([[3000, 500, 500], [500, 1500, 500], [1400, 600, 2500]], [100_000, 50_000, 80_000], NONE),
    "large and close": ([[900, 100, 300], [100, 300, 100], [310, 100, 880]], [11_000, 4000, 10_900], NONE),
    "good metric": ([[50, 0, 0], [0, 10, 0], [0, 0, 40]], [5000, 1000, 4000], NONE),
    "some people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [5, 3, 4]),
    "many people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [100, 30, 80]),
    "people who disagree": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [30, 30, 60]),
    "people, nothing paired": ([NONE, NONE, NONE], [40, 10, 30], [15, 10, 12]),
}
HARD = ([[2, 0, 1], NONE, NONE], [99_000, 0, 1000], NONE)


def arrays(names):
    return Counts(*(np.array(counts) for counts in zip(*(TABLES[name] for name in names), strict=True)))


def agree(ours, theirs):
    """All shares of one table agree within the Monte Carlo error of both."""
    both = np.sqrt(1 / ours.effective_draws + 1 / theirs.effective_draws)
    np.testing.assert_array_less(
        np.abs(ours.theta - theirs.theta), 4.5 * np.hypot(ours.theta_error, theirs.theta_error)
    )
    sd = (theirs.p_high - theirs.p_low) / 3.92  # of a normal with this interval
    np.testing.assert_array_less(np.abs(ours.p - theirs.p), 5 * sd * both[:, np.newaxis])
    # a quantile in a 2.5 % tail has 2.67 times the error of the mean; skewed tails up to twice that
    for name in ("p_low", "p_high"):
        gap = np.abs(getattr(ours, name) - getattr(theirs, name))
        np.testing.assert_array_less(gap, 5 * 5.3 * sd * both[:, np.newaxis], err_msg=name)
    sd = (theirs.margin_high - theirs.margin_low) / 3.92
    for name in ("margin_low", "margin_high"):
        gap = np.abs(getattr(ours, name) - getattr(theirs, name))
        np.testing.assert_array_less(gap, 5 * 5.3 * sd * both, err_msg=name)


@needs_numpyro
def test_three_tables():
    counts = arrays(["typical", "people without ties", "many people more"])
    theirs = nuts_posterior(counts, rng=np.random.default_rng(0), confidence=0.95, chains=2, warmup=300, draws=1000)
    ours = mixture_posterior(
        counts, rng=np.random.default_rng(0), confidence=0.95, precision=0.005, gamma=None, max_draws=2**18
    )
    assert theirs.theta.shape == (3,)
    assert (theirs.method == "nuts").all()
    assert (theirs.r_hat < 1.05).all()
    agree(ours, theirs)


@pytest.mark.slow
@needs_numpyro
def test_all_tables_as_the_paper_runs_it():
    counts = arrays(TABLES)
    ours = mixture_posterior(
        counts, rng=np.random.default_rng(0), confidence=0.95, precision=0.002, gamma=None, max_draws=2**21
    )
    theirs = nuts_posterior(counts, rng=np.random.default_rng(0), confidence=0.95, chains=5, warmup=2000, draws=10_000)
    assert (theirs.r_hat < 1.02).all()
    agree(ours, theirs)


@pytest.mark.slow
@needs_numpyro
def test_nuts_misses_the_hard_table():
    # a metric that nearly always says win, three paired items, two human classes never seen: NUTS stays where these
    # classes have some weight and so bounds the margin too tightly
    counts = Counts(*(np.array(x) for x in HARD))
    ours = mixture_posterior(
        counts, rng=np.random.default_rng(0), confidence=0.95, precision=0.0005, gamma=None, max_draws=2**21
    )
    theirs = nuts_posterior(counts, rng=np.random.default_rng(0), confidence=0.95, chains=5, warmup=2000, draws=10_000)
    assert ours.margin_low < 0.93 < theirs.margin_low


def test_missing_numpyro_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    nuts.sampler.cache_clear()
    with pytest.raises(MissingExtraError, match=r"custodes\[nuts\]"):
        nuts_posterior(
            Counts(np.eye(3), np.ones(3), np.ones(3)),
            rng=np.random.default_rng(0),
            confidence=0.9,
            chains=1,
            warmup=1,
            draws=2,
        )
