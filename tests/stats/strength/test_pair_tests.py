"""Tests of pairs by their direct comparisons, the fit of strengths, and cycles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, t

from custodes.stats.sign_test import adjust, sign_test
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.pair_tests import DirectTests, direct_tests
from custodes.stats.strength.strengths import strengths
from custodes.stats.strength.win_rates import pair_rates
from tests.stats.strength.battles import Arena, battles, swapped


def result_of(rows: Battles, n_systems: int, ties: str = "davidson") -> DirectTests:
    fit = strengths(rows, n_systems=n_systems, ties=ties, resamples=0, rng=np.random.default_rng(0))  # type: ignore[arg-type]
    return direct_tests(pair_rates(rows, confidence=0.95), rows, fit, confidence=0.95)


def cycle(wins: int, losses: int) -> Battles:
    """Return three systems, each of which wins this often against the next."""
    sign = np.tile(np.repeat([1, -1], [wins, losses]), 3)
    n = wins + losses
    return battles(np.repeat([0, 1, 2], n), np.repeat([1, 2, 0], n), sign)


def test_p_values_are_exact_binomial_ones() -> None:
    rows = Arena(4, 400, order=0, nu=0.4).draw(np.random.default_rng(1))
    fit = strengths(rows, n_systems=4, ties="davidson", resamples=0, rng=np.random.default_rng(0))
    pairs = pair_rates(rows, confidence=0.95)
    tests = direct_tests(pairs, rows, fit, confidence=0.95)
    direct, expected = [], []
    for first, second, (wins, _, losses) in zip(pairs.first, pairs.second, pairs.outcomes.tolist(), strict=True):
        odds = np.exp(fit.draws[0, first] - fit.draws[0, second])
        direct.append(binomtest(wins, wins + losses, 0.5).pvalue)
        tails = (binomtest(wins, wins + losses, odds / (1 + odds), side).pvalue for side in ("less", "greater"))
        expected.append(min(1.0, 2 * min(tails)))
    assert tests.p_direct == pytest.approx(adjust(np.array(direct), correction="holm"), rel=1e-9)
    assert tests.p_fit == pytest.approx(adjust(np.array(expected), correction="holm"), rel=1e-9)


def test_ties_as_half_wins_count_half_to_each_side() -> None:
    rows = battles([0] * 10, [1] * 10, [1] * 6 + [0] * 4)
    assert result_of(rows, 2, "half").p_direct[0] == pytest.approx(binomtest(8, 10).pvalue)
    assert result_of(rows, 2).p_direct[0] == pytest.approx(binomtest(6, 6).pvalue)


@pytest.mark.parametrize("ties", ["davidson", "half"])
def test_swapped_systems_have_the_same_p_values(ties: str) -> None:
    rows = Arena(4, 300, size=5, taste=0.7).draw(np.random.default_rng(2))
    first_result, swapped_result = result_of(rows, 4, ties), result_of(swapped(rows), 4, ties)
    assert first_result.p_direct == pytest.approx(swapped_result.p_direct, rel=1e-6)
    assert first_result.p_fit == pytest.approx(swapped_result.p_fit, rel=1e-6)
    assert first_result.better.tolist() == swapped_result.better.tolist()


def test_an_order_effect_alone_is_no_difference() -> None:
    # The first shown wins 80 % of comparisons; of the pair (0, 1) system 0 was shown first in 9 of 10.
    first, second, order_sign = np.repeat([0, 0, 1], 400), np.repeat([1, 2, 2], 400), np.tile([1.0, -1.0], 600)
    order_sign[:400] = np.tile([1.0] * 9 + [-1.0], 40)
    sign = np.concatenate(
        [np.where(np.arange(600) % 5 == 0, -order_sign[side::2], order_sign[side::2]) for side in (0, 1)]
    )
    rows = battles(
        np.concatenate([first[0::2], first[1::2]]),
        np.concatenate([second[0::2], second[1::2]]),
        sign,
        covariates=np.concatenate([order_sign[0::2], order_sign[1::2]])[:, np.newaxis],
    )
    tests = result_of(rows, 3)
    assert tests.better.tolist() == [0, 0, 0]
    assert not tests.misfit.any()


def test_copies_of_a_cluster_are_no_evidence() -> None:
    once = battles([0] * 20, [1] * 20, [1] * 15 + [-1] * 5)
    copies = battles([0] * 200, [1] * 200, [1] * 150 + [-1] * 50, unit=np.repeat(np.arange(20), 10))
    assert result_of(copies, 2).p_direct[0] >= result_of(once, 2).p_direct[0]
    assert result_of(battles([0] * 9, [1] * 9, [1] * 8 + [-1], unit=[0] * 9), 2).p_direct.tolist() == pytest.approx(
        [np.nan], nan_ok=True
    )


def test_clustered_p_values_are_at_least_those_of_students_t() -> None:
    sign = np.where(np.random.default_rng(0).random(60) < 0.7, 1, -1)
    rows = battles([0] * 60, [1] * 60, np.repeat(sign[::4], 4), unit=np.arange(60) // 8)
    pairs = pair_rates(rows, confidence=0.95)
    wins, losses = pairs.effective * pairs.wins, pairs.effective * pairs.losses
    exact = sign_test(wins, losses, test="exact", probability=np.array([0.5]))
    by_t = 2 * t.sf(np.abs(wins - losses) / np.sqrt(wins + losses), pairs.freedom)
    assert result_of(rows, 2).p_direct == pytest.approx(np.maximum(exact, by_t))
    assert by_t != pytest.approx(exact)


def test_equal_battles_count_as_often_as_they_occur_and_ties_alone_decide_nothing() -> None:
    rows = Arena(4, 300, order=1.0).draw(np.random.default_rng(3))
    rows = battles(
        *(
            np.append(part, tail)
            for part, tail in ((rows.first, [4] * 3), (rows.second, [0] * 3), (rows.sign, [0] * 3))
        ),
        covariates=np.append(rows.covariates, np.ones((3, 1)), axis=0),
    )
    tests, merged = (result_of(data, 5) for data in (rows, rows.merge_equal_clusters()))
    for name in ("p_direct", "p_fit", "better", "misfit"):
        np.testing.assert_allclose(getattr(tests, name), getattr(merged, name), rtol=1e-6)
    pair = [*zip(*(getattr(pair_rates(rows, confidence=0.95), side) for side in ("first", "second")), strict=True)]
    assert tests.better[pair.index((0, 4))] == 0


def test_one_large_cluster_is_no_evidence_of_many_clusters() -> None:
    rng, size_of_cluster = np.random.default_rng(1), np.array([60, *[4] * 20])
    unit = np.repeat(np.arange(21), size_of_cluster)
    n_false, n_studies = 0, 100
    for _ in range(n_studies):
        chance = 1 / (1 + np.exp(-rng.normal(0, 1.5, 21)))
        sign = np.where(rng.random(len(unit)) < chance[unit], 1, -1)
        n_false += bool(result_of(battles([0] * len(unit), [1] * len(unit), sign, unit=unit), 2).better.any())
    assert n_false <= 0.05 * n_studies + 3 * np.sqrt(0.05 * 0.95 * n_studies)


def test_a_cycle_is_found_and_strengths_do_not_fit() -> None:
    tests = result_of(cycle(160, 40), 3)
    assert tests.better.tolist() == [1, -1, 1]
    assert tests.misfit.all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "arena"),
    [
        (300, lambda: Arena(3, 600, spread=0, nu=0, order=0)),
        (300, lambda: Arena(5, 200)),
        (300, lambda: Arena(5, 5000, order=1.0, spread=3)),
        (300, lambda: Arena(20, 1000, spread=0)),
        (300, lambda: Arena(5, 240, size=20, taste=0.7, spread=0)),
        (300, lambda: Arena(5, 2000, size=20, taste=1, spread=2)),
        (100, lambda: Arena(20, 5000, size=100, taste=0.7)),
    ],
)
def test_false_decisions_are_rare(n: int, arena) -> None:
    """The familywise errors are a wrong sign, a decision between equal systems, and a misfit where strengths fit."""
    population = arena()
    n_wrong, misfit = 0, 0
    for seed in range(n):
        rows = population.draw(np.random.default_rng(seed))
        tests, pairs = result_of(rows, population.systems), pair_rates(rows, confidence=0.95)
        truth = np.sign((population.strength[pairs.first] - population.strength[pairs.second]).round(9))
        n_wrong += bool(((tests.better != 0) & (tests.better != truth)).any())
        misfit += bool(tests.misfit.any())
    allowed = 0.05 * n + 3 * np.sqrt(0.05 * 0.95 * n)
    assert n_wrong <= allowed
    assert misfit <= allowed


@pytest.mark.slow
def test_cycles_are_found_with_200_comparisons_of_a_pair() -> None:
    rng, n_found = np.random.default_rng(0), 0
    for _ in range(200):
        wins = rng.binomial(200, 0.8, size=3)
        sign = np.concatenate([np.repeat([1, -1], [w, 200 - w]) for w in wins])
        rows = battles(np.repeat([0, 1, 2], 200), np.repeat([1, 2, 0], 200), sign)
        n_found += result_of(rows, 3).better.tolist() == [1, -1, 1]
    assert n_found >= 180
