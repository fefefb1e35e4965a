"""A live protocol with many annotators: open questions, and decisions on pairs at interim analyses.

The interval of a decision is valid for all analyses.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs, require
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import PairItems
from custodes.stats.stopping.allocation import (
    KINDS,
    annotation_kinds,
    grant_requests,
    iterate_positions,
    outcome_of,
    tables,
)
from custodes.stats.stopping.rules import LookEstimates, Rule, analyse_tables, estimates_on
from custodes.stats.stopping.sequential import stagewise

FREE = 2
"""Value of an unanswered position. A settled position has one of the values 1, 0, -1 and `ABSENT` (refused)."""

_NEXT = 1e-6  # move to the neighbouring floating-point number


class Ruling(NamedTuple):
    """Result of an interim analysis of a pair.

    `n` is the number of answers, the sum of `wins`, `ties` and `losses` of the first system. `used` are the positions
    of the answers in the order of the pair. `decision` is 1, 0 or -1. `is_open` tells whether more answers are needed.
    `low` and `high` are bounds of the margin. While the pair is open, the bounds hold simultaneously for all interim
    analyses. After the pair has ended, the bounds hold for the final analysis, and the margin is the median-unbiased
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
    """A pair of systems with a random `order` of items and an answer at each position of this order.

    An answer (in `places`) is 1, 0, -1 or `ABSENT` (refused); an unsettled position is `FREE`. The current interim
    analysis needs the positions from `begin` to `end`, and `is_judged` tells whether it is complete. `looks` are the
    completed analyses with the numbers of answers. `metric` (items,) are the preferences of the metric.
    """

    number: int
    systems: tuple[int, int]
    order: tuple[int, ...]
    places: array[int]
    metric: Signs | None = None
    begin: int = 0
    end: int = 0
    is_judged: bool = True
    looks: tuple[tuple[int, int], ...] = ()

    @property
    def usable(self) -> int:
        """Number of positions that are not refused."""
        return len(self.usable_places(0))

    def usable_places(self, begin: int) -> Ints:
        """Return the positions from `begin` on that are not refused."""
        return begin + np.flatnonzero(np.array(self.places[begin:]) != ABSENT)


class ConcurrentAnnotation:
    """The state of a live protocol. A live protocol receives answers and returns open questions and decisions. The
    state uses no clock and no files. Each pair has a random order of items in `orders`; a position is an index in this
    order. `systems` (pairs, 2) are the systems of each pair. `units` (items,) is the cluster of each item. `metric`
    (pairs, items) are preferences of the metric. An interim analysis of a pair uses the first usable (not refused)
    positions of the order, and takes place when all these positions are settled. Answers at later positions are ignored
    until then, so the speed of annotators has no effect. A pair proceeds without waiting for other pairs, except in two
    cases:

    - If the estimator uses all pairs, or if items that a pair may need share a cluster, interim analyses are common to
    all pairs.
    - If the budget may not cover another analysis of all undecided pairs, a pair waits until all pairs have completed
    the current analysis. The remaining answers are then shared evenly, and the first pairs get the remainder. The
    shares depend on which pairs are undecided, never on the speed of annotators.

    Six lists have an entry per pair. `n` is the number of usable answers, `look` is the current or last interim
    analysis, and `target` is the number of usable answers at the end of this analysis. `is_open` says whether the pair
    needs more answers, and `decision` is the decision. `why` is the reason for closing: 'rule', 'items' (no more items
    or analyses) or 'budget'. `rulings` are the results of all analyses so far. If analyses are common, one answer may
    lead to several rulings. The state depends on the events and the answers, but not on the order of the answers.
    """

    def __init__(
        self, *, orders: Sequence[Sequence[int]], rule: Rule, systems: Ints, units: Ints, metric: Signs | None = None
    ) -> None:
        self.rule = rule
        self.n: list[int] = []
        self.look: list[int] = []
        self.is_open: list[bool] = []
        self.decision: list[int] = []
        self.why: list[str] = []
        self.target: list[int] = []
        self.rulings: list[Ruling] = []
        self.is_common = rule.estimator.needs_items
        self._units = np.asarray(units)
        self._pairs: list[PairState] = []
        for pair_index, item_order in enumerate(orders):
            self._append(item_order, systems[pair_index], None if metric is None else metric[pair_index])
        self._start_next_looks()

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """The items of every pair in random order."""
        return [pair_state.order for pair_state in self._pairs]

    def copy(self) -> ConcurrentAnnotation:
        """Return an independent copy."""
        annotation_copy = object.__new__(ConcurrentAnnotation)
        vars(annotation_copy).update(
            {name: list(value) if isinstance(value, list) else value for name, value in vars(self).items()}
        )
        annotation_copy._pairs = [replace(pair_state, places=pair_state.places[:]) for pair_state in self._pairs]
        return annotation_copy

    def free_slots(self, pair: int) -> list[int]:
        """Return the free positions of the current analysis in ascending order."""
        return list(self.iterate_free_slots(pair))

    def iterate_free_slots(self, pair: int) -> Iterator[int]:
        """Iterate over the free positions of the current analysis in ascending order."""
        pair_state = self._pairs[pair]
        if self.is_open[pair] and not pair_state.is_judged:
            yield from iterate_positions(pair_state.places, FREE, pair_state.begin, pair_state.end)

    def is_settled(self, pair: int, position: int) -> bool:
        """Whether the position has an answer or was refused."""
        return self._pairs[pair].places[position] != FREE

    def is_in_current_look(self, pair: int, position: int) -> bool:
        """Whether the position belongs to the current interim analysis, settled or not."""
        pair_state = self._pairs[pair]
        return self.is_open[pair] and not pair_state.is_judged and pair_state.begin <= position < pair_state.end

    def is_free(self, pair: int, position: int) -> bool:
        """Whether the position belongs to the current interim analysis and is not settled."""
        return self.is_in_current_look(pair, position) and self._pairs[pair].places[position] == FREE

    def goes_on(self, pair: int) -> bool:
        """Whether another interim analysis may follow the current one."""
        may_get_more_answers = min(self.rule.looks[-1], self._pairs[pair].usable) > self.target[pair]
        return self.is_open[pair] and may_get_more_answers and self._count_answers_at_completion() < self.rule.budget

    def answer(self, pair: int, position: int, preference: int) -> Ruling | None:
        """Record a preference, or `ABSENT` for a refusal, at an unsettled position of the current interim analysis.

        If the answer completes the analysis, the ruling is returned. A refusal means that annotators cannot judge the
        comparison. The next usable position replaces the refused position. Without such a position, the analysis has
        one answer fewer. The preference is unknown, so refusals never count as ties.
        """
        require(preference in (1, 0, -1, ABSENT), f"preference {preference} is not 1, 0, -1 or {ABSENT} (refused)")
        self._set_position(pair, position, preference, (FREE,))
        pair_state = self._pairs[pair]
        if preference != ABSENT:
            self.n[pair] += 1
        elif len(usable_later_positions := pair_state.usable_places(pair_state.end)):
            pair_state.end = int(usable_later_positions[0]) + 1
        else:
            self.target[pair] -= 1
        return self._analyse_pairs(pair)

    def impossible(self, pair: int, position: int) -> Ruling | None:
        """Record a refusal; see `answer`."""
        return self.answer(pair, position, ABSENT)

    def possible(self, pair: int, positions: Sequence[int], *, begun_positions: Collection[int] = ()) -> list[int]:
        """Reopen refused positions, and return the reopened positions.

        Positions that a completed analysis excluded stay refused. The current analysis is determined again from the
        first usable positions. Later positions that have an answer, or that are in `begun_positions`, remain part of
        the analysis. The analysis may therefore become slightly larger.
        """
        pair_state = self._pairs[pair]
        first_reopenable = pair_state.begin if pair_state.looks else 0
        reopened_positions = [
            position for position in positions if position >= first_reopenable and pair_state.places[position] == ABSENT
        ]
        for position in reopened_positions:
            pair_state.places[position] = FREE
        if reopened_positions and pair_state.is_judged:  # the pair was closed without an answer
            pair_state.begin, self.look[pair] = 0, -1
            self._reopen_pairs("items")
        elif reopened_positions:
            self._refit(pair, reopened_positions, begun_positions)
        return reopened_positions

    def withdraw(self, pair: int, position: int) -> None:
        """Remove an answer from an incomplete analysis; the position becomes free again."""
        self._set_position(pair, position, FREE, (1, 0, -1))
        self.n[pair] -= 1

    def set_budget(self, budget: int | None) -> None:
        """Set the joint budget of all pairs (None: unlimited).

        The budget covers at least the answers already requested. Pairs that were closed by the budget continue."""
        self.rule = replace(self.rule, budget=sys.maxsize if budget is None else budget)
        self._reopen_pairs("budget")

    # --- one pair

    def _append(self, item_order: Sequence[int], systems: Sequence[int], metric_signs: Signs | None) -> None:
        first_system, second_system = map(int, systems)
        pair_state = PairState(
            number=len(self._pairs),
            systems=(first_system, second_system),
            order=tuple(map(int, item_order)),
            places=array("b", [FREE] * len(item_order)),
            metric=metric_signs,
        )
        self._pairs.append(pair_state)
        self.n.append(0)
        self.target.append(0)
        self.decision.append(0)
        self.look.append(-1)
        self.is_open.append(True)
        self.why.append("")
        self.is_common |= is_clustered(self._units[list(pair_state.order[: self.rule.looks[-1]])])

    def _set_position(self, pair: int, position: int, new_value: int, replaceable_values: Sequence[int]) -> None:
        """Change a position of the current analysis from one of `replaceable_values` to `new_value`.

        Raise `ValueError` for other positions, and for a value that is not allowed."""
        require(
            self.is_in_current_look(pair, position) and self._pairs[pair].places[position] in replaceable_values,
            f"answer {position} of pair {pair} cannot be changed now",
        )
        self._pairs[pair].places[position] = new_value

    def _refit(self, pair: int, reopened_positions: Sequence[int], begun_positions: Collection[int]) -> None:
        """Determine the end of the current analysis again, after `reopened_positions` became usable."""
        pair_state = self._pairs[pair]
        n_earlier_answers = pair_state.looks[-1][1] if pair_state.looks else 0
        usable_positions = pair_state.usable_places(pair_state.begin).tolist()
        n_needed = self.target[pair] - n_earlier_answers
        usable_later_positions = {position for position in usable_positions if position >= pair_state.end}
        if usable_later_positions <= {*reopened_positions}:  # the analysis may have been shortened for lack of items
            n_needed = min(
                n_needed + len(reopened_positions),
                max(n_needed, self.rule.looks[self.look[pair]] - n_earlier_answers),
            )
        is_settled_or_begun = [
            pair_state.places[position] != FREE or position in begun_positions for position in usable_positions
        ]
        n_needed = max(n_needed, 1 + int(np.flatnonzero(is_settled_or_begun).max(initial=-1)))
        self.target[pair] = n_earlier_answers + n_needed
        pair_state.end = usable_positions[n_needed - 1] + 1

    def _close(self, pair: int, reason: str) -> None:
        self.is_open[pair], self.why[pair] = False, reason

    def _reopen_pairs(self, closing_reason: str) -> None:
        for pair_index, pair_reason in enumerate(self.why):
            if pair_reason == closing_reason:
                self.is_open[pair_index], self.why[pair_index] = True, ""
        self._start_next_looks()

    # --- interim analyses

    def _analyse_pairs(self, pair: int) -> Ruling | None:
        """Analyse completed pairs, and return the ruling of this pair."""
        if self.n[pair] < self.target[pair]:
            return None
        due_pairs = [pair]
        if self.is_common:
            pairs_under_analysis = [i for i in range(len(self.n)) if self.is_open[i] and not self._pairs[i].is_judged]
            due_pairs = [i for i in pairs_under_analysis if self.n[i] >= self.target[i]]
            if len(due_pairs) < len(pairs_under_analysis):
                return None
        ruling_of_pair = self._decide_pairs(due_pairs)
        self._start_next_looks()
        ruling_of_pair = {i: ruling._replace(is_open=self.is_open[i]) for i, ruling in ruling_of_pair.items()}
        self.rulings += ruling_of_pair.values()
        return ruling_of_pair.get(pair)

    def _decide_pairs(self, due_pairs: list[int]) -> dict[int, Ruling]:
        """Decide on the pairs with a completed analysis, and return the rulings by pair.

        A pair without answers is closed and stays undecided.
        """
        for pair in due_pairs:
            pair_state = self._pairs[pair]
            pair_state.is_judged, pair_state.begin = True, pair_state.end
            if self.n[pair]:
                pair_state.looks = (*pair_state.looks, (self.look[pair], self.n[pair]))
            else:
                self._close(pair, "items")
        due_pairs = [pair for pair in due_pairs if self.is_open[pair]]
        ruling_of_pair = {}
        for look in sorted({self.look[pair] for pair in due_pairs}):
            look_pair_states = [self._pairs[pair] for pair in due_pairs if self.look[pair] == look]
            contributing_states = self._pairs if self.is_common else look_pair_states
            for ruling, closing_reason in rulings(
                self.rule, look_pair_states, contributing_states=contributing_states, units=self._units
            ):
                ruling_of_pair[ruling.pair], self.decision[ruling.pair] = ruling, ruling.decision
                if closing_reason:
                    self._close(ruling.pair, closing_reason)
        return ruling_of_pair

    def _start_next_looks(self) -> None:
        """Start the next analysis of every pair with a completed analysis, as far as the budget allows.

        If the budget may not cover the next analysis of all undecided pairs, the pair waits for the other pairs; then
        the undecided pairs share the remaining budget evenly.
        """
        pair_looks = []
        for pair_index in range(len(self.n)):
            if self.is_open[pair_index] and self._pairs[pair_index].is_judged:
                later_looks = range(self.look[pair_index] + 1, len(self.rule.looks))
                look = next((look for look in later_looks if self._count_missing_answers(pair_index, look) > 0), None)
                if look is None:  # no further analysis needs answers
                    self._close(pair_index, "items")
                else:
                    pair_looks.append((pair_index, look))
        covered_looks = {look for look in {look for _, look in pair_looks} if self._is_covered(look)}
        uncovered_pair_looks = [(pair_index, look) for pair_index, look in pair_looks if look not in covered_looks]
        for pair_index, look in pair_looks:
            if look in covered_looks:
                self._start_look(pair_index, look, self._count_missing_answers(pair_index, look))
        if not uncovered_pair_looks:
            return
        n_answers_at_completion = self._count_answers_at_completion()
        has_incomplete_look = any(self.is_open[state.number] and not state.is_judged for state in self._pairs)
        if has_incomplete_look and n_answers_at_completion < self.rule.budget:
            return  # wait until the other pairs have completed their analyses
        n_missing_answers = np.array([self._count_missing_answers(*pair_look) for pair_look in uncovered_pair_looks])
        n_granted_answers = grant_requests(
            n_missing_answers, np.array(max(0, self.rule.budget - n_answers_at_completion))
        )
        for (pair_index, look), n_granted in zip(uncovered_pair_looks, n_granted_answers.tolist(), strict=True):
            if n_granted:
                self._start_look(pair_index, look, n_granted)
            else:
                self._close(pair_index, "budget")

    def _count_answers_at_completion(self) -> int:
        """Return the number of answers at the time when all current analyses will be complete."""
        return sum(self.target[pair] if self.is_open[pair] else self.n[pair] for pair in range(len(self.n)))

    def _count_missing_answers(self, pair: int, look: int) -> int:
        """Return the number of further answers that an interim analysis needs."""
        return min(self.rule.looks[look], self._pairs[pair].usable) - self.n[pair]

    def _is_covered(self, look: int) -> bool:
        """Whether the budget covers this analysis even if every undecided pair reaches it."""
        if self.rule.budget == sys.maxsize:
            return True
        n_further_answers = sum(
            max(0, self.n[pair_index] + self._count_missing_answers(pair_index, look) - self.target[pair_index])
            for pair_index in np.flatnonzero(self.is_open).tolist()
        )
        return self._count_answers_at_completion() + n_further_answers <= self.rule.budget

    def _start_look(self, pair: int, look: int, n_answers: int) -> None:
        pair_state = self._pairs[pair]
        self.look[pair], pair_state.is_judged = look, False
        self.target[pair] = self.n[pair] + n_answers
        pair_state.end = int(pair_state.usable_places(pair_state.begin)[n_answers - 1]) + 1


def rulings(
    rule: Rule, pair_states: Sequence[PairState], *, contributing_states: Sequence[PairState], units: Ints
) -> Iterator[tuple[Ruling, str]]:
    """Yield the results of pairs at one interim analysis, with the reason for closing each pair.

    The reason is 'rule', 'items' or empty (the pair stays open). `contributing_states` are all pairs (including
    `pair_states`) that contribute answers: estimators may use several pairs, and items of several pairs may share
    clusters. `units` (items,) is the cluster of each item.
    """
    (look,) = {pair_state.looks[-1][0] for pair_state in pair_states}
    human_signs = np.full((len(contributing_states), len(units)), ABSENT, dtype=np.int8)
    for row_index, pair_state in enumerate(contributing_states):
        human_signs[row_index, list(pair_state.order[: pair_state.begin])] = pair_state.places[: pair_state.begin]
    is_analysed_pair = np.isin(
        [pair_state.number for pair_state in contributing_states], [pair_state.number for pair_state in pair_states]
    )
    metric_signs = np.full((len(pair_states), len(units)), ABSENT, dtype=np.int8)
    for row_index, pair_state in enumerate(pair_states):
        if pair_state.metric is not None:
            metric_signs[row_index] = pair_state.metric
    kind_codes = annotation_kinds(human_signs[is_analysed_pair], metric_signs)
    outcome_counts = tables(
        np.stack([(kind_codes == kind_code).sum(axis=1) for kind_code in range(KINDS)], axis=1),
        outcome_of(metric_signs),
    )
    pair_items = None
    if rule.estimator.needs_items or is_clustered(units):
        pair_items = PairItems(
            human=human_signs, systems=np.array([pair_state.systems for pair_state in contributing_states]), units=units
        )
    n_at_last_analysis = np.array([min(rule.looks[-1], pair_state.usable) for pair_state in pair_states])
    decisions, is_open_pair, _ = analyse_tables(
        rule,
        outcome_counts,
        analysis_index=look,
        n_at_last_analysis=n_at_last_analysis,
        items=pair_items,
        is_analysed_pair=is_analysed_pair,
    )
    estimates = estimates_on(
        rule, outcome_counts, analysis_index=look, items=pair_items, is_analysed_pair=is_analysed_pair
    )
    for pair_index, pair_state in enumerate(pair_states):
        n_answers = pair_state.looks[-1][1]
        closing_reason = (
            "rule" if not is_open_pair[pair_index] else "items" if n_answers >= n_at_last_analysis[pair_index] else ""
        )
        margin_and_bounds = _margin(
            rule,
            pair_state,
            int(decisions[pair_index]),
            closing_reason,
            LookEstimates(*(estimate_by_pair[pair_index : pair_index + 1] for estimate_by_pair in estimates)),
        )
        used_positions = np.flatnonzero(np.array(pair_state.places[: pair_state.begin]) != ABSENT)
        wins, ties, losses = outcome_counts.human[pair_index].tolist()
        ruling = Ruling(
            *(pair_state.number, look, n_answers, wins, ties, losses),
            *(int(decisions[pair_index]), not closing_reason, float(estimates.theta[pair_index])),
            *margin_and_bounds,
            tuple(used_positions.tolist()),
        )
        yield ruling, closing_reason


def _margin(
    rule: Rule, pair: PairState, decision: int, closing_reason: str, look_estimates: LookEstimates
) -> tuple[float, float, float]:
    """Return the margin with bounds.

    If a pair ended as planned (at the boundary, at the last analysis or for futility), the bounds use stage-wise
    ordering. Otherwise, the bounds hold simultaneously over all analyses.
    """
    is_last_look = pair.looks[-1][0] + 1 == len(rule.looks)
    if closing_reason == "rule" or (closing_reason and is_last_look):
        look_indices, answer_counts = np.array(pair.looks).T
        boundary_values = np.array(rule.bounds)[look_indices]
        # Theta is exact, so theta decides. If z is near the boundary, z is moved to the side of the boundary that
        # agrees with theta.
        score_statistic, boundary_score = look_estimates.score, boundary_values[-1] * look_estimates.error
        if decision:
            score_statistic = decision * np.maximum(decision * score_statistic, boundary_score * (1 + _NEXT))
        elif is_last_look:
            score_statistic = np.clip(score_statistic, -boundary_score * (1 - _NEXT), boundary_score * (1 - _NEXT))
        stagewise_estimate = stagewise(
            score_statistic, look_estimates.error, n_annotations=answer_counts, bounds=boundary_values, level=rule.gamma
        )
        if np.isfinite(stagewise_estimate.estimate[0]):
            margin, low, high = (float(margin_or_bound[0]) for margin_or_bound in stagewise_estimate[:3])
            return margin, low, high
    return float(look_estimates.margin[0]), float(look_estimates.low[0]), float(look_estimates.high[0])
