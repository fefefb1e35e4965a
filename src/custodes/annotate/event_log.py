"""The event log: everything that happened as rows, written to the study file and applied to the state at once.

The limits follow complaints about locks that never clear (label-studio#4781, #4190).
"""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from custodes.annotate.participants import Assignment, Session, Worker
from custodes.annotate.rows import (
    WRITING,
    EventRow,
    JudgmentRow,
    Row,
    happened,
    look_row,
)
from custodes.annotate.state import StudyState
from custodes.data.loading.running import reason
from custodes.errors import CustodesError, InputError

SHORTEST_LEASE, LONGEST_LEASE, TIMES = 60.0, 600.0, 4.0
"""Seconds, and how many times what an answer takes."""


class Leases:
    """Until when questions are kept, by their numbers."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._next = 0.0

    def keep(self, question: int, *, until: float) -> None:
        """Keep it, or keep it longer."""
        self._next = min(self._next, until) if self._until else until
        self._until[question] = until

    def end(self, question: int) -> None:
        """It is answered, or is its person's no more."""
        self._until.pop(question, None)

    def is_kept(self, question: int, now: float) -> bool:
        """Whether its time is not over."""
        return self._until.get(question, now) > now

    def due(self, now: float) -> list[int]:
        """Those whose time is over, in the order in which they were given out; they stay until they are ended."""
        if not self._until or now < self._next:
            return []
        self._next = min(self._until.values())
        return sorted(question for question, until in self._until.items() if until <= now)

    def first(self) -> float | None:
        """When the next one is over at the earliest."""
        return min(self._until.values(), default=None)


def length(paces: Sequence[float], *, is_new: bool) -> float:
    """Seconds of a lease, where answers took `paces` lately; the shortest for somebody who has not answered yet.

    >>> length([20.0, 30.0, 40.0], is_new=False), length([], is_new=False)
    (120.0, 600.0)
    """
    if is_new:
        return SHORTEST_LEASE
    if not paces:
        return LONGEST_LEASE
    return min(LONGEST_LEASE, max(SHORTEST_LEASE, TIMES * median(paces)))


@dataclass(frozen=True, kw_only=True)
class Clock:
    """`wall()` in seconds since the epoch, which may be set back; `steady()`, which is not."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


LARGEST = 2**62
"""A number of what happened at most; SQLite's integers end at twice that."""


class EventLog:
    """A study that is open: its file, what is known of it, and who has what before him."""

    def __init__(self, base: sqlite3.Connection, clock: Clock) -> None:
        self.base, self.clock = base, clock
        self.state: StudyState
        self.leases: Leases
        self.waiting: dict[int, float]
        """Since when visits wait for a question, by a steady clock."""
        self.read()

    def read(self) -> None:
        """Know again what the file says, and no more; `InputError` where its rows do not fit together."""
        try:
            self._read()
        except (CustodesError, sqlite3.Error):
            raise
        except Exception as problem:  # rows that another program changed break any rule of how they fit together
            raise InputError(f"this study cannot be read ({reason(problem)}); put a backup in its place") from problem

    def _read(self) -> None:
        state = StudyState(self.base)
        looks = {
            (pair, look): (decision, bool(is_open))
            for pair, look, decision, is_open in self.base.execute("SELECT pair, look, decision, is_open FROM look")
        }
        ruled = 0
        was_enabled = gc.isenabled()
        gc.disable()  # nothing that is read is garbage, and looking for it takes a sixth of the time
        try:
            for rows in _together(happened(self.base)):
                state.put(rows)
                engine = state.assignments.asking
                if engine is not None and len(engine.rulings) > ruled:
                    ruled = _recalled(state, looks, ruled)
        finally:
            if was_enabled:
                gc.enable()
        if state.last > LARGEST:
            raise OverflowError("no number is left for what happens next")
        self.state, self.leases, self.waiting, self._ruled = state, Leases(), {}, ruled
        now = self.clock.steady()
        for session in self.state.sessions.values():
            for given in session.open:
                if given.unit is not None and not given.expired:
                    self.keep(given, now)

    def put(self, *rows: Row) -> list[Assignment]:
        """Write what happened, and the looks that it completed."""
        self.base.executemany(WRITING[type(rows[0])], rows)
        beside = self.state.put(rows)
        engine = self.state.assignments.asking
        if engine is not None and len(engine.rulings) > self._ruled:
            now = self.clock.wall()
            made = [
                look_row(ruling, pair=self.state.assignments.numbers[ruling.pair], at=now)
                for ruling in engine.rulings[self._ruled :]
            ]
            self.base.executemany("INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", made)
            self._ruled = len(engine.rulings)
        return beside

    @property
    def next(self) -> int:
        """The number of what happens next."""
        return self.state.last + 1

    def event(
        self,
        kind: str,
        *,
        session: Session | None = None,
        worker: Worker | None = None,
        given: Assignment | None = None,
        **said: Any,
    ) -> None:
        """Something else that happened."""
        if session is not None:
            worker = session.worker
        row = EventRow(
            event=self.next,
            at=self.clock.wall(),
            session=None if session is None else session.id,
            worker=None if worker is None else worker.id,
            assignment=None if given is None else given.id,
            kind=kind,
            json=json.dumps(said, ensure_ascii=False),
        )
        self.put(row)

    def keep(self, given: Assignment, now: float) -> None:
        """Keep a question for its person a while (longer)."""
        is_new = not given.session.worker.work.paid
        self.leases.keep(given.id, until=now + length(self.state.paces, is_new=is_new))

    def renew(self, given: Assignment) -> None:
        """Its person is still there, or is back."""
        if given.unit is None or given.session.is_closed or given.session.worker.excluded:
            return
        if given.expired:
            unit = self.state.assignments.units[given.unit]
            if given.role == "primary" and not self.state.assignments.is_free(unit):
                return  # somebody else has it
            self.event("renewed", session=given.session, given=given)
        self.keep(given, self.clock.steady())

    def expire(self) -> None:
        """Give back what was kept too long."""
        for number in self.leases.due(self.clock.steady()):
            given = self.state.given[number]
            if not given.counts and not given.expired:
                self.event("expired", session=given.session, given=given)
            self.leases.end(number)


def _recalled(state: StudyState, looks: dict[tuple[int, int], tuple[int, bool]], ruled: int) -> int:
    """What a look said stays, also where the rule is another one now; how many rulings there are."""
    engine = state.assignments.engine
    for ruling in engine.rulings[ruled:]:
        said = looks.get((state.assignments.numbers[ruling.pair], ruling.look))
        if said is not None:
            engine.decision[ruling.pair], engine.is_open[ruling.pair] = said
    return len(engine.rulings)


def _together(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """One by one, the judgments of a question together."""
    held: list[Row] = []
    question = None
    for row in rows:
        own = row.assignment if type(row) is JudgmentRow else None
        if held and (own is None or own != question):
            yield held
            held = []
        held.append(row)
        question = own
    if held:
        yield held
