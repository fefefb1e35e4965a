"""Simulated annotators: careful ones follow the requested margin, others their habits."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import custodes as cu
from custodes.annotate.event_log import Clock
from custodes.annotate.plan import StoppingRule, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.simulated_crowd import (
    Crowd,
    Drive,
    Habit,
    Habits,
    ShownQuestion,
    StudyFileReader,
    gap_of,
    margin_of,
)
from custodes.data.simulate import FACTS, demo_texts
from tests.annotate import studies

ITEMS = [f"item{k}" for k in range(300)]


def crowd(better: float, *, scale: tuple[int, int] | None = None, **habits: float) -> Crowd:
    return Crowd(
        systems=["B", "A"],
        items=ITEMS,
        aspects=("", "style"),
        margin=better,
        habits=Habits(**habits),
        rng=np.random.default_rng(1),
        scale=scale,
    )


def preferences(annotators: Crowd, person: Habit, order: tuple[str, str], n: int) -> np.ndarray:
    return np.array(
        [annotators.values(person, ShownQuestion(item=ITEMS[k % len(ITEMS)], shown=order))[""] for k in range(n)],
        dtype=float,
    )


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.5])
def test_careful_annotators_prefer_by_the_margin_in_both_orders(margin: float) -> None:
    careful = crowd(margin, careless=0.0, sided=0.0)
    person = careful.arrive()
    ab, ba = (preferences(careful, person, order, 3000) for order in (("A", "B"), ("B", "A")))
    # A standard error of 3,000 answers is .017, and that of 300 items .04.
    assert abs(ab.mean() - margin) < 0.12
    assert abs(ab.mean() + ba.mean()) < 0.08
    assert margin_of(gap_of(margin, careful.habits), careful.habits) == pytest.approx(margin, abs=1e-3)


def test_habits() -> None:
    sided = crowd(0.5, careless=0.0, sided=1.0)
    assert set(preferences(sided, sided.arrive(), ("B", "A"), 50)) == {1.0}
    careless = crowd(0.9, careless=1.0, sided=0.0)
    person = careless.arrive()
    assert abs(preferences(careless, person, ("A", "B"), 3000).mean()) < 0.06
    assert careless.seconds(person) < 4 * np.median([sided.seconds("careful") for _ in range(99)])
    raters = crowd(0.9, scale=(0, 100), careless=1.0, sided=0.0)
    rating = raters.values(raters.arrive(), ShownQuestion(item="item0", shown=("A",)))
    assert all(0 <= value <= 100 for value in rating.values())
    careful = crowd(0.0, careless=0.0, sided=0.0)
    person = careful.arrive()
    is_right = [careful.values(person, ShownQuestion(expected=-1))["style"] == -1 for _ in range(500)]
    assert 0.9 < np.mean(is_right) < 0.99  # .93 + .07 / 3


def test_each_answer_has_one_time(tmp_path: Path) -> None:
    """The clock, the seconds of the answers and the working time agree."""
    path, time = studies.study(tmp_path / "study.db", plan=StudyPlan(stopping=StoppingRule(looks=(20,)))), [0.0]
    clock = Clock(wall=lambda: time[0], steady=lambda: time[0])
    with (
        closing(StudyFileReader(path)) as file_reader,
        closing(Service.open(path, clock=clock, threaded=False, durable=False)) as service,
    ):
        annotators = Crowd(
            systems=file_reader.systems(),
            items=file_reader.items(),
            aspects=("",),
            margin=0.2,
            habits=Habits(),
            rng=np.random.default_rng(1),
        )
        drive = Drive(service, annotators, file_reader, service.plan, time)
        assert drive.run(4)
    seconds = np.array(studies.query_rows(path, "SELECT server_seconds, visible_seconds FROM judgment"))
    assert len(seconds) >= 20
    assert seconds[:, 0] == pytest.approx(seconds[:, 1])
    assert drive.work == pytest.approx(seconds[:, 0].sum())


def test_demo_texts_can_be_read_by_name() -> None:
    outputs = cu.read("demo-texts").outputs
    assert outputs is not None
    assert outputs.texts.height == demo_texts().height == 180


def test_demo_texts_differ_and_have_the_planted_mistakes() -> None:
    texts = demo_texts(items=200)
    assert texts.n_unique(["item", "text"]) == texts.height == 600
    wrong = {
        system: np.mean(
            [
                not all(word.lower() in row["text"].lower() for word in facts(row["context"]))
                for row in texts.filter(texts["system"] == system).to_dicts()
            ]
        )
        for system in ("Aster", "Birch", "Cedar")
    }
    # One of six facts wrong: 1 - .96**6 = .22, 1 - .94**6 = .31, 1 - .65**6 = .92; standard errors of 200 about .03.
    assert wrong["Aster"] == pytest.approx(0.22, abs=0.1)
    assert wrong["Birch"] == pytest.approx(0.31, abs=0.1)
    assert wrong["Cedar"] == pytest.approx(0.92, abs=0.06)


def facts(context: str) -> list[str]:
    """Return the facts of a message: the longest of several words where one contains the other."""
    return [max((word for word in words if word in context), key=len) for words in FACTS.values()]
