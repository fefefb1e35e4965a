"""All that is known of a study while it runs: a fold over what happened, the same after a restart.

`put` takes one row. Whoever wrote the row decided; nothing is decided here but what follows from the rows before.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from sys import intern

import msgspec

from custodes.annotate.ballots import Ballots
from custodes.annotate.events import EVENTS
from custodes.annotate.people import Given, Session, Worker
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.records import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, SessionRow, WorkerRow
from custodes.errors import InputError

RECENT = 200
"""So many of the last answers say how long one takes."""
HALF_AN_HOUR = 1800.0
KNOWN = ("gold", "attention", "qualification")


@dataclass(slots=True)
class Totals:
    """Counts of the whole study."""

    answers: int = 0
    primary: int = 0
    second: int = 0
    gold: int = 0
    refused: int = 0
    late: int = 0
    paid: int = 0
    peeked: int = 0
    equal: int = 0


class Book:
    """The state of a study. `base`: its file, for what does not change."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self.base = base
        self.plans = {
            version: _plan(text) for version, text in base.execute("SELECT version, json FROM plan ORDER BY version")
        }
        self.version = min(self.plans)
        self.workers: dict[int, Worker] = {}
        self.sessions: dict[int, Session] = {}
        self.given: dict[int, Given] = {}
        self.tokens: dict[str, Session] = {}
        self.persons: dict[tuple[str, str], Worker] = {}
        self.ballots = Ballots(per_item=self.plan.people.per_item, workers=self.workers)
        self.added = 0, 0
        """Pairs, and the last unit, that are asked about."""
        self.control = "open"
        self.address = ""
        """How links begin: the address at which the study was last served, or for which people were last invited."""
        self.totals = Totals()
        self.began: dict[int, set[Worker]] = {}
        """Who has begun which item."""
        self.comments: list[tuple[str, str, float]] = []
        self.paces: deque[float] = deque(maxlen=RECENT)
        self.primaries: deque[float] = deque()
        self.last_answer: float | None = None
        self.last = 0
        self.gold: dict[int, tuple[str, int]] = {
            number: (kind, expected) for number, kind, expected in base.execute("SELECT gold, kind, expected FROM gold")
        }

    @property
    def plan(self) -> StudyPlan:
        """What holds now."""
        return self.plans[self.version]

    def put(self, rows: Sequence[Row]) -> list[Given]:
        """What happened; the judgments of one question together. Answers that an owner's word made second opinions."""
        row = rows[0]
        self.last = max(self.last, rows[-1][0])
        match row:
            case AssignmentRow():
                self._asked(row)
            case JudgmentRow():
                self._answered(row)
            case WorkerRow():
                worker = Worker(id=row.worker, label=row.label, source=row.source, external_id=row.external_id)
                self.workers[worker.id] = self.persons[row.source, row.external_hash] = worker
            case SessionRow():
                self._came(row)
            case ExclusionRow():
                return self._excluded(row)
            case EventRow():
                self._event(row)
        return []

    def _came(self, row: SessionRow) -> None:
        worker = self.workers[row.worker]
        session = Session(id=row.session, worker=worker, params=json.loads(row.params))
        worker.sessions.append(session)
        self.sessions[session.id] = self.tokens[row.token_hash] = session

    def _asked(self, row: AssignmentRow) -> None:
        session = self.sessions[row.session]
        worker, unit = session.worker, None if row.unit is None else self.ballots.units[row.unit]
        given = Given(
            id=row.assignment,
            session=session,
            batch=row.batch,
            number=row.number,
            unit=None if unit is None else unit.id,
            gold=row.gold,
            role=intern(row.role),
            flip=row.flip,
            at=row.at,
            again=row.again,
        )
        self.given[given.id] = given
        if given.again is not None:
            self._taken_back(self.given[given.again])
        else:
            session.number = given.number
        session.open.append(given)
        if unit is None:
            assert given.gold is not None
            worker.known.add(given.gold)
            return
        if given.role == "second" and given.again is None:
            self.ballots.seconds_given[unit.pair] += 1
        worker.seen.add(unit.item)
        self.began.setdefault(unit.item, set()).add(worker)
        worker.had.add(unit.id)
        session.last_item = unit.item
        self.ballots.hold(given)

    def _answered(self, row: JudgmentRow) -> None:
        given = self.given[row.assignment]
        session = given.session
        given.counts, given.value = intern(row.role), None if row.answer is None else int(row.answer)
        session.open = [own for own in session.open if own is not given]
        session.answered.append(given)
        session.worker.work.paid += given.again is None
        self.totals.paid += given.again is None
        self.totals.late += row.late
        self.last_answer = row.at
        if row.visible_seconds is not None:
            session.worker.work.times.append(row.visible_seconds)
        if not row.late:
            self.paces.append(row.server_seconds)
        self._count(given, 1)
        if given.unit is None:
            return
        if given.value is None:
            if row.role == "primary":
                self.ballots.refuse(given)
            else:
                self.ballots.let_go(given)
        elif row.role == "primary":
            self.ballots.vote(given, given.value)
            self.primaries.append(row.at)
            while self.primaries[0] < row.at - HALF_AN_HOUR:
                self.primaries.popleft()
        else:
            self.ballots.second(given, given.value)

    def _taken_back(self, given: Given) -> None:
        given.is_void = True
        given.session.answered = [own for own in given.session.answered if own is not given]
        self._count(given, -1)
        if given.unit is not None:
            self.ballots.take_back(given)

    def _count(self, given: Given, sign: int) -> None:
        """Count (or uncount) an answer."""
        work, totals = given.session.worker.work, self.totals
        if given.unit is None:
            assert given.gold is not None
            is_right = given.value == self.gold[given.gold][1]
            if given.role == "qualification":
                work.trained += sign
                work.training_right += sign * is_right
                return
            totals.gold += sign
            if given.value is None:
                work.refused += sign  # not wrong
                return
            work.asked += sign
            work.right += sign * is_right
            return
        if given.value is None:
            work.refused += sign
            totals.refused += sign
            return
        work.answers += sign
        totals.answers += sign
        totals.primary += sign * (given.counts == "primary")
        totals.second += sign * (given.counts != "primary")
        if self.plan.question.mode == "rate":
            return
        work.equal += sign * (given.value == 0)
        totals.equal += sign * (given.value == 0)
        work.decided += sign * (given.value != 0)
        work.first_shown += sign * (given.value == (-1 if given.flip else 1))

    def _excluded(self, row: ExclusionRow) -> list[Given]:
        worker = self.workers[row.worker]
        worker.excluded, worker.by, worker.reason = bool(row.excluded), row.by, row.reason
        if not row.excluded:
            beside = self.ballots.restore(worker)
            self.totals.primary -= len(beside)
            self.totals.second += len(beside)
            return beside
        for session in worker.sessions:
            for given in session.open:
                if given.unit is not None:
                    given.expired = True
                    self.ballots.let_go(given)
        self.ballots.exclude(worker)
        return []

    def _event(self, row: EventRow) -> None:
        happened = EVENTS.get(row.kind)
        if happened is not None:
            happened(self, row, json.loads(row.json))

    def expired(self, given: Given, *, is_over: bool) -> None:
        """A question is free for others again, or its person is back."""
        given.expired = is_over
        (self.ballots.let_go if is_over else self.ballots.hold)(given)


def _plan(text: str) -> StudyPlan:
    try:
        return PLAN.decode(text)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the plan in this study cannot be read ({problem}); was it made by a later custodes?"
        ) from None
