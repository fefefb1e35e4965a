"""Fits of methods on training parts, and predictions of held-out outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.combining.methods import Method, TrainingData
from custodes.combining.methods.method import shifted
from custodes.combining.normalise import Normalisation, normalisation
from custodes.combining.settings import Terms
from custodes.combining.task import Task
from custodes.evaluate.parallel import each
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints

Scores = Mapping[str, Floats]
"""Scores of methods on held-out inner folds, by name (folds,)."""


def training_data(
    of: Task, terms: Terms, train: NDArray[np.bool_], rng: np.random.Generator, inner: Scores
) -> tuple[Normalisation, TrainingData]:
    """Scales fitted to a training part (items, systems), and the training data of methods; `inner` may be empty."""
    rows = np.flatnonzero((train & of.rated).ravel())
    x, (items, systems) = of.rows(rows), np.divmod(rows, len(of.design.systems))
    scales = normalisation(x, names=of.metrics.names, directions=of.directions, declared=of.declared)
    data = TrainingData(
        x=scales.apply(x),
        y=of.human.ravel()[rows],
        items=items,
        systems=systems,
        groups=of.design.units[items],
        by=terms.objective,
        rng=rng,
        inner=inner,
        max_partiality=terms.max_partiality,
        kinds=None if of.kinds is None else of.kinds.position.ravel()[rows],
        n_kinds=0 if of.kinds is None else len(of.kinds.names),
    )
    return scales, data if terms.top is None else data.with_top(terms.top)


class Part(NamedTuple):
    """A split: `train` (items, systems), the outputs `held` out (flat), and `inner` as in `training_data`; `label`
    seeds the generator of the split.
    """

    label: str
    train: NDArray[np.bool_]
    held: NDArray[np.intp]
    inner: Scores = MappingProxyType({})


def without(fold: Ints, k: int, label: str, inner: Scores = MappingProxyType({})) -> Part:
    """The part that holds out fold k of `fold` (items, systems)."""
    return Part(label, (fold >= 0) & (fold != k), np.flatnonzero((fold == k).ravel()), inner)


class Fits(NamedTuple):
    """Methods fitted on one part: the `seconds` of each fit, the number of metrics `used` (methods,), and predictions
    of the held-out outputs (methods, outputs).
    """

    seconds: Floats
    used: Ints
    predicted: Floats


def fitted(
    of: Task,
    terms: Terms,
    methods: Sequence[Method],
    parts: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
) -> list[Fits]:
    """Fit every method on every training part, and predict the held-out outputs of the part."""

    def fit(part: Part, rng: np.random.Generator) -> Fits:
        scales, training = training_data(of, terms, part.train, rng, part.inner)
        x = scales.apply(of.rows(part.held))
        seconds, formulas = zip(*map(training.learn, methods), strict=True)
        kinds = None if of.kinds is None else of.kinds.position.ravel()[part.held]
        predicted = [shifted(formula.predict(x), formula.shifts, kinds) for formula in formulas]
        return Fits(np.array(seconds), np.array([len(formula.used) for formula in formulas]), np.stack(predicted))

    threads = not all(method.fast for method in methods)
    return each(fit, parts, rng=rng, progress=progress, desc=desc, label=attrgetter("label"), threads=threads)
