"""Inner cross-validation for the choice between methods, with each fit used for as many choices as possible.

The choice for an outer fold must not use this fold, so the remaining outer folds are the inner folds. A model fitted
without the folds j and k serves two choices: the choice for k uses the score on j, and the choice for j uses the score
on k. Five folds need ten fits of each method, instead of 25 with separate inner folds. For the model of all outputs,
the outer folds serve as inner folds; the fits for these folds exist already.

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from custodes.combining.methods import Method, with_means
from custodes.combining.settings import Terms
from custodes.combining.task import Task
from custodes.combining.training import Part, Scores, fit_and_predict, hold_out_fold
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.objective import objective


def nested_fold_scores(
    task: Task,
    settings: Terms,
    folds: Sequence[Ints],
    candidate_methods: Sequence[Method],
    rng: np.random.Generator,
    progress: Progress,
) -> dict[tuple[int, int], Scores]:
    """Return the scores of methods on inner folds, by repeat and outer fold.

    The inner folds of an outer fold are the other outer folds. The fit for a score uses neither the outer fold nor the
    inner fold that is scored.
    """
    folds_of_repeat = [np.unique(fold[fold >= 0]).tolist() for fold in folds]
    jobs = [
        (repeat, *fold_pair)
        for repeat, folds_out in enumerate(folds_of_repeat)
        for fold_pair in combinations(folds_out, 2)
    ]
    training_parts = []
    for repeat, *held_folds in jobs:
        is_in_held_fold = np.isin(folds[repeat], held_folds)
        training_parts.append(
            Part(str((repeat, *held_folds)), (folds[repeat] >= 0) & ~is_in_held_fold, np.flatnonzero(is_in_held_fold))
        )
    single_methods = [method for method in candidate_methods if not method.mean_of]
    fits = fit_and_predict(
        task, settings, single_methods, training_parts, rng=rng, progress=progress, desc="inner folds"
    )
    scores: dict[tuple[int, int], list[dict[str, float]]] = {
        (r, k): [] for r, folds_out in enumerate(folds_of_repeat) for k in folds_out
    }
    for (repeat, *held_folds), training_part, fit in zip(jobs, training_parts, fits, strict=True):
        for scored_fold, chosen_for in (held_folds, held_folds[::-1]):
            is_scored = folds[repeat].ravel()[training_part.held] == scored_fold
            predictions = {
                method.name: values[is_scored] for method, values in zip(single_methods, fit.predicted, strict=True)
            }
            scores[repeat, chosen_for].append(
                _score_methods(task, settings, training_part.held[is_scored], predictions, candidate_methods)
            )
    return {key: _by_name(fold_scores, candidate_methods) for key, fold_scores in scores.items()}


def held_out_scores(
    task: Task,
    settings: Terms,
    fold: Ints,
    candidate_methods: Sequence[Method],
    outer_predictions: Mapping[str, Floats],
    rng: np.random.Generator,
    progress: Progress,
) -> Scores:
    """Return the scores of methods on each fold, by fits without this fold; `fold` (items, systems) assigns the folds.

    `outer_predictions` maps names of methods to existing predictions (items, systems), which are reused. Methods
    without an entry are fitted here.
    """
    missing_methods = [
        method for method in candidate_methods if method.name not in outer_predictions and not method.mean_of
    ]
    predictions = {method.name: np.full(task.human.size, np.nan) for method in missing_methods}
    predictions |= {name: scores.ravel() for name, scores in outer_predictions.items()}
    training_parts = [hold_out_fold(fold, k, str(k)) for k in range(int(fold.max()) + 1)]
    fits = (
        fit_and_predict(task, settings, missing_methods, training_parts, rng=rng, progress=progress, desc="inner folds")
        if missing_methods
        else []
    )
    for training_part, fit in zip(training_parts, fits, strict=False):
        for method, values in zip(missing_methods, fit.predicted, strict=True):
            predictions[method.name][training_part.held] = values
    predictions_of_fold = [
        (training_part.held, {name: scores[training_part.held] for name, scores in predictions.items()})
        for training_part in training_parts
    ]
    return _by_name(
        [
            _score_methods(task, settings, cells, fold_scores, candidate_methods)
            for cells, fold_scores in predictions_of_fold
        ],
        candidate_methods,
    )


def _score_methods(
    task: Task, settings: Terms, cells: Ints, predictions: Mapping[str, Floats], candidate_methods: Sequence[Method]
) -> dict[str, float]:
    """Return the score of each method's predictions on some outputs (flat positions), by name of the method."""
    measure = objective(settings.objective, task.human.ravel()[cells], items=cells // len(task.design.systems))
    predictions_with_means = with_means(candidate_methods, predictions)
    return dict(
        zip(predictions_with_means, measure(np.stack(list(predictions_with_means.values()))).tolist(), strict=True)
    )


def _by_name(scores: Sequence[Mapping[str, float]], methods: Sequence[Method]) -> dict[str, Floats]:
    """Return the scores (folds,) of each method, by name; `scores` has the scores of all methods on each fold."""
    return {method.name: np.array([fold_scores[method.name] for fold_scores in scores]) for method in methods}
