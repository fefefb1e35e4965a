"""The state of a study in memory. The state is computed from the rows of the event log, so it is the same after a
restart.

`add_row` applies one row. Decisions are made before a row is written; this module only computes the consequences of the
row.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from custodes.annotate.assignments import Assignments
from custodes.annotate.participants import Annotator, IssuedQuestion, Session, Totals
from custodes.annotate.plan import PLAN, StudyPlan, budget_of
from custodes.annotate.study_file import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, SessionRow, WorkerRow
from custodes.errors import InputError

RECENT = 200
"""Number of latest answers from which the usual time of an answer is estimated."""


class StudyState:
    """The state of a study. Constant content is read from the study file `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.plans = {
            plan_version: _plan(plan_json)
            for plan_version, plan_json in connection.execute("SELECT version, json FROM plan ORDER BY version")
        }
        self.version = min(self.plans)
        self.workers: dict[int, Annotator] = {}
        self.sessions: dict[int, Session] = {}
        self.issued: dict[int, IssuedQuestion] = {}
        self.tokens: dict[str, Session] = {}
        self.persons: dict[tuple[str, str], Annotator] = {}
        self.able_workers: set[Annotator] = set()
        """Annotators who may get questions (see `Annotator.is_able`)."""
        self.assignments = Assignments(per_item=self.plan.annotators.per_item)
        self.added = 0, 0
        """How many pairs are in use, and the id of the last unit in use."""
        self.control = "open"
        self.address = ""
        """Base address of links: the latest address of the server or of an invitation."""
        self.totals = Totals()
        self.began: defaultdict[int, set[Annotator]] = defaultdict(set)
        """Annotators who have begun each item."""
        self.paces: deque[float] = deque(maxlen=RECENT)
        self.last = 0
        self.gold: dict[int, tuple[str, int]] = {
            control_question_id: (control_kind, expected_answer)
            for control_question_id, control_kind, expected_answer in connection.execute(
                "SELECT gold, kind, expected FROM gold"
            )
        }

    @property
    def plan(self) -> StudyPlan:
        """The current plan."""
        return self.plans[self.version]

    def add_row(self, row: Row) -> list[IssuedQuestion]:
        """Apply one row. Return the answers that a readmission turned into second opinions."""
        self.last = max(self.last, row[0])
        new_second_opinions, worker = list[IssuedQuestion](), None
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
                worker = self.workers[row.worker]
                new_second_opinions = self._apply_exclusion(row, worker)
            case EventRow():
                worker = None if row.worker is None else self.workers[row.worker]
                self._apply_event(row, json.loads(row.json))
        if worker is not None:
            (self.able_workers.add if worker.is_able else self.able_workers.discard)(worker)
        return new_second_opinions

    def _apply_assignment(self, row: AssignmentRow) -> None:
        session = self.sessions[row.session]
        worker, unit = session.worker, None if row.unit is None else self.assignments.units[row.unit]
        issued_question = IssuedQuestion(
            id=row.assignment,
            session=session,
            number=row.number,
            unit=unit,
            gold=row.gold,
            role=intern(row.role),
            flip=row.flip,
            at=row.at,
            again=row.again,
        )
        self.issued[issued_question.id] = issued_question
        if issued_question.again is not None:
            self._void_answer(self.issued[issued_question.again])
        else:
            session.number = issued_question.number
        session.open.append(issued_question)
        if unit is None:
            assert issued_question.gold is not None
            worker.seen_control_questions.add(issued_question.gold)
            return
        if issued_question.role == "second" and issued_question.again is None:
            self.assignments.n_second_opinions_of_pair[unit.pair] += 1
        worker.seen_items.add(unit.item)
        self.began[unit.item].add(worker)
        worker.assigned_units.add(unit.id)
        session.last_item = unit.item
        self.assignments.hold(issued_question)

    def _apply_judgment(self, row: JudgmentRow) -> None:
        issued_question = self.issued[row.assignment]
        if issued_question.answer_role:
            return  # the answer in a further aspect; the answer in the first aspect is used for decisions
        session = issued_question.session
        issued_question.answer_role = intern(row.role)
        issued_question.value = None if row.answer is None else int(row.answer)
        session.open.remove(issued_question)
        session.answered.append(issued_question)
        session.worker.work.paid += issued_question.again is None
        self.totals.paid += issued_question.again is None
        if row.visible_seconds is not None:
            session.worker.work.times.append(row.visible_seconds)
        if not row.late:
            self.paces.append(row.server_seconds)
        self._count(issued_question, 1)
        if issued_question.unit is None:
            return
        if issued_question.value is None:
            (self.assignments.refuse if row.role == "primary" else self.assignments.let_go)(issued_question)
        elif row.role == "primary":
            self.assignments.vote(issued_question, issued_question.value)
        else:
            self.assignments.second(issued_question, issued_question.value)

    def _void_answer(self, issued_question: IssuedQuestion) -> None:
        issued_question.session.answered.remove(issued_question)
        self._count(issued_question, -1)
        if issued_question.unit is not None:
            self.assignments.take_back(issued_question)

    def _count(self, issued_question: IssuedQuestion, sign: int) -> None:
        """Add an answer to the counts (`sign` 1), or subtract it (`sign` -1)."""
        answer_counts = issued_question.session.worker.work
        study_totals = self.totals
        is_refused = issued_question.value is None
        if issued_question.gold is not None:
            is_right_answer = issued_question.value == self.gold[issued_question.gold][1]
            if issued_question.role == "qualification":
                answer_counts.trained += sign
                answer_counts.training_right += sign * is_right_answer
                return
            study_totals.gold += sign
            answer_counts.gold_asked += sign * (not is_refused)  # a refusal is not a wrong answer
            answer_counts.gold_right += sign * is_right_answer
        else:
            study_totals.refused += sign * is_refused
        answer_counts.refused += sign * is_refused
        if is_refused or issued_question.gold is not None:
            return
        answer_counts.answers += sign
        study_totals.primary += sign * (issued_question.answer_role == "primary")
        study_totals.second += sign * (issued_question.answer_role != "primary")
        if self.plan.question.mode == "compare":
            answer_counts.equal += sign * (issued_question.value == 0)
            study_totals.equal += sign * (issued_question.value == 0)
            answer_counts.decided += sign * (issued_question.value != 0)
            answer_counts.first_shown += sign * (issued_question.value == (-1 if issued_question.flip else 1))

    def _apply_exclusion(self, row: ExclusionRow, worker: Annotator) -> list[IssuedQuestion]:
        worker.excluded, worker.by = bool(row.excluded), row.by
        if not row.excluded:
            new_second_opinions = self.assignments.restore(worker)
            self.totals.primary -= len(new_second_opinions)
            self.totals.second += len(new_second_opinions)
            return new_second_opinions
        for session in worker.sessions:
            for issued_question in session.open:
                if issued_question.unit is not None:
                    issued_question.expired = True
                    self.assignments.let_go(issued_question)
        self.assignments.exclude(worker)
        return []

    def _apply_event(self, row: EventRow, event_values: Mapping[str, Any]) -> None:
        """Apply an event. Kinds that are not listed here, such as notes, change nothing."""
        if row.session is not None:
            self._apply_visit_event(row, self.sessions[row.session], event_values)
        match row.kind:
            case "added":
                self.added = event_values["pairs"], event_values["units"]
                self.assignments.add_pairs(
                    self.connection, self.plan, n_pairs=event_values["pairs"], last_unit=event_values["units"]
                )
            case "forgotten":
                assert row.worker is not None
                worker = self.workers[row.worker]
                worker.forgotten, worker.external_id = True, ""
                for session in worker.sessions:
                    session.params = {}
            case "paused" | "resumed" | "stopped" | "reopened":
                self.control = row.kind if row.kind in ("paused", "stopped") else "open"
            case "peeked":
                self.totals.peeked += 1
            case "address":
                self.address = event_values["url"]
            case "replanned":
                self.version = event_values["version"]
                self.assignments.engine.set_budget(budget_of(self.plan))

    def _apply_visit_event(self, row: EventRow, session: Session, event_values: Mapping[str, Any]) -> None:
        match row.kind:
            case "consent":
                session.agreed = event_values["digest"]
            case "declined" | "finished" | "begun":
                setattr(session, row.kind, True)
            case "batch":
                session.batch = session.worker.batches = event_values["batch"]
                session.number, session.answered = 0, []
                session.control_kind_of_position = {
                    int(question_position): control_kind
                    for question_position, control_kind in event_values["known"].items()
                }
            case "qualified":
                session.worker.qualified = event_values["passed"]
            case "code":
                session.codes[event_values["why"]] = event_values["code"]
            case "token":
                self.tokens[event_values["hash"]] = session
                session.params = event_values.get("params", session.params)
            case "expired" | "renewed":
                assert row.assignment is not None
                issued_question = self.issued[row.assignment]
                issued_question.expired = row.kind == "expired"
                (self.assignments.let_go if issued_question.expired else self.assignments.hold)(issued_question)


def _plan(plan_json: str) -> StudyPlan:
    try:
        return PLAN.decode(plan_json)
    except msgspec.MsgspecError as problem:
        raise InputError(
            f"the plan of this study cannot be read ({problem}); if a later version of custodes wrote "
            "the plan, update custodes"
        ) from None
