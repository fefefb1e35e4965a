"""New studies answered through the service, also after `add`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl

from custodes.annotate.add_to_study import add
from custodes.annotate.event_log import Clock
from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, Ending, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.views import Agree, Answer, Ask, Begin, Break, Consent, Done, Instructions, Wait
from custodes.data.reading import read
from tests.annotate.files import texts

ANNOTATORS = AnnotatorPlan(cap=1.0, batch=6, batches=30, overlap=0.0, attention=1)


def answer(service: Service, judge: Callable[[Ask], int], *, most: int = 10_000) -> list[Ask]:
    """Let one annotator answer up to `most` questions, and return the questions."""
    ((_, token),) = service.invite(1).result()
    questions: list[Ask] = []
    aspects = service.plan.question.aspects
    while len(questions) < most:
        view = service.view(token).result()
        if isinstance(view, Consent):
            service.act(token, Agree(digest=view.digest)).result()
        elif isinstance(view, Instructions | Break):
            service.act(token, Begin()).result()
        elif isinstance(view, Ask):
            questions.append(view)
            values = dict.fromkeys(aspects, judge(view))
            service.act(token, Answer(assignment=view.assignment, values=values, seconds=9.0)).result()
        else:
            assert isinstance(view, Done | Wait)
            break
    return questions


def prefer_system_a(view: Ask) -> int:
    """Prefer system A, and follow the instructions of attention checks."""
    is_expected = ["better" in side.html and "not a response" in side.html for side in view.sides]
    if any(is_expected):
        return -1 if is_expected[0] else 1
    if any("are equal" in side.html for side in view.sides):
        return 0
    return 1 if ">A says" in view.sides[0].html else -1 if ">A says" in view.sides[1].html else 0


def test_a_metric_is_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = texts(systems="AB", items=40).select("item", "system")
    scores = rows.with_columns(
        rater=pl.lit("m"),
        kind=pl.lit("metric"),
        score=pl.when(pl.col("system") == "A").then(1.0).otherwise(0.0) + pl.Series(rng.normal(size=80)),
    )
    plan = StudyPlan(annotators=ANNOTATORS, stopping=Ending(estimator="ppi"))
    path = new(read(texts(systems="AB", items=40), scores), tmp_path / "study.db", plan=plan, metric="m")
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        answer(service, prefer_system_a)
        (pair,) = service.snapshot().result().pairs
    assert (pair.decision, pair.is_open) == (1, False)


def test_additions_are_asked_and_answers_stay(tmp_path: Path) -> None:
    path = new(texts(systems="AB"), tmp_path / "study.db", plan=StudyPlan(annotators=ANNOTATORS))
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        answer(service, prefer_system_a, most=8)
        before = service.snapshot().result()
    add(path, texts(systems="ABC", items=14))
    now = [time.time()]
    clock = Clock(wall=lambda: now[0], steady=lambda: now[0])
    with closing(Service.open(path, threaded=False, durable=False, clock=clock)) as service:
        after = service.snapshot().result()
        assert after.answers == before.answers
        assert [(pair.first, pair.second) for pair in after.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]
        assert after.pairs[0].answered == before.pairs[0].answered
        now[0] += 3600  # the open question of the first annotator is released
        answer(service, prefer_system_a)
        end = service.snapshot().result()
    assert end.answers > after.answers
    assert [pair.looks_done > 0 for pair in end.pairs] == [True, True, True]
