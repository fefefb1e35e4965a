from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.rates.alternative_annotator_test import advantages, replacement

RNG = np.random.default_rng(0)
N = 60
LABELS = RNG.integers(0, 3, (4, N)).astype(float)
LABELS[RNG.random((4, N)) < 0.2] = np.nan
JUDGE = RNG.integers(0, 3, N).astype(float)
JUDGE[:5] = np.nan


@pytest.mark.parametrize("ordered", [False, True])
def test_advantages_equal_their_definition(ordered: bool) -> None:
    won = advantages(JUDGE, LABELS, ordered=ordered)
    for j in range(4):
        for i in range(N):
            others = np.delete(LABELS[:, i], j)
            others = others[~np.isnan(others)]
            if np.isnan(JUDGE[i]) or np.isnan(LABELS[j, i]) or not len(others):
                assert np.isnan(won[0][j, i])
                assert np.isnan(won[1][j, i])
                continue
            judge, annotator = (
                -np.sqrt(np.mean((value - others) ** 2)) if ordered else np.mean(value == others)
                for value in (JUDGE[i], LABELS[j, i])
            )
            assert won[0][j, i] == (judge >= annotator - 1e-12)
            assert won[1][j, i] == (annotator >= judge - 1e-12)


def test_p_values_are_those_of_one_sided_t_tests_with_benjamini_and_yekutieli() -> None:
    test = replacement(JUDGE, LABELS, ordered=False, epsilon=0.2, units=np.arange(N))
    won = advantages(JUDGE, LABELS, ordered=False)
    p_values = [
        stats.ttest_1samp((row := won[1][j] - won[0][j])[~np.isnan(row)], 0.2, alternative="less").pvalue
        for j in range(4)
    ]
    np.testing.assert_allclose(test.p, stats.false_discovery_control(p_values, method="by"))
    assert test.winning_rate == np.mean(test.p <= 0.05)
    assert test.advantage_probability == pytest.approx(np.mean([np.nanmean(row) for row in won[0]]))


def test_copies_of_outputs_in_clusters_change_nothing() -> None:
    once = replacement(JUDGE, LABELS, ordered=False, epsilon=0.2, units=np.arange(N))
    copies = replacement(
        np.repeat(JUDGE, 4), np.repeat(LABELS, 4, axis=1), ordered=False, epsilon=0.2, units=np.repeat(np.arange(N), 4)
    )
    np.testing.assert_allclose(copies.p, once.p)
    assert copies.error == pytest.approx(once.error)


def test_an_annotator_with_few_outputs_is_not_tested_but_compared_with() -> None:
    labels = LABELS.copy()
    labels[3, 20:] = np.nan
    test = replacement(JUDGE, labels, ordered=False, epsilon=0.2, units=np.arange(N))
    assert np.isnan(test.p).tolist() == [False, False, False, True]
    assert np.isnan(test.advantage[3])


def test_nobody_with_enough_outputs_is_undefined_and_a_perfect_judge_wins() -> None:
    few = replacement(JUDGE[:10], LABELS[:, :10], ordered=False, epsilon=0.2, units=np.arange(10))
    assert np.isnan([few.winning_rate, few.advantage_probability, few.error]).all()
    same = np.ones((3, 40))
    perfect = replacement(np.ones(40), same, ordered=False, epsilon=0.1, units=np.arange(40))
    assert (perfect.winning_rate, perfect.advantage_probability) == (1.0, 1.0)


def test_a_judge_who_is_always_farther_never_wins() -> None:
    labels = np.ones((3, 40))
    wrong = replacement(np.zeros(40), labels, ordered=False, epsilon=0.2, units=np.arange(40))
    assert (wrong.p.tolist(), wrong.winning_rate, wrong.advantage_probability) == ([1.0] * 3, 0, 0)
    assert wrong.difference.tolist() == [-1] * 3
    at_margin = replacement(np.zeros(40), labels, ordered=False, epsilon=1.0, units=np.arange(40))
    assert at_margin.p.tolist() == [1.0] * 3  # better by exactly epsilon
    half = replacement(np.arange(40) % 2.0, labels, ordered=False, epsilon=0.3, units=np.arange(40))
    assert half.p.tolist() == [1.0] * 3  # adjusted p-values are at most 1
    assert half.difference == pytest.approx([-0.5] * 3)


@pytest.mark.parametrize("size", [1, 3])
def test_the_error_is_that_of_means_of_clusters(size: int) -> None:
    labels = np.nan_to_num(LABELS, nan=1.0)
    units = np.arange(N) // size
    test = replacement(np.nan_to_num(JUDGE), labels, ordered=True, epsilon=0.2, units=units)
    won = advantages(np.nan_to_num(JUDGE), labels, ordered=True)[0].mean(axis=0)
    means = won.reshape(-1, size).mean(axis=1)
    assert test.error == pytest.approx(means.std(ddof=1) / np.sqrt(len(means)))
    assert test.n.tolist() == [N] * 4


@pytest.mark.parametrize(("n", "is_tested"), [(29, False), (30, True)])
def test_thirty_outputs_are_enough(n: int, *, is_tested: bool) -> None:
    test = replacement(
        JUDGE[10 : 10 + n], np.nan_to_num(LABELS[:, 10 : 10 + n]), ordered=False, epsilon=0.2, units=np.arange(n)
    )
    assert np.isfinite(test.p).tolist() == [is_tested] * 4
    one = replacement(
        JUDGE[5:], np.nan_to_num(LABELS[:, 5:]), ordered=False, epsilon=0.2, units=np.zeros(N - 5, dtype=int)
    )
    assert np.isnan(one.error)
    assert one.p.tolist() == [1.0] * 4
