"""Honest validation: every method learns on a training part alone and is scored on what was held out."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from custodes.combine.methods import METHODS, Lesson
from custodes.combine.normalise import Normalisation, normalisation
from custodes.combine.task import Task
from custodes.data.panel import Floats
from custodes.evaluate.parallel import each
from custodes.progress import Progress
from custodes.stats.agreement import correlation, kendall
from custodes.stats.learning import heldout
from custodes.stats.learning.objective import Objective

STATISTICS: dict[str, heldout.Statistic] = {
    "kendall": kendall.pooled_kendall,
    "spearman": correlation.pooled_spearman,
    "pearson": correlation.pooled_pearson,
    "accuracy": heldout.ordering_accuracy,
}


def lesson_of(
    of: Task,
    train: NDArray[np.bool_],
    objective: Objective,
    top: int | None,
    rng: np.random.Generator,
) -> tuple[Normalisation, NDArray[np.intp], Lesson]:
    """The scales fitted on a training part (items, systems), its flat rows, and what methods learn from."""
    rows = np.flatnonzero((train & np.isfinite(of.human)).ravel())
    x = of.scores.reshape(len(of.scores), -1)[:, rows].T
    scales = normalisation(x, names=of.names, directions=of.directions, declared=of.declared)
    n_systems = len(of.systems)
    return (
        scales,
        rows,
        Lesson(
            x=scales.apply(x),
            y=of.human.ravel()[rows],
            items=rows // n_systems,
            groups=of.units[rows // n_systems],
            by=objective,
            top=top,
            rng=rng,
        ),
    )


def validated(
    of: Task,
    methods: tuple[str, ...],
    held_out: list[NDArray[np.intp]],
    objective: Objective,
    top: int | None,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Floats, Floats, Floats]:
    """Out-of-fold predictions (repeats, methods, items, systems), and of every fit (jobs, methods) its seconds and the
    number of metrics used."""
    jobs = [(r, int(f)) for r, fold in enumerate(held_out) for f in np.unique(fold[fold >= 0])]
    predicted = np.full((len(held_out), len(methods), *of.human.shape), np.nan)

    def answer(job: tuple[int, int], rng: np.random.Generator) -> tuple[list[float], list[int]]:
        repeat, out = job
        fold = held_out[repeat]
        scales, _, lesson = lesson_of(of, (fold >= 0) & (fold != out), objective, top, rng)
        held = np.flatnonzero((fold == out).ravel())
        x = scales.apply(of.scores.reshape(len(of.scores), -1)[:, held].T)
        seconds, used = [], []
        state = rng.bit_generator.state
        for m, name in enumerate(methods):
            rng.bit_generator.state = state  # so that no method depends on those before it
            start = time.perf_counter()
            formula = METHODS[name](lesson)
            seconds.append(time.perf_counter() - start)
            used.append(len(formula.used))
            predicted[repeat, m].reshape(-1)[held] = formula.predict(x)
        return seconds, used

    answers = list(each(answer, jobs, rng=rng, progress=progress, desc="combine", label=str))
    return predicted, np.array([own for own, _ in answers]), np.array([own for _, own in answers], dtype=np.float64)


def scores(of: Task, predicted: Floats, held_out: list[NDArray[np.intp]], statistic: str, weights: Floats) -> Floats:
    """A statistic of each method, averaged over folds and repeats, in every resample -> (B, methods)."""
    draws = [
        heldout.heldout(STATISTICS[statistic], of.human, own, fold, units=of.units, weights=weights)
        for own, fold in zip(predicted, held_out, strict=True)
    ]
    return np.asarray(np.mean(draws, axis=0))


def undefined(of: Task, predicted: Floats, held_out: list[NDArray[np.intp]], statistic: str) -> NDArray[np.int64]:
    """In how many folds of all repeats the statistic of each method does not exist -> (methods,)."""
    point = np.ones((1, of.n_units))
    lost = np.zeros(predicted.shape[1], dtype=np.int64)
    for own, fold in zip(predicted, held_out, strict=True):
        for f in np.unique(fold[fold >= 0]):
            lost += np.isnan(scores(of, own[np.newaxis], [np.where(fold == f, fold, -1)], statistic, point)[0])
    return lost
