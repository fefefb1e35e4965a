"""Inner cross-validation for the choice between methods. Each fit serves all choices that can use the fit.

The choice for an outer fold must not use this fold, so the remaining outer folds are the inner folds. A model fitted
without the folds j and k serves two choices: the choice for k uses the score on j, and the choice for j uses the score
on k. Five folds need ten fits of each method, instead of 25 with separate inner folds. For the model of all outputs
the inner folds are the outer folds, whose fits exist already.

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
    terms: Terms,
    folds: Sequence[Ints],
    among: Sequence[Method],
    rng: np.random.Generator,
    progress: Progress,
) -> dict[tuple[int, int], Scores]:
    """Return the scores of methods for each repeat and outer fold.

    There is a score on each of the remaining folds, by a fit that uses neither this fold nor the outer fold.
    """
    folds_of_repeat = [np.unique(fold[fold >= 0]).tolist() for fold in folds]
    jobs = [(repeat, *pair) for repeat, folds_out in enumerate(folds_of_repeat) for pair in combinations(folds_out, 2)]
    training_parts = []
    for repeat, *held_folds in jobs:
        is_in_held_fold = np.isin(folds[repeat], held_folds)
        training_parts.append(
            Part(str((repeat, *held_folds)), (folds[repeat] >= 0) & ~is_in_held_fold, np.flatnonzero(is_in_held_fold))
        )
    single_methods = [method for method in among if not method.mean_of]
    fits = fit_and_predict(task, terms, single_methods, training_parts, rng=rng, progress=progress, desc="inner folds")
    scores: dict[tuple[int, int], list[dict[str, float]]] = {
        (r, k): [] for r, folds_out in enumerate(folds_of_repeat) for k in folds_out
    }
    for (repeat, *held_folds), training_part, fit in zip(jobs, training_parts, fits, strict=True):
        for scored_fold, chosen_for in (held_folds, held_folds[::-1]):
            is_scored = folds[repeat].ravel()[training_part.held] == scored_fold
            predicted = {
                method.name: values[is_scored] for method, values in zip(single_methods, fit.predicted, strict=True)
            }
            scores[repeat, chosen_for].append(
                _score_methods(task, terms, training_part.held[is_scored], predicted, among)
            )
    return {key: _by_name(fold_scores, among) for key, fold_scores in scores.items()}


def held_out_scores(
    task: Task,
    terms: Terms,
    fold: Ints,
    among: Sequence[Method],
    outer_predictions: Mapping[str, Floats],
    rng: np.random.Generator,
    progress: Progress,
) -> Scores:
    """Return the scores of methods on each fold of `fold` (items, systems), by fits without the fold.

    `outer_predictions` are predictions (items, systems) by name of the method, which are reused. Methods that are not
    in `outer_predictions` are fitted here.
    """
    missing_methods = [method for method in among if method.name not in outer_predictions and not method.mean_of]
    predicted = {method.name: np.full(task.human.size, np.nan) for method in missing_methods}
    predicted |= {name: scores.ravel() for name, scores in outer_predictions.items()}
    training_parts = [hold_out_fold(fold, k, str(k)) for k in range(int(fold.max()) + 1)]
    fits = (
        fit_and_predict(task, terms, missing_methods, training_parts, rng=rng, progress=progress, desc="inner folds")
        if missing_methods
        else []
    )
    for training_part, fit in zip(training_parts, fits, strict=False):
        for method, values in zip(missing_methods, fit.predicted, strict=True):
            predicted[method.name][training_part.held] = values
    predictions_of_fold = [
        (training_part.held, {name: scores[training_part.held] for name, scores in predicted.items()})
        for training_part in training_parts
    ]
    return _by_name(
        [_score_methods(task, terms, cells, fold_scores, among) for cells, fold_scores in predictions_of_fold], among
    )


def _score_methods(
    task: Task, terms: Terms, cells: Ints, predicted: Mapping[str, Floats], among: Sequence[Method]
) -> dict[str, float]:
    """Return the score of each method's predictions on some outputs (flat positions), by name of the method."""
    measure = objective(terms.objective, task.human.ravel()[cells], items=cells // len(task.design.systems))
    predictions_with_means = with_means(among, predicted)
    return dict(
        zip(predictions_with_means, measure(np.stack(list(predictions_with_means.values()))).tolist(), strict=True)
    )


def _by_name(scores: Sequence[Mapping[str, float]], methods: Sequence[Method]) -> dict[str, Floats]:
    """Return the scores (folds,) of each method, by name of the method, given the scores on several folds."""
    return {method.name: np.array([one[method.name] for one in scores]) for method in methods}
