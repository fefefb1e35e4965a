from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from custodes.stats import ABSENT
from custodes.stats.strength.corrected import correct_strengths
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import Strengths, interval, strengths
from tests.simulation.rates import is_at_most
from tests.stats.strength.battles import Arena, judge

STUDIES = 1000
ARENAS = {
    "5 systems, 200": lambda **options: Arena(5, 200, **options),
    "5 systems, 200, no ties, equal schedule": lambda **options: Arena(5, 200, nu=0, order=0, equal=True, **options),
    "5 systems, 240 in 12 clusters": lambda **options: Arena(5, 240, size=20, taste=0.7, **options),
    "5 systems, 5000 in 500 clusters, another model": lambda **options: Arena(
        5, 5000, size=10, taste=0.7, luck=0.5, **options
    ),
    "20 systems, 200": lambda **options: Arena(20, 200, **options),
    "20 systems, 200, no ties, equal schedule": lambda **options: Arena(20, 200, nu=0, order=0, equal=True, **options),
    "20 systems, 200 in 40 clusters, another model": lambda **options: Arena(
        20, 200, size=5, taste=0.7, luck=0.5, **options
    ),
    "20 systems, 1000 in 100 clusters, another model": lambda **options: Arena(
        20, 1000, size=10, taste=0.7, luck=0.5, **options
    ),
    "20 systems, 1000 in 100 clusters": lambda **options: Arena(20, 1000, size=10, taste=0.7, **options),
    "20 systems, 5000, another model": lambda **options: Arena(20, 5000, luck=0.5, **options),
}
DESIGNS = {
    "120 of 2000": (6, 2000, 1, 120),
    "120 of 2000, known chances": (6, 2000, 1, -120),
    "400 of 2000 in 200 clusters": (6, 2000, 10, 400),
    "200 of 400": (6, 400, 1, 200),
    "1000 of 5000, 20 systems": (20, 5000, 1, 1000),
}
JUDGES = ("biased", "noisy", "perfect", "useless")


def covers(result: Strengths, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Whether each interval contains the true value, and the mean width."""
    low, high = interval(result.draws, confidence=0.95, n_units=result.n_units)
    return (low <= target) & (target <= high), float((high - low).mean())


@cache
def coverage(name: str) -> tuple[float, float, float, float]:
    """Coverage of strengths, of the system with the lowest coverage, and of the order effect (NaN without), and how
    often a system won or lost all battles."""
    arena, systems, order, free = ARENAS[name](), [], [], 0
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        result = strengths(arena.draw(rng), n_systems=arena.systems, ties="davidson", resamples=200, rng=rng)
        if result.component.any():
            continue  # some systems were never compared: another true value
        systems.append(covers(result, arena.target[: arena.systems])[0])
        free += not result.bounded.all()
        if arena.order:
            low, high = interval(result.effects, confidence=0.95, n_units=result.n_units)
            order.append(low[0] <= arena.target[arena.systems] <= high[0])
    system_coverage = np.mean(systems, axis=0)
    return (
        float(system_coverage.mean()),
        float(system_coverage.min()),
        float(np.mean(order)) if order else np.nan,
        free / len(systems),
    )


@cache
def false_ranks(name: str, spread: float) -> tuple[int, int, int, float]:
    """Number of studies with a false difference, with a missed rank, of all studies, and the mean number of pairs
    decided."""
    arena, false, missed, n, n_decided = ARENAS[name](spread=spread), 0, 0, 0, 0
    truth = arena.target[: arena.systems].round(9)
    above = truth[:, np.newaxis] < truth
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        outcome = strengths(arena.draw(rng), n_systems=arena.systems, ties="davidson", resamples=1000, rng=rng)
        if outcome.component.any():
            continue
        result, estimate = ranks(outcome, confidence=0.95), outcome.draws[0]
        false += bool((result.apart & (estimate[:, np.newaxis] < estimate) & ~above).any())
        ranked = (result.low <= 1 + above.sum(axis=1)) & (result.high >= arena.systems - above.sum(axis=0))
        missed += not ranked.all()
        n_decided += int(result.apart.sum()) // 2
        n += 1
    return false, missed, n, n_decided / n


@cache
def correction(design: str, kind: str) -> tuple[float, float, float, float, int]:
    """Coverage of corrected strengths, of the system with the lowest coverage, mean width relative to human ratings
    alone, mean saving, and number of random parts refused at .01."""
    systems, n, size, labels = DESIGNS[design]
    arena = Arena(systems, n, size=size, taste=0.7 if size > 1 else 0.0, luck=0.5)
    hits, widths, saving, refused = [], [], [], 0
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        human = arena.draw(rng)
        judge_signs, chance = judge(kind, human, rng), None
        if labels < 0:
            chance = np.where((human.first < 2) | (human.second < 2), 1.5, 0.5)
            chance = -labels * chance / chance.sum()
            labelled = rng.random(n) < chance
        else:
            labelled = (rng.permutation(n // size) < labels // size)[human.unit]
        result = correct_strengths(
            replace(human, sign=judge_signs),
            np.where(labelled, human.sign, ABSENT).astype(np.int8),
            n_systems=systems,
            ties="davidson",
            probability=chance,
            resamples=300,
            rng=rng,
        )
        if result.strengths.component.any():
            continue
        hit, width = covers(result.strengths, arena.target[:systems])
        hits.append(hit)
        weighted = replace(human, weight=labelled * (1.0 if chance is None else 1 / chance))
        by_human = strengths(weighted, n_systems=systems, ties="davidson", resamples=300, rng=rng)
        widths.append([width, covers(by_human, arena.target[:systems])[1]])
        saving.append(result.saving)
        refused += result.p_random < 0.01
    system_coverage, (wide, human_width) = np.mean(hits, axis=0), np.mean(widths, axis=0)
    return (
        float(system_coverage.mean()),
        float(system_coverage.min()),
        float(wide / human_width),
        float(np.mean(saving)),
        refused,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ARENAS)
def test_intervals_cover(name: str) -> None:
    mean, worst, order, _ = coverage(name)
    assert 0.93 <= mean <= 0.975
    assert worst >= 0.92
    assert np.isnan(order) or 0.93 <= order <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("name", [name for name in ARENAS if "5000" not in name])
def test_ranks_hold_together(name: str, spread: float) -> None:
    false, missed, n, _ = false_ranks(name, spread)
    assert is_at_most(false, n)
    assert is_at_most(missed, n, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", JUDGES)
@pytest.mark.parametrize("design", DESIGNS)
def test_corrected_strengths(design: str, kind: str) -> None:
    mean, worst, width, saving, refused = correction(design, kind)
    assert 0.93 <= mean <= 0.975
    assert worst >= 0.9
    assert width <= 1.02
    assert is_at_most(refused, STUDIES, 0.015)
    assert kind != "perfect" or saving > 0.3
