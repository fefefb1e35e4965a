"""Reading of running studies: only completed interim analyses count, so that reading is no further analysis."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from math import sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.annotate.export_study import export
from custodes.annotate.plan import AnnotatorPlan, StoppingRule, StudyPlan
from custodes.data.reading import read
from custodes.reporting.sections.annotators import last_interim_analyses
from tests.annotate.studies import answer, new_annotator, open_service, plan_of, study

QUIET = {"gold_every": 0, "attention": 0, "overlap": 0.0, "cap": 1.0, "batch": 50}
BOUND = 2.289
"""Pocock's bound for three interim analyses at .05 (Jennison and Turnbull 2000, table 2.1)."""


def n_waiting(path: Path) -> int:
    return sum(note.count for note in read(path).notes if note.rule == "incomplete-looks")


def test_answers_count_after_their_interim_analysis(tmp_path: Path) -> None:
    plan = plan_of(annotators=QUIET, stopping={"looks": [4, 8], "stop": "decided"})
    path = study(tmp_path / "study.db", plan=plan, items=10, known_questions={})
    with open_service(path) as service:
        token = new_annotator(service)
        counts = []
        for n in range(8):
            answer(service, token, n % 2 * 2 - 1)
            counts.append((read(path).preferences.frame.height, n_waiting(path)))
        assert counts == [(0, 1), (0, 2), (0, 3), (4, 0), (4, 1), (4, 2), (4, 3), (8, 0)]


def test_exports_and_reports_use_completed_interim_analyses(tmp_path: Path) -> None:
    plan = plan_of(annotators=QUIET, stopping={"looks": [4, 8], "stop": "decided"})
    path = study(tmp_path / "study.db", plan=plan, items=10, known_questions={})
    with open_service(path) as service:
        token = new_annotator(service)
        for value in (1, -1, 1, -1, 1, 1):
            answer(service, token, value)
        folder = export(path, tmp_path / "out")
        assert (pl.read_csv(folder / "battles.csv").height, pl.read_csv(folder / "answers.csv").height) == (4, 6)
        assert ("2 answers of incomplete interim analyses are left out until the analysis is complete or the") in (
            folder / "signature.txt"
        ).read_text()
        assert last_interim_analyses(read(path))["n"].to_list() == [4]
        service.control("stop").result()
        assert (read(path).preferences.frame.height, n_waiting(path)) == (6, 0)
        service.control("reopen").result()
        assert (read(path).preferences.frame.height, n_waiting(path)) == (4, 2)


def decides(signs: np.ndarray, bound: float = BOUND) -> bool:
    """Return whether a reader with a bound, applied from ten answers on, finds a significant difference."""
    return len(signs) >= 10 and abs(signs.sum()) >= bound * sqrt(max((signs**2).sum(), 1))


@pytest.mark.slow
def test_reading_after_every_answer_adds_no_false_decisions(tmp_path: Path) -> None:
    # Two systems without a difference; `all_answers` counts the errors of a reader who sees every answer.
    plan = plan_of(annotators=QUIET, stopping={"looks": [10, 20, 40], "stop": "decided", "gamma": 1e-9})
    rng, false = np.random.default_rng(0), {"looks": 0, "reader": 0, "all_answers": 0}
    for n in range(100):
        path = study(tmp_path / f"{n}.db", plan=plan, items=40, known_questions={})
        with open_service(path) as service:
            token, read_at, height = new_annotator(service), [], 0
            for _ in range(40):
                answer(service, token, int(rng.choice([-1, 1])))
                preferences = read(path).preferences.frame["preference"].to_numpy().astype(float)
                if len(preferences) != height:
                    read_at.append(preferences)
                    height = len(preferences)
        with closing(sqlite3.connect(path)) as base:
            answers = np.array(base.execute("SELECT answer FROM answers ORDER BY answer_id").fetchall()).ravel()
        false["reader"] += any(decides(prefix) for prefix in read_at)
        false["looks"] += any(decides(answers[:k]) for k in (10, 20, 40))
        false["all_answers"] += any(decides(answers[:k]) for k in range(10, 41))
    assert false["reader"] == false["looks"] <= 12
    assert false["all_answers"] > false["looks"]


def test_the_metric_of_a_study_is_read(tmp_path: Path) -> None:
    texts = pl.DataFrame(
        [(f"d{n}", system, f"text {n} {system}") for n in range(20) for system in "AB"],
        schema=["item", "system", "text"],
        orient="row",
    )
    scores = texts.select("item", "system").with_columns(
        rater=pl.lit("m"), kind=pl.lit("metric"), score=pl.Series(np.random.default_rng(0).normal(size=40))
    )
    plan = StudyPlan(
        annotators=AnnotatorPlan(**QUIET), stopping=StoppingRule(looks=(10, 20), stop="decided", estimator="ppi")
    )
    path = cu.annotate.new(read(texts, scores), tmp_path / "study.db", plan=plan, metric="m")
    with open_service(path) as service:
        token = new_annotator(service)
        for n in range(10):
            answer(service, token, 1 if n % 3 else -1)
    result = read(path)
    assert result.metrics == ("m",)
    signs = scores["score"].to_numpy().reshape(20, 2)
    metric_preferences = result.preferences.frame.filter(rater="m").sort(pl.col("item").str.slice(1).cast(int))
    assert metric_preferences["preference"].to_list() == np.sign(signs[:, 0] - signs[:, 1]).astype(int).tolist()
    for source in (result, read(path, scores)):  # also together with the original scores
        assert cu.correction(source, estimator="ppi").pairs.height == 3  # naive, human, ppi
    battles = pl.read_csv(export(path, tmp_path / "out") / "battles.csv")
    assert battles.filter(kind="metric").height == 20
