"""Assignment of units to annotators, and the engine of rating studies.

A unit is an item of a pair at its position in the order of the pair. An engine decides which positions are open. The
engine knows which positions are settled (answered or refused). It does not know which annotators are answering the
other positions.

A unit needs `per_item` answers from different annotators. The engine gets the sign of the sum of the answers to a unit.
It is 1 or -1 for the side that more annotators prefer, and 0 if the numbers are equal. All other parts of the package
combine annotators in the same way.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from custodes.annotate.participants import NOTHING, Annotator, IssuedQuestion, Unit
from custodes.annotate.plan import StudyPlan, budget_of, rule_of
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation, Ruling
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.stopping.allocation import divide_evenly, iterate_positions

REFUSALS = 2
"""Number of annotators who must report that they cannot judge a unit before the unit counts as refused."""


def clusters_of(cluster_names: Sequence[str]) -> Ints:
    """Return the cluster number of each item. An item without a cluster is a cluster by itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    cluster_or_item_keys = [
        ("cluster", cluster_name) if cluster_name else ("item", item_index)
        for item_index, cluster_name in enumerate(cluster_names)
    ]
    cluster_number_of_key = {
        key: cluster_number for cluster_number, key in enumerate(dict.fromkeys(cluster_or_item_keys))
    }
    return np.array([cluster_number_of_key[key] for key in cluster_or_item_keys], dtype=np.int64)


FREE, ANSWERED, IMPOSSIBLE = range(3)


class Quota:
    """For ratings, `Quota` takes the place of `ConcurrentAnnotation`. Each pair is a single system, there are no
    decisions, and all allocated positions are open at once.

    If the `budget` is smaller than the number of outputs, the budget is divided evenly between the systems, and each
    system uses the first positions of its order. A later division never reduces an allocation. `position_counts` has
    the number of items of each system.
    """

    def __init__(self, position_counts: Sequence[int], *, budget: int | None) -> None:
        self.look = [0] * len(position_counts)
        self.rulings: list[Ruling] = []
        self._statuses_of_pair = [array("b", [FREE] * n_positions) for n_positions in position_counts]
        self._n_allocated_of_pair = [0] * len(position_counts)  # number of allocated positions, from the first one
        self.set_budget(budget)

    def set_budget(self, budget: int | None) -> None:
        """Set the joint budget of all systems; None means unlimited. Outputs that are already allocated stay
        allocated."""
        self._budget = budget
        self._divide_budget()

    def _divide_budget(self) -> None:
        """Divide the remaining budget evenly between the systems that need outputs, until no system needs outputs or
        the budget is spent."""
        n_positions_of_system = np.array(
            [len(position_statuses) for position_statuses in self._statuses_of_pair], dtype=np.int64
        )
        unallocated_counts = n_positions_of_system - np.array(self._n_allocated_of_pair, dtype=np.int64)
        remaining_budget = unallocated_counts.sum() if self._budget is None else max(0, self._budget - sum(self.target))
        for system_index, n_more_positions in enumerate(
            divide_evenly(np.asarray(remaining_budget), unallocated_counts).tolist()
        ):
            self._n_allocated_of_pair[system_index] += n_more_positions

    def _allocated_statuses(self) -> Iterator[array[int]]:
        """Iterate over the statuses of the allocated positions of each system."""
        for position_statuses, n_allocated in zip(self._statuses_of_pair, self._n_allocated_of_pair, strict=True):
            yield position_statuses[:n_allocated]

    @property
    def n(self) -> list[int]:
        """The number of outputs of each system that have all answers."""
        return [position_statuses.count(ANSWERED) for position_statuses in self._allocated_statuses()]

    @property
    def target(self) -> list[int]:
        """The number of outputs allocated to each system, without refused outputs."""
        return [
            len(position_statuses) - position_statuses.count(IMPOSSIBLE)
            for position_statuses in self._allocated_statuses()
        ]

    @property
    def is_open(self) -> list[bool]:
        """Whether each system needs more answers."""
        return [FREE in position_statuses for position_statuses in self._allocated_statuses()]

    def iterate_free_slots(self, pair: int) -> Iterator[int]:
        """Iterate over the free positions of a system, in order."""
        return iterate_positions(self._statuses_of_pair[pair], FREE, 0, self._n_allocated_of_pair[pair])

    def is_in_current_look(self, pair: int, position: int) -> bool:
        """Whether the answer at a position may still be removed. The answer at every allocated position may be removed,
        because ratings have no interim analyses."""
        return 0 <= position < self._n_allocated_of_pair[pair]

    def is_free(self, pair: int, position: int) -> bool:
        """Whether the position is allocated, has no answer, and does not count as refused."""
        return self.is_in_current_look(pair, position) and self._statuses_of_pair[pair][position] == FREE

    def goes_on(self, pair: int) -> bool:
        """Whether positions will be opened later. The result is always false, because all positions are open at
        once."""
        return False

    def answer(self, pair: int, position: int, preference: int) -> None:
        """Record that an output has all its answers."""
        self._statuses_of_pair[pair][position] = ANSWERED

    def impossible(self, pair: int, position: int) -> None:
        """Record that an output cannot be rated. The next output of the system is rated instead; if there is none, the
        allocation passes to other systems."""
        self._statuses_of_pair[pair][position] = IMPOSSIBLE
        self._n_allocated_of_pair[pair] = min(self._n_allocated_of_pair[pair] + 1, len(self._statuses_of_pair[pair]))
        self._divide_budget()

    def possible(self, pair: int, positions: Sequence[int], *, begun_positions: Collection[int] = ()) -> list[int]:
        """Reopen refused positions, and return the reopened positions. Unlike in `ConcurrentAnnotation`,
        `begun_positions` has no effect."""
        reopened_positions = [
            position for position in positions if self._statuses_of_pair[pair][position] == IMPOSSIBLE
        ]
        for position in reopened_positions:
            self._statuses_of_pair[pair][position] = FREE
        return reopened_positions

    def withdraw(self, pair: int, position: int) -> None:
        """Remove an answer. The position is free again."""
        self._statuses_of_pair[pair][position] = FREE


class Assignments:
    """The units of a study. `units_of_pair` has the units of each pair in their order."""

    def __init__(self, connection: sqlite3.Connection, plan: StudyPlan) -> None:
        self.per_item = plan.annotators.per_item
        self.units: dict[int, Unit] = {}
        systems_of_pair = connection.execute("SELECT first, second FROM pair ORDER BY pair").fetchall()
        self.units_of_pair: list[list[Unit]] = [[] for _ in systems_of_pair]
        for unit_id, pair_index, item_index in connection.execute(
            "SELECT unit, pair, item FROM unit ORDER BY pair, place"
        ):
            self.units[unit_id] = Unit(
                id=unit_id, pair=pair_index, place=len(self.units_of_pair[pair_index]), item=item_index
            )
            self.units_of_pair[pair_index].append(self.units[unit_id])
        self.single_units_of_pair: list[dict[int, Unit]] = [{} for _ in systems_of_pair]
        """Units of each pair that have all required answers, and for which no second opinion is given or in
        progress."""
        self.n_second_opinions_of_pair = [0] * len(systems_of_pair)
        self.impossible = [0] * len(systems_of_pair)
        self.n_open_second_opinions = 0
        """Number of second opinions that annotators are giving."""
        self.engine = self._make_engine(connection, plan, systems_of_pair)

    def _make_engine(
        self, connection: sqlite3.Connection, plan: StudyPlan, systems_of_pair: Sequence[tuple[int, int]]
    ) -> ConcurrentAnnotation | Quota:
        item_orders = [[unit.item for unit in units] for units in self.units_of_pair]
        if plan.question.mode == "rate":
            return Quota(list(map(len, item_orders)), budget=budget_of(plan))
        cluster_numbers = clusters_of(
            [cluster_name for (cluster_name,) in connection.execute("SELECT cluster FROM item ORDER BY item")]
        )
        metric_preferences = _metric_preferences(connection, self.units_of_pair, n_items=len(cluster_numbers))
        stopping_rule = rule_of(
            plan,
            n_pairs=len(item_orders),
            max_items=max([1, *map(len, item_orders)]),
            has_metric=metric_preferences is not None,
        )
        return ConcurrentAnnotation(
            orders=item_orders,
            rule=stopping_rule,
            systems=np.array(systems_of_pair, dtype=np.int64).reshape(-1, 2),
            units=cluster_numbers,
            metric=metric_preferences,
        )

    def iterate_free_units(self, pair: int) -> Iterator[Unit]:
        """Iterate over the units of the current interim analysis that further annotators may get, in order."""
        free_position_units = (self.units_of_pair[pair][position] for position in self.engine.iterate_free_slots(pair))
        return (unit for unit in free_position_units if self.lacks(unit) > 0)

    def lacks(self, unit: Unit) -> int:
        """The number of further annotators who may get the unit."""
        return self.per_item - len(unit.votes) - unit.n_holders

    def is_free(self, unit: Unit) -> bool:
        """Whether a further annotator may get the unit as a primary question."""
        return self.engine.is_free(unit.pair, unit.place) and self.lacks(unit) > 0

    def hold(self, issued_question: IssuedQuestion) -> None:
        """Record that an annotator is answering a unit."""
        unit, worker = self._unit_and_annotator(issued_question)
        if issued_question.role == "second":
            issued_question.holds = True
            self.n_open_second_opinions += 1
            unit.n_open_second_opinions += 1
            self._update_single_units(unit)
        elif not worker.excluded and self.is_free(unit):
            issued_question.holds = True
            unit.n_holders += 1
            worker.load[unit.pair] += 1

    def let_go(self, issued_question: IssuedQuestion) -> None:
        """Record that an annotator is no longer answering a unit."""
        if not issued_question.holds:
            return
        issued_question.holds = False
        unit, worker = self._unit_and_annotator(issued_question)
        if issued_question.role == "second":
            self.n_open_second_opinions -= 1
            unit.n_open_second_opinions -= 1
            self._update_single_units(unit)
        else:
            unit.n_holders -= 1
            worker.load[unit.pair] -= 1

    def vote(self, issued_question: IssuedQuestion, answer: int) -> None:
        """Record an answer that counts."""
        self.let_go(issued_question)
        unit, worker = self._unit_and_annotator(issued_question)
        unit.votes = {**unit.votes, worker.id: answer}
        worker.votes[unit.id] = issued_question
        worker.load[unit.pair] += 1
        self._report_if_complete(unit)
        self._update_single_units(unit)

    def second(self, issued_question: IssuedQuestion, answer: int) -> None:
        """Record a second opinion."""
        self.let_go(issued_question)
        unit, worker = self._unit_and_annotator(issued_question)
        unit.second_opinions = {**unit.second_opinions, worker.id: answer}
        self._update_single_units(unit)

    def refuse(self, issued_question: IssuedQuestion) -> None:
        """Record that an annotator cannot judge a unit. The unit counts as refused when `REFUSALS` annotators cannot
        judge it."""
        self.let_go(issued_question)
        unit, worker = self._unit_and_annotator(issued_question)
        worker.refused.add(unit.id)
        worker.load[unit.pair] += 1
        self._count_refusal(unit, worker)

    def take_back(self, issued_question: IssuedQuestion) -> None:
        """Remove an answer that the annotator withdrew."""
        unit, worker = self._unit_and_annotator(issued_question)
        unit.second_opinions = _remove_worker(unit.second_opinions, worker.id)
        if unit.id in worker.refused:
            worker.refused.remove(unit.id)
            worker.load[unit.pair] -= 1
            unit.refused -= {worker.id}
        if worker.votes.get(unit.id) is issued_question:
            self._withdraw_vote(unit, worker)
        self._update_single_units(unit)

    def agreement(self) -> tuple[Counter[int], Counter[int]]:
        """Return two counts for each annotator: how often another annotator answered the same unit, and how often both
        answers were equal."""
        n_comparisons_of_worker, n_agreements_of_worker = Counter[int](), Counter[int]()
        for unit in self.units.values():
            if unit.second_opinions or len(unit.votes) > 1:
                for (worker_id, answer), (_, other_answer) in permutations(
                    (*unit.votes.items(), *unit.second_opinions.items()), 2
                ):
                    n_comparisons_of_worker[worker_id] += 1
                    n_agreements_of_worker[worker_id] += answer == other_answer
        return n_comparisons_of_worker, n_agreements_of_worker

    def exclude(self, worker: Annotator) -> None:
        """Remove the answers and refusals of an annotator from incomplete interim analyses. Completed analyses do not
        change."""
        for unit in map(self.units.__getitem__, list(worker.votes)):
            if self.engine.is_in_current_look(unit.pair, unit.place):
                self._withdraw_vote(unit, worker)
                self._update_single_units(unit)
        refused_positions_of_pair_index: dict[int, list[int]] = {}
        for unit in sorted(map(self.units.__getitem__, worker.refused), key=lambda refused_unit: refused_unit.place):
            unit.refused -= {worker.id}
            if len(unit.refused) < REFUSALS:
                refused_positions_of_pair_index.setdefault(unit.pair, []).append(unit.place)
        for pair_index, refused_positions in sorted(refused_positions_of_pair_index.items()):
            begun_positions = {unit.place for unit in self.units_of_pair[pair_index] if unit.votes or unit.n_holders}
            reopened_positions = self.engine.possible(pair_index, refused_positions, begun_positions=begun_positions)
            self.impossible[pair_index] -= len(reopened_positions)
            for position in reopened_positions:
                self._report_if_complete(self.units_of_pair[pair_index][position])

    def _count_refusal(self, unit: Unit, worker: Annotator) -> None:
        """Count the refusal of a unit by one annotator."""
        unit.refused |= {worker.id}
        if len(unit.refused) >= REFUSALS and self.engine.is_free(unit.pair, unit.place):
            self.impossible[unit.pair] += 1
            self.engine.impossible(unit.pair, unit.place)

    def _report_if_complete(self, unit: Unit) -> None:
        """Report a unit to the engine if the unit has enough answers."""
        if len(unit.votes) >= self.per_item and self.engine.is_free(unit.pair, unit.place):
            vote_sum = sum(unit.votes.values())
            self.engine.answer(unit.pair, unit.place, (vote_sum > 0) - (vote_sum < 0))

    def _withdraw_vote(self, unit: Unit, worker: Annotator) -> None:
        """Remove an answer to a unit of the current interim analysis."""
        if len(unit.votes) >= self.per_item and not self.engine.is_free(unit.pair, unit.place):
            self.engine.withdraw(unit.pair, unit.place)
        unit.votes = _remove_worker(unit.votes, worker.id)
        del worker.votes[unit.id]
        worker.load[unit.pair] -= 1

    def _update_single_units(self, unit: Unit) -> None:
        if len(unit.votes) >= self.per_item and not unit.second_opinions and not unit.n_open_second_opinions:
            self.single_units_of_pair[unit.pair][unit.id] = unit
        else:
            self.single_units_of_pair[unit.pair].pop(unit.id, None)

    def _unit_and_annotator(self, issued_question: IssuedQuestion) -> tuple[Unit, Annotator]:
        assert issued_question.unit is not None
        return issued_question.unit, issued_question.worker


def _remove_worker(answer_of_worker: Mapping[int, int], removed_worker_id: int) -> Mapping[int, int]:
    return {
        worker_id: answer for worker_id, answer in answer_of_worker.items() if worker_id != removed_worker_id
    } or NOTHING


def _metric_preferences(
    connection: sqlite3.Connection, units_of_pair: Sequence[Sequence[Unit]], *, n_items: int
) -> Signs | None:
    """Return the preferences of the study's metric, with shape (pairs, items), or None if the study has no metric."""
    preference_of_unit_id = dict(connection.execute("SELECT unit, preference FROM metric").fetchall())
    if not preference_of_unit_id:
        return None
    preference_matrix = np.full((len(units_of_pair), n_items), ABSENT, dtype=np.int8)
    for pair_units in units_of_pair:
        for unit in pair_units:
            preference_matrix[unit.pair, unit.item] = preference_of_unit_id.get(unit.id, ABSENT)
    return preference_matrix
