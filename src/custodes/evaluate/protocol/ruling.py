"""Answers on a pair of systems, and the result of the pair at an interim analysis, with an interval valid for all
analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import PairItems
from custodes.stats.stopping.allocation import KINDS, annotation_kinds, outcome_of, tables
from custodes.stats.stopping.rules import LookEstimates, Rule, analyse_tables, estimates_on
from custodes.stats.stopping.sequential import stagewise

_NEXT = 1e-6  # move to the neighbouring floating-point number


class Ruling(NamedTuple):
    """Result of an interim analysis of a pair.

    `n` is the number of answers: `wins`, `ties` and `losses` of the first system. `used` are the positions of the
    answers in the order of the pair. `decision` is 1, 0 or -1, and `is_open` tells whether more answers are needed.
    `low` and `high` are bounds of the margin. While the pair is open, the bounds hold simultaneously over all analyses.
    After the pair has ended, the bounds hold for the final analysis, and the margin is the median-unbiased estimate.
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
    """A pair of systems with a random `order` of items and an answer at each position of this order.

    An answer (in `places`) is 1, 0, -1 or `ABSENT` (refused); an unsettled position has another value. The current
    interim analysis needs the positions from `begin` to `end`, and `is_judged` tells whether it is complete. `looks`
    are the completed analyses with the numbers of answers. `metric` (items,) are the preferences of the metric.
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

    def usable_places(self, begin: int) -> list[int]:
        """Return the positions from `begin` on that are not refused."""
        return [position for position in range(begin, len(self.places)) if self.places[position] != ABSENT]


def rulings(
    rule: Rule, pairs: Sequence[PairState], *, contributing_pairs: Sequence[PairState], units: Ints
) -> Iterator[tuple[Ruling, str]]:
    """Yield the results of pairs at one interim analysis, with the reason for closing each pair.

    The reason is 'rule', 'items' or empty (the pair stays open). `contributing_pairs` are all pairs (including `pairs`)
    that contribute answers: estimators may use several pairs, and items of several pairs may share clusters. `units`
    (items,) is the cluster of each item.
    """
    (look,) = {pair.looks[-1][0] for pair in pairs}
    human_signs = np.full((len(contributing_pairs), len(units)), ABSENT, dtype=np.int8)
    for row, pair in enumerate(contributing_pairs):
        human_signs[row, list(pair.order[: pair.begin])] = pair.places[: pair.begin]
    numbers = [pair.number for pair in pairs]
    is_judged = np.array([pair.number in numbers for pair in contributing_pairs])
    metric_signs = np.full((len(pairs), len(units)), ABSENT, dtype=np.int8)
    for row, pair in enumerate(pairs):
        if pair.metric is not None:  # the stored order may lack items that were added later
            metric_signs[row, : len(pair.metric)] = pair.metric
    kind_codes = annotation_kinds(human_signs[is_judged], metric_signs)
    outcome_counts = tables(
        np.stack([(kind_codes == kind).sum(axis=1) for kind in range(KINDS)], axis=1), outcome_of(metric_signs)
    )
    pair_items = None
    if rule.estimator.needs_items or is_clustered(units):
        pair_items = PairItems(
            human=human_signs, systems=np.array([pair.systems for pair in contributing_pairs]), units=units
        )
    n_last = np.array([min(rule.looks[-1], pair.usable) for pair in pairs])
    decision, is_open, _ = analyse_tables(
        rule, outcome_counts, look=look, last=n_last, items=pair_items, judged=is_judged
    )
    estimates = estimates_on(rule, outcome_counts, look=look, items=pair_items, judged=is_judged)
    for k, pair in enumerate(pairs):
        n = pair.looks[-1][1]
        reason = "rule" if not is_open[k] else "items" if n >= n_last[k] else ""
        margin_and_bounds = _margin(
            rule, pair, int(decision[k]), reason, LookEstimates(*(values[k : k + 1] for values in estimates))
        )
        used_positions = tuple(
            position for position, answer in enumerate(pair.places[: pair.begin]) if answer != ABSENT
        )
        wins, ties, losses = outcome_counts.human[k].tolist()
        decision_fields = (int(decision[k]), not reason, float(estimates.theta[k]))
        yield (
            Ruling(pair.number, look, n, wins, ties, losses, *decision_fields, *margin_and_bounds, used_positions),
            reason,
        )


def _margin(
    rule: Rule, pair: PairState, decision: int, reason: str, estimate: LookEstimates
) -> tuple[float, float, float]:
    """Return the margin with bounds.

    If a pair ended as planned (at the boundary, at the last analysis or for futility), the bounds use stage-wise
    ordering. Otherwise, they hold simultaneously over all analyses.
    """
    is_last = pair.looks[-1][0] + 1 == len(rule.looks)
    if reason == "rule" or (reason and is_last):
        look_indices, n = np.array(pair.looks).T
        bounds = np.array(rule.bounds)[look_indices]
        # Theta is exact and decides. A z value next to the boundary is moved to the side that theta gives.
        score, threshold = estimate.score, bounds[-1] * estimate.error
        if decision:
            score = decision * np.maximum(decision * score, threshold * (1 + _NEXT))
        elif is_last:
            score = np.clip(score, -threshold * (1 - _NEXT), threshold * (1 - _NEXT))
        stagewise_estimate = stagewise(score, estimate.error, n=n, bounds=bounds, level=rule.gamma)
        if np.isfinite(stagewise_estimate.estimate[0]):
            return (
                float(stagewise_estimate.estimate[0]),
                float(stagewise_estimate.low[0]),
                float(stagewise_estimate.high[0]),
            )
    return float(estimate.margin[0]), float(estimate.low[0]), float(estimate.high[0])
