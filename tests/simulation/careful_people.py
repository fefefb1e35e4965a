"""Simulated studies with careful annotators who would fail a naive test, and with careless annotators."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

import custodes as cu
from custodes.evaluate.annotators.annotator_statistics import LITTLE

LABELS = np.array([1, 0, -1])


class Crowd(NamedTuple):
    """Rows of a study, and the numbers of its careless annotators."""

    rows: pl.DataFrame
    careless: frozenset[int] = frozenset()


Draw = Callable[[np.random.Generator], Crowd]


def assigned(
    rng: np.random.Generator, *, people: int, answers: int, times: int, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw task and annotator of each answer; `times` annotators per task, weighted by `weight` (tasks, people)."""
    tasks = people * answers // times
    key = rng.exponential(size=(tasks, people)) / (1 if weight is None else weight)
    return np.repeat(np.arange(tasks), times), np.argsort(key, axis=1)[:, :times].ravel()


def rows(task: np.ndarray, person: np.ndarray, *, tasks_per_item: int = 1, **columns: object) -> pl.DataFrame:
    """Rows with a `score` of an output, or a `preference` between two, for each answer."""
    frame = pl.DataFrame({"item": [f"i{t // tasks_per_item}" for t in task], **columns})
    system = pl.Series([f"s{t % tasks_per_item}" for t in task])
    names = {"system": system} if "score" in columns else {"system_a": system, "system_b": pl.lit("z")}
    return frame.with_columns(**names, rater=pl.Series([f"w{p:02d}x" for p in person]), kind=pl.lit("human"))


def verdicts(
    rng: np.random.Generator, task: np.ndarray, knows: np.ndarray, usual: tuple[float, ...] = (0.4, 0.2, 0.4)
) -> np.ndarray:
    """Draw preferences: correct with probability `knows`, otherwise guesses with the probabilities `usual`."""
    truth = rng.choice(3, int(task.max()) + 1, p=usual)
    return LABELS[np.where(rng.random(len(task)) < knows, truth[task], rng.choice(3, len(task), p=usual))]


def harder(rng: np.random.Generator, *, people: int = 10, answers: int = 300, times: int = 3) -> Crowd:
    """A fifth of the items are hard (accuracy .25 instead of .95); the first annotator gets few others."""
    hard = rng.random(people * answers // times) < 0.2
    weight = np.ones((len(hard), people))
    weight[~hard, 0] = 0.03
    task, person = assigned(rng, people=people, answers=answers, times=times, weight=weight)
    return Crowd(rows(task, person, preference=verdicts(rng, task, np.where(hard[task], 0.25, 0.95))))


def harder_ratings(rng: np.random.Generator) -> Crowd:
    """Eight outputs per item and five annotators; errors on two fifths of the items are three times as large."""
    items, each, people = 50, 8, 5
    item = np.arange(items * each) // each
    hard = rng.random(items) < 0.4
    weight = np.ones((len(item), people))
    weight[~hard[item], 0] = 0.05
    task, person = assigned(rng, people=people, answers=240, times=3, weight=weight)
    quality = 0.7 * rng.normal(size=items)[item] + 0.8 * rng.normal(size=len(item))
    error = np.where(hard[item[task]], 1.3, 0.45) * rng.normal(size=len(task))
    severity = 0.5 * rng.normal(size=people)
    return Crowd(rows(task, person, score=scale(quality[task] + error + severity[person]), tasks_per_item=each))


def scale(value: np.ndarray) -> np.ndarray:
    """Round to scores from 1 to 5."""
    return np.asarray(np.clip(np.round(3 + value), 1, 5))


def harsh_and_lenient(
    rng: np.random.Generator, *, by: float = 1.5, times: int = 3, careless: int = 0, answers: int = 100
) -> Crowd:
    """Ten annotators, of whom the last but one is harsh and the last one lenient by `by` points."""
    task, person = assigned(rng, people=10, answers=answers, times=times)
    severity = np.array([0.0] * 8 + [-by, by])
    careful = scale(rng.normal(size=task.max() + 1)[task] + 0.6 * rng.normal(size=len(task)) + severity[person])
    score = np.where(person < careless, rng.integers(1, 6, len(task)), careful)
    return Crowd(rows(task, person, score=score), frozenset(range(careless)))


def other_scales(rng: np.random.Generator) -> Crowd:
    """Ten annotators with individual severity and use of the scale."""
    task, person = assigned(rng, people=10, answers=100, times=10)
    severity, stretch = rng.normal(size=10), np.exp(0.5 * rng.normal(size=10))
    value = rng.normal(size=task.max() + 1)[task] + 0.7 * rng.normal(size=len(task))
    return Crowd(rows(task, person, score=scale(stretch[person] * value + severity[person])))


def expert(rng: np.random.Generator, *, tasks: int = 150, knows: float = 0.0) -> Crowd:
    """Comparisons by an expert and two careless annotators."""
    task, person = np.repeat(np.arange(tasks), 3), np.tile(np.arange(3), tasks)
    return Crowd(
        rows(task, person, preference=verdicts(rng, task, np.array([0.95, knows, knows])[person])), frozenset({1, 2})
    )


def expert_rates(rng: np.random.Generator) -> Crowd:
    """An expert uses the full scale; two careless annotators use its upper end, nearly at random."""
    task, person = np.repeat(np.arange(300), 3), np.tile(np.arange(3), 300)
    quality = rng.normal(size=300)[task]
    careless = 1.4 + 0.3 * quality + 0.5 * rng.normal(size=len(task))
    value = np.where(person == 0, 1.2 * quality + 0.3 * rng.normal(size=len(task)), careless)
    return Crowd(rows(task, person, score=scale(value)), frozenset({1, 2}))


def expert_and_clickers(rng: np.random.Generator) -> Crowd:
    """All annotators see a pair in the same order, and two of three mostly choose the first position."""
    task, person = np.repeat(np.arange(150), 3), np.tile(np.arange(3), 150)
    first = rng.choice([1, -1], 150)[task]
    preference = verdicts(rng, task, np.full(len(task), 0.95))
    preference = np.where((person > 0) & (rng.random(len(task)) < 0.8), first, preference)
    order = np.where(first > 0, "ab", "ba")
    return Crowd(rows(task, person, preference=preference, order=order), frozenset({1, 2}))


def skewed(rng: np.random.Generator, *, people: int = 10, careless: int = 0) -> Crowd:
    """Nine of ten preferences are wins."""
    task, person = assigned(rng, people=people, answers=100, times=3)
    usual = (0.9, 0.05, 0.05)
    preference = verdicts(rng, task, rng.beta(6, 2.5, people)[person], usual)
    guess = rng.integers(-1, 2, len(task))
    return Crowd(
        rows(task, person, preference=np.where(person < careless, guess, preference)), frozenset(range(careless))
    )


def individual_thresholds(rng: np.random.Generator) -> Crowd:
    """Most annotators prefer nearly always the same side, or tie nearly always."""
    task, person = assigned(rng, people=10, answers=300, times=3)
    margin = rng.normal(size=task.max() + 1)[task] + 0.7 * rng.normal(size=len(task)) + 3 * rng.normal(size=10)[person]
    is_tie = np.abs(margin) < rng.lognormal(size=10)[person]
    return Crowd(rows(task, person, preference=np.where(is_tie, 0, np.sign(margin).astype(int))))


def careless(
    rng: np.random.Generator, *, people: int = 10, answers: int = 100, times: int = 3, ties: float = 0.2
) -> Crowd:
    """The careless annotators answer uniformly at random; the others have an accuracy of .71 on average."""
    task, person = assigned(rng, people=people, answers=answers, times=times)
    knows = rng.beta(6, 2.5, people)
    preference = verdicts(rng, task, knows[person], ((1 - ties) / 2, ties, (1 - ties) / 2))
    preference = np.where(person == 0, rng.integers(-1, 2, len(task)), preference)
    return Crowd(rows(task, person, preference=preference), frozenset({0}))


CAREFUL: dict[str, Draw] = {
    "harder items, 3 of 10 each": harder,
    "harder items, 2 of 10 each": lambda rng: harder(rng, times=2),
    "harder items, ratings of clustered outputs": harder_ratings,
    "harsh and lenient, 3 of 10 each": harsh_and_lenient,
    "harsh and lenient, all ten": lambda rng: harsh_and_lenient(rng, times=10),
    "very harsh and lenient": lambda rng: harsh_and_lenient(rng, by=3.0, answers=300),
    "other scales": other_scales,
    "an expert beside two who guess": expert,
    "an expert beside two who seldom look": lambda rng: expert(rng, knows=0.2),
    "an expert beside two who rate high": expert_rates,
    "an expert beside two who click": expert_and_clickers,
    "nine of ten alike": skewed,
    "nine of ten alike, three people": lambda rng: skewed(rng, people=3),
    "individual thresholds": individual_thresholds,
    "half ties": lambda rng: careless(rng, ties=0.5),
}
"""Kinds of studies without careless annotators, in which no flag is correct."""

CARELESS: dict[str, tuple[Draw, float]] = {
    "comparisons by 3 of 10": (careless, 0.797),
    "comparisons by 5 of 10": (lambda rng: careless(rng, times=5), 0.843),
    "comparisons by all ten": (lambda rng: careless(rng, times=10), 0.900),
    "comparisons by three": (lambda rng: careless(rng, people=3), 0.380),
    "ratings by 3 of 10": (lambda rng: harsh_and_lenient(rng, by=0.0, careless=1), 0.617),
    "ratings by all ten": (lambda rng: harsh_and_lenient(rng, by=0.0, careless=1, times=10), 0.877),
    "ratings by harsh and lenient ones": (lambda rng: harsh_and_lenient(rng, by=1.0, careless=1), 0.387),
    "nine of ten alike": (lambda rng: skewed(rng, careless=1), 0.280),
}
"""Kinds of studies with a careless annotator, and how often the former test, of exact agreement, flagged them."""


class Rates(NamedTuple):
    """Proportion of studies with a flag on a careful annotator, and proportion of careless annotators with a flag."""

    false: float
    power: float


def rates(draw: Draw, studies: int) -> Rates:
    """Simulated rates of flags for low agreement."""
    false, hits, careless_people = 0, 0, 0
    for seed in range(studies):
        crowd = draw(np.random.default_rng([20261123, seed]))
        study = cu.annotators(cu.read(crowd.rows), method="majority", annotator_type="persons", resamples=0).annotators
        flagged = {int(row[0][1:3]) for row in study.select("rater", "flags").iter_rows() if LITTLE in row[1]}
        false += bool(flagged - crowd.careless)
        hits += len(flagged & crowd.careless)
        careless_people += len(crowd.careless)
    return Rates(false / studies, hits / careless_people if careless_people else float("nan"))
