"""Corrected leaderboards of annotation studies, simulated from assignment to answer, with interim analyses."""

from __future__ import annotations

import shutil
from contextlib import closing
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.annotate.event_log import Clock
from custodes.annotate.rehearsal import START
from custodes.annotate.service import Service
from custodes.annotate.simulated_crowd import Crowd, Drive, Habits, ShownQuestion, StudyFileReader
from custodes.stats.strength.strengths import strengths
from tests.annotate import studies
from tests.annotate.studies import plan_of
from tests.stats.strength.battles import battles

STUDIES, ITEMS, SYSTEMS, PEOPLE = 200, 100, ("s0", "s1", "s2"), 12
HABITS = Habits(leaving=0.0)
JUDGES = ("good", "biased", "useless")


def crowd(better: float, items: int, rng: np.random.Generator) -> Crowd:
    labels = [f"i{k}" for k in range(items)]
    return Crowd(systems=SYSTEMS, items=labels, aspects=("",), margin=better, habits=HABITS, rng=rng)


def mean_answers(annotators: Crowd, items: int, person: int) -> np.ndarray:
    """One answer of an annotator on each item for each pair (items, pairs), on the first system."""
    pairs = list(combinations(SYSTEMS, 2))
    return np.array(
        [
            [annotators.values(person, ShownQuestion(item=f"i{k}", shown=pair))[""] for pair in pairs]
            for k in range(items)
        ]
    )


@cache
def target(better: float) -> np.ndarray:
    """Strengths by the model of `strengths` from very many answers, each by another annotator, in random order."""
    if not better:
        return np.zeros(3)
    rng = np.random.default_rng(7)
    annotators = crowd(better, 4000, rng)
    annotators.habits = Habits(careless=0.0, sided=0.0)  # of careful annotators; mixed with the others below
    signs = mean_answers(annotators, 4000, annotators.arrive())
    first, second = np.tile(np.array(list(combinations(range(3), 2))), (len(signs), 1)).T
    # Of ten annotators eight are careful, one answers at random, and one takes the first position, which has either
    # system.
    columns, results, weight = [], [], []
    for outcome in (1, 0, -1):
        columns.append((first, second))
        results.append(np.full(signs.size, outcome))
        weight.append(0.8 * (signs.ravel() == outcome) + 0.1 / 3 + 0.05 * (outcome != 0))
    sides = np.concatenate(columns, axis=1)
    everything = battles(*sides, np.concatenate(results), weight=np.concatenate(weight))
    result = strengths(everything, n_systems=3, ties="davidson", resamples=0, rng=rng)
    return result.draws[0]


def judge_preferences(kind: str, annotators: Crowd, rng: np.random.Generator) -> pl.DataFrame:
    """Draw preferences of a judge: as one more careful annotator, partly for s2 (`biased`), or at random."""
    annotators.habits = Habits(careless=0.0, sided=0.0)
    signs = mean_answers(annotators, ITEMS, annotators.arrive())
    if kind == "useless":
        signs = rng.integers(-1, 2, signs.shape)
    rows = [
        (
            f"i{k}",
            a,
            b,
            "judge",
            "metric",
            int(-1 if kind == "biased" and b == "s2" and rng.random() < 0.25 else signs[k, p]),
        )
        for k in range(ITEMS)
        for p, (a, b) in enumerate(combinations(SYSTEMS, 2))
    ]
    return pl.DataFrame(rows, schema=["item", "system_a", "system_b", "rater", "kind", "preference"], orient="row")


def complete_study(path: Path, annotators: Crowd) -> None:
    """Simulate annotators until the study is finished."""
    time = [0.0]
    clock = Clock(wall=lambda: START + time[0], steady=lambda: time[0])
    with (
        closing(StudyFileReader(path)) as behind,
        closing(Service.open(path, clock=clock, threaded=False, durable=False)) as service,
    ):
        Drive(service, annotators, behind, service.plan, time).run(PEOPLE)


def coverage(folder: Path, better: float, kind: str, n: int) -> tuple[float, float, float, int]:
    """Coverage of strengths, corrected and by human ratings alone; ratio of widths; number of refusals."""
    empty, path = folder / "empty.db", folder / "study.db"
    stopping = {"looks": (10, 20, 40), "boundary": "pocock", "stop": "futility", "futility": 0.2}
    plan = plan_of(stopping=stopping, annotators={"overlap": 0.0})
    studies.study(empty, plan=plan, systems=3, items=ITEMS, known_questions={})
    truth, hits, widths, refused = target(better), [], [], 0
    for seed in range(n):
        shutil.copyfile(empty, path)
        rng = np.random.default_rng([seed, JUDGES.index(kind)])
        annotators = crowd(better, ITEMS, rng)
        complete_study(path, annotators)
        table = judge_preferences(kind, annotators, rng)
        board = cu.leaderboard(cu.read(path, table), resamples=300)
        for left in folder.glob("study.db*"):
            left.unlink()
        rows = {name: board.systems.filter(rater=name).sort("system") for name in ("human", "corrected:judge")}
        if board.corrected["reason"][0]:
            refused += 1
            continue
        bounds = {
            name: frame.select("strength_low", "strength_high").to_numpy().astype(float) for name, frame in rows.items()
        }
        if any(not np.isfinite(values).all() for values in bounds.values()):
            continue  # a system won or lost all battles
        hits.append([((low <= truth) & (truth <= high)).mean() for low, high in (v.T for v in bounds.values())])
        widths.append([float(np.diff(values).mean()) for values in bounds.values()])
    human_only, corrected = np.mean(hits, axis=0)
    by_human, wide = np.mean(widths, axis=0)
    return float(corrected), float(human_only), float(wide / by_human), refused


@pytest.mark.slow
@pytest.mark.parametrize(("better", "kind"), [(0.0, "useless"), (0.3, "good"), (0.3, "biased")])
def test_corrected_strengths_of_adaptive_studies(tmp_path: Path, better: float, kind: str) -> None:
    corrected, _, width, refused = coverage(tmp_path, better, kind, STUDIES)
    assert 0.93 <= corrected <= 0.985
    assert width <= 1.02
    assert refused <= 2
