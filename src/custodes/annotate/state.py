"""The state of a study in memory. It is computed from the rows of the event log, so it is the same after a restart.

`add_rows` applies one row, or all rows of one answer. Decisions are made before a row is written; this module only
computes the consequences of the row.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any

import msgspec

from custodes.annotate.assignments import Assignments
from custodes.annotate.participants import Annotator, IssuedQuestion, Session, Totals
from custodes.annotate.plan import PLAN, StudyPlan, budget_of
from custodes.annotate.rows import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, SessionRow, WorkerRow
from custodes.errors import InputError

RECENT = 200
"""Number of latest answers from which the usual time of an answer is estimated."""
HALF_AN_HOUR = 1800.0


class StudyState:
    """The state of a study. Constant content is read from the study file `base`."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self.base = base
        self.plans = {
            version: _plan(text) for version, text in base.execute("SELECT version, json FROM plan ORDER BY version")
        }
        self.version = min(self.plans)
        self.workers: dict[int, Annotator] = {}
        self.sessions: dict[int, Session] = {}
        self.issued: dict[int, IssuedQuestion] = {}
        self.tokens: dict[str, Session] = {}
        self.persons: dict[tuple[str, str], Annotator] = {}
        self.assignments = Assignments(per_item=self.plan.annotators.per_item)
        self.added = 0, 0
        """How many pairs are in use, and the id of the last unit in use."""
        self.control = "open"
        self.address = ""
        """Base address of links: the latest address of the server or of an invitation."""
        self.totals = Totals()
        self.began: dict[int, set[Annotator]] = {}
        """Annotators who have begun each item."""
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
        """The current plan."""
        return self.plans[self.version]

    def add_rows(self, rows: Sequence[Row]) -> list[IssuedQuestion]:
        """Apply one row, or all judgments of one question. Return the answers that a readmission turned into second
        opinions."""
        row = rows[0]
        self.last = max(self.last, rows[-1][0])
        match row:
            case AssignmentRow():
                self._apply_assignment(row)
            case JudgmentRow():
                self._apply_judgment(row)
            case WorkerRow():
                worker = Annotator(id=row.worker, label=row.label, source=row.source, external_id=row.external_id)
                self.workers[worker.id] = self.persons[row.source, row.external_hash] = worker
            case SessionRow():
                worker = self.workers[row.worker]
                session = Session(id=row.session, worker=worker, params=json.loads(row.params))
                worker.sessions.append(session)
                self.sessions[session.id] = self.tokens[row.token_hash] = session
            case ExclusionRow():
                return self._apply_exclusion(row)
            case EventRow():
                self._apply_event(row, json.loads(row.json))
        return []

    def _apply_assignment(self, row: AssignmentRow) -> None:
        session = self.sessions[row.session]
        worker, unit = session.worker, None if row.unit is None else self.assignments.units[row.unit]
        issued = IssuedQuestion(
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
        self.issued[issued.id] = issued
        if issued.again is not None:
            self._void_answer(self.issued[issued.again])
        else:
            session.number = issued.number
        session.open.append(issued)
        if unit is None:
            assert issued.gold is not None
            worker.known.add(issued.gold)
            return
        if issued.role == "second" and issued.again is None:
            self.assignments.seconds_given[unit.pair] += 1
        worker.seen.add(unit.item)
        self.began.setdefault(unit.item, set()).add(worker)
        worker.had.add(unit.id)
        session.last_item = unit.item
        self.assignments.hold(issued)

    def _apply_judgment(self, row: JudgmentRow) -> None:
        issued = self.issued[row.assignment]
        session = issued.session
        issued.counts, issued.value = intern(row.role), None if row.answer is None else int(row.answer)
        session.open = [question for question in session.open if question is not issued]
        session.answered.append(issued)
        session.worker.work.paid += issued.again is None
        self.totals.paid += issued.again is None
        self.last_answer = row.at
        if row.visible_seconds is not None:
            session.worker.work.times.append(row.visible_seconds)
        if not row.late:
            self.paces.append(row.server_seconds)
        self._count(issued, 1)
        if issued.unit is None:
            return
        if issued.value is None:
            (self.assignments.refuse if row.role == "primary" else self.assignments.let_go)(issued)
        elif row.role == "primary":
            self.assignments.vote(issued, issued.value)
            self.primaries.append(row.at)
            while self.primaries[0] < row.at - HALF_AN_HOUR:
                self.primaries.popleft()
        else:
            self.assignments.second(issued, issued.value)

    def _void_answer(self, issued: IssuedQuestion) -> None:
        issued.is_void = True
        issued.session.answered = [question for question in issued.session.answered if question is not issued]
        self._count(issued, -1)
        if issued.unit is not None:
            self.assignments.take_back(issued)

    def _count(self, issued: IssuedQuestion, sign: int) -> None:
        """Add an answer to the counts (`sign` 1), or subtract it (`sign` -1)."""
        work, totals, is_refused = issued.session.worker.work, self.totals, issued.value is None
        if issued.gold is not None:
            is_right = issued.value == self.gold[issued.gold][1]
            if issued.role == "qualification":
                work.trained += sign
                work.training_right += sign * is_right
                return
            totals.gold += sign
            work.refused += sign * is_refused  # a refusal is not a wrong answer
            work.gold_asked += sign * (not is_refused)
            work.gold_right += sign * is_right
            return
        work.refused += sign * is_refused
        totals.refused += sign * is_refused
        if is_refused:
            return
        work.answers += sign
        totals.answers += sign
        totals.primary += sign * (issued.counts == "primary")
        totals.second += sign * (issued.counts != "primary")
        if self.plan.question.mode == "rate":
            return
        work.equal += sign * (issued.value == 0)
        totals.equal += sign * (issued.value == 0)
        work.decided += sign * (issued.value != 0)
        work.first_shown += sign * (issued.value == (-1 if issued.flip else 1))

    def _apply_exclusion(self, row: ExclusionRow) -> list[IssuedQuestion]:
        worker = self.workers[row.worker]
        worker.excluded, worker.by, worker.reason = bool(row.excluded), row.by, row.reason
        if not row.excluded:
            new_second_opinions = self.assignments.restore(worker)
            self.totals.primary -= len(new_second_opinions)
            self.totals.second += len(new_second_opinions)
            return new_second_opinions
        for session in worker.sessions:
            for issued in session.open:
                if issued.unit is not None:
                    issued.expired = True
                    self.assignments.let_go(issued)
        self.assignments.exclude(worker)
        return []

    def _apply_event(self, row: EventRow, values: Mapping[str, Any]) -> None:
        """Apply an event. Kinds that are not listed here, such as notes, change nothing."""
        if row.session is not None:
            self._apply_visit_event(row, self.sessions[row.session], values)
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
                self.assignments.engine.set_budget(budget_of(self.plan))

    def _apply_visit_event(self, row: EventRow, session: Session, values: Mapping[str, Any]) -> None:
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
                session.known = {int(position): kind for position, kind in values["known"].items()}
            case "qualified":
                session.worker.qualified = values["passed"]
            case "code":
                session.codes[values["why"]] = values["code"]
            case "token":
                self.tokens[values["hash"]] = session
                session.params = values.get("params", session.params)
            case "comment" if values["text"]:  # the text of an erased comment is empty
                self.comments.append((session.worker.label, values["text"], row.at))
            case "expired" | "renewed":
                assert row.assignment is not None
                issued = self.issued[row.assignment]
                issued.expired = row.kind == "expired"
                (self.assignments.let_go if issued.expired else self.assignments.hold)(issued)


def _plan(plan_json: str) -> StudyPlan:
    try:
        return PLAN.decode(plan_json)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the plan of this study cannot be read ({problem}); if a later version of custodes wrote "
            "the plan, update custodes"
        ) from None
