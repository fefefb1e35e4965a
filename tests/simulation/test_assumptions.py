from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.estimators import ESTIMATORS

ANNOTATED, METRIC_ONLY = 100, 1000
STUDIES = {"mixture": 400}
MOST_STUDIES = 4000
GOOD = np.array([[0.9, 0.06, 0.04], [0.15, 0.7, 0.15], [0.04, 0.06, 0.9]])  # [human, metric]
POOR = np.array([[0.5, 0.2, 0.3], [0.4, 0.3, 0.3], [0.4, 0.2, 0.4]])
EASY, HARD = np.array([0.55, 0.15, 0.3]), np.array([0.2, 0.25, 0.55])  # human win, tie, loss

SAME = (0.5 * (EASY + HARD),) * 2
# Outcome and channel on easy and hard items (half each), and relative annotation rates, [difficulty, metric outcome].
WORLDS = {
    "all holds": (SAME, (GOOD, GOOD), np.ones((2, 3))),
    "errors on hard items": ((EASY, HARD), (GOOD, POOR), np.ones((2, 3))),
    "chosen by the metric's answer": (SAME, (GOOD, GOOD), np.array([[3.0, 1, 1]] * 2)),
    "easy items chosen, same outcome": (SAME, (GOOD, POOR), np.array([[4.0] * 3, [1.0] * 3])),
    "easy items chosen": ((EASY, HARD), (GOOD, POOR), np.array([[4.0] * 3, [1.0] * 3])),
}


def tables(world: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Joint probabilities [human, metric] of annotated items, metric outcomes of the others, and the margin of all
    items."""
    outcomes, channels, weight = WORLDS[world]
    joint = np.stack([p[:, np.newaxis] * mu / 2 for p, mu in zip(outcomes, channels, strict=True)])
    chosen = (joint * weight[:, np.newaxis, :]).sum(axis=0)
    chosen /= chosen.sum()
    everything = joint.sum(axis=0)
    rest = ((ANNOTATED + METRIC_ONLY) * everything - ANNOTATED * chosen) / METRIC_ONLY
    p = everything.sum(axis=1)
    return chosen, rest.sum(axis=0), float(p[0] - p[2])


def outcome(world: str, name: str) -> tuple[float, float, float]:
    """Mean error of the margin, coverage of 95 % intervals, and rate of decisions for the wrong system."""
    rng = np.random.default_rng([*map(ord, world)])
    chosen, answers, margin = tables(world)
    studies = STUDIES.get(name, MOST_STUDIES)
    paired = rng.multinomial(ANNOTATED, chosen.ravel(), size=studies).reshape(studies, 3, 3)
    only = rng.multinomial(METRIC_ONLY, answers, size=studies)
    result = ESTIMATORS[name].estimate(Counts(paired, only, np.zeros_like(only)), confidence=0.95, gamma=0.05, rng=rng)
    inside = (result.margin_low <= margin) & (margin <= result.margin_high)
    wrong = np.where(margin > 0, result.theta < 0.025, result.theta > 0.975)
    return float(np.nanmean(result.margin) - margin), float(inside.mean()), float(wrong.mean())


HELD = ("mixture", "human", "ppi", "poststratified")


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_what_breaks_when_an_assumption_fails(world: str) -> None:
    results = {name: outcome(world, name) for name, estimator in ESTIMATORS.items() if not estimator.needs_items}
    print(f"{world}: margin {tables(world)[2]:+.3f}")
    for name, (bias, covered, wrong) in results.items():
        print(f"  {name:15} bias {bias:+.3f}, held {covered:.3f}, wrong system {wrong:.3f}")
    held = {name: covered for name, (_, covered, _) in results.items()}
    if world in ("all holds", "errors on hard items"):
        # with a random sample of annotated items, uneven errors are absorbed by the channel
        assert min(held[name] for name in HELD) > 0.92
        assert (held["naive"] > 0.9) == (world == "all holds")
    elif world == "chosen by the metric's answer":
        # selection does not change human outcomes given the metric's outcome
        assert min(held["mixture"], held["poststratified"]) > 0.92
        assert held["human"] < 0.6
        assert results["human"][2] > 0.9
    elif world == "easy items chosen, same outcome":
        assert held["human"] > 0.92
        assert 0.02 < results["mixture"][0] < 0.04
    else:
        # no estimator is unbiased, and narrow intervals cover less
        assert max(held.values()) < 0.9
        assert held["ppi"] < held["human"]
