from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.sign_test import SignTest
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import interval, strengths
from custodes.stats.strength.win_rates import system_intervals, system_rates
from tests.stats.strength.battles import battles, chances, outcomes

STUDIES = 500
MOST = 40
RULES = {
    "pocock, futility": Stopping(looks=(10, 20, 40), boundary="pocock", stop="futility", futility=0.2),
    "pocock": Stopping(looks=(10, 20, 40), boundary="pocock"),
    "none": Stopping(looks=(10, 20, 40)),
}
ARENAS = {(3, 0.0): 0, (3, 1.0): 0, (5, 0.5): 0, (5, 1.0): 0, (8, 0.0): 0, (8, 1.0): 0}
"""Number of systems, and distance of the best from the mean one in log odds."""


def answers_per_pair(signs: np.ndarray, rule: str) -> np.ndarray:
    """Number of answers of each pair when all are closed: (pairs, most) -> (pairs,)."""
    pairs = len(signs)
    state = ConcurrentAnnotation(
        orders=[tuple(range(MOST))] * pairs,
        rule=RULES[rule].rule(HUMAN, max_annotations=MOST, seed=0),
        systems=np.stack([np.zeros(pairs, dtype=np.int64), np.ones(pairs, dtype=np.int64)], axis=1),
        units=np.arange(MOST),
    )
    while tasks := state.open_pairs():
        for pair in tasks:
            for place in state.free_slots(pair):
                state.answer(pair, place, int(signs[pair, place]))
    return np.array(state.n)


@cache
def coverage(systems: int, spread: float, rule: str) -> dict[str, float]:
    """Coverage of strengths by all answers, with equal weights of pairs, and of win rates; rate of false ranks or
    decisions; proportion of equal pairs that a sign test on all answers decides."""
    rng = np.random.default_rng(20261122)
    first, second = np.triu_indices(systems, k=1)
    truth = np.linspace(-1, 1, systems) * spread
    chance = chances(truth[first] - truth[second], 0.6)
    points = chance[:, 0] + chance[:, 1] / 2
    rate = (np.bincount(first, points, systems) + np.bincount(second, 1 - points, systems)) / (systems - 1)
    above = truth[:, np.newaxis] < truth
    results: dict[str, list[float]] = {name: [] for name in ("raw", "alike", "rates", "false", "tested", "n")}
    for _ in range(STUDIES):
        signs = outcomes(np.repeat(chance, MOST, axis=0), rng).reshape(-1, MOST)
        n = answers_per_pair(signs, rule)
        pair = np.repeat(np.arange(len(n)), n)
        answers = signs[np.arange(MOST) < n[:, np.newaxis]]
        for name, weight in (("raw", np.ones(len(pair))), ("alike", 1 / n[pair])):
            data = battles(first[pair], second[pair], answers, weight=weight)
            outcome = strengths(data, n_systems=systems, ties="davidson", resamples=100, rng=rng)
            low, high = interval(outcome.draws, confidence=0.95, n_units=outcome.n_units)
            results[name].append(float(((low <= truth) & (truth <= high)).mean()))
            if name == "raw":
                result, estimate = ranks(outcome, confidence=0.95), outcome.draws[0]
                results["false"].append(float((result.apart & (estimate[:, np.newaxis] < estimate) & ~above).any()))
                rates = system_rates(data, n_systems=systems, resamples=200, rng=rng)
                low, high = system_intervals(rates, data, confidence=0.95)
                results["rates"].append(float(((low <= rate) & (rate <= high)).mean()))
        counts = np.stack([np.bincount(pair, answers == sign, len(n)) for sign in (1, 0, -1)], axis=1)
        test = SignTest(alpha=0.05, test="asymptotic", correction="none")
        results["tested"].append(float((test.p_values(counts.astype(np.int64)) < 0.05).mean()))
        results["n"].append(float(n.mean()))
    return {name: float(np.mean(values)) for name, values in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("systems", "spread"), ARENAS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_strengths_by_all_answers_hold(systems: int, spread: float, rule: str) -> None:
    result = coverage(systems, spread, rule)
    assert result["raw"] >= 0.93
    if rule != "none":  # .080 for 8 equal systems, as the note says
        assert result["false"] <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("systems", [3, 5, 8])
def test_like_weights_of_pairs_and_win_rates_do_not_hold(systems: int) -> None:
    """Neither is used for decisions, because pairs that stopped early had extreme results."""
    result = coverage(systems, 1.0, "pocock, futility")
    assert result["alike"] < min(0.93, result["raw"])
    assert result["rates"] < 0.93


@pytest.mark.slow
def test_a_test_of_a_fixed_number_decides_too_often() -> None:
    assert coverage(8, 0.0, "none")["tested"] > 0.08
    assert coverage(8, 0.0, "pocock")["tested"] > 0.055
