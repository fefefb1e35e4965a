"""A pair of systems with its answers, and its result at an interim analysis, with an interval valid for all
analyses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import PairItems
from custodes.stats.stopping.allocation import KINDS, annotation_kinds, outcome_of, tables
from custodes.stats.stopping.rules import LookEstimates, Rule, estimates_on, rule_on
from custodes.stats.stopping.sequential import stagewise

_NEXT = 1e-6  # move to the neighbouring floating-point number


class Ruling(NamedTuple):
    """Result of an interim analysis of a pair.

    `n` answers: `wins`, `ties` and `losses` of its first system, at the positions `used` of its order. `decision` is 1,
    0 or -1; `is_open` tells whether more answers are needed. `low` and `high` bound the margin: simultaneously over all
    analyses while the pair is open; once it ended, for the final analysis, and the margin is then the median-unbiased
    estimate.
    """

    pair: int
    look: int
    n: int
    wins: int
    ties: int
    losses: int
    decision: int
    is_open: bool
    theta: float
    margin: float
    low: float
    high: float
    used: tuple[int, ...]


@dataclass(kw_only=True)
class PairState:
    """A pair of systems with the random `order` of its items and the answers at each of these positions.

    An answer (in `places`) is 1, 0, -1, `ABSENT` (refused), or another value while unsettled. The current interim
    analysis, `is_judged` or not, needs the positions from `begin` to `end`. `looks` are the completed analyses with
    their numbers of answers, `metric` (items,) preferences.
    """

    number: int
    systems: tuple[int, int]
    order: tuple[int, ...]
    places: list[int]
    metric: Signs | None = None
    begin: int = 0
    end: int = 0
    is_judged: bool = True
    looks: tuple[tuple[int, int], ...] = ()

    @property
    def usable(self) -> int:
        """Number of positions that are not refused."""
        return len(self.places) - self.places.count(ABSENT)

    def usable_from(self, begin: int) -> list[int]:
        """Positions from `begin` on that are not refused."""
        return [place for place in range(begin, len(self.places)) if self.places[place] != ABSENT]


def rulings(
    rule: Rule, pairs: Sequence[PairState], *, beside: Sequence[PairState], units: Ints
) -> list[tuple[Ruling, str]]:
    """Results of pairs at one interim analysis, with the reason for closing a pair: 'rule', 'items' or none.

    `beside`: all pairs (these included) whose answers count, for estimators that use several pairs and for clusters;
    `units` (items,) is the cluster of each item.
    """
    (look,) = {pair.looks[-1][0] for pair in pairs}
    human = np.full((len(beside), len(units)), ABSENT, dtype=np.int8)
    for row, pair in enumerate(beside):
        human[row, list(pair.order[: pair.begin])] = pair.places[: pair.begin]
    numbers = [pair.number for pair in pairs]
    judged = np.array([pair.number in numbers for pair in beside])
    metric = np.full((len(pairs), len(units)), ABSENT, dtype=np.int8)
    for row, pair in enumerate(pairs):
        if pair.metric is not None:  # the stored order may lack items that were added later
            metric[row, : len(pair.metric)] = pair.metric
    kinds = annotation_kinds(human[judged], metric)
    counts = tables(np.stack([(kinds == kind).sum(axis=1) for kind in range(KINDS)], axis=1), outcome_of(metric))
    items = None
    if rule.estimator.needs_items or is_clustered(units):
        items = PairItems(human=human, systems=np.array([pair.systems for pair in beside]), units=units)
    last = np.array([min(rule.looks[-1], pair.usable) for pair in pairs])
    decision, is_open, _ = rule_on(rule, counts, look=look, last=last, items=items, judged=judged)
    estimates = estimates_on(rule, counts, look=look, items=items, judged=judged)
    results = []
    for k, pair in enumerate(pairs):
        n = pair.looks[-1][1]
        why = "rule" if not is_open[k] else "items" if n >= last[k] else ""
        margin = _margin(rule, pair, int(decision[k]), why, LookEstimates(*(values[k : k + 1] for values in estimates)))
        used = tuple(place for place, answer in enumerate(pair.places[: pair.begin]) if answer != ABSENT)
        wins, ties, losses = counts.human[k].tolist()
        judgement = (int(decision[k]), not why, float(estimates.theta[k]))
        results.append((Ruling(pair.number, look, n, wins, ties, losses, *judgement, *margin, used), why))
    return results


def _margin(
    rule: Rule, pair: PairState, decision: int, why: str, estimate: LookEstimates
) -> tuple[float, float, float]:
    """Margin with bounds: simultaneous over all analyses while the pair is open, else by stage-wise ordering.

    The latter applies to a pair that ended as planned: at its boundary, at its last analysis or for futility.
    """
    is_last = pair.looks[-1][0] + 1 == len(rule.looks)
    if why == "rule" or (why and is_last):
        looks, n = np.array(pair.looks).T
        bounds = np.array(rule.bounds)[looks]
        # Theta decides and is exact: a z value next to the boundary is moved to the side given by theta.
        score, edge = estimate.score, bounds[-1] * estimate.error
        if decision:
            score = decision * np.maximum(decision * score, edge * (1 + _NEXT))
        elif is_last:
            score = np.clip(score, -edge * (1 - _NEXT), edge * (1 - _NEXT))
        after = stagewise(score, estimate.error, n=n, bounds=bounds, level=rule.gamma)
        if np.isfinite(after.margin[0]):
            return float(after.margin[0]), float(after.low[0]), float(after.high[0])
    return float(estimate.margin[0]), float(estimate.low[0]), float(estimate.high[0])
