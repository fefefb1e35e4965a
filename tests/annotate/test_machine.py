"""Random sequences of acts: the assignment rules hold, and a restart restores the state from the file."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from custodes.annotate.assignment_policy import cap, count_able_annotators
from custodes.annotate.service import Service
from custodes.annotate.views import Answer, Ask, Begin, Break, Comment, Skip, Undo, View
from tests.annotate.studies import (
    ManualClock,
    answer_to,
    check_restart,
    new_annotator,
    open_service,
    plan_of,
    query_rows,
    study,
)

INDEX = st.integers(0, 50)
VALUE = st.sampled_from((1, 0, -1))


class Study(RuleBasedStateMachine):
    """A study with few items and interim analyses, so that every kind of end occurs."""

    per_item = 1
    mode = "compare"

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        annotators = {"batch": 4, "batches": 3, "per_item": self.per_item, "overlap": 0.3, "gold_every": 4}
        question = {"mode": self.mode, "scale": (-1, 1) if self.mode == "rate" else (1, 5)}
        stopping = {"budget": 22} if self.mode == "rate" else {"looks": (4, 8), "stop": "decided"}
        plan = plan_of(question=question, annotators=annotators, stopping=stopping, seed=5)
        self.path = study(Path(self.folder.name) / "study.db", plan=plan, systems=3, items=10)
        self.clock = ManualClock()
        self.service: Service = open_service(self.path, self.clock)
        self.annotators: list[str] = []
        self.sent: list[tuple[str, Answer]] = []
        self.looks: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.most: Counter[int] = Counter()

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.service.close()
            self.folder.cleanup()

    def view(self, annotator: int) -> tuple[str, View | None]:
        token = self.annotators[annotator % len(self.annotators)]
        return token, self.service.view(token).result()

    @precondition(lambda self: len(self.annotators) < 8)
    @rule(n=st.integers(1, 3))
    def join(self, n: int) -> None:
        self.annotators += [new_annotator(self.service) for _ in range(n)]

    @precondition(lambda self: self.annotators)
    @rule(annotator=INDEX, value=VALUE, times=st.integers(1, 6))
    def work(self, annotator: int, value: int, times: int) -> None:
        for k in range(times):
            token, view = self.view(annotator + k)
            self.clock.wait(3)
            if isinstance(view, Ask):
                act = answer_to(self.service, view, value)
                assert self.service.act(token, act).result() is not None
                self.sent.append((token, act))
            elif isinstance(view, Break):
                self.service.act(token, Begin()).result()

    @precondition(lambda self: self.sent)
    @rule(index=INDEX)
    def again(self, index: int) -> None:
        token, act = self.sent[-1 - index % len(self.sent)]
        before = self.rows()
        self.service.act(token, act).result()
        assert self.rows() == before

    @precondition(lambda self: self.sent)
    @rule(index=INDEX, annotator=INDEX)
    def replayed(self, index: int, annotator: int) -> None:
        token, act = self.sent[-1 - index % len(self.sent)]
        other_token = self.annotators[annotator % len(self.annotators)]
        if other_token != token:
            assert self.service.act(other_token, act).result() is None

    @precondition(lambda self: self.annotators)
    @rule(annotator=INDEX)
    def skip(self, annotator: int) -> None:
        token, view = self.view(annotator)
        if isinstance(view, Ask):
            self.service.act(token, Comment(text="hm", assignment=view.assignment)).result()
            self.service.act(token, Skip(assignment=view.assignment, reason="broken")).result()

    @precondition(lambda self: self.annotators)
    @rule(annotator=INDEX)
    def undo(self, annotator: int) -> None:
        token, view = self.view(annotator)
        if isinstance(view, Ask):
            after = self.service.act(token, Undo(assignment=view.assignment)).result()
            assert isinstance(after, Ask)
            assert (after.assignment != view.assignment) == view.can_undo

    @rule(seconds=st.sampled_from((1.0, 70.0, 700.0)), is_set_back=st.booleans())
    def time_goes_by(self, seconds: float, is_set_back: bool) -> None:
        self.clock.wait(seconds)
        self.clock.now -= 3600 * is_set_back

    @precondition(lambda self: self.annotators)
    @rule(annotator=INDEX, value=VALUE)
    def late(self, annotator: int, value: int) -> None:
        token, view = self.view(annotator)
        if isinstance(view, Ask):
            self.clock.wait(700)
            for other_token in self.annotators:
                if other_token != token:
                    self.service.view(other_token).result()
            self.service.act(token, answer_to(self.service, view, value)).result()

    @precondition(lambda self: self.annotators)
    @rule(annotator=INDEX)
    def exclude(self, annotator: int) -> None:
        self.service.exclude(f"w{annotator % len(self.annotators) + 1:03}", "asked to").result()

    @rule(stop=st.booleans(), annotator=INDEX, value=VALUE)
    def pause_or_stop(self, stop: bool, annotator: int, value: int) -> None:
        self.service.control("stop" if stop else "pause").result()
        if self.annotators:
            self.work(annotator, value, 1)
        self.service.control("reopen" if stop else "resume").result()

    @rule()
    def restart(self) -> None:
        views = [self.service.view(token).result() for token in self.annotators]
        check_restart(self.service)
        self.service = open_service(self.path, self.clock)
        assert [self.service.view(token).result() for token in self.annotators] == views

    def rows(self) -> int:
        return int(query_rows(self.path, "SELECT count(*) FROM judgment")[0][0])

    @invariant()
    def rules_hold(self) -> None:
        if not hasattr(self, "service"):
            return
        with closing(sqlite3.connect(self.path)) as base:
            self.check_looks(base)
            self.check_answers(base)
        state = self.service._log.state
        for unit in state.assignments.units.values():
            assert len(unit.votes) + unit.n_holders <= max(self.per_item, len(unit.votes))
            assert len(unit.votes) <= self.per_item

    def check_looks(self, base: sqlite3.Connection) -> None:
        """Completed interim analyses do not change, and their counts add up."""
        looks = {(row[0], row[1]): row for row in base.execute("SELECT * FROM look")}
        for key, row in self.looks.items():
            assert looks[key] == row
        self.looks = looks
        for pair, look, n, wins, ties, losses, *_ in looks.values():
            assert wins + ties + losses == n, (pair, look)

    def check_answers(self, base: sqlite3.Connection) -> None:
        units = base.execute(
            "SELECT unit, count(DISTINCT rater) AS n FROM answers WHERE role = 'primary' AND answer IS NOT NULL"
            " AND unit IS NOT NULL AND NOT taken_back AND NOT excluded GROUP BY unit HAVING n > ?",
            (self.per_item,),
        )
        assert units.fetchall() == []
        chances = base.execute("SELECT p_role, p_pair FROM assignment WHERE unit IS NOT NULL AND again IS NULL")
        assert all(0 < role <= 1 and 0 < pair <= 1 for role, pair in chances)
        sides: dict[tuple[int, int], Counter[int]] = {}
        query = (
            "SELECT u.pair, u.place, min(a.flip), max(a.flip) FROM assignment a JOIN unit u ON u.unit = a.unit"
            " WHERE a.role = 'primary' GROUP BY u.unit"
        )
        for pair, place, least, most in base.execute(query):
            assert least == most or self.per_item > 1, (pair, place)
            sides.setdefault((pair, place // 2), Counter())[least] += 1
        if self.per_item == 1 and self.mode == "compare":
            assert all(max(counts.values()) == 1 for counts in sides.values())
        state = self.service._log.state
        for pair, target in enumerate(state.assignments.engine.target):  # the limit falls when annotators join
            self.most[pair] = max(self.most[pair], cap(state.plan.annotators, target, count_able_annotators(state)))
        for worker in state.workers.values():
            for pair, n in worker.load.items():
                assert n <= self.most[pair] or self.mode == "rate", (worker.label, pair)
                units = [state.assignments.units[unit] for unit in (*worker.votes, *worker.refused)]
                units += [issued.unit for issued in worker.open if issued.holds and issued.role == "primary"]
                assert n == sum(unit.pair == pair for unit in units)


class Majority(Study):
    """Three annotators per comparison."""

    per_item = 3


class Rating(Study):
    """Ratings of single outputs."""

    mode = "rate"


EXAMPLES = settings.default.max_examples // 4
"""Ten by default; more with random examples."""
for machine in (Study, Majority, Rating):
    machine.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)

TestStudy = Study.TestCase
TestMajority = Majority.TestCase
TestRating = Rating.TestCase
