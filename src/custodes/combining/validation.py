"""Honest validation: every method learns on a training part alone and is scored on what was held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from custodes.arguments import at_least, between, one_of
from custodes.combining.methods import BEST, Lesson, Method
from custodes.combining.normalise import Normalisation, normalisation
from custodes.combining.task import Task, outer_folds
from custodes.errors import OptionError
from custodes.evaluate.parallel import each
from custodes.memory import check_memory
from custodes.progress import Progress
from custodes.stats.agreement import correlation, kendall
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning import heldout
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.learning.unseen import Moves, moves

STATISTICS: dict[str, heldout.Statistic] = {
    "kendall": kendall.pooled_kendall,
    "spearman": correlation.pooled_spearman,
    "pearson": correlation.pooled_pearson,
    "accuracy": heldout.ordering_accuracy,
}

Unseen = Literal["fast", "all", "none"]
"""Which methods are tried on systems and data sets that they have not seen."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How methods are fitted and judged, whatever the target; see `combine`."""

    methods: tuple[Method, ...]
    objective: Objective
    folds: str
    repeats: int
    unseen: Unseen
    top: int | None
    costs: Mapping[str, float] | str | None
    confidence: float
    resamples: int

    def __post_init__(self) -> None:
        one_of("objective", self.objective, OBJECTIVES)
        one_of("unseen", self.unseen, get_args(Unseen))
        if self.objective == "accuracy" and self.folds == "system":
            raise OptionError(
                "objective='accuracy' compares systems of an item, and folds='system' holds out one: no pair"
            )
        between("confidence", self.confidence, 0, 1)
        for name, least in (("resamples", 0), ("repeats", 1), ("top", 1)):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), least)

    def check(self, of: Task) -> None:
        """Raise `OptionError` where they make no sense of a task."""
        if self.objective == "accuracy" and not (of.rated.sum(axis=1) > 1).any():
            raise OptionError("objective='accuracy' compares outputs of an item, and people rated one of each: no pair")
        if of.verdicts and self.folds == "system":
            raise OptionError(
                "folds='system' with verdicts: an output's share of wins holds verdicts on the system held out"
            )


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What methods said of outputs that they had not seen: `predicted` (repeats, methods, items, systems), and the best
    single metric, chosen in training: `single` (repeats, items, systems); `folds` (items, systems) of every repeat, -1
    where not used; the mean `seconds` and number of metrics `used` of the fits (methods,); `times` (B, clusters) how
    often each is in a resample, the data first."""

    of: Task
    terms: Terms
    folds: list[NDArray[np.intp]]
    predicted: Floats
    single: Floats
    seconds: Floats
    used: Floats
    times: Floats

    @property
    def n_clusters(self) -> int:
        """How many clusters are resampled."""
        return len(self.times[0])

    @property
    def methods(self) -> list[str]:
        """The names of the methods."""
        return [own.name for own in self.terms.methods]

    def scores(self, statistic: str = "") -> Floats:
        """A statistic (by default the objective), averaged over folds and repeats, in all resamples -> (B, methods)."""
        draws = [
            heldout.heldout(
                STATISTICS[statistic or self.terms.objective],
                self.of.human,
                own,
                fold,
                units=self.of.design.units,
                weights=self.times,
            )
            for own, fold in zip(self.predicted, self.folds, strict=True)
        ]
        return np.asarray(np.mean(draws, axis=0))

    @cached_property
    def jobs(self) -> list[tuple[int, int]]:
        """Every fold of every repeat."""
        return jobs_of(self.folds)

    @property
    def n_folds(self) -> int:
        """The folds of a repeat."""
        return len(self.jobs) // len(self.folds)

    @cached_property
    def moves(self) -> Moves:
        """The objective of every method and, last, of the best single metric, and what moves it."""
        both = np.concatenate([self.predicted, self.single[:, np.newaxis]], axis=1)
        return self.compared(both[:, :, np.newaxis], np.zeros_like(self.folds[0]), within=self.folds, block=self.folds)

    def compared(
        self, predicted: Iterable[Floats], model: Ints, *, within: Sequence[NDArray[Any]], block: Sequence[NDArray[Any]]
    ) -> Moves:
        """The objective of predictions (repeats, m, models, items, systems), its mean over repeats, and what moves it;
        `model`, `within` and `block` as in `moves`, the latter two of every repeat, -1 where not used."""
        return Moves.mean(
            [
                moves(
                    self.terms.objective,
                    np.where(inside >= 0, self.of.human, np.nan),
                    own,
                    model=model,
                    within=inside,
                    block=part,
                    units=self.of.design.units,
                    n_units=self.of.design.n_units,
                )
                for own, inside, part in zip(predicted, within, block, strict=True)
            ]
        )

    def repeat_scores(self) -> list[Floats]:
        """The objective in each fold, repeat by repeat: (folds, methods), NaN where it does not exist."""
        point = replace(self, times=self.times[:1])
        return [
            np.concatenate(
                [
                    replace(point, predicted=own[np.newaxis], folds=[np.where(fold == f, fold, -1)]).scores()
                    for f in np.unique(fold[fold >= 0])
                ]
            )
            for own, fold in zip(self.predicted, self.folds, strict=True)
        ]


def lesson_of(
    of: Task, terms: Terms, train: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Normalisation, Lesson]:
    """The scales fitted on a training part (items, systems), and what methods learn from."""
    rows = np.flatnonzero((train & of.rated).ravel())
    x, items = of.rows(rows), rows // len(of.design.systems)
    scales = normalisation(x, names=of.metrics.names, directions=of.directions, declared=of.declared)
    return scales, Lesson(
        x=scales.apply(x),
        y=of.human.ravel()[rows],
        items=items,
        groups=of.design.units[items],
        by=terms.objective,
        top=terms.top,
        rng=rng,
    )


def tried(of: Task, terms: Terms, rng: np.random.Generator, progress: Progress) -> Trial:
    """Every method fitted without each fold."""
    outputs = of.human.size * (3 + len(terms.methods))
    check_memory("repeats", terms.repeats, float(terms.repeats) * outputs)
    folds = outer_folds(of, terms.folds, repeats=terms.repeats, rng=rng)
    jobs = jobs_of(folds)
    names = [own.name for own in terms.methods]
    methods = terms.methods if BEST.name in names else (*terms.methods, BEST)
    predicted = np.full((len(folds), len(methods), *of.human.shape), np.nan)

    def answer(job: tuple[int, int], rng: np.random.Generator) -> list[tuple[float, int]]:
        """The seconds of each fit, and the number of metrics it uses."""
        repeat, out = job
        fold = folds[repeat]
        held = np.flatnonzero((fold == out).ravel())
        told = []
        for m, (seconds, used, said) in enumerate(said_of(of, terms, methods, (fold >= 0) & (fold != out), held, rng)):
            predicted[repeat, m].reshape(-1)[held] = said
            told.append((seconds, used))
        return told

    told = np.array(list(each(answer, jobs, rng=rng, progress=progress, desc="combine", label=str)))
    n = len(terms.methods)
    seconds, used = told.mean(axis=0)[:n].T
    return Trial(
        of=of,
        terms=terms,
        folds=folds,
        predicted=predicted[:, :n],
        single=predicted[:, [own.name for own in methods].index(BEST.name)],
        seconds=seconds,
        used=used,
        times=of.design.resampled(terms.resamples, rng),
    )


def jobs_of(folds: Sequence[NDArray[np.intp]]) -> list[tuple[int, int]]:
    """Every fold of every repeat."""
    return [(r, int(f)) for r, fold in enumerate(folds) for f in np.unique(fold[fold >= 0])]


def said_of(
    of: Task,
    terms: Terms,
    methods: Sequence[Method],
    train: NDArray[np.bool_],
    held: NDArray[np.intp],
    rng: np.random.Generator,
) -> Iterator[tuple[float, int, Floats]]:
    """What each method, fitted on a training part (items, systems), says of some outputs (flat): the seconds of the
    fit, the number of metrics it uses, and predictions."""
    scales, lesson = lesson_of(of, terms, train, rng)
    x = scales.apply(of.rows(held))
    for method in methods:
        seconds, formula = lesson.learn(method)
        yield seconds, len(formula.used), formula.predict(x)
