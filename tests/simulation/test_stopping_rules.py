"""How often does each stopping rule decide falsely when no system is better, and what does it find when one is?"""

from __future__ import annotations

import numpy as np
import pytest

from custodes.evaluate.protocol.annotations import Asked, in_order
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.replay import replay

PAIRS, ITEMS = 1000, 100

# rule, the largest share of false decisions that is in order (a boundary keeps .05; the posterior's theta is a
# little stricter than the normal |z|, most where few annotations are untied)
RULES = {
    "paper, every 10": (Stopping(), (0.12, 0.22)),
    "paper, every 5": (Stopping(batch=5), (0.15, 0.28)),
    "pocock, every 10": (Stopping(boundary="pocock"), (0.01, 0.057)),
    "pocock at 10, 20, 40": (Stopping(looks=(10, 20, 40), boundary="pocock"), (0.01, 0.057)),
    "obrien-fleming, every 10": (Stopping(boundary="obrien-fleming"), (0.02, 0.06)),
    "futility": (Stopping(boundary="pocock", stop="futility"), (0.005, 0.057)),
    "anytime, every 1": (Stopping(batch=1, stop="anytime"), (0.0, 0.05)),
}


def outcome(stopping: Stopping, p: list[float], seed: int) -> tuple[float, float]:
    """Share of pairs decided, and mean annotations, of strangers with outcome shares p."""
    rng = np.random.default_rng([seed, 1])  # not that of the orders
    human = rng.choice(np.array([1, 0, -1], dtype=np.int8), p=p, size=(PAIRS, ITEMS))
    asked = Asked(
        human=human,
        metric=np.full_like(human, -128),
        metric_more=np.zeros((PAIRS, 3), dtype=np.int64),
        systems=np.stack([np.arange(PAIRS), np.arange(PAIRS) + 1], axis=1),
        units=np.arange(ITEMS),
    )
    rule = stopping.rule(ESTIMATORS["human"], most=ITEMS, seed=0)
    end = replay(in_order([asked], [seed]), rule, reference=asked.reference(0.05), truth=asked.truth)
    return float((end.decision != 0).mean()), float(end.n.mean())


@pytest.mark.slow
@pytest.mark.parametrize("ties", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("name", RULES)
def test_false_decisions(name: str, ties: float) -> None:
    rule, (least, most) = RULES[name]
    p = [(1 - ties) / 2, ties, (1 - ties) / 2]
    found = [outcome(rule, p, seed) for seed in range(5)]
    false, n = np.mean(found, axis=0)
    print(f"{name}, {ties:.0%} ties: {false:.4f} false, {n:.1f} annotations")
    # Monte Carlo sd over 5,000 pairs: .003 at .05, .006 at .2
    assert least <= false <= most + 3 * np.sqrt(most * (1 - most) / (5 * PAIRS))


@pytest.mark.slow
def test_pooling_with_a_boundary_keeps_its_level() -> None:
    # Ten systems, none better, each item with its own taste: all pairs of one item are dependent.
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(10, 1)
    stopping = Stopping(looks=(10, 20, 40), boundary="pocock")
    false = []
    for study in range(60):
        scores = np.round(1.5 * rng.normal(size=(10, 100)))
        human = np.sign(scores[first] - scores[second]).astype(np.int8)
        asked = Asked(
            human=human,
            metric=np.full_like(human, -128),
            metric_more=np.zeros((45, 3), dtype=np.int64),
            systems=np.stack([first, second], axis=1),
            units=np.arange(100),
        )
        rule = stopping.rule(ESTIMATORS["pooled"], most=100, seed=study)
        end = replay(in_order([asked], [study]), rule, reference=asked.reference(0.05), truth=asked.truth)
        false.append((end.decision != 0).mean())
    print(f"pooled, Pocock at 10, 20, 40: {np.mean(false):.4f} false")
    # The pairs of a study stand and fall together: sd of a study's share about .06, of the mean of 60 about .008
    assert np.mean(false) <= 0.05 + 3 * np.std(false) / np.sqrt(60) + 0.01


@pytest.mark.slow
def test_anytime_costs_what_it_promises() -> None:
    p = [0.45, 0.3, 0.25]
    names = ("paper, every 10", "pocock, every 10", "anytime, every 1")
    paper, pocock, anytime = (outcome(RULES[name][0], p, 0) for name in names)
    print("margin .2:", paper, pocock, anytime)
    assert paper[1] < pocock[1]
    assert anytime[0] < paper[0]
