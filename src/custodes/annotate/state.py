"""The state of a study in memory. The state is computed from the rows of the event log, so it is the same after a
restart.

`add_row` applies one row. This module makes no decisions: it computes the consequences of a row, after the row was
decided on and written.
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
from custodes.annotate.participants import Annotator, IssuedQuestion, Work
from custodes.annotate.plan import PLAN, StudyPlan, budget_of
from custodes.annotate.study_file import AssignmentRow, EventRow, ExclusionRow, JudgmentRow, Row, WorkerRow
from custodes.errors import InputError

RECENT = 200
"""Number of latest answers from which the usual time of an answer is estimated."""


class StudyState:
    """The state of a study. Constant content is read from the study file `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.plans = {
            plan_version: _plan(plan_json)
            for plan_version, plan_json in connection.execute("SELECT version, json FROM plan ORDER BY version")
        }
        self.version = min(self.plans)
        self.workers: dict[int, Annotator] = {}
        self.issued: dict[int, IssuedQuestion] = {}
        self.tokens: dict[str, Annotator] = {}
        self.persons: dict[tuple[str, str], Annotator] = {}
        self.assignments = Assignments(connection, self.plan)
        self.control = "open"
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

    def count(self, name: str) -> int:
        """Return the sum of a field of `Work` over all annotators."""
        return sum(getattr(worker.work, name) for worker in self.workers.values())

    @property
    def totals(self) -> Work:
        """Counts of the whole study, without times."""
        total_of_field: dict[str, Any] = {
            field_name: self.count(field_name) for field_name in Work.__slots__ if field_name != "times"
        }
        return Work(**total_of_field)

    def add_row(self, row: Row) -> None:
        """Apply one row."""
        self.last = max(self.last, row[0])
        match row:
            case AssignmentRow():
                self._apply_assignment(row)
            case JudgmentRow():
                self._apply_judgment(row)
            case WorkerRow():
                worker = Annotator(id=row.worker, label=row.label, source=row.source, external_id=row.external_id)
                self.workers[worker.id] = self.persons[row.source, row.external_hash] = worker
                self.tokens[row.token_hash] = worker
            case ExclusionRow():
                self._exclude(self.workers[row.worker], row.by)
            case EventRow():
                if row.worker is not None:
                    self._apply_event_of_worker(row, self.workers[row.worker], json.loads(row.json))
                else:
                    self._apply_event(row.kind, json.loads(row.json))

    def _apply_assignment(self, row: AssignmentRow) -> None:
        worker, unit = self.workers[row.worker], None if row.unit is None else self.assignments.units[row.unit]
        issued_question = IssuedQuestion(
            id=row.assignment,
            worker=worker,
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
            worker.number = issued_question.number
        worker.open.append(issued_question)
        if unit is None:
            assert issued_question.gold is not None
            worker.seen_control_questions.add(issued_question.gold)
            return
        if issued_question.role == "second" and issued_question.again is None:
            self.assignments.n_second_opinions_of_pair[unit.pair] += 1
        worker.seen_items.add(unit.item)
        self.began[unit.item].add(worker)
        worker.assigned_units.add(unit.id)
        worker.last_item = unit.item
        self.assignments.hold(issued_question)

    def _apply_judgment(self, row: JudgmentRow) -> None:
        issued_question = self.issued[row.assignment]
        if issued_question.answer_role:
            return  # the answer in a further aspect; the answer in the first aspect is used for decisions
        worker = issued_question.worker
        issued_question.answer_role = intern(row.role)
        issued_question.value = None if row.answer is None else int(row.answer)
        worker.open.remove(issued_question)
        worker.answered.append(issued_question)
        worker.work.paid += issued_question.again is None
        if row.visible_seconds is not None:
            worker.work.times.append(row.visible_seconds)
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
        issued_question.worker.answered.remove(issued_question)
        self._count(issued_question, -1)
        if issued_question.unit is not None:
            self.assignments.take_back(issued_question)

    def _count(self, issued_question: IssuedQuestion, sign: int) -> None:
        """Add an answer to the counts (`sign` 1), or subtract it (`sign` -1)."""
        work, answer = issued_question.worker.work, issued_question.value
        if issued_question.gold is not None:
            is_right_answer = answer == self.gold[issued_question.gold][1]
            if issued_question.role == "qualification":
                work.trained += sign
                work.training_right += sign * is_right_answer
                return
            work.gold_asked += sign * (answer is not None)  # a refusal is not a wrong answer
            work.gold_right += sign * is_right_answer
        elif answer is not None:
            work.primary += sign * (issued_question.answer_role == "primary")
            work.second += sign * (issued_question.answer_role != "primary")
            if self.plan.question.mode == "compare":
                work.equal += sign * (answer == 0)
                work.decided += sign * (answer != 0)
                work.first_shown += sign * (answer == (-1 if issued_question.flip else 1))
        work.refused += sign * (answer is None)

    def _exclude(self, worker: Annotator, by: str) -> None:
        worker.excluded, worker.by = True, by
        for issued_question in worker.open:
            if issued_question.unit is not None:
                issued_question.expired = True
                self.assignments.let_go(issued_question)
        self.assignments.exclude(worker)

    def _apply_event(self, kind: str, event_values: Mapping[str, Any]) -> None:
        """Apply an event of the study. Kinds that are not listed here, such as notes, change nothing."""
        if kind in ("paused", "resumed", "stopped", "reopened"):
            self.control = kind if kind in ("paused", "stopped") else "open"
        elif kind == "replanned":
            self.version = event_values["version"]
            self.assignments.engine.set_budget(budget_of(self.plan))

    def _apply_event_of_worker(self, row: EventRow, worker: Annotator, event_values: Mapping[str, Any]) -> None:
        match row.kind:
            case "consent":
                worker.agreed = event_values["digest"]
            case "declined" | "finished" | "begun":
                setattr(worker, row.kind, True)
            case "batch":
                worker.batch, worker.number, worker.answered = event_values["batch"], 0, []
                worker.control_kind_of_position = {
                    int(question_position): control_kind
                    for question_position, control_kind in event_values["known"].items()
                }
            case "qualified":
                worker.qualified = event_values["passed"]
            case "code":
                worker.codes[event_values["why"]] = event_values["code"]
            case "token":
                self.tokens[event_values["hash"]] = worker
            case "forgotten":
                worker.forgotten, worker.external_id = True, ""
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
