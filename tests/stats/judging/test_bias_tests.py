from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.stats.arrays import CHUNK
from custodes.stats.judging.bias_tests import slot_test, uneven_p

SUMS = st.lists(st.integers(-2, 2), min_size=2, max_size=40).map(lambda values: np.array([values], dtype=float))


@given(SUMS, st.sampled_from([0.8, 0.95]))
def test_the_interval_leaves_out_nothing_that_the_test_does_not_reject(sums: np.ndarray, confidence: float) -> None:
    result = slot_test(sums, np.full(sums.shape, 2.0), further_variance_factors=np.ones(1), confidence=confidence)
    if np.isfinite(result.low):
        assert (result.low > 1e-9 or result.high < -1e-9) == (result.p_value < 1 - confidence - 1e-9)


def test_the_test_of_a_bound_has_the_level_of_the_interval() -> None:
    rng = np.random.default_rng(0)
    numerators, denominators = rng.normal(0.4, 1, (3, 30)), rng.uniform(1, 2, (3, 30))
    options = {"further_variance_factors": np.array([1.0, 1.3, 0.8]), "confidence": 0.9}
    result = slot_test(numerators, denominators, **options)
    np.testing.assert_allclose(result.estimate, numerators.sum(axis=1) / denominators.sum(axis=1))
    assert (result.low < result.high).all()
    for bound in (result.low, result.high):
        moved = slot_test(numerators - bound[:, np.newaxis] * denominators, denominators, **options)
        np.testing.assert_allclose(moved.p_value, 0.1)
    pair = slot_test(np.ones((1, 2)), np.ones((1, 2)), further_variance_factors=np.ones(1), confidence=0.95)
    assert (pair.low.item(), pair.high.item()) == (-np.inf, np.inf)  # no value is rejected


def test_few_clusters_are_as_sure_as_flips_of_them_can_be() -> None:
    # all of C clusters on one side: 2^(1 - C) by enumeration of the signs
    for clusters in range(3, 12):
        result = slot_test(
            np.ones((1, clusters)), np.ones((1, clusters)), further_variance_factors=np.ones(1), confidence=0.95
        )
        assert result.p_value.item() == pytest.approx(2.0 ** (1 - clusters), rel=0.02)


def test_nothing_seen_is_nothing_said() -> None:
    none = slot_test(np.zeros((1, 5)), np.zeros((1, 5)), further_variance_factors=np.ones(1), confidence=0.95)
    assert np.isnan([*none]).all()
    steady = slot_test(np.zeros((1, 5)), np.ones((1, 5)), further_variance_factors=np.ones(1), confidence=0.95)
    assert (steady.estimate, steady.p_value) == (0.0, 1.0)
    assert np.isnan([steady.low, steady.high]).all()


def studies(n: int, comparisons: int, document: int, slot: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and sizes by document of many studies of a judge with noise, ties and a document effect on the
    slot."""
    rng = np.random.default_rng(comparisons)
    pull = np.repeat(rng.normal(size=(n, comparisons // document)), document, axis=1) * (0.3 if document > 1 else 0.0)
    quality = rng.normal(size=(n, comparisons))
    views = [1.5 * quality + order * (slot + pull) + rng.normal(size=quality.shape) for order in (1, -1)]
    ab, ba = (np.sign(view) * (np.abs(view) > 0.2) for view in views)
    sums = (ab - ba).reshape(n, -1, document).sum(axis=2)
    return sums, np.full(sums.shape, 2.0 * document)


@pytest.mark.parametrize(("comparisons", "document"), [(12, 1), (120, 1), (100, 5)])
def test_a_judge_without_a_slot_is_rarely_accused_of_one(comparisons: int, document: int) -> None:
    result = slot_test(*studies(1000, comparisons, document), further_variance_factors=np.ones(1000), confidence=0.95)
    share = float((result.p_value <= 0.05).mean())
    assert share - 1.645 * np.sqrt(share * (1 - share) / 1000) <= 0.05


def p_of(failed: np.ndarray, features: np.ndarray, *, units: np.ndarray | None = None, seed: int = 0) -> float:
    units = np.arange(len(failed)) if units is None else units
    return uneven_p(failed, features, units=units, n_draws=1999, rng=np.random.default_rng(seed))


def test_failures_on_one_side_are_seen_and_few_failures_say_nothing() -> None:
    side = np.repeat([0.0, 1.0], 100)
    failed = np.zeros(200, dtype=bool)
    failed[:12] = True
    assert p_of(failed, side[None]) < 0.005
    for n, is_tested in ((4, False), (5, True)):
        few = np.arange(200) < n
        assert [np.isfinite(p_of(is_failed, side[None])) for is_failed in (few, ~few)] == [is_tested] * 2
    assert np.isnan(p_of(np.arange(200) < 12, np.zeros((1, 200))))


def test_draws_of_several_batches_end_with_a_hundred_as_extreme_as_the_data() -> None:
    feature = np.arange(600.0)
    assert p_of(feature < 10, feature[None]) == 1 / 2000
    batch_size = CHUNK // 600
    p = uneven_p(feature % 60 == 30, feature[None], units=np.arange(600), n_draws=10**6, rng=np.random.default_rng(0))
    n_extreme = p * (batch_size + 1) - 1
    assert n_extreme == pytest.approx(round(n_extreme), abs=1e-6)
    assert n_extreme >= 100


def test_a_feature_counts_by_its_order_alone_whatever_its_scale() -> None:
    rng = np.random.default_rng(1)
    failed, features = rng.random(300) < 0.1, rng.integers(0, 3, (2, 300)).astype(float)
    assert p_of(failed, features) == p_of(failed, 10 * features + 3)
    assert p_of(failed, features) == pytest.approx(p_of(failed, -features), abs=0.05)


def test_one_document_that_fails_is_one_failure() -> None:
    side, units = np.tile([0.0, 1.0], 100), np.repeat(np.arange(100), 2)
    failed = np.zeros(200, dtype=bool)
    failed[1:20:2] = True
    alone = p_of(failed, side[None], units=units)
    document = p_of(failed, side[None], units=np.where(np.arange(200) < 20, 0, units))
    assert alone < 0.01 < 0.05 < document


@pytest.mark.slow
def test_fair_failures_are_rarely_called_uneven() -> None:
    rng = np.random.default_rng(5)
    p = []
    for _ in range(1000):
        systems = np.stack([rng.permutation(4) for _ in range(150)])
        items = np.repeat(np.arange(150), 4)
        values = rng.normal(size=150)[items] * 1.5 + rng.normal(size=600)
        failed = rng.random(600) < 1 / (1 + np.exp(3 - values))
        features = (systems.ravel() == np.arange(4)[:, None]).astype(float)
        p.append(p_of(failed, features, units=items))
    share = float(np.mean(np.array(p) <= 0.05))
    assert share - 1.645 * np.sqrt(share * (1 - share) / 1000) <= 0.05


def test_draws_as_extreme_as_the_data_count() -> None:
    # Five of six failures among the six verdicts with the feature: hypergeometric, both tails.
    feature = np.repeat([1.0, 0.0], 6)
    failed = np.zeros(12, dtype=bool)
    failed[[0, 1, 2, 3, 4, 6]] = True
    p = uneven_p(failed, feature[None], units=np.arange(12), n_draws=20_000, rng=np.random.default_rng(3))
    exact = 2 * sum(comb(6, k) * comb(6, 6 - k) for k in (5, 6)) / comb(12, 6)
    assert p == pytest.approx(exact, abs=0.01)
