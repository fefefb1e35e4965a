"""The event log of an open study. Every event is written to the study file as a row and applied to the state at once.

A lease reserves a question for an annotator. Leases expire, because a lock without a time limit may never be released
(label-studio#4781, #4190).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from custodes.annotate.participants import Annotator, IssuedQuestion
from custodes.annotate.state import StudyState
from custodes.annotate.study_file import WRITING, EventRow, Row, iter_log_rows
from custodes.data.loading.live_study import failure_reason
from custodes.errors import CustodesError, InputError
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation

SHORTEST_LEASE, LONGEST_LEASE, TIMES = 60.0, 600.0, 4.0
"""Shortest lease and longest lease in seconds. Between these limits, a lease is `TIMES` times as long as the median
answer time."""


def lease_seconds(answer_seconds: Sequence[float], *, is_new_annotator: bool) -> float:
    """Return the length of a lease in seconds. `answer_seconds` has the durations of recent answers. If there are none,
    the lease has the maximum length. A new annotator always gets the shortest lease.

    >>> lease_seconds([20.0, 30.0, 40.0], is_new_annotator=False), lease_seconds([], is_new_annotator=False)
    (120.0, 600.0)
    """
    if is_new_annotator:
        return SHORTEST_LEASE
    if not answer_seconds:
        return LONGEST_LEASE
    return min(LONGEST_LEASE, max(SHORTEST_LEASE, TIMES * median(answer_seconds)))


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The two clocks of a study. `wall()` returns the seconds since the epoch, which may be set back. `steady()`
    returns seconds that never go back."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


LARGEST = 2**62
"""Largest number that an event can have: half of SQLite's largest integer."""


class EventLog:
    """An open study: its file, its state, and the leases of its open questions."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection, self.clock = connection, clock
        self.state: StudyState
        self.leases: dict[int, float]
        """For each assigned question, by its number: the time on the steady clock at which its lease ends."""
        self.waiting: dict[int, float]
        """For each waiting annotator, by number: the time on the steady clock at which the annotator began to wait for
        a question."""
        self.read()

    def read(self) -> None:
        """Reload the state from the file. Raise `InputError` if the rows are inconsistent."""
        try:
            self._read()
        except (CustodesError, sqlite3.Error):
            raise
        except Exception as problem:  # rows changed by another program can be inconsistent in any way
            raise InputError(f"this study cannot be read ({failure_reason(problem)}); restore a backup") from problem

    def _read(self) -> None:
        state = StudyState(self.connection)
        # Stored decisions of interim analyses replace the recomputed decisions, so that decisions never change.
        stored_outcome_of_analysis = {
            (pair_index, analysis_index): (decision, bool(is_open))
            for pair_index, analysis_index, decision, is_open in self.connection.execute(
                "SELECT pair, look, decision, is_open FROM look"
            )
        }
        n_applied_rulings = 0
        for log_row in iter_log_rows(self.connection):
            state.add_row(log_row)
            engine = state.assignments.engine
            if isinstance(engine, ConcurrentAnnotation):
                for ruling in engine.rulings[n_applied_rulings:]:
                    if stored_outcome := stored_outcome_of_analysis.get((ruling.pair, ruling.look)):
                        engine.decision[ruling.pair], engine.is_open[ruling.pair] = stored_outcome
                n_applied_rulings = len(engine.rulings)
        if state.last > LARGEST:
            raise OverflowError("the study has no free event number left; export the study")
        self.state, self.leases, self.waiting, self._ruled = state, {}, {}, n_applied_rulings
        for worker in state.workers.values():
            for issued_question in worker.open:
                if issued_question.unit is not None and not issued_question.expired:
                    self.keep(issued_question)

    def add_rows(self, *rows: Row) -> None:
        """Write rows, and write the interim analyses that these rows complete."""
        self.connection.executemany(WRITING[type(rows[0])], rows)
        for row in rows:
            self.state.add_row(row)
        new_rulings = self.state.assignments.engine.rulings[self._ruled :]
        if new_rulings:
            written_at = self.clock.wall()
            self.connection.executemany(  # in the order of the columns; SQLite stores NaN as NULL
                "INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*ruling[:-1], json.dumps(ruling.used), written_at) for ruling in new_rulings],
            )
            self._ruled += len(new_rulings)

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self.state.last + 1

    def event(
        self,
        kind: str,
        *,
        worker: Annotator | None = None,
        issued_question: IssuedQuestion | None = None,
        **event_values: Any,
    ) -> None:
        """Write an event of a kind that has no separate table."""
        self.add_rows(
            EventRow(
                event=self.next,
                at=self.clock.wall(),
                worker=None if worker is None else worker.id,
                assignment=None if issued_question is None else issued_question.id,
                kind=kind,
                json=json.dumps(event_values, ensure_ascii=False),
            )
        )

    def keep(self, issued_question: IssuedQuestion) -> None:
        """Start or extend the lease of a question."""
        self.leases[issued_question.id] = self.clock.steady() + lease_seconds(
            self.state.paces, is_new_annotator=not issued_question.worker.work.paid
        )

    def renew(self, issued_question: IssuedQuestion) -> None:
        """Extend the lease of a question whose annotator is active or has returned."""
        if issued_question.unit is None or issued_question.worker.is_closed or issued_question.worker.excluded:
            return
        if issued_question.expired:
            if issued_question.role == "primary" and not self.state.assignments.is_free(issued_question.unit):
                return  # the question was assigned to another annotator in the meantime
            self.event("renewed", worker=issued_question.worker, issued_question=issued_question)
        self.keep(issued_question)

    def expire(self) -> None:
        """Release the questions whose leases have expired."""
        now = self.clock.steady()
        expired_ids = sorted(assignment_id for assignment_id, lease_end in self.leases.items() if lease_end <= now)
        for assignment_id in expired_ids:
            issued_question = self.state.issued[assignment_id]
            if not issued_question.answer_role and not issued_question.expired:
                self.event("expired", worker=issued_question.worker, issued_question=issued_question)
            del self.leases[assignment_id]
