"""The state of a study in memory: a fold over the rows of the event log, the same after a restart.

`put` takes one row. Whoever wrote the row decided; nothing is decided here but what follows from the rows before.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

import msgspec

from custodes.annotate.assignments import Assignments, add_pairs
from custodes.annotate.engine import budget_of
from custodes.annotate.participants import Assignment, Session, Worker
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.rows import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, SessionRow, WorkerRow
from custodes.errors import InputError


def _session(state: StudyState, row: EventRow) -> Session:
    assert row.session is not None
    return state.sessions[row.session]


def _added(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    state.added = said["pairs"], said["units"]
    add_pairs(state.assignments, state.base, state.plan, total=said["pairs"], last=said["units"])


def _consent(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).agreed = said["digest"]


def _declined(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).declined = True


def _finished(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).finished = True


def _begun(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).begun = True


def _batch(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    session = _session(state, row)
    session.batch = session.worker.batches = said["batch"]
    session.number, session.answered = 0, []
    session.known = {int(place): kind for place, kind in said["known"].items()}


def _qualified(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).worker.qualified = said["passed"]


def _code(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(state, row).codes[said["why"]] = said["code"]


def _token(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    session = state.tokens[said["hash"]] = _session(state, row)
    session.params = said.get("params", session.params)


def _comment(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    if said["text"]:  # of somebody who is forgotten there is none
        state.comments.append((_session(state, row).worker.label, said["text"], row.at))


def _expired(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    assert row.assignment is not None
    state.expired(state.given[row.assignment], is_over=row.kind == "expired")


def _forgotten(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    assert row.worker is not None
    worker = state.workers[row.worker]
    worker.forgotten, worker.external_id = True, ""
    state.comments = [own for own in state.comments if own[0] != worker.label]
    for session in worker.sessions:
        session.params = {}


def _control(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    state.control = {"paused": "paused", "stopped": "stopped"}.get(row.kind, "open")


def _peeked(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    state.totals.peeked += 1


def _address(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    state.address = said["url"]


def _replanned(state: StudyState, row: EventRow, said: Mapping[str, Any]) -> None:
    state.version = said["version"]
    if state.assignments.asking is not None:
        state.assignments.engine.set_budget(budget_of(state.plan))
        state.assignments.changed()


EVENTS: dict[str, Callable[[StudyState, EventRow, Mapping[str, Any]], None]] = {
    "added": _added,
    "consent": _consent,
    "declined": _declined,
    "begun": _begun,
    "finished": _finished,
    "batch": _batch,
    "qualified": _qualified,
    "code": _code,
    "token": _token,
    "comment": _comment,
    "expired": _expired,
    "renewed": _expired,
    "forgotten": _forgotten,
    "paused": _control,
    "resumed": _control,
    "stopped": _control,
    "reopened": _control,
    "peeked": _peeked,
    "address": _address,
    "replanned": _replanned,
}


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

    def put(self, rows: Sequence[Row]) -> list[Assignment]:
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
                self.assignments.refuse(given)
            else:
                self.assignments.let_go(given)
        elif row.role == "primary":
            self.assignments.vote(given, given.value)
            self.primaries.append(row.at)
            while self.primaries[0] < row.at - HALF_AN_HOUR:
                self.primaries.popleft()
        else:
            self.assignments.second(given, given.value)

    def _taken_back(self, given: Assignment) -> None:
        given.is_void = True
        given.session.answered = [own for own in given.session.answered if own is not given]
        self._count(given, -1)
        if given.unit is not None:
            self.assignments.take_back(given)

    def _count(self, given: Assignment, sign: int) -> None:
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

    def _event(self, row: EventRow) -> None:
        happened = EVENTS.get(row.kind)
        if happened is not None:
            happened(self, row, json.loads(row.json))

    def expired(self, given: Assignment, *, is_over: bool) -> None:
        """A question is free for others again, or its person is back."""
        given.expired = is_over
        (self.assignments.let_go if is_over else self.assignments.hold)(given)


def _plan(text: str) -> StudyPlan:
    try:
        return PLAN.decode(text)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the plan in this study cannot be read ({problem}); was it made by a later custodes?"
        ) from None


def state_of(state: StudyState) -> bytes:
    """All of it but clocks, as bytes that are equal where the states are."""
    people = [
        (
            *(own.id, own.label, own.excluded, own.by, own.reason, own.forgotten, own.qualified, own.batches),
            *(sorted(own.seen), sorted(own.had), sorted(own.known), sorted(own.refused), sorted((+own.load).items())),
            *(sorted((unit, given.id) for unit, given in table.items()) for table in (own.votes, own.lapsed)),
            *(getattr(own.work, name) for name in own.work.__slots__[:-1]),
            own.work.times.tolist(),
        )
        for own in state.workers.values()
    ]
    visits = [
        (
            *(own.id, own.agreed, own.declined, own.begun, own.finished, own.batch, own.number, own.last_item),
            *(sorted(own.known.items()), sorted(own.codes.items()), sorted(own.params.items())),
            *([given.id for given in table] for table in (own.open, own.answered)),
        )
        for own in state.sessions.values()
    ]
    units = [
        (
            *(own.id, sorted(own.votes.items()), sorted(own.seconds.items()), own.leased),
            *map(sorted, (own.holders, own.asked, own.refused)),
        )
        for own in state.assignments.units.values()
        if own.votes or own.seconds or own.holders or own.asked or own.refused
    ]
    given = [
        (own.id, own.role, own.flip, own.holds, own.expired, own.counts, own.value, own.is_void)
        for own in state.given.values()
    ]
    totals = [getattr(state.totals, name) for name in state.totals.__slots__]
    rest = [list(state.paces), list(state.primaries), state.comments, state.control, state.version, state.last, totals]
    engine = b"" if state.assignments.asking is None else state.assignments.asking.state_bytes()
    tokens = sorted((token, own.id) for token, own in state.tokens.items())
    singles = [sorted(own) for own in state.assignments.singles]
    return msgspec.json.encode([people, visits, units, given, tokens, singles, rest]) + engine
