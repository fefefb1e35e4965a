"""The event log: everything that happened as rows, written to the study file and applied to the state at once.

The limits follow complaints about locks that never clear (label-studio#4781, #4190).
"""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from custodes.annotate.participants import Annotator, IssuedQuestion, Session
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
        self.leases: dict[int, float]
        """Until when questions are kept, by their numbers and a steady clock."""
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
            raise InputError(f"this study cannot be read ({reason(problem)}); restore a backup") from problem

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
            for _, rows in groupby(happened(self.base), key=_question):
                state.put(list(rows))
                engine = state.assignments.asking
                if engine is not None and len(engine.rulings) > ruled:
                    ruled = _recalled(state, looks, ruled)
        finally:
            if was_enabled:
                gc.enable()
        if state.last > LARGEST:
            raise OverflowError("the study has no free event number left; export it")
        self.state, self.leases, self.waiting, self._ruled = state, {}, {}, ruled
        now = self.clock.steady()
        for session in self.state.sessions.values():
            for issued in session.open:
                if issued.unit is not None and not issued.expired:
                    self.keep(issued, now)

    def put(self, *rows: Row) -> list[IssuedQuestion]:
        """Write what happened, and the looks that it completed."""
        self.base.executemany(WRITING[type(rows[0])], rows)
        beside = self.state.put(rows)
        engine = self.state.assignments.asking
        if engine is not None and len(engine.rulings) > self._ruled:
            now = self.clock.wall()
            look_rows = [
                look_row(ruling, pair=self.state.assignments.numbers[ruling.pair], at=now)
                for ruling in engine.rulings[self._ruled :]
            ]
            self.base.executemany("INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", look_rows)
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
        worker: Annotator | None = None,
        issued: IssuedQuestion | None = None,
        **values: Any,
    ) -> None:
        """Something else that happened."""
        if session is not None:
            worker = session.worker
        row = EventRow(
            event=self.next,
            at=self.clock.wall(),
            session=None if session is None else session.id,
            worker=None if worker is None else worker.id,
            assignment=None if issued is None else issued.id,
            kind=kind,
            json=json.dumps(values, ensure_ascii=False),
        )
        self.put(row)

    def keep(self, issued: IssuedQuestion, now: float) -> None:
        """Keep a question for its person a while (longer)."""
        is_new = not issued.session.worker.work.paid
        self.leases[issued.id] = now + length(self.state.paces, is_new=is_new)

    def renew(self, issued: IssuedQuestion) -> None:
        """Its person is still there, or is back."""
        if issued.unit is None or issued.session.is_closed or issued.session.worker.excluded:
            return
        if issued.expired:
            unit = self.state.assignments.units[issued.unit]
            if issued.role == "primary" and not self.state.assignments.is_free(unit):
                return  # somebody else has it
            self.event("renewed", session=issued.session, issued=issued)
        self.keep(issued, self.clock.steady())

    def expire(self) -> None:
        """Give back what was kept too long."""
        now = self.clock.steady()
        for number in sorted(number for number, until in self.leases.items() if until <= now):
            issued = self.state.issued[number]
            if not issued.counts and not issued.expired:
                self.event("expired", session=issued.session, issued=issued)
            del self.leases[number]


def _recalled(state: StudyState, looks: dict[tuple[int, int], tuple[int, bool]], ruled: int) -> int:
    """What a look said stays, also where the rule is another one now; how many rulings there are."""
    engine = state.assignments.engine
    for ruling in engine.rulings[ruled:]:
        look = looks.get((state.assignments.numbers[ruling.pair], ruling.look))
        if look is not None:
            engine.decision[ruling.pair], engine.is_open[ruling.pair] = look
    return len(engine.rulings)


def _question(row: Row) -> tuple[str, int]:
    """Equal for the judgments of one question alone."""
    return ("judged", row.assignment) if type(row) is JudgmentRow else ("", row[0])
