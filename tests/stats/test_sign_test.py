from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest, norm
from statsmodels.stats.multitest import multipletests

from custodes.stats.sign_test import SignTest, adjust, sign_test

TESTS = ["asymptotic", "exact"]
CORRECTIONS = ["none", "holm", "bh"]
counts = hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(1, 8)), elements=st.integers(0, 60))
p_values = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1))


def decisions(wins, losses, *, ties=1, alpha=0.05, test="asymptotic", correction="none"):
    outcomes = np.stack([wins, np.full_like(wins, ties), losses], axis=-1)
    return SignTest(alpha=alpha, test=test, correction=correction).decisions(outcomes)


@given(counts)
def test_exact_is_the_binomial_test(pair):
    p = sign_test(*pair, test="exact")
    expected = [binomtest(int(w), int(w + n)).pvalue if w + n else 1.0 for w, n in pair.T]
    np.testing.assert_allclose(p, expected, rtol=1e-9)


@given(counts)
def test_asymptotic_is_the_normal_test_of_the_paper(pair):
    p = sign_test(*pair, test="asymptotic")
    for (w, n), value in zip(pair.T, p, strict=True):
        z = (w - n) / np.sqrt(w + n) if w + n else 0.0
        assert value == pytest.approx(2 * norm.sf(abs(z)))


@pytest.mark.parametrize("test", TESTS)
def test_nothing_but_ties_is_no_difference(test):
    nothing = np.zeros(3, dtype=np.uint32)
    assert sign_test(nothing, nothing, test=test).tolist() == [1, 1, 1]
    assert decisions(nothing, nothing, alpha=1.0, test=test).tolist() == [0, 0, 0]
    assert np.isnan(decisions(nothing, nothing, ties=0, test=test)).all()


def test_exact_of_a_hundred_million():
    # binomtest sums the tail by another function (Boost's binomial distribution)
    expected = binomtest(50_000_000, 100_001_000).pvalue
    assert sign_test(np.array(50_000_000), np.array(50_001_000), test="exact") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("test", TESTS)
def test_unsigned_and_large_counts(test):
    wins, losses = np.array([1, 5_100_000_000], dtype=np.uint64), np.array([9, 5_000_000_000], dtype=np.uint64)
    assert decisions(wins, losses, test=test).tolist() == [-1, 1]


@pytest.mark.parametrize(("correction", "method"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_adjust_is_that_of_statsmodels(correction, method):
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 12):  # few examples: statsmodels collects garbage in every call
        p = rng.choice([0.0, 0.01, 0.02, 0.3, 1.0, *rng.random(5) ** 3], n)
        np.testing.assert_allclose(adjust(p, correction=correction), multipletests(p, method=method)[1], rtol=1e-12)


@pytest.mark.parametrize("correction", CORRECTIONS)
@given(p=p_values, holes=st.integers(0, 4), random=st.randoms(use_true_random=False))
def test_adjust_passes_nan_and_follows_the_order(correction, p, holes, random):
    values = np.concatenate([p, np.full(holes, np.nan)])
    order = random.sample(range(len(values)), len(values))
    expected = np.concatenate([adjust(p, correction=correction), np.full(holes, np.nan)])
    np.testing.assert_array_equal(adjust(values[order], correction=correction), expected[order])


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_adjust_works_row_by_row(correction):
    p = np.random.default_rng(0).random((4, 3, 7))
    p[0, 1, 2:] = np.nan
    p[1, 0] = np.nan
    rows = [[adjust(row, correction=correction) for row in block] for block in p]
    before = p.copy()
    np.testing.assert_array_equal(adjust(p, correction=correction), rows)
    np.testing.assert_array_equal(p, before)


def test_decision_threshold():
    # Two-sided .05: with n = 100, 60 to 40 is z = 2.0 > 1.96; the exact p-value is .0569 (binomial table).
    wins, losses = np.array([60, 59, 40]), np.array([40, 41, 60])
    assert decisions(wins, losses, alpha=0.05, test="asymptotic", correction="none").tolist() == [1, 0, -1]
    assert decisions(wins, losses, alpha=0.05, test="exact", correction="none").tolist() == [0, 0, 0]


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_p_value_of_exactly_alpha_decides(correction):
    # Eight wins without a loss: p = 2 * .5^8 = 2/256; a single pair needs no correction, nor do two with equal p by bh.
    alpha, wins, losses = 2 / 256, np.array([8]), np.array([0])
    assert decisions(wins, losses, alpha=alpha, test="exact", correction=correction).tolist() == [1]
    assert decisions(losses, wins, alpha=alpha, test="exact", correction=correction).tolist() == [-1]
    below = np.nextafter(alpha, 0)
    assert decisions(wins, losses, alpha=below, test="exact", correction=correction).tolist() == [0]
