from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.stats.intervals import CORRELATION, student_interval
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.reliability import alpha, of_two

SUMS = st.lists(st.integers(-2, 2), min_size=2, max_size=40).map(lambda own: np.array([own], dtype=float))


@given(SUMS)
def test_the_other_slot_has_the_opposite_margin_and_the_same_p(sums: np.ndarray) -> None:
    sizes = np.full(sums.shape, 2.0)
    one, other = (slot_test(sign * sums, sizes, wider=np.ones(1), confidence=0.9) for sign in (1, -1))
    assert other.estimate == pytest.approx(-one.estimate)
    assert other.p_value == pytest.approx(one.p_value)
    assert other.low == pytest.approx(-one.high, nan_ok=True)


@given(SUMS, st.sampled_from([0.8, 0.95]))
def test_the_interval_leaves_out_nothing_that_the_test_does_not_reject(sums: np.ndarray, confidence: float) -> None:
    made = slot_test(sums, np.full(sums.shape, 2.0), wider=np.ones(1), confidence=confidence)
    if np.isfinite(made.low):
        assert (made.low > 1e-9 or made.high < -1e-9) == (made.p_value < 1 - confidence - 1e-9)


def test_few_clusters_are_as_sure_as_flips_of_them_can_be() -> None:
    # all of C clusters on one side: 2^(1 - C) by enumeration of the signs
    for clusters in range(3, 12):
        made = slot_test(np.ones((1, clusters)), np.ones((1, clusters)), wider=np.ones(1), confidence=0.95)
        assert made.p_value.item() == pytest.approx(2.0 ** (1 - clusters), rel=0.02)


def test_nothing_seen_is_nothing_said() -> None:
    none = slot_test(np.zeros((1, 5)), np.zeros((1, 5)), wider=np.ones(1), confidence=0.95)
    assert np.isnan([*none]).all()
    steady = slot_test(np.zeros((1, 5)), np.ones((1, 5)), wider=np.ones(1), confidence=0.95)
    assert (steady.estimate, steady.p_value) == (0.0, 1.0)
    assert np.isnan([steady.low, steady.high]).all()


def studies(n: int, comparisons: int, document: int, slot: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores and sizes by document of so many studies: a judge with noise, ties, documents that pull to one slot."""
    rng = np.random.default_rng(comparisons)
    pull = np.repeat(rng.normal(size=(n, comparisons // document)), document, axis=1) * (0.3 if document > 1 else 0.0)
    quality = rng.normal(size=(n, comparisons))
    views = [1.5 * quality + order * (slot + pull) + rng.normal(size=quality.shape) for order in (1, -1)]
    ab, ba = (np.sign(view) * (np.abs(view) > 0.2) for view in views)
    sums = (ab - ba).reshape(n, -1, document).sum(axis=2)
    return sums, np.full(sums.shape, 2.0 * document)


@pytest.mark.parametrize(("comparisons", "document"), [(12, 1), (120, 1), (100, 5)])
def test_a_judge_without_a_slot_is_rarely_accused_of_one(comparisons: int, document: int) -> None:
    made = slot_test(*studies(1000, comparisons, document), wider=np.ones(1000), confidence=0.95)
    share = float((made.p_value <= 0.05).mean())
    assert share - 1.645 * np.sqrt(share * (1 - share) / 1000) <= 0.05


def test_a_slot_of_two_tenths_is_mostly_found_in_400_comparisons() -> None:
    made = slot_test(*studies(500, 400, 1, slot=0.2), wider=np.ones(500), confidence=0.95)
    assert (made.p_value <= 0.05).mean() > 0.9  # measured: .97


def test_intervals_of_alpha_between_orders_hold_it() -> None:
    shares = np.array([0.45, 0.0, 0.35, 0.0, 0.0, 0.0, 0.02, 0.0, 0.18])
    rng = np.random.default_rng(1)
    drawn = rng.multinomial(120, shares, size=400)
    again = np.stack([drawn, *np.moveaxis([rng.multinomial(120, own / 120, size=100) for own in drawn], 0, 1)])
    low, high = student_interval(
        alpha(of_two(again.reshape(101, 400, 3, 3)), scale="nominal"), confidence=0.95, n_units=120, bounds=CORRELATION
    )
    truth = alpha(of_two((1e9 * shares).reshape(3, 3)), scale="nominal")
    assert 0.92 < np.mean((low <= truth) & (truth <= high)) < 0.98  # measured: .949 in 1,000 studies
