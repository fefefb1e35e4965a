"""What a completed look says of a pair: decided by the rule, with a margin that allows for the looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import Items
from custodes.stats.stopping.allocation import KINDS, kinds_of, outcome_of, tables
from custodes.stats.stopping.rules import Rule, Said, rule_on, said_on
from custodes.stats.stopping.stagewise import stagewise

_NEXT = 1e-6  # to a bound


class Ruling(NamedTuple):
    """What a completed look of a pair said: of `n` answers `wins`, `ties` and `losses` of its first system, from the
    places `used` of its order. `decision` 1, 0 or -1; `is_open` while more are asked. `low` and `high` hold the margin
    at all looks together while more are asked, and once where the pair ended: then it is the median-unbiased one."""

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


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pair, and what its complete looks rest on: `settled`, 1, 0, -1 or `ABSENT` (impossible) at each of the first
    places of its `order`. `most`: usable places in all; `looks`: those there were with the answers at each."""

    pair: int
    systems: tuple[int, int]
    order: Sequence[int]
    settled: Sequence[int]
    most: int
    looks: Sequence[tuple[int, int]]
    metric: Signs | None

    @property
    def n(self) -> int:
        """Usable answers."""
        return sum(own != ABSENT for own in self.settled)


def rulings(rule: Rule, cases: Sequence[Case], *, beside: Sequence[Case], units: Ints) -> list[tuple[Ruling, str]]:
    """The rulings of pairs at one look, and why a pair is closed: 'rule', 'items' or nothing. `beside`: pairs, these
    among them, whose answers count where an estimator or documents look at several; `units` (items,) of each item."""
    (look,) = {case.looks[-1][0] for case in cases}
    human = np.full((len(beside), len(units)), ABSENT, dtype=np.int8)
    for row, case in enumerate(beside):
        human[row, list(case.order[: len(case.settled)])] = case.settled
    at = {case.pair: row for row, case in enumerate(beside)}
    judged = np.zeros(len(beside), dtype=np.bool_)
    judged[[at[case.pair] for case in cases]] = True
    metric = np.full((len(cases), len(units)), ABSENT, dtype=np.int8)
    for row, case in enumerate(cases):
        if case.metric is not None:  # which may be older than some items
            metric[row, : len(case.metric)] = case.metric
    kinds = kinds_of(human[judged], metric)
    counts = tables(np.stack([(kinds == kind).sum(axis=1) for kind in range(KINDS)], axis=1), outcome_of(metric))
    items = None
    if rule.estimator.needs_items or is_clustered(units):
        items = Items(human=human, systems=np.array([case.systems for case in beside]), units=units)
    last = np.array([min(rule.looks[-1], case.most) for case in cases])
    decision, is_open, _ = rule_on(rule, counts, look=look, last=last, items=items, judged=judged)
    said = said_on(rule, counts, look=look, items=items, judged=judged)
    made = []
    for k, case in enumerate(cases):
        why = "rule" if not is_open[k] else "items" if case.n >= last[k] else ""
        margin, low, high = _margin(rule, case, int(decision[k]), why, Said(*(own[k : k + 1] for own in said)))
        wins, ties, losses = counts.human[k].tolist()
        ruling = Ruling(
            pair=case.pair,
            look=look,
            n=case.n,
            wins=wins,
            ties=ties,
            losses=losses,
            decision=int(decision[k]),
            is_open=not why,
            theta=float(said.theta[k]),
            margin=margin,
            low=low,
            high=high,
            used=tuple(place for place, own in enumerate(case.settled) if own != ABSENT),
        )
        made.append((ruling, why))
    return made


def _margin(rule: Rule, case: Case, decision: int, why: str, said: Said) -> tuple[float, float, float]:
    """Margin, low and high: over all looks together while more may come; by the stage-wise ordering of a pair that
    ended as planned, by its bound, at its last look or as hopeless. Betting holds at any time."""
    is_last = case.looks[-1][0] + 1 == len(rule.looks)
    if why and (why == "rule" or is_last) and not rule.deciding.anytime:
        looks, n = np.array(case.looks).T
        bounds = np.array(rule.bounds)[looks]
        # Theta decides, which is exact: a score next to the bound is put on the side where theta is.
        score, edge = said.score, bounds[-1] * said.error
        if decision:
            score = decision * np.maximum(decision * score, edge * (1 + _NEXT))
        elif is_last:
            score = np.clip(score, -edge * (1 - _NEXT), edge * (1 - _NEXT))
        after = stagewise(score, said.error, n=n, bounds=bounds, level=rule.gamma)
        if np.isfinite(after.margin[0]):
            return float(after.margin[0]), float(after.low[0]), float(after.high[0])
    return float(said.margin[0]), float(said.low[0]), float(said.high[0])
