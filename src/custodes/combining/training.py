"""Fits of methods to training parts, and predictions of held-out outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.combining.methods import Method, TrainingData
from custodes.combining.methods.method import add_kind_shifts
from custodes.combining.normalise import Normalisation, normalisation
from custodes.combining.settings import Terms
from custodes.combining.task import Task
from custodes.evaluate.parallel import map_parts
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.heldout import round_predictions

Scores = Mapping[str, Floats]
"""Scores (folds,) of each method on held-out inner folds, by name of the method."""


def training_data(
    task: Task, settings: Terms, is_training: NDArray[np.bool_], rng: np.random.Generator, inner: Scores
) -> tuple[Normalisation, TrainingData]:
    """Return the scales fitted to a training part (items, systems), and the training data for the methods.

    `inner` are known scores of methods on inner folds; it may be empty.
    """
    output_positions = np.flatnonzero((is_training & task.rated).ravel())
    raw_scores, (item_of_output, system_of_output) = (
        task.rows(output_positions),
        np.divmod(output_positions, len(task.design.systems)),
    )
    fitted_normalisation = normalisation(
        raw_scores, names=task.metrics.names, directions=task.directions, declared_bounds=task.declared
    )
    training = TrainingData(
        x=fitted_normalisation.apply(raw_scores),
        y=task.human.ravel()[output_positions],
        items=item_of_output,
        systems=system_of_output,
        groups=task.design.units[item_of_output],
        by=settings.objective,
        rng=rng,
        inner=inner,
        max_partiality=settings.max_partiality,
        kinds=None if task.kinds is None else task.kinds.position.ravel()[output_positions],
        n_kinds=0 if task.kinds is None else len(task.kinds.names),
    )
    return fitted_normalisation, training if settings.top is None else training.with_top(settings.top)


class Part(NamedTuple):
    """A split of the outputs.

    `train` (items, systems) marks the training outputs, `held` are the flat positions of held-out outputs, and `inner`
    are known scores of methods on inner folds. The random generator of the split is seeded with `label`.
    """

    label: str
    train: NDArray[np.bool_]
    held: NDArray[np.intp]
    inner: Scores = MappingProxyType({})


def hold_out_fold(
    fold_of_output: Ints, held_out_folds: int | Sequence[int], label: str, inner: Scores = MappingProxyType({})
) -> Part:
    """Return the split that holds out one or several folds of `fold_of_output` (items, systems)."""
    is_held_out_output = np.isin(fold_of_output, held_out_folds)
    return Part(label, (fold_of_output >= 0) & ~is_held_out_output, np.flatnonzero(is_held_out_output.ravel()), inner)


def fit_and_predict(
    task: Task,
    settings: Terms,
    methods: Sequence[Method],
    splits: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
) -> tuple[Floats, Floats, list[Floats]]:
    """Fit every method to every training part, and predict the held-out outputs of each part.

    Returns the mean seconds of a fit (methods,), the mean number of metrics in a formula (methods,), and the
    predictions of each part. The predictions have the shape (methods, held-out outputs).
    """

    def fit(split: Part, rng: np.random.Generator) -> tuple[tuple[float, ...], list[int], Floats]:
        fitted_normalisation, training = training_data(task, settings, split.train, rng, split.inner)
        normalised_scores = fitted_normalisation.apply(task.rows(split.held))
        seconds_of_methods, formulas = zip(*map(training.learn, methods), strict=True)
        kind_of_output = None if task.kinds is None else task.kinds.position.ravel()[split.held]
        predictions = [
            add_kind_shifts(formula.predict(normalised_scores), formula.shifts, kind_of_output) for formula in formulas
        ]
        n_used_metrics = [len(formula.used_positions) for formula in formulas]
        return seconds_of_methods, n_used_metrics, round_predictions(np.stack(predictions))

    fits_of_splits = map_parts(
        fit,
        splits,
        rng=rng,
        progress=progress,
        desc=desc,
        label=attrgetter("label"),
        threads=(not all(method.fast for method in methods)),
    )
    fit_seconds, used_metric_counts, predictions = zip(*fits_of_splits, strict=True)
    return np.mean(fit_seconds, axis=0), np.mean(used_metric_counts, axis=0), list(predictions)
