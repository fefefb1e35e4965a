"""A desk of which every answer is known: comparisons in a fixed order, one person. Until the real one is there."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from custodes.annotate import session as s
from custodes.annotate.plan import StudyPlan


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class StandIn:
    def __init__(self, asks: list[s.Ask], plan: StudyPlan | None = None, *, state: str = "consent") -> None:
        plan = plan or StudyPlan()
        self.plan, self.state, self.asks = plan, state, asks
        self.shown: tuple[s.Example, ...] = ()
        self.answers: list[s.Act] = []
        self.comments: list[str] = []
        self.kept: dict[str, tuple[str, bytes]] = {}
        self.alive: list[tuple[int, float | None]] = []
        self.view_now: s.View | None = None
        self.digest = hashlib.sha256(plan.texts.consent.encode()).hexdigest()

    def _view(self) -> s.View:
        if self.view_now is not None:
            return self.view_now
        if self.state == "consent":
            return s.Consent(digest=self.digest)
        if self.state == "instructions":
            return s.Instructions(examples=self.shown)
        if self.state == "ask" and len(self.answers) < len(self.asks):
            return replace(self.asks[len(self.answers)], can_undo=bool(self.answers))
        return s.Done(why="finished", code="K7-QM", answers=len(self.answers), params={})

    def view(self, token: str) -> Future[s.View | None]:
        return done(self._view() if token == "tok" else None)

    def act(self, token: str, act: s.Act) -> Future[s.View | None]:
        if token != "tok":
            return done(None)
        now = self._view()
        match act:
            case s.Agree(digest=digest) if digest == self.digest and self.state == "consent":
                self.state = "instructions"
            case s.Begin():
                self.state = "ask"
            case s.Answer(assignment=n) | s.Skip(assignment=n):
                if isinstance(now, s.Ask) and now.assignment == n:
                    self.answers.append(act)
            case s.Undo():
                self.answers.pop()
            case s.Comment(text=text):
                self.comments.append(text)
            case _:
                self.view_now = s.Done(why="declined", code=None, answers=0, params={})
        return done(self._view())

    def examples(self) -> Future[tuple[s.Example, ...]]:
        return done(self.shown)

    def seen(self, token: str, assignment: int, seconds: float | None) -> Future[None]:
        self.alive.append((assignment, seconds))
        return done(None)

    def media(self, name: str) -> Future[tuple[str, bytes] | None]:
        return done(self.kept.get(name))

    def join(self, **who: Any) -> Future[str | None]:
        return done("tok")


def ask(n: int, first: str, second: str, context: str = "<p>What is the capital of France?</p>", of: int = 15) -> s.Ask:
    return s.Ask(
        assignment=n, number=n, of=of, context=s.Side(html=context), sides=(s.Side(html=first), s.Side(html=second))
    )
