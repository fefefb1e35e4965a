"""What methods learn from a part of the outputs, and what they then say of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from custodes.combining.methods import Lesson, Method
from custodes.combining.normalise import Normalisation, normalisation
from custodes.combining.task import Task
from custodes.combining.terms import Terms
from custodes.stats.arrays import Floats

Scores = Mapping[str, Floats]
"""What methods score on inner folds that they have not seen, by name (folds,)."""


def lesson_of(
    of: Task, terms: Terms, train: NDArray[np.bool_], rng: np.random.Generator, inner: Scores
) -> tuple[Normalisation, Lesson]:
    """The scales fitted on a training part (items, systems), and what methods learn from; `inner` may be empty."""
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
        inner=inner,
    )


def said_of(
    of: Task,
    terms: Terms,
    methods: Sequence[Method],
    train: NDArray[np.bool_],
    held: NDArray[np.intp],
    rng: np.random.Generator,
    inner: Scores,
) -> Iterator[tuple[float, int, Floats]]:
    """What each method, fitted on a training part (items, systems), says of some outputs (flat): the seconds of the
    fit, the number of metrics it uses, and predictions; `inner` as in `lesson_of`."""
    scales, lesson = lesson_of(of, terms, train, rng, inner)
    x = scales.apply(of.rows(held))
    for method in methods:
        seconds, formula = lesson.learn(method)
        yield seconds, len(formula.used), formula.predict(x)
