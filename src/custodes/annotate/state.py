"""The state of a study in memory: a fold over the rows of the event log, the same after a restart.

`put` takes one row. The author of the row decided; nothing is decided here but what follows from the rows before.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

import msgspec

from custodes.annotate.assignments import Assignments
from custodes.annotate.participants import Assignment, Session, Worker
from custodes.annotate.plan import PLAN, StudyPlan, budget_of
from custodes.annotate.rows import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, SessionRow, WorkerRow
from custodes.errors import InputError

RECENT = 200
"""Last answers that say how long one takes."""
HALF_AN_HOUR = 1800.0


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


class StudyState:
    """The state of a study. `base`: its file, for what does not change."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self.base = base
        self.plans = {
            version: _plan(text) for version, text in base.execute("SELECT version, json FROM plan ORDER BY version")
        }
        self.version = min(self.plans)
        self.workers: dict[int, Worker] = {}
        self.sessions: dict[int, Session] = {}
        self.given: dict[int, Assignment] = {}
        self.tokens: dict[str, Session] = {}
        self.persons: dict[tuple[str, str], Worker] = {}
        self.assignments = Assignments(per_item=self.plan.people.per_item, workers=self.workers)
        self.added = 0, 0
        """Pairs, and the last unit, that are asked about."""
        self.control = "open"
        self.address = ""
        """How links begin: the address at which the study was last served, or for which workers were last invited."""
        self.totals = Totals()
        self.began: dict[int, set[Worker]] = {}
        """Workers who have begun an item."""
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
        """The plan that holds now."""
        return self.plans[self.version]

    def put(self, rows: Sequence[Row]) -> list[Assignment]:
        """Apply a row; the judgments of one question together. Answers that a readmission made second opinions."""
        row = rows[0]
        self.last = max(self.last, rows[-1][0])
        match row:
            case AssignmentRow():
                self._assigned(row)
            case JudgmentRow():
                self._answered(row)
            case WorkerRow():
                worker = Worker(id=row.worker, label=row.label, source=row.source, external_id=row.external_id)
                self.workers[worker.id] = self.persons[row.source, row.external_hash] = worker
            case SessionRow():
                worker = self.workers[row.worker]
                session = Session(id=row.session, worker=worker, params=json.loads(row.params))
                worker.sessions.append(session)
                self.sessions[session.id] = self.tokens[row.token_hash] = session
            case ExclusionRow():
                return self._excluded(row)
            case EventRow():
                self._happened(row, json.loads(row.json))
        return []

    def _assigned(self, row: AssignmentRow) -> None:
        session = self.sessions[row.session]
        worker, unit = session.worker, None if row.unit is None else self.assignments.units[row.unit]
        given = Assignment(
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
            self.assignments.seconds_given[unit.pair] += 1
        worker.seen.add(unit.item)
        self.began.setdefault(unit.item, set()).add(worker)
        worker.had.add(unit.id)
        session.last_item = unit.item
        self.assignments.hold(given)

    def _answered(self, row: JudgmentRow) -> None:
        given = self.given[row.assignment]
        session = given.session
        given.counts, given.value = intern(row.role), None if row.answer is None else int(row.answer)
        session.open = [other for other in session.open if other is not given]
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
            (self.assignments.refuse if row.role == "primary" else self.assignments.let_go)(given)
        elif row.role == "primary":
            self.assignments.vote(given, given.value)
            self.primaries.append(row.at)
            while self.primaries[0] < row.at - HALF_AN_HOUR:
                self.primaries.popleft()
        else:
            self.assignments.second(given, given.value)

    def _taken_back(self, given: Assignment) -> None:
        given.is_void = True
        given.session.answered = [other for other in given.session.answered if other is not given]
        self._count(given, -1)
        if given.unit is not None:
            self.assignments.take_back(given)

    def _count(self, given: Assignment, sign: int) -> None:
        """Count (or uncount) an answer."""
        work, totals, is_refused = given.session.worker.work, self.totals, given.value is None
        if given.gold is not None:
            is_right = given.value == self.gold[given.gold][1]
            if given.role == "qualification":
                work.trained += sign
                work.training_right += sign * is_right
                return
            totals.gold += sign
            work.refused += sign * is_refused  # not wrong
            work.asked += sign * (not is_refused)
            work.right += sign * is_right
            return
        work.refused += sign * is_refused
        totals.refused += sign * is_refused
        if is_refused:
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

    def _excluded(self, row: ExclusionRow) -> list[Assignment]:
        worker = self.workers[row.worker]
        worker.excluded, worker.by, worker.reason = bool(row.excluded), row.by, row.reason
        if not row.excluded:
            beside = self.assignments.restore(worker)
            self.totals.primary -= len(beside)
            self.totals.second += len(beside)
            return beside
        for session in worker.sessions:
            for given in session.open:
                if given.unit is not None:
                    given.expired = True
                    self.assignments.let_go(given)
        self.assignments.exclude(worker)
        return []

    def _happened(self, row: EventRow, values: Mapping[str, Any]) -> None:
        """Apply an event; one of another kind, such as a note, changes nothing."""
        if row.session is not None:
            self._visit_changed(row, self.sessions[row.session], values)
        match row.kind:
            case "added":
                self.added = values["pairs"], values["units"]
                self.assignments.add_pairs(self.base, self.plan, total=values["pairs"], last=values["units"])
            case "forgotten":
                assert row.worker is not None
                worker = self.workers[row.worker]
                worker.forgotten, worker.external_id = True, ""
                self.comments = [comment for comment in self.comments if comment[0] != worker.label]
                for session in worker.sessions:
                    session.params = {}
            case "paused" | "resumed" | "stopped" | "reopened":
                self.control = row.kind if row.kind in ("paused", "stopped") else "open"
            case "peeked":
                self.totals.peeked += 1
            case "address":
                self.address = values["url"]
            case "replanned":
                self.version = values["version"]
                if self.assignments.asking is not None:
                    self.assignments.engine.set_budget(budget_of(self.plan))
                    self.assignments.changed()

    def _visit_changed(self, row: EventRow, session: Session, values: Mapping[str, Any]) -> None:
        match row.kind:
            case "consent":
                session.agreed = values["digest"]
            case "declined":
                session.declined = True
            case "finished":
                session.finished = True
            case "begun":
                session.begun = True
            case "batch":
                session.batch = session.worker.batches = values["batch"]
                session.number, session.answered = 0, []
                session.known = {int(place): kind for place, kind in values["known"].items()}
            case "qualified":
                session.worker.qualified = values["passed"]
            case "code":
                session.codes[values["why"]] = values["code"]
            case "token":
                self.tokens[values["hash"]] = session
                session.params = values.get("params", session.params)
            case "comment" if values["text"]:  # of a forgotten worker there is none
                self.comments.append((session.worker.label, values["text"], row.at))
            case "expired" | "renewed":
                assert row.assignment is not None
                given = self.given[row.assignment]
                given.expired = row.kind == "expired"
                (self.assignments.let_go if given.expired else self.assignments.hold)(given)

    def as_bytes(self) -> bytes:
        """The whole state but clocks, as bytes that are equal where states are."""
        people = [
            (
                *(one.id, one.label, one.excluded, one.by, one.reason, one.forgotten, one.qualified, one.batches),
                *(
                    sorted(one.seen),
                    sorted(one.had),
                    sorted(one.known),
                    sorted(one.refused),
                    sorted((+one.load).items()),
                ),
                *(sorted((unit, given.id) for unit, given in table.items()) for table in (one.votes, one.lapsed)),
                *(getattr(one.work, name) for name in one.work.__slots__[:-1]),
                one.work.times.tolist(),
            )
            for one in self.workers.values()
        ]
        visits = [
            (
                *(one.id, one.agreed, one.declined, one.begun, one.finished, one.batch, one.number, one.last_item),
                *(sorted(one.known.items()), sorted(one.codes.items()), sorted(one.params.items())),
                *([given.id for given in table] for table in (one.open, one.answered)),
            )
            for one in self.sessions.values()
        ]
        units = [
            (
                *(one.id, sorted(one.votes.items()), sorted(one.seconds.items()), one.leased),
                *map(sorted, (one.holders, one.asked, one.refused)),
            )
            for one in self.assignments.units.values()
            if one.votes or one.seconds or one.holders or one.asked or one.refused
        ]
        questions = [
            (one.id, one.role, one.flip, one.holds, one.expired, one.counts, one.value, one.is_void)
            for one in self.given.values()
        ]
        totals = [getattr(self.totals, name) for name in self.totals.__slots__]
        rest = [list(self.paces), list(self.primaries), self.comments, self.control, self.version, self.last, totals]
        engine = b"" if self.assignments.asking is None else self.assignments.asking.state_bytes()
        tokens = sorted((token, session.id) for token, session in self.tokens.items())
        singles = [sorted(units) for units in self.assignments.singles]
        return msgspec.json.encode([people, visits, units, questions, tokens, singles, rest]) + engine


def _plan(text: str) -> StudyPlan:
    try:
        return PLAN.decode(text)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the plan in this study cannot be read ({problem}); was it made by a later custodes?"
        ) from None
