"""Coverage of forecasts of annotations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from custodes.evaluate.protocol.annotations import RatedPairs, order_answers
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.intervals import percentile_interval
from custodes.stats.stopping.pilot import (
    Pilot,
    continue_pilot,
    forecast,
    posterior_shares,
    share_interval,
    shared_items,
)
from custodes.stats.stopping.replay import replay
from tests.evaluate.protocol.scores import rated_pairs_of

Draw = Callable[[np.random.Generator], RatedPairs]


RULE = Stopping(looks=(10, 20, 40), boundary="pocock")


def outcome_and_bounds(
    draw: Draw, seed: int, *, draws: int = 100, pilot: int = 10
) -> dict[str, tuple[float, float, float]]:
    """Outcome, and bounds of the forecast from the first annotations of every pair."""
    rng = np.random.default_rng(seed)
    pairs = draw(rng)
    answers = order_answers([pairs], [seed])
    n_items = pairs.human.shape[1]
    rule = RULE.rule(HUMAN, most=n_items, seed=0)
    reference = pairs.reference(0.05)
    end = replay(answers, rule, reference_decisions=reference, reference_proportions=pairs.truth)
    happened = {"share": float((end.n / n_items).mean()), "correct": float(end.correct[-1, 0])}
    assert answers.items is not None
    first = answers.items(np.full((1, len(pairs.human)), pilot))
    pair, item = np.nonzero(first.human[0] != ABSENT)
    begun = Pilot(pair=pair, unit=first.units[item], sign=first.human[0][pair, item], systems=first.systems)
    shares = posterior_shares(begun, n_draws=draws, rng=rng)
    counts = begun.outcome
    share, correct = forecast(continue_pilot(counts, shares, n_items=n_items, rng=rng), rule)
    ends = (
        share_interval(share, confidence=0.9, shared=shared_items(begun)),
        percentile_interval(correct, confidence=0.9),
    )
    return {name: (value, *map(float, part)) for (name, value), part in zip(happened.items(), ends, strict=True)}


def rated_pairs(differences: np.ndarray, units: np.ndarray | None = None) -> RatedPairs:
    """Rated pairs from score differences (pairs, items), with ties below .5."""
    human = np.where(np.abs(differences) < 0.5, 0, np.sign(differences)).astype(np.int8)
    return rated_pairs_of(human, units=units)


def pair_differences(scores: np.ndarray) -> np.ndarray:
    """Scores (systems, items) -> differences (pairs, items)."""
    first, second = np.triu_indices(len(scores), 1)
    return np.asarray(scores[first] - scores[second])


def scored(rng: np.random.Generator, quality: np.ndarray, items: int) -> RatedPairs:
    return rated_pairs(pair_differences(quality[:, np.newaxis] + rng.normal(size=(len(quality), items))))


def one_bad(rng: np.random.Generator) -> RatedPairs:
    return scored(rng, np.array([-2.0, *0.1 * rng.normal(size=9)]), 100)


def strangers(rng: np.random.Generator) -> RatedPairs:
    """Every pair has an independent margin, so there is no order of systems."""
    return rated_pairs(0.6 * rng.normal(size=(28, 1)) + 1.4 * rng.normal(size=(28, 100)))


def heavy(rng: np.random.Generator) -> RatedPairs:
    return rated_pairs(pair_differences(0.5 * rng.normal(size=(8, 1)) + rng.standard_t(2, size=(8, 100))))


def coarse(rng: np.random.Generator) -> RatedPairs:
    """Scores from 1 to 5, mostly 5."""
    scores = np.clip(np.round(5.3 + 0.5 * rng.normal(size=(12, 1)) + rng.normal(size=(12, 100))), 1, 5)
    return rated_pairs(pair_differences(scores))


def documents(rng: np.random.Generator) -> RatedPairs:
    shared = rng.normal(size=(8, 40)).repeat(5, axis=1)
    scores = 0.4 * rng.normal(size=(8, 1)) + np.sqrt(0.3) * shared + np.sqrt(0.7) * rng.normal(size=shared.shape)
    return rated_pairs(pair_differences(scores), np.arange(40).repeat(5))


KINDS: dict[str, Draw] = {
    "normal, 8 systems": lambda rng: scored(rng, 0.4 * rng.normal(size=8), 100),
    "normal, 16 systems, 400 items": lambda rng: scored(rng, 0.4 * rng.normal(size=16), 400),
    "nothing differs": lambda rng: scored(rng, np.zeros(8), 100),
    "three systems": lambda rng: scored(rng, 0.5 * rng.normal(size=3), 100),
    "one bad system": one_bad,
    "pairs as strangers": strangers,
    "heavy tails": heavy,
    "mostly ties": coarse,
    "documents": documents,
}


def coverage(draw: Draw, studies: int) -> dict[str, tuple[float, float, float]]:
    """Proportion of studies whose interval contains the outcome, mean outcome, mean width."""
    results: dict[str, list[tuple[float, float, float]]] = {"share": [], "correct": []}
    for seed in range(studies):
        for name, entry in outcome_and_bounds(draw, seed).items():
            results[name].append(entry)
    entries = {}
    for name, rows in results.items():
        value, low, high = np.array(rows).T
        inside = (value >= low - 1e-9) & (value <= high + 1e-9)
        entries[name] = (float(inside.mean()), float(value.mean()), float((high - low).mean()))
    return entries


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nine_of_ten_outcomes_lie_in_the_interval(kind: str) -> None:
    for name, (inside, value, width) in coverage(KINDS[kind], 200).items():
        print(f"{kind}, {name}: holds {inside:.3f}, outcome {value:.3f}, width {width:.3f}")
        # The sd of a coverage of .85 over 200 studies is .025; nearly equal systems next to a distant one are decided
        # too easily.
        least = 0.72 if kind == "one bad system" and name == "correct" else 0.85 - 2 * 0.025
        assert inside >= least
