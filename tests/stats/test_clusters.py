"""Effective counts: the design effect against statsmodels and against copies, its symmetries, and what it mends."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from custodes.stats import ABSENT, clusters
from custodes.stats.bootstrap import unit_sums
from custodes.stats.correction.estimator import Counts, margin_of
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.sign_test import sign_test
from tests.simulation.test_clusters import effect_of, estimated, favi_held, not_above, sign_tests, studies

BY_COUNTS = [own for own in ESTIMATORS.values() if not own.needs_items]


def rows_of(human: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """(..., 15)"""
    return np.stack([(clusters.joint_outcomes(human, metric) == k).sum(axis=-1) for k in range(15)], axis=-1)


def some(n: int = 40, sizes: tuple[int, ...] = (10,) * 40, icc: float = 0.3, annotated: str = "half"):
    return studies(n, sizes, icc=icc, mean=0.4, annotated=annotated, seed=3)


def test_the_effect_is_the_ratio_of_variances_of_statsmodels() -> None:
    human, _, units = some(annotated="all")
    table = np.repeat(np.arange(len(human)), human.shape[1])
    cells, unit = clusters.outcomes(human).ravel(), np.tile(units, len(human))
    got = clusters.design_effect(margin_of, clusters.cluster_rows(table, cells, unit, width=3, n_tables=len(human)))
    for signs, effect in zip(human.astype(float), got.effect, strict=True):
        fit = sm.OLS(signs, np.ones(signs.size)).fit(
            cov_type="cluster", cov_kwds={"groups": units, "df_correction": True}
        )
        # One pseudo-item in 401 moves ours; statsmodels multiplies by G / (G - 1) and (n - 1) / (n - k) = 1.
        expected = fit.bse[0] ** 2 / (signs.var() / signs.size)
        assert effect == pytest.approx(max(expected, 1), rel=0.04)


def test_influence_is_the_jackknife() -> None:
    # n times the infinitesimal jackknife of a mean is the deviation from it
    counts = np.array([50, 20, 30]) - 1 / 3
    np.testing.assert_allclose(clusters.influence(margin_of, counts) * 100, np.array([1, 0, -1]) - 0.2, atol=1e-6)


def test_ppi_is_as_sure_as_its_error_by_clusters_of_one() -> None:
    # With items as clusters the linearised variance is the one that PPI++ states.
    human, metric, _ = some()
    rows = rows_of(human, metric)
    own, counts = ESTIMATORS["ppi"], Counts.of_row(rows)
    moves = clusters.influence(lambda at: own.point(Counts.of_row(at)), rows)
    estimate = own.estimate(counts, confidence=0.95)
    error = (estimate.margin_high - estimate.margin_low) / (2 * 1.959964)
    ratio = np.sqrt((moves**2 * rows).sum(axis=-1)) / error
    # Its weight lambda is fitted, and moves with each item: by a few per cent of the error, and by nothing on average.
    np.testing.assert_allclose(ratio, 1, atol=0.1)
    assert ratio.mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("own", BY_COUNTS, ids=lambda own: own.name)
def test_copies_of_items_are_worth_the_items(own) -> None:
    # Every item ten times, in a cluster of its own: the truth is a design effect of ten.
    human, metric, _ = studies(20, (1,) * 60, icc=0, mean=0.3, annotated="half", seed=1)
    copied = effect_of(
        own.point, np.repeat(human, 10, axis=1), np.repeat(metric, 10, axis=1), np.repeat(np.arange(60), 10)
    )
    # but for C / (C - 1), with C from about 20 annotated items to 60
    assert ((copied.effect > 9.5) & (copied.effect < 11)).all()
    assert (copied.divisor(0.95) > copied.effect).all()


@given(
    st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=30).filter(lambda own: np.abs(own).sum() >= 12),
    st.integers(1, 9),
)
def test_a_sign_test_of_copies_is_that_of_the_items(signs: list[int], copies: int) -> None:
    own = np.repeat(signs, copies)
    sums = unit_sums(own, units=np.repeat(np.arange(len(signs)), copies), n_units=len(signs))
    effect = clusters.null_effect(np.abs(own).sum(), (sums**2).sum(), (sums != 0).sum())
    wins, losses = (own == 1).sum(), (own == -1).sum()
    for test in ("asymptotic", "exact"):
        expected = sign_test(np.array(signs.count(1)), np.array(signs.count(-1)), test=test)
        assert sign_test(wins / effect, losses / effect, test=test) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", range(3, 13))
def test_few_clusters_show_no_more_than_their_flips(n: int) -> None:
    effect = clusters.null_effect(np.array(10 * n), np.array(100 * n), np.array(n))  # ten alike in each
    p_value = sign_test(10 * n / effect, np.array(0.0), test="asymptotic")
    assert p_value == pytest.approx(max(2.0 ** (1 - n), 2 * norm.sf(n**0.5)), rel=1e-6)


@pytest.mark.parametrize("own", BY_COUNTS, ids=lambda own: own.name)
def test_items_alone_in_their_clusters_change_nothing(own) -> None:
    human, metric, units = some()
    effect = effect_of(own.point, human, metric, np.arange(units.size))
    assert (effect.effect == 1).all()
    assert (effect.divisor(0.95) == 1).all()


@pytest.mark.parametrize("own", BY_COUNTS, ids=lambda own: own.name)
def test_one_cluster_says_nothing_of_its_effect(own) -> None:
    human, metric, units = some()
    effect = effect_of(own.point, human, metric, np.zeros_like(units))
    assert np.isinf(effect.effect).all()
    assert np.isinf(effect.divisor(0.95)).all()
    rows = rows_of(human, metric)
    nothing = Counts.of_row(rows).effective(effect.divisor(0.95))
    estimate = own.estimate(nothing, confidence=0.95, gamma=0.05, rng=np.random.default_rng(0))
    np.testing.assert_allclose(estimate.theta, 0.5)


def test_nothing_rated_is_undefined_and_divides_by_one() -> None:
    nothing = np.full((1, 6), ABSENT, dtype=np.int8)
    effect = effect_of(ESTIMATORS["human"].point, nothing, nothing, np.repeat([0, 1], 3))
    assert np.isnan(effect.effect).all()
    assert effect.divisor(0.95).tolist() == [1.0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(BY_COUNTS))
def test_symmetries(seed: int, own) -> None:
    rng = np.random.default_rng(seed)
    human, metric, units = studies(3, (2, 5, 3, 10), icc=0.3, mean=0.4, annotated="half", seed=seed)
    plain = effect_of(own.point, human, metric, units).divisor(0.95)
    absent = np.int8(ABSENT)
    swapped = (np.where(signs == ABSENT, absent, -signs) for signs in (human, metric))
    np.testing.assert_array_equal(effect_of(own.point, *swapped, units).divisor(0.95), plain)
    order, names = rng.permutation(units.size), rng.permutation(4)
    moved = effect_of(own.point, human[:, order], metric[:, order], names[units[order]]).divisor(0.95)
    np.testing.assert_allclose(moved, plain, rtol=1e-6)


@pytest.mark.parametrize("own", BY_COUNTS, ids=lambda own: own.name)
def test_estimates_of_effective_counts_mirror_and_repeat(own) -> None:
    human, metric, units = some(4)
    rows = rows_of(human, metric)
    counts = Counts.of_row(rows).effective(effect_of(own.point, human, metric, units).divisor(0.95))
    mirrored = Counts(counts.paired[:, ::-1, ::-1], counts.metric_only[:, ::-1], counts.human_only[:, ::-1])
    ask = {"confidence": 0.95, "gamma": 0.05}
    one, other, again = (
        own.estimate(tables, rng=np.random.default_rng(0), **ask) for tables in (counts, mirrored, counts)
    )
    np.testing.assert_allclose(other.theta, 1 - one.theta, atol=1e-9)
    np.testing.assert_allclose(other.margin_low, -one.margin_high, atol=1e-9)
    np.testing.assert_array_equal(again.theta, one.theta)


def test_the_mixture_of_effective_counts_is_a_posterior() -> None:
    # The exact sampler against self-normalised draws from the prior: a small table, so that these are worth enough.
    counts = Counts(
        np.array([[2.4, 0.3, 0.0], [0.6, 1.2, 0.3], [0.3, 0.0, 1.5]]), np.array([3.3, 1.2, 2.1]), np.zeros(3)
    )
    got = ESTIMATORS["mixture"].estimate(counts, confidence=0.95, gamma=None, rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    p, mu = rng.dirichlet(np.ones(3), 400_000), rng.dirichlet(np.ones(3), (400_000, 3))
    log = (counts.paired * (np.log(mu) + np.log(p)[..., None])).sum(axis=(1, 2))
    log += np.log(np.einsum("nh,nhr->nr", p, mu)) @ counts.metric_only
    weight = np.exp(log - log.max())
    assert weight.sum() ** 2 / (weight**2).sum() > 5000
    assert got.theta == pytest.approx(weight @ (p[:, 0] > p[:, 2]) / weight.sum(), abs=0.02)
    assert got.margin == pytest.approx(weight @ (p[:, 0] - p[:, 2]) / weight.sum(), abs=0.015)


@pytest.mark.parametrize("test", ["asymptotic", "exact"])
def test_sign_tests_of_equals_in_documents(test) -> None:
    # before: 31 % false decisions (ICC of signs .3, forty documents of ten)
    assert sign_tests("40 x 10", icc=0.3, mean=0, n=1000, by=False, test=test) > 0.25
    assert not_above(sign_tests("40 x 10", icc=0.3, mean=0, n=1000, test=test), 0.06, 1000)
    assert sign_tests("40 x 10", icc=0.3, mean=0.5, n=1000, test=test) > 0.9


@pytest.mark.parametrize("name", ["human", "naive", "ppi", "poststratified"])
def test_estimators_cover_in_documents(name) -> None:
    asked = {"size": "40 x 10", "icc": 0.3, "mean": 0, "annotated": "half", "n": 1000}
    before, after = estimated(name, by=False, **asked), estimated(name, **asked)
    assert before[0] < 0.82
    assert 0.92 <= after[0] <= 0.98
    assert not_above(after[1], 0.06, 1000)


def test_favi_scores_cover_in_documents() -> None:
    asked = {"size": "40 x 10", "icc": 0.3, "mean": 0, "favour": 0, "n": 500}
    assert favi_held(by=False, **asked)[0] < 0.80
    assert 0.92 <= favi_held(**asked)[0] <= 0.98
