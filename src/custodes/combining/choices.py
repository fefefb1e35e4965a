"""Inner cross-validation for the choice between methods; each fit serves as many choices as possible. The choice for an
outer fold must not use this fold, so the other outer folds serve as inner folds. A model fitted without the folds j and
k serves two choices: the choice for k uses the score on j, and the choice for j uses the score on k. With five folds,
ten fits of each method are enough; separate inner folds would need 25 fits. For the model that is fitted to all
outputs, the outer folds serve as inner folds, because the fits without each outer fold exist already.

"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from custodes.combining.methods import Method, with_means
from custodes.combining.settings import Terms
from custodes.combining.task import Task
from custodes.combining.training import Scores, fit_and_predict, hold_out_fold
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
    repeats_and_fold_pairs = [
        (repeat, *fold_pair)
        for repeat, fold_of_output in enumerate(folds)
        for fold_pair in combinations(np.unique(fold_of_output[fold_of_output >= 0]).tolist(), 2)
    ]
    splits = [
        hold_out_fold(folds[repeat], held_out_folds, str((repeat, *held_out_folds)))
        for repeat, *held_out_folds in repeats_and_fold_pairs
    ]
    single_methods = [method for method in candidate_methods if not method.mean_of]
    *_, predictions_of_splits = fit_and_predict(
        task, settings, single_methods, splits, rng=rng, progress=progress, desc="inner folds"
    )
    scores_of_repeat_and_outer_fold: dict[tuple[int, int], list[dict[str, float]]] = defaultdict(list)
    for (repeat, *held_out_folds), split, split_predictions in zip(
        repeats_and_fold_pairs, splits, predictions_of_splits, strict=True
    ):
        for scored_inner_fold, outer_fold in (held_out_folds, held_out_folds[::-1]):
            is_scored_output = folds[repeat].ravel()[split.held] == scored_inner_fold
            scores_of_repeat_and_outer_fold[repeat, outer_fold].append(
                _score_methods(
                    task,
                    settings,
                    split.held[is_scored_output],
                    {
                        method.name: method_predictions[is_scored_output]
                        for method, method_predictions in zip(single_methods, split_predictions, strict=True)
                    },
                    candidate_methods,
                )
            )
    return {
        repeat_and_outer_fold: _scores_by_method(method_scores_by_inner_fold, candidate_methods)
        for repeat_and_outer_fold, method_scores_by_inner_fold in scores_of_repeat_and_outer_fold.items()
    }


def held_out_scores(
    task: Task,
    settings: Terms,
    fold_of_output: Ints,
    candidate_methods: Sequence[Method],
    outer_predictions: Mapping[str, Floats],
    rng: np.random.Generator,
    progress: Progress,
) -> Scores:
    """Return the scores of methods on each fold, by fits without this fold; `fold_of_output` (items, systems) assigns
    the folds.

    `outer_predictions` maps names of methods to existing predictions (items, systems), which are reused. Methods
    without an entry in `outer_predictions` are fitted by this function.
    """
    unfitted_methods = [
        method for method in candidate_methods if method.name not in outer_predictions and not method.mean_of
    ]
    predictions_of_method = {method.name: np.full(task.human.size, np.nan) for method in unfitted_methods}
    predictions_of_method |= {
        method_name: method_predictions.ravel() for method_name, method_predictions in outer_predictions.items()
    }
    splits = [
        hold_out_fold(fold_of_output, fold_number, str(fold_number))
        for fold_number in range(int(fold_of_output.max()) + 1)
    ]
    if unfitted_methods:
        *_, predictions_of_splits = fit_and_predict(
            task, settings, unfitted_methods, splits, rng=rng, progress=progress, desc="inner folds"
        )
        for split, split_predictions in zip(splits, predictions_of_splits, strict=True):
            for method, method_predictions in zip(unfitted_methods, split_predictions, strict=True):
                predictions_of_method[method.name][split.held] = method_predictions
    return _scores_by_method(
        [
            _score_methods(
                task,
                settings,
                split.held,
                {method_name: predictions[split.held] for method_name, predictions in predictions_of_method.items()},
                candidate_methods,
            )
            for split in splits
        ],
        candidate_methods,
    )


def _score_methods(
    task: Task,
    settings: Terms,
    output_positions: Ints,
    predictions_of_method: Mapping[str, Floats],
    candidate_methods: Sequence[Method],
) -> dict[str, float]:
    """Return the score of each method's predictions on some outputs (flat positions), by name of the method."""
    objective_of_predictions = objective(
        settings.objective, task.human.ravel()[output_positions], items=output_positions // len(task.design.systems)
    )
    all_predictions_of_method = with_means(candidate_methods, predictions_of_method)
    return dict(
        zip(
            all_predictions_of_method,
            objective_of_predictions(np.stack(list(all_predictions_of_method.values()))).tolist(),
            strict=True,
        )
    )


def _scores_by_method(scores_of_folds: Sequence[Mapping[str, float]], methods: Sequence[Method]) -> dict[str, Floats]:
    """Return the scores (folds,) of each method, by name; `scores_of_folds` has the scores of methods on each fold."""
    return {method.name: np.array([fold_scores[method.name] for fold_scores in scores_of_folds]) for method in methods}
