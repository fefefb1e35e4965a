"""Simulated annotators who answer a study through its service, with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count as counting
from pathlib import Path
from typing import Literal

import numpy as np

from custodes.annotate import study_file
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.views import (
    Act,
    Agree,
    Answer,
    Ask,
    Begin,
    Break,
    Consent,
    Instructions,
    View,
    VisitEnd,
    Wait,
)
from custodes.data.simulate import LIKERT, simulate, simulate_ratings
from custodes.stats.arrays import Floats

Habit = Literal["careful", "side", "random"]

SPREAD, DIFFICULTY = 0.7, 0.5
"""Standard deviations of two effects of an item on quality, on a scale of five points: the effect on a single system,
and the effect on all systems."""


@dataclass(frozen=True, kw_only=True)
class Habits:
    """Behaviour of the annotators.

    `careless` is the proportion of annotators who answer at random. `sided` is the proportion of annotators who always
    choose the first output. `leaving` is the probability of leaving after an answer. `seconds` is the median time of an
    answer of careful annotators; all other annotators need a quarter of this time. `reliability` is the correlation
    between a careful annotator's impression and the true quality.
    """

    careless: float = 0.1
    sided: float = 0.1
    leaving: float = 0.02
    seconds: float = 40.0
    reliability: float = 0.8


@dataclass(frozen=True, kw_only=True)
class ShownQuestion:
    """The true content of a question. A real question has the systems in the order shown (one system for a rating). A
    control question has the expected answer: 1 for the first output, 0 for equal, -1 for the second output."""

    item: str = ""
    shown: tuple[str, ...] = ()
    expected: int | None = None


class Crowd:
    """Annotators who arrive one after another. `margin` is the margin by which careful annotators prefer each system to
    the next system in alphabetical order. A margin of 0 means equal systems. `scale` is the scale of ratings, or None
    for comparisons."""

    def __init__(
        self,
        *,
        systems: Sequence[str],
        items: Sequence[str],
        aspects: Sequence[str],
        margin: float,
        habits: Habits,
        rng: np.random.Generator,
        scale: tuple[int, int] | None = None,
    ) -> None:
        self.habits, self.rng, self.aspects, self.scale = habits, rng, tuple(aspects), scale
        quality_gap = gap_of(margin, habits)
        self.quality = {system: -quality_gap * system_rank for system_rank, system in enumerate(sorted(systems))}
        simulation = simulate(
            items=len(items),
            quality={system: [system_quality] * len(self.aspects) for system, system_quality in self.quality.items()},
            aspects=self.aspects,
            annotators={"one": 1.0},
            metrics=[],
            difficulty=DIFFICULTY,
            spread=SPREAD,
            rng=rng,
        )
        self._latent: Floats = simulation.truth.latent
        self._item = {item: item_index for item_index, item in enumerate(items)}
        self._system = {system: system_index for system_index, system in enumerate(sorted(systems))}

    def arrive(self) -> Habit:
        """Draw the habit of an annotator who arrives."""
        uniform_draw = self.rng.random()
        if uniform_draw < self.habits.careless:
            return "random"
        return "side" if uniform_draw < self.habits.careless + self.habits.sided else "careful"

    def leaves(self) -> bool:
        """Draw whether an annotator leaves now."""
        return bool(self.rng.random() < self.habits.leaving)

    def seconds(self, habit: Habit) -> float:
        """Draw the time of an answer."""
        return float(self.habits.seconds * (1.0 if habit == "careful" else 0.25) * np.exp(0.5 * self.rng.normal()))

    def values(self, habit: Habit, question: ShownQuestion) -> Mapping[str, int]:
        """Return an answer for every aspect. In a comparison, it is 1 if the first output is better, 0 if both are
        equal, and -1 if the second output is better. Otherwise it is a rating."""
        return {aspect: self._value(habit, question, aspect_index) for aspect_index, aspect in enumerate(self.aspects)}

    def _value(self, habit: Habit, question: ShownQuestion, aspect_index: int) -> int:
        if self.scale is not None:
            return self._rating(habit, question, aspect_index, self.scale)
        if habit == "side":
            return 1
        if habit == "random":
            return int(self.rng.integers(-1, 2))
        if question.expected is not None:
            return question.expected if self.rng.random() < KNOWN else int(self.rng.integers(-1, 2))
        first_likert_rating, second_likert_rating = (
            self._likert_rating(question.item, system, aspect_index) for system in question.shown
        )
        return int(np.sign(first_likert_rating - second_likert_rating))

    def _rating(self, habit: Habit, question: ShownQuestion, aspect_index: int, scale: tuple[int, int]) -> int:
        lowest_rating, highest_rating = scale
        if habit == "side":
            return lowest_rating
        if habit == "random" or not question.shown:
            return int(self.rng.integers(lowest_rating, highest_rating + 1))
        likert_rating = self._likert_rating(question.item, question.shown[0], aspect_index)
        return round(lowest_rating + (likert_rating - 1) / (LIKERT - 1) * (highest_rating - lowest_rating))

    def _likert_rating(self, item: str, system: str, aspect_index: int) -> float:
        latent_quality = self._latent[self._item[item], self._system[system], aspect_index]
        likert_rating = simulate_ratings(
            np.array(latent_quality), reliability=self.habits.reliability, sd=_SD, rng=self.rng
        )
        return float(likert_rating)


KNOWN = 0.93
"""Probability that a careful annotator answers a control question as expected."""

_SD = float(np.hypot(DIFFICULTY, SPREAD))
_DRAWS = 20_000


def gap_of(margin: float, habits: Habits) -> float:
    """Return the difference in quality, on a scale of five points, that gives this margin (wins minus losses) among
    careful annotators.

    >>> gap_of(0.0, Habits()), round(gap_of(0.2, Habits()), 1)
    (0.0, 0.4)
    """
    if not margin:
        return 0.0
    low_gap, high_gap = 0.0, 2.0 * LIKERT
    for _ in range(30):
        middle_gap = (low_gap + high_gap) / 2
        low_gap, high_gap = (middle_gap, high_gap) if margin_of(middle_gap, habits) < margin else (low_gap, middle_gap)
    return (low_gap + high_gap) / 2


def margin_of(gap: float, habits: Habits) -> float:
    """Return the margin by which careful annotators prefer a system that is better by `gap`. The margin is the mean of
    many draws with a fixed seed."""
    rng = np.random.default_rng(0)
    item_effects = DIFFICULTY * rng.normal(size=_DRAWS)
    output_effects = SPREAD * rng.normal(size=(2, _DRAWS))
    output_effects += np.random.default_rng(1).normal(size=(2, _DRAWS)) * _SD * np.sqrt(1 / habits.reliability**2 - 1)
    # Symmetric draws, so that equal quality has a margin of 0.
    output_effects = np.concatenate([output_effects, output_effects[::-1]], axis=1)
    unrounded_ratings = np.tile(item_effects, 2) + output_effects + np.array([[gap], [0.0]]) + 3
    first_system_ratings, second_system_ratings = np.clip(np.rint(unrounded_ratings), 1, LIKERT)
    return float(np.sign(first_system_ratings - second_system_ratings).mean())


LONGEST = 60 * 86_400.0
"""Simulated seconds after which a rehearsal is stopped."""
RENEWED = 30.0
"""Seconds between two signals of a page that is still open."""


_CONTENT = """
SELECT a.flip, g.expected, i.label, s1.label, s2.label FROM assignment a LEFT JOIN gold g ON g.gold = a.gold
LEFT JOIN unit u ON u.unit = a.unit LEFT JOIN item i ON i.item = u.item LEFT JOIN pair p ON p.pair = u.pair
LEFT JOIN system s1 ON s1.system = p.first LEFT JOIN system s2 ON s2.system = p.second WHERE a.assignment = ?
"""


class StudyFileReader:
    """Access to the true content of questions. Pages do not reveal systems and expected answers, so the content is read
    from the study file."""

    def __init__(self, path: Path) -> None:
        self._file = study_file.connect(path, durable=False)

    def question(self, assignment_id: int) -> ShownQuestion:
        """Return the true content of the question that an assignment asks."""
        flip, expected_answer, item, *systems = self._file.execute(_CONTENT, (assignment_id,)).fetchone()
        side_sign = -1 if flip else 1
        if expected_answer is not None:
            return ShownQuestion(expected=side_sign * expected_answer)
        return ShownQuestion(item=item, shown=tuple(system for system in systems if system is not None)[::side_sign])

    def items(self) -> list[str]:
        """Return the labels of all items."""
        return [item_label for (item_label,) in self._file.execute("SELECT label FROM item ORDER BY item")]

    def systems(self) -> list[str]:
        """Return the labels of all systems."""
        return [system_label for (system_label,) in self._file.execute("SELECT label FROM system ORDER BY system")]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Drive:
    """Simulation of annotators who use a service. Events are processed in the order of a simulated clock."""

    def __init__(
        self,
        service: Service,
        crowd: Crowd,
        file_reader: StudyFileReader,
        plan: StudyPlan,
        simulated_seconds_cell: list[float],
    ) -> None:
        self._service, self._crowd, self._file_reader, self._time = service, crowd, file_reader, simulated_seconds_cell
        self._most = plan.annotators.most
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = counting()
        self.came, self.work, self.last = 0, 0.0, 0.0
        self.without_work: list[float] = []
        """Times at which an annotator found no more questions."""

    def run(self, n_annotators: int) -> bool:
        """Run the simulation until no annotator is left. Return False if the time limit is reached."""
        for arrival_time in range(n_annotators):
            self._arrive(float(arrival_time))
        while self._queue:
            event_time, _, next_event = heappop(self._queue)
            if event_time > LONGEST:
                return False
            self._time[0] = event_time
            next_event()
        return True

    def _schedule(self, event_time: float, method: Callable[..., None], *arguments: object) -> None:
        run_event: Callable[[], None] = partial(method, *arguments)
        heappush(self._queue, (event_time, next(self._order), run_event))

    def _arrive(self, arrival_time: float) -> None:
        if self.came < self._most:
            ((_, token),) = self._service.invite(1).result()
            self.came += 1
            self._schedule(arrival_time, self._load_page, self._crowd.arrive(), token)

    def _load_page(self, habit: Habit, token: str) -> None:
        self._react(habit, token, self._service.view(token).result())

    def _react(self, habit: Habit, token: str, view: View | None) -> None:
        simulated_now = self._time[0]
        match view:
            case Ask():
                answer_seconds = self._crowd.seconds(habit)
                self._schedule(
                    simulated_now + min(RENEWED, answer_seconds),
                    self._read,
                    habit,
                    token,
                    view,
                    simulated_now,
                    answer_seconds,
                )
            case Wait():
                self._schedule(simulated_now + view.seconds, self._load_page, habit, token)
            case VisitEnd(why="finished" | "blocked" | "failed"):
                self._arrive(simulated_now)
            case VisitEnd(why="no-work"):
                self.without_work.append(simulated_now)
            case Consent() | Instructions() | Break():
                self._schedule(simulated_now + 1.0, self._act, habit, token, view)

    def _read(self, habit: Habit, token: str, view: Ask, shown_at: float, answer_seconds: float) -> None:
        """Signal that the page of a question is still open, or answer the question."""
        answer_time = shown_at + answer_seconds
        if self._time[0] >= answer_time:
            self._act(habit, token, view, answer_seconds)
            return
        self._service.renew_lease(token, view.assignment).result()
        next_time = min(self._time[0] + RENEWED, answer_time)
        self._schedule(next_time, self._read, habit, token, view, shown_at, answer_seconds)

    def _act(self, habit: Habit, token: str, view: View, answer_seconds: float = 0.0) -> None:
        action: Act = Agree(digest=view.digest) if isinstance(view, Consent) else Begin()
        if isinstance(view, Ask):
            answer_of_aspect = self._crowd.values(habit, self._file_reader.question(view.assignment))
            action = Answer(assignment=view.assignment, values=answer_of_aspect, seconds=answer_seconds)
            self.last = self._time[0]
            self.work += answer_seconds
        next_view = self._service.act(token, action).result()
        if isinstance(view, Ask) and self._crowd.leaves():  # with an open question
            self._arrive(self._time[0])
        else:
            self._react(habit, token, next_view)
