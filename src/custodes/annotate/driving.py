"""Simulated people at a study's desk, one event after another on a clock of their own."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count as counting
from pathlib import Path

from custodes.annotate import store
from custodes.annotate.crowd import Crowd, Question
from custodes.annotate.desk import Desk
from custodes.annotate.plan import StudyPlan
from custodes.annotate.session import Ask, Done, Paused, View, Wait
from custodes.errors import CustodesError

LONGEST = 60 * 86_400.0
"""Seconds of simulated time after which it is ended."""
RENEWED = 30.0
"""Seconds between two signs of an open page."""


class Answering:
    """What stands behind a question on a page, which shows neither systems nor items: read from the study's file."""

    def __init__(self, path: Path) -> None:
        self._file = store.connect(path, durable=False, reading=True)

    def question(self, assignment: int) -> Question:
        """The question of an assignment."""
        unit, gold, flip = self._file.execute(
            "SELECT unit, gold, flip FROM assignment WHERE assignment = ?", (assignment,)
        ).fetchone()
        if unit is None:
            (expected,) = self._file.execute("SELECT expected FROM gold WHERE gold = ?", (gold,)).fetchone()
            return Question(expected=-expected if flip else expected)
        item, first, second = self._file.execute(
            "SELECT i.label, a.label, b.label FROM unit u JOIN item i USING (item) JOIN pair p USING (pair)"
            " JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second WHERE u.unit = ?",
            (unit,),
        ).fetchone()
        systems = (first,) if second is None else (second, first) if flip else (first, second)
        return Question(item=item, shown=systems)

    def decisions(self) -> list[tuple[str, str, int]]:
        """Of every pair of systems what its last look says; 0 where there is none."""
        return self._file.execute(
            "SELECT a.label, b.label, coalesce((SELECT decision FROM look l WHERE l.pair = p.pair"
            " ORDER BY look DESC LIMIT 1), 0) FROM pair p JOIN system a ON a.system = p.first"
            " JOIN system b ON b.system = p.second ORDER BY p.pair"
        ).fetchall()

    def items(self) -> list[str]:
        """All items."""
        return [name for (name,) in self._file.execute("SELECT label FROM item ORDER BY item")]

    def systems(self) -> list[str]:
        """All systems."""
        return [name for (name,) in self._file.execute("SELECT label FROM system ORDER BY system")]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Drive:
    """People at a desk, one event after another on a simulated clock."""

    def __init__(self, desk: Desk, crowd: Crowd, behind: Answering, plan: StudyPlan, time: list[float]) -> None:
        self._desk, self._crowd, self._behind, self._time = desk, crowd, behind, time
        question = plan.question
        self._scale = question.scale if question.mode == "rate" else None
        self._most = plan.people.most
        self._queue: list[tuple[float, int, int, str, View | None, float]] = []
        self._order = counting()
        self.came, self.work, self.last = 0, 0.0, 0.0
        self.without_work: list[float] = []
        """When people were told that nothing is left for them."""

    def run(self, people: int) -> bool:
        """Until nobody is left; False where that took too long."""
        for place in range(people):
            self._arrive(float(place))
        while self._queue:
            at, _, person, token, view, due = heappop(self._queue)
            if at > LONGEST:
                return False
            self._time[0] = at
            if view is None:
                self._look(person, token)
            elif isinstance(view, Ask) and at < due:
                self._desk.seen(token, view.assignment, RENEWED).result()
                self._push(min(at + RENEWED, due), person, token, view, due)
            else:
                self._act(person, token, view)
        return True

    def _push(self, at: float, person: int, token: str, view: View | None = None, due: float = 0.0) -> None:
        heappush(self._queue, (at, next(self._order), person, token, view, due))

    def _arrive(self, at: float) -> None:
        if self.came >= self._most:
            return
        try:
            ((_, token),) = self._desk.invite(1).result()
        except CustodesError:  # no more are wanted
            return
        self.came += 1
        self._push(at, self._crowd.arrive(), token)

    def _look(self, person: int, token: str) -> None:
        self._shown(person, token, self._desk.view(token).result())

    def _shown(self, person: int, token: str, view: View | None) -> None:
        now = self._time[0]
        if isinstance(view, Ask):
            due = now + self._crowd.seconds(person)
            self._push(min(now + RENEWED, due), person, token, view, due)
        elif isinstance(view, Wait | Paused):
            self._push(now + (view.seconds if isinstance(view, Wait) else RENEWED), person, token)
        elif isinstance(view, Done):
            if view.why in ("finished", "blocked", "failed"):
                self._arrive(now)
            elif view.why == "no-work":
                self.without_work.append(now)
        elif view is not None:
            self._push(now + 1.0, person, token, view, now + 1.0)

    def _act(self, person: int, token: str, view: View) -> None:
        question = self._behind.question(view.assignment) if isinstance(view, Ask) else None
        act = self._crowd.act(person, view, question, scale=self._scale)
        shown_next = self._desk.act(token, act).result()
        if isinstance(view, Ask):
            self.last = self._time[0]
            self.work += getattr(act, "seconds", 0.0)
            if self._crowd.leaves():  # holding what is on the page
                self._arrive(self._time[0])
                return
        self._shown(person, token, shown_next)
