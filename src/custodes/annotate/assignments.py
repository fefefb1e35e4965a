"""Assignment of units to annotators, and the engine of rating studies.

A unit is an item of a pair at its position in the order of the pair. An engine decides which positions are open. It
knows which positions are settled (answered or refused), but not which annotators are answering the other positions.

A unit needs `per_item` answers from different annotators. The engine gets the sign of the sum of these answers: 1 or -1
for the side that more annotators prefer, and 0 if the numbers are equal. The whole package combines annotators by this
rule.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

import numpy as np

from custodes.annotate.participants import NOBODY, NOTHING, Annotator, IssuedQuestion, Unit
from custodes.annotate.plan import StudyPlan, budget_of, rule_of
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation, Ruling
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.stopping.allocation import divide_evenly

REFUSALS = 2
"""A unit counts as refused when this number of annotators cannot judge it."""


def clusters_of(clusters: Sequence[str]) -> Ints:
    """Return the cluster number of each item. An item without a cluster is a cluster by itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    cluster_keys = [("cluster", cluster) if cluster else ("item", index) for index, cluster in enumerate(clusters)]
    number_of_key = {key: number for number, key in enumerate(dict.fromkeys(cluster_keys))}
    return np.array([number_of_key[key] for key in cluster_keys], dtype=np.int64)


FREE, ANSWERED, IMPOSSIBLE = range(3)


class Quota:
    """The counterpart of `ConcurrentAnnotation` for ratings. Each pair is a single system, there are no decisions, and
    all allocated positions are open at once.

    If the `budget` is smaller than the number of outputs, it is divided evenly between the systems, and each system
    uses the first positions of its order. A later division never reduces an allocation. Systems and items that are
    added later share the remaining budget. `target` is the number of outputs allocated to each system, and `n` is the
    number of its outputs that have all answers.
    """

    def __init__(self, *, budget: int | None) -> None:
        self._budget = budget
        self.n: list[int] = []
        self.look: list[int] = []
        self.is_open: list[bool] = []
        self.decision: list[int] = []
        self.target: list[int] = []
        self.rulings: list[Ruling] = []
        self._places: list[list[int]] = []
        self._end: list[int] = []  # number of allocated positions, from the first one

    def add(self, sizes: Sequence[int]) -> None:
        """Add systems. `sizes` has the number of items of each system."""
        for size in sizes:
            self._places.append([FREE] * size)
            for counts in (self.n, self.look, self.decision, self.target, self._end):
                counts.append(0)
            self.is_open.append(False)
        self._share()

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Add items to a system."""
        self._places[pair] += [FREE] * len(items)
        self._share()

    def set_budget(self, budget: int | None) -> None:
        """Set the joint budget of all systems. None means unlimited. A budget never removes allocated outputs."""
        self._budget = budget
        self._share()

    def _share(self) -> None:
        """Divide the remaining budget evenly between the systems that need outputs, until no system needs outputs or
        the budget is spent."""
        sizes = np.array([len(statuses) for statuses in self._places], dtype=np.int64)
        lacking_counts = sizes - np.array(self._end, dtype=np.int64)
        remaining_budget = lacking_counts.sum() if self._budget is None else max(0, self._budget - sum(self.target))
        for pair, n_more in enumerate(divide_evenly(np.asarray(remaining_budget), lacking_counts).tolist()):
            self._end[pair] += n_more
            self._count(pair)

    def _count(self, pair: int) -> None:
        """Count the answers and the usable positions among the allocated positions of a system."""
        allocated = self._places[pair][: self._end[pair]]
        self.n[pair] = allocated.count(ANSWERED)
        self.target[pair] = len(allocated) - allocated.count(IMPOSSIBLE)
        self.is_open[pair] = FREE in allocated

    def free_slots(self, pair: int) -> list[int]:
        """The free positions of a system, in order."""
        return [position for position, status in enumerate(self._places[pair][: self._end[pair]]) if status == FREE]

    def is_settled(self, pair: int, position: int) -> bool:
        """Whether the position has an answer or was refused."""
        return self._places[pair][position] != FREE

    def is_in_current_look(self, pair: int, position: int) -> bool:
        """Whether the answer at a position may still be removed. This holds for every allocated position, because
        ratings have no interim analyses."""
        return 0 <= position < self._end[pair]

    def goes_on(self, pair: int) -> bool:
        """Whether positions will be opened later. This is never so, because all positions are open at once."""
        return False

    def answer(self, pair: int, position: int, preference: int) -> None:
        """Record that an output has all its answers."""
        self._places[pair][position] = ANSWERED
        self._count(pair)

    def impossible(self, pair: int, position: int) -> None:
        """Record that an output cannot be rated. The next output of the system is rated instead; if there is none, the
        allocation passes to other systems."""
        self._places[pair][position] = IMPOSSIBLE
        self._end[pair] = min(self._end[pair] + 1, len(self._places[pair]))
        self._count(pair)
        self._share()

    def possible(self, pair: int, positions: Sequence[int], *, begun: Collection[int] = ()) -> list[int]:
        """Reopen refused positions, and return the reopened positions. Unlike in `ConcurrentAnnotation`, `begun` has no
        effect."""
        reopened_positions = [position for position in positions if self._places[pair][position] == IMPOSSIBLE]
        for position in reopened_positions:
            self._places[pair][position] = FREE
        self._count(pair)
        return reopened_positions

    def withdraw(self, pair: int, position: int) -> None:
        """Remove an answer. The position is free again."""
        self._places[pair][position] = FREE
        self._count(pair)


class Assignments:
    """The units of a study. `places` has the units of each pair in their order."""

    def __init__(self, *, per_item: int) -> None:
        self.per_item = per_item
        self.asking: ConcurrentAnnotation | Quota | None = None
        self.units: dict[int, Unit] = {}
        self.places: list[list[Unit]] = []
        self.singles: list[dict[int, Unit]] = []
        """The units of each pair that have all their answers but no second opinion, neither given nor in progress."""
        self.seconds_given: list[int] = []
        self.impossible: list[int] = []
        self.numbers: list[int] = []
        """The number of each pair in the file."""
        self.asked_again = 0
        """Number of second opinions that annotators are giving."""

    @property
    def engine(self) -> ConcurrentAnnotation | Quota:
        """The engine. It exists as soon as the study has pairs."""
        assert self.asking is not None
        return self.asking

    def add_pairs(self, base: sqlite3.Connection, plan: StudyPlan, *, total: int, last: int) -> None:
        """Add pairs and units of the file to the assignments and to the engine. The first `total` pairs are added, and
        their units with numbers up to `last`.

        Existing pairs do not change, and new items of a pair come after the existing items.
        """
        items = base.execute("SELECT item, cluster FROM item ORDER BY item").fetchall()
        column_of_item = {item: k for k, (item, _) in enumerate(items)}
        pairs = base.execute("SELECT pair, first, second FROM pair ORDER BY pair").fetchall()[:total]
        previous_lengths = [len(order) for order in self.places]
        for pair, _, _ in pairs[len(previous_lengths) :]:
            self.numbers.append(pair)
            self.places.append([])
            self.singles.append({})
            self.seconds_given.append(0)
            self.impossible.append(0)
        index_of_pair = {pair: k for k, pair in enumerate(self.numbers)}
        query = "SELECT unit, pair, item FROM unit WHERE unit <= ? ORDER BY pair, place"
        for unit, pair, item in base.execute(query, (last,)):
            if (k := index_of_pair.get(pair)) is not None and unit not in self.units:
                self.units[unit] = Unit(id=unit, pair=k, place=len(self.places[k]), item=item)
                self.places[k].append(self.units[unit])
        orders = [[column_of_item[unit.item] for unit in units] for units in self.places]
        if plan.question.mode == "rate":
            if self.asking is None:
                self.asking = Quota(budget=budget_of(plan))
            assert isinstance(self.asking, Quota)
            self.asking.add([len(order) for order in orders[len(previous_lengths) :]])
        else:
            metric_signs = _metric_preferences(base, self.places, column_of_item)
            rule = rule_of(plan, pairs=total, items=max([1, *map(len, orders)]), has_metric=metric_signs is not None)
            systems = np.array([(first, second) for _, first, second in pairs], dtype=np.int64).reshape(-1, 2)
            if self.asking is None:
                clusters = clusters_of([cluster for _, cluster in items])
                self.asking = ConcurrentAnnotation(
                    orders=orders, rule=rule, systems=systems, units=clusters, metric=metric_signs
                )
            else:
                assert isinstance(self.asking, ConcurrentAnnotation)
                self.asking.rule = rule
                for k in range(len(previous_lengths), total):
                    self.asking.add(orders[k], systems[k], None if metric_signs is None else metric_signs[k])
        for k, length in enumerate(previous_lengths):
            if orders[k][length:]:
                self.asking.extend(k, orders[k][length:])

    def free_slots(self, pair: int) -> list[Unit]:
        """The units of the current interim analysis that further annotators may get, in order."""
        units = (self.places[pair][position] for position in self.engine.free_slots(pair))
        return [unit for unit in units if self.lacks(unit) > 0]

    def is_settled(self, unit: Unit) -> bool:
        """Whether the unit has all its answers or counts as refused."""
        return self.engine.is_settled(unit.pair, unit.place)

    def is_present(self, unit: Unit) -> bool:
        """Whether the unit belongs to the current interim analysis. The answers of such a unit may still change."""
        return self.engine.is_in_current_look(unit.pair, unit.place)

    def lacks(self, unit: Unit) -> int:
        """The number of further annotators who may get the unit."""
        return self.per_item - len(unit.votes) - len(unit.holders)

    def is_free(self, unit: Unit) -> bool:
        """Whether a further annotator may get the unit as a primary question."""
        return self.is_present(unit) and not self.is_settled(unit) and self.lacks(unit) > 0

    def hold(self, issued: IssuedQuestion) -> None:
        """Record that an annotator is answering a unit."""
        unit, worker = self._unit_and_annotator(issued)
        if issued.role == "second":
            self.asked_again += issued.id not in unit.asked
            unit.asked |= {issued.id}
            self._single(unit)
        elif not worker.excluded and self.is_free(unit):
            issued.holds = True
            unit.holders |= {issued.id}
            worker.load[unit.pair] += 1

    def let_go(self, issued: IssuedQuestion) -> None:
        """Record that an annotator is no longer answering a unit."""
        unit, worker = self._unit_and_annotator(issued)
        if issued.role == "second":
            self.asked_again -= issued.id in unit.asked
            unit.asked = unit.asked - {issued.id} or NOBODY
            self._single(unit)
        elif issued.holds:
            issued.holds = False
            unit.holders = unit.holders - {issued.id} or NOBODY
            worker.load[unit.pair] -= 1

    def vote(self, issued: IssuedQuestion, value: int) -> None:
        """Record an answer that counts."""
        self.let_go(issued)
        unit, worker = self._unit_and_annotator(issued)
        unit.votes = {**unit.votes, worker.id: value}
        worker.votes[unit.id] = issued
        worker.load[unit.pair] += 1
        self._complete(unit)
        self._single(unit)

    def second(self, issued: IssuedQuestion, value: int) -> None:
        """Record a second opinion."""
        self.let_go(issued)
        unit, worker = self._unit_and_annotator(issued)
        unit.seconds = {**unit.seconds, worker.id: value}
        self._single(unit)

    def refuse(self, issued: IssuedQuestion) -> None:
        """Record that an annotator cannot judge a unit. The unit counts as refused when `REFUSALS` annotators cannot
        judge it."""
        self.let_go(issued)
        unit, worker = self._unit_and_annotator(issued)
        worker.refused.add(unit.id)
        worker.load[unit.pair] += 1
        self._count_refusal(unit, worker)

    def take_back(self, issued: IssuedQuestion) -> None:
        """Remove an answer that the annotator withdrew."""
        unit, worker = self._unit_and_annotator(issued)
        unit.seconds = _remove_worker(unit.seconds, worker.id)
        if unit.id in worker.refused:
            worker.refused.remove(unit.id)
            worker.load[unit.pair] -= 1
            unit.refused -= {worker.id}
        if worker.votes.get(unit.id) is issued:
            self._withdraw(unit, worker)
        self._single(unit)

    def agreement(self) -> tuple[Counter[int], Counter[int]]:
        """Return two counts for each annotator: how often another annotator answered the same unit, and how often both
        answers were equal."""
        comparisons_of_worker, agreements_of_worker = Counter[int](), Counter[int]()
        for unit in self.units.values():
            if unit.seconds or len(unit.votes) > 1:
                for (worker, value), (_, other_value) in permutations((*unit.votes.items(), *unit.seconds.items()), 2):
                    comparisons_of_worker[worker] += 1
                    agreements_of_worker[worker] += value == other_value
        return comparisons_of_worker, agreements_of_worker

    def exclude(self, worker: Annotator) -> None:
        """Remove the answers and refusals of an annotator from incomplete interim analyses. Completed analyses do not
        change."""
        for unit_id, issued in list(worker.votes.items()):
            unit = self.units[unit_id]
            if self.is_present(unit):
                self._withdraw(unit, worker)
                worker.lapsed[unit_id] = issued
                self._single(unit)
        positions_to_reopen: dict[int, list[int]] = {}
        for unit in sorted(map(self.units.__getitem__, worker.refused), key=lambda refused: refused.place):
            unit.refused -= {worker.id}
            if len(unit.refused) < REFUSALS:
                positions_to_reopen.setdefault(unit.pair, []).append(unit.place)
        for pair, positions in sorted(positions_to_reopen.items()):
            begun_positions = {unit.place for unit in self.places[pair] if unit.votes or unit.holders}
            reopened_positions = self.engine.possible(pair, positions, begun=begun_positions)
            self.impossible[pair] -= len(reopened_positions)
            for position in reopened_positions:
                self._complete(self.places[pair][position])

    def restore(self, worker: Annotator) -> list[IssuedQuestion]:
        """Count the answers of a readmitted annotator again if they are still needed. Return the answers that become
        second opinions instead."""
        lapsed_answers, worker.lapsed = worker.lapsed, {}
        new_second_opinions = []
        for unit_id, issued in lapsed_answers.items():
            assert issued.value is not None
            if self.is_free(self.units[unit_id]):
                self.vote(issued, issued.value)
            else:
                issued.counts = "second"
                self.second(issued, issued.value)
                new_second_opinions.append(issued)
        for unit_id in sorted(worker.refused):
            self._count_refusal(self.units[unit_id], worker)
        return new_second_opinions

    def _count_refusal(self, unit: Unit, worker: Annotator) -> None:
        """Count the refusal of a unit by one annotator."""
        unit.refused |= {worker.id}
        if len(unit.refused) >= REFUSALS and self.is_present(unit) and not self.is_settled(unit):
            self.impossible[unit.pair] += 1
            self.engine.impossible(unit.pair, unit.place)

    def _complete(self, unit: Unit) -> None:
        """Report a unit to the engine if the unit has enough answers."""
        if len(unit.votes) >= self.per_item and self.is_present(unit) and not self.is_settled(unit):
            vote_sum = sum(unit.votes.values())
            self.engine.answer(unit.pair, unit.place, (vote_sum > 0) - (vote_sum < 0))

    def _withdraw(self, unit: Unit, worker: Annotator) -> None:
        if len(unit.votes) >= self.per_item and self.is_settled(unit):
            self.engine.withdraw(unit.pair, unit.place)
        unit.votes = _remove_worker(unit.votes, worker.id)
        del worker.votes[unit.id]
        worker.load[unit.pair] -= 1

    def _single(self, unit: Unit) -> None:
        if len(unit.votes) >= self.per_item and not unit.seconds and not unit.asked:
            self.singles[unit.pair][unit.id] = unit
        else:
            self.singles[unit.pair].pop(unit.id, None)

    def _unit_and_annotator(self, issued: IssuedQuestion) -> tuple[Unit, Annotator]:
        assert issued.unit is not None
        return self.units[issued.unit], issued.session.worker


def _remove_worker(value_of_worker: Mapping[int, int], removed_id: int) -> Mapping[int, int]:
    return {worker_id: value for worker_id, value in value_of_worker.items() if worker_id != removed_id} or NOTHING


def _metric_preferences(
    base: sqlite3.Connection, orders: Sequence[Sequence[Unit]], column_of_item: Mapping[int, int]
) -> Signs | None:
    """Return the preferences of the study's metric, with shape (pairs, items), or None if the study has no metric."""
    preference_of_unit = dict(base.execute("SELECT unit, preference FROM metric").fetchall())
    if not preference_of_unit:
        return None
    signs = np.full((len(orders), len(column_of_item)), ABSENT, dtype=np.int8)
    for order in orders:
        for unit in order:
            signs[unit.pair, column_of_item[unit.item]] = preference_of_unit.get(unit.id, ABSENT)
    return signs
