from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from custodes.stats import ABSENT
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.corrected import (
    CorrectedStrengths,
    _control_weights,
    _pair_residual_weights,
    correct_strengths,
)
from custodes.stats.strength.random_part import p_random
from custodes.stats.strength.strengths import fit_battles, interval, strengths
from tests.simulation.rates import is_at_most
from tests.stats.strength.battles import Arena, judge

SIX = Arena(6, 2000, luck=0.5)


def corrected_strengths(
    human: Battles, metric_signs: np.ndarray, is_labelled: np.ndarray, *, systems: int = 6, seed: int = 0, **options
) -> CorrectedStrengths:
    return correct_strengths(
        replace(human, sign=metric_signs.astype(np.int8)),
        np.where(is_labelled, human.sign, ABSENT).astype(np.int8),
        **{"n_systems": systems, "ties": "davidson", "probability": None, "resamples": 200, **options},
        rng=np.random.default_rng(seed),
    )


def random_subset(n: int, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(size) < n


def test_everything_judged_is_people_alone() -> None:
    human = SIX.draw(np.random.default_rng(0))
    result = corrected_strengths(human, judge("noisy", human, np.random.default_rng(1)), np.ones(2000, dtype=bool))
    alone = strengths(human, n_systems=6, ties="davidson", resamples=200, rng=np.random.default_rng(0))
    np.testing.assert_allclose(result.strengths.draws[0], alone.draws[0], atol=1e-9)
    np.testing.assert_allclose(result.strengths.draws[1:].std(axis=0), alone.draws[1:].std(axis=0), rtol=1e-6)
    assert result.saving == pytest.approx(0, abs=1e-9)
    assert np.isnan(result.p_random)


def test_a_perfect_judge_stands_in_for_people() -> None:
    human = SIX.draw(np.random.default_rng(2))
    labelled = random_subset(200, 2000, 3)
    result = corrected_strengths(human, human.sign, labelled)
    alone, few = (
        strengths(battles, n_systems=6, ties="davidson", resamples=200, rng=np.random.default_rng(0))
        for battles in (human, human.select_rows(labelled))
    )
    gap = np.abs(result.strengths.draws[0] - alone.draws[0]).mean()
    assert gap < 0.35 * np.abs(few.draws[0] - alone.draws[0]).mean()
    assert result.saving > 0.8


def test_a_useless_judge_does_nothing() -> None:
    widths = []
    for seed in range(8):
        human = SIX.draw(np.random.default_rng(seed))
        labelled = random_subset(120, 2000, seed)
        result = corrected_strengths(human, judge("useless", human, np.random.default_rng(seed)), labelled)
        rng = np.random.default_rng(seed)
        few = strengths(human.select_rows(labelled), n_systems=6, ties="davidson", resamples=200, rng=rng)
        widths.append([estimate.draws[1:, :6].std(axis=0).mean() for estimate in (result.strengths, few)])
    corrected_width, own_width = np.mean(widths, axis=0)
    assert corrected_width <= 1.02 * own_width


@pytest.mark.parametrize("factor", [-0.3, -1.5, 0.0, 0.5])
def test_the_weight_of_a_metric_comes_from_the_other_folds(factor: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(43, 4))
    control = factor * scores + rng.normal(size=(43, 4)) * abs(factor)
    inverse = rng.normal(size=(3, 4))
    human, metric = scores @ inverse.T, control @ inverse.T
    products, squares = -(human * metric).sum(axis=1), (metric**2).sum(axis=1)
    fold, expected = np.random.default_rng(STREAM).permutation(43) % 5, np.zeros(43)
    for k in range(5) if factor else ():
        other = fold != k
        weight = products[other].sum() / squares[other].sum()
        variance = ((products - weight * squares)[other] ** 2).sum() / squares[other].sum() ** 2
        expected[~other] = np.clip(weight * (1 - variance / weight**2), 0, 1) if weight > 0 else 0
    np.testing.assert_allclose(_control_weights(csr_array(scores), csr_array(control), inverse), expected)
    assert (expected == 0).all() == (factor >= 0)


def test_residuals_of_each_pair_are_weighted_to_a_sum_of_zero() -> None:
    human = Arena(4, 60).draw(np.random.default_rng(0))
    pair = np.sort(np.stack([human.first, human.second], axis=1), axis=1) @ [4, 1]
    human = replace(human, weight=np.random.default_rng(1).uniform(0.5, 1.5, 60))
    labelled = (np.random.default_rng(2).random(60) < 0.5) & (pair != 2) | (pair == 3)
    expected = np.zeros(60)
    for k in np.unique(pair):
        annotated, rest = labelled & (pair == k), ~labelled & (pair == k)
        if rest.any():
            expected[annotated] = -1
            expected[rest] = human.weight[annotated].sum() / human.weight[rest].sum()
    np.testing.assert_allclose(_pair_residual_weights(human, labelled, n_systems=4), expected)


def test_without_finite_human_strengths_no_saving_is_known() -> None:
    human = Arena(4, 400, order=0.0).draw(np.random.default_rng(0))
    always = replace(human, sign=np.where(human.first == 0, 1, np.where(human.second == 0, -1, human.sign)))
    for battles, is_known in ((human, True), (always, False)):
        result = corrected_strengths(battles, human.sign, random_subset(200, 400, 1), systems=4)
        assert np.isfinite(result.saving) == is_known


def test_pairs_of_other_fractions_are_corrected_each_by_itself() -> None:
    """A judge that repeats the human labels replaces them, whatever fraction of each pair is annotated."""
    human = Arena(6, 2000).draw(np.random.default_rng(2))
    pair = human.first * 6 + human.second
    labelled = np.random.default_rng(3).random(2000) < np.where(pair % 2, 0.05, 0.3)
    result = corrected_strengths(human, human.sign, labelled, by_pair=True)
    alone, few = (
        strengths(battles, n_systems=6, ties="davidson", resamples=200, rng=np.random.default_rng(0))
        for battles in (human, human.select_rows(labelled))
    )
    gap = np.abs(result.strengths.draws[0] - alone.draws[0]).mean()
    assert gap < 0.5 * np.abs(few.draws[0] - alone.draws[0]).mean()
    assert np.isnan(result.p_random), "the order is known"
    assert corrected_strengths(human, human.sign, labelled).p_random < 0.01, "not a random part of all battles"


def test_a_metric_that_errs_in_pairs_moves_nothing_by_their_fractions() -> None:
    """A constant offset of the metric in all battles of a pair is equal in annotated and other battles, and cancels."""
    human = Arena(3, 3000, equal=True, order=0.0).draw(np.random.default_rng(4))
    pair = human.first * 3 + human.second
    labelled = np.random.default_rng(5).random(3000) < np.where(pair == 1, 0.4, 0.05)
    metric_signs = np.where(pair == 1, 1, np.where(pair == 2, -1, 1)).astype(
        np.int8
    )  # the same for each battle of a pair
    result = corrected_strengths(human, metric_signs, labelled, systems=3, by_pair=True)
    few = strengths(
        human.select_rows(labelled), n_systems=3, ties="davidson", resamples=200, rng=np.random.default_rng(0)
    )
    # Each fold of clusters weights the metric slightly differently, so the sum is not exactly 0.
    np.testing.assert_allclose(result.strengths.draws[0], few.draws[0], atol=0.005)


def test_what_only_the_metric_joins_is_apart() -> None:
    human = Arena(4, 400, order=0.0).draw(np.random.default_rng(8))
    within = (human.first < 2) == (human.second < 2)
    result = corrected_strengths(human, human.sign, within & random_subset(200, 400, 9), systems=4)
    assert result.strengths.component.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(result.strengths.draws[0, 0], -result.strengths.draws[0, 1], atol=1e-9)


def test_known_probabilities_undo_the_choice() -> None:
    """With a misspecified model, estimates from human labels alone depend on the selection; weighting corrects this."""
    arena = Arena(4, 20_000, luck=1.0, order=0.0)
    human = arena.draw(np.random.default_rng(10))
    chance = np.where((human.first == 0) & (human.second == 1), 0.9, 0.15)
    is_labelled = np.random.default_rng(11).random(20_000) < chance
    metric_signs = judge("noisy", human, np.random.default_rng(12))
    weighted = corrected_strengths(human, metric_signs, is_labelled, systems=4, probability=chance)
    low, high = interval(weighted.strengths.draws, confidence=0.999, n_units=weighted.strengths.n_units)
    assert ((low <= arena.target[:4]) & (arena.target[:4] <= high)).all()
    assert np.isnan(weighted.p_random)
    unweighted = corrected_strengths(human, metric_signs, is_labelled, systems=4)
    low, high = interval(unweighted.strengths.draws, confidence=0.999, n_units=unweighted.strengths.n_units)
    assert not ((low <= arena.target[:4]) & (arena.target[:4] <= high)).all()
    assert unweighted.p_random < 1e-6


def test_a_random_part_is_seldom_refused() -> None:
    arena = Arena(4, 300)
    metric = fit_battles(arena.draw(np.random.default_rng(0)), n_systems=4, ties="davidson")
    p_values = [p_random(metric, random_subset(60, 300, seed)) for seed in range(200)]
    # Three tests: without the multiplication by their number, about .10 are refused.
    assert is_at_most(int(np.sum(np.array(p_values) <= 0.05)), 200, 0.05)


@pytest.mark.parametrize("chosen", ["close", "ties", "one pair", "agreeing"])
def test_a_choice_is_seen(chosen: str) -> None:
    """Selections by closeness (three times as often between neighbours), ties of the metric (three times), one pair
    (twice) and the metric's upsets (half as often) are detected with 200 to 400 labels of 2,000."""
    human = SIX.draw(np.random.default_rng(13))
    metric_signs = judge("noisy", human, np.random.default_rng(14))
    gap = SIX.strength[human.first] - SIX.strength[human.second]
    often = {
        "close": np.where(np.abs(gap) < 0.5, 0.3, 0.1),
        "ties": np.where(metric_signs == 0, 0.3, 0.1),
        "one pair": np.where((human.first == 0) & (human.second == 1), 0.9, 0.1),
        "agreeing": np.where(gap * metric_signs < 0, 0.07, 0.2),
    }[chosen]
    is_labelled = np.random.default_rng(15).random(2000) < often
    assert corrected_strengths(human, metric_signs, is_labelled).p_random < 0.01
