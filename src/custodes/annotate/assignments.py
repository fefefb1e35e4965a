"""Who holds and who answered each unit, between people and the engine that knows only free, leased and settled places.

A unit takes `per_item` answers of different people. The engine gets the sign of their sum, the rule by which annotators
are combined everywhere: the side that more people prefer, and a tie where the sides are equal.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from custodes.annotate.engine import Quota, clusters_of
from custodes.annotate.participants import NOBODY, Assignment, Unit, Worker
from custodes.annotate.plan import StudyPlan, budget_of, rule_of
from custodes.evaluate.protocol.asking import Asking
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs

REFUSALS = 2
"""So many people who cannot judge a unit make it impossible."""


class Assignments:
    """The units of a study. `places` of each pair: (unit, item) in the order asked."""

    def __init__(self, *, per_item: int, workers: Mapping[int, Worker]) -> None:
        self.per_item, self.workers = per_item, workers
        self.asking: Asking | Quota | None = None
        self.units: dict[int, Unit] = {}
        self.places: list[list[Unit]] = []
        self.singles: list[dict[int, Unit]] = []
        """Of each pair the units that have their answers and no second opinion, asked or given."""
        self.seconds_given: list[int] = []
        self.impossible: list[int] = []
        self.numbers: list[int] = []
        """Of each pair its number in the file."""
        self._wanted: dict[int, list[Unit]] = {}
        self._judged = 0
        self.holding = 0
        """Primary questions that people have before them."""
        self.asked_again = 0
        """Second opinions that they have before them."""

    @property
    def engine(self) -> Asking | Quota:
        """The engine, once there are pairs."""
        assert self.asking is not None
        return self.asking

    def add_pairs(self, base: sqlite3.Connection, plan: StudyPlan, *, total: int, last: int) -> None:
        """Add the first `total` pairs of the file, with units up to the `last`, here and to the engine.

        Pairs that are there stay; their new items stand behind the others.
        """
        items = base.execute("SELECT item, cluster FROM item ORDER BY item").fetchall()
        column = {item: k for k, (item, _) in enumerate(items)}
        pairs = base.execute("SELECT pair, first, second FROM pair ORDER BY pair").fetchall()[:total]
        place_of = {pair: k for k, (pair, _, _) in enumerate(pairs)}
        orders: list[list[Unit]] = [[] for _ in pairs]
        query = "SELECT unit, pair, item FROM unit WHERE unit <= ? ORDER BY pair, place"
        for unit, pair, item in base.execute(query, (last,)):
            if (k := place_of.get(pair)) is not None:
                orders[k].append(Unit(id=unit, pair=k, place=len(orders[k]), item=item))
        known = len(self.places)
        later = {k: order[len(self.places[k]) :] for k, order in enumerate(orders[:known])}
        metric = _metric_preferences(base, orders, column)
        for (pair, _, _), order in zip(pairs[known:], orders[known:], strict=True):
            self.numbers.append(pair)
            self.places.append(order)
            self.units |= {unit.id: unit for unit in order}
            self.singles.append({})
            self.seconds_given.append(0)
            self.impossible.append(0)
        for k, units in later.items():
            self.places[k] += units
            self.units |= {unit.id: unit for unit in units}
        asked = [[column[unit.item] for unit in order] for order in orders[known:]]
        if plan.question.mode == "rate":
            if self.asking is None:
                self.asking = Quota(orders=asked, budget=budget_of(plan))
            else:
                assert isinstance(self.asking, Quota)
                self.asking.add(asked)
        else:
            rule = rule_of(plan, pairs=total, items=max([1, *map(len, orders)]), has_metric=metric is not None)
            systems = np.array([(first, second) for _, first, second in pairs], dtype=np.int64).reshape(-1, 2)
            if self.asking is None:
                units_of = clusters_of([cluster for _, cluster in items])
                self.asking = Asking(orders=asked, rule=rule, systems=systems, units=units_of, metric=metric)
            else:
                assert isinstance(self.asking, Asking)
                self.asking.rule = rule
                for k, columns in enumerate(asked, start=known):
                    self.asking.add(columns, systems[k], None if metric is None else metric[k])
        for k, units in later.items():
            if units:
                self.asking.extend(k, [column[unit.item] for unit in units])
        self.changed()

    def wanted(self, pair: int) -> list[Unit]:
        """Units of the present look that are free, the first of the order first; kept as long as the look is asked."""
        if self._judged != len(self.engine.rulings):
            self.changed()
        if pair not in self._wanted:
            places = self.places[pair]
            self._wanted[pair] = [places[place] for place in self.engine.wanted(pair)]
        return self._wanted[pair]

    def open_pairs(self) -> list[int]:
        """Pairs with a unit of the present look that is free."""
        return [pair for pair in range(len(self.places)) if self.wanted(pair)]

    def changed(self) -> None:
        """Looks may have begun or ended anywhere."""
        self._wanted.clear()
        self._judged = len(self.engine.rulings)

    def is_settled(self, unit: Unit) -> bool:
        """Whether it has its answers, or is impossible."""
        return self.engine.is_settled(unit.pair, unit.place)

    def is_present(self, unit: Unit) -> bool:
        """Whether its look is being asked, so that answers may change."""
        return self.engine.in_present_look(unit.pair, unit.place)

    def lacks(self, unit: Unit) -> int:
        """How many more people it may be given to."""
        return self.per_item - len(unit.votes) - len(unit.holders)

    def is_free(self, unit: Unit) -> bool:
        """Whether one more person may answer it as primary."""
        return self.is_present(unit) and not self.is_settled(unit) and self.lacks(unit) > 0

    def hold(self, given: Assignment) -> None:
        """A person has a unit before him; nobody else is asked it where that is enough."""
        unit, worker = self._of(given)
        if given.role == "second":
            self.asked_again += given.id not in unit.asked
            unit.asked |= {given.id}
            self._single(unit)
        elif not worker.excluded and self.is_free(unit):
            given.holds = True
            unit.holders |= {given.id}
            self.holding += 1
            worker.load[unit.pair] += 1
            self._lease(unit)

    def let_go(self, given: Assignment) -> None:
        """He does not, any more."""
        unit, worker = self._of(given)
        if given.role == "second":
            self.asked_again -= given.id in unit.asked
            unit.asked = unit.asked - {given.id} or NOBODY
            self._single(unit)
        elif given.holds:
            self._drop(given, unit, worker)
            self._lease(unit)

    def _drop(self, given: Assignment, unit: Unit, worker: Worker) -> None:
        given.holds = False
        unit.holders = unit.holders - {given.id} or NOBODY
        self.holding -= 1
        worker.load[unit.pair] -= 1

    def vote(self, given: Assignment, value: int) -> None:
        """An answer that counts."""
        unit, worker = self._of(given)
        if given.holds:  # whether it is free is told below
            self._drop(given, unit, worker)
        else:
            self.let_go(given)
        self._agreeing(unit, -1)
        unit.votes = {**unit.votes, worker.id: value} if unit.votes else _alone(worker.id, value)
        self._agreeing(unit, 1)
        worker.votes[unit.id] = given
        worker.load[unit.pair] += 1
        self._complete(unit)
        self._lease(unit)
        self._single(unit)

    def second(self, given: Assignment, value: int) -> None:
        """An answer beside those that count."""
        self.let_go(given)
        unit, worker = self._of(given)
        self._agreeing(unit, -1)
        unit.seconds = {**unit.seconds, worker.id: value} if unit.seconds else _alone(worker.id, value)
        self._agreeing(unit, 1)
        self._single(unit)

    def refuse(self, given: Assignment) -> None:
        """One person cannot judge it; if he is not the first one, nobody can."""
        self.let_go(given)
        unit, worker = self._of(given)
        worker.refused.add(unit.id)
        worker.load[unit.pair] += 1
        self._refused(unit, worker)

    def take_back(self, given: Assignment) -> None:
        """What was said is not said any more."""
        unit, worker = self._of(given)
        self._agreeing(unit, -1)
        unit.seconds = _without(unit.seconds, worker.id)
        if unit.id in worker.refused:
            worker.refused.remove(unit.id)
            worker.load[unit.pair] -= 1
            unit.refused -= {worker.id}
        if worker.votes.get(unit.id) is given:
            self._withdraw(unit, worker)
        self._agreeing(unit, 1)
        self._single(unit)

    def exclude(self, worker: Worker) -> None:
        """Answers of looks that are not complete are free again, and so is what nobody else cannot judge; completed
        looks stay."""
        for unit_id, given in list(worker.votes.items()):
            unit = self.units[unit_id]
            if self.is_present(unit):
                self._agreeing(unit, -1)
                self._withdraw(unit, worker)
                self._agreeing(unit, 1)
                worker.lapsed[unit_id] = given
                self._single(unit)
        again: dict[int, list[int]] = {}
        for unit in sorted(map(self.units.__getitem__, worker.refused), key=_place):
            unit.refused -= {worker.id}
            if len(unit.refused) < REFUSALS:
                again.setdefault(unit.pair, []).append(unit.place)
        for pair, places in sorted(again.items()):
            begun = {unit.place for unit in self.places[pair] if unit.votes or unit.holders}
            back = self.engine.possible(pair, places, begun=begun)
            self.impossible[pair] -= len(back)
            self.changed()
            for place in back:
                self._complete(self.places[pair][place])
                self._lease(self.places[pair][place])

    def restore(self, worker: Worker) -> list[Assignment]:
        """Answers count again where they are still wanted; those that do not, and are second opinions from now on."""
        lapsed, worker.lapsed = worker.lapsed, {}
        beside = []
        for unit_id, given in lapsed.items():
            assert given.value is not None
            if self.is_free(self.units[unit_id]):
                self.vote(given, given.value)
            else:
                given.counts = "second"
                self.second(given, given.value)
                beside.append(given)
        for unit_id in sorted(worker.refused):
            self._refused(self.units[unit_id], worker)
        return beside

    def _refused(self, unit: Unit, worker: Worker) -> None:
        """One person's word that it cannot be judged counts."""
        unit.refused |= {worker.id}
        if len(unit.refused) >= REFUSALS and self.is_present(unit) and not self.is_settled(unit):
            unit.leased = False
            self.impossible[unit.pair] += 1
            self.engine.impossible(unit.pair, unit.place)
            self.changed()

    def _complete(self, unit: Unit) -> None:
        """Tell the engine an answer that enough people have given."""
        if len(unit.votes) >= self.per_item and self.is_present(unit) and not self.is_settled(unit):
            unit.leased = False
            total = sum(unit.votes.values())
            self.engine.answer(unit.pair, unit.place, (total > 0) - (total < 0))

    def _withdraw(self, unit: Unit, worker: Worker) -> None:
        if len(unit.votes) >= self.per_item and self.is_settled(unit):
            self.engine.withdraw(unit.pair, unit.place)
        unit.votes = _without(unit.votes, worker.id)
        del worker.votes[unit.id]
        worker.load[unit.pair] -= 1
        self._lease(unit)

    def _lease(self, unit: Unit) -> None:
        """Tell the engine whether enough people have it."""
        engine, pair, place = self.engine, unit.pair, unit.place
        is_open = engine.in_present_look(pair, place) and not engine.is_settled(pair, place)
        wanted = is_open and self.lacks(unit) <= 0
        if wanted and not unit.leased:
            engine.lease(pair, place)
        elif unit.leased and not wanted:
            engine.release(pair, place)
        unit.leased = wanted
        free = self._wanted.get(pair)
        if free is not None:
            at = bisect_left(free, place, key=_place)
            is_there, is_free = at < len(free) and free[at] is unit, is_open and not wanted
            if is_free and not is_there:
                free.insert(at, unit)
            elif is_there and not is_free:
                del free[at]

    def _single(self, unit: Unit) -> None:
        is_single = len(unit.votes) >= self.per_item and not unit.seconds and not unit.asked
        if is_single:
            self.singles[unit.pair][unit.id] = unit
        else:
            self.singles[unit.pair].pop(unit.id, None)

    def _agreeing(self, unit: Unit, sign: int) -> None:
        """Count (or uncount) who agrees with whom on a unit."""
        if len(unit.votes) + len(unit.seconds) < 2:
            return
        said = [*unit.votes.items(), *unit.seconds.items()]
        for a, own in said:
            work = self.workers[a].work
            work.doubled += sign * (len(said) - 1)
            work.agreed += sign * sum(own == other for b, other in said if b != a)

    def _of(self, given: Assignment) -> tuple[Unit, Worker]:
        assert given.unit is not None
        return self.units[given.unit], given.session.worker


def _place(unit: Unit) -> int:
    return unit.place


@lru_cache(maxsize=4096)
def _alone(person: int, value: int) -> Mapping[int, int]:
    """What one person said, where nobody else did: most units have no more, and share it."""
    return MappingProxyType({person: value})


def _without(table: Mapping[int, int], key: int) -> Mapping[int, int]:
    return {own: value for own, value in table.items() if own != key}


def _metric_preferences(
    base: sqlite3.Connection, orders: Sequence[Sequence[Unit]], column: Mapping[int, int]
) -> Signs | None:
    """(pairs, items) preferences of the metric of the study, if it has one."""
    preferences = dict(base.execute("SELECT unit, preference FROM metric").fetchall())
    if not preferences:
        return None
    signs = np.full((len(orders), len(column)), ABSENT, dtype=np.int8)
    for order in orders:
        for unit in order:
            signs[unit.pair, column[unit.item]] = preferences.get(unit.id, ABSENT)
    return signs
