"""Automatic choice between methods.

The default is `blend` or `half-blend` (the mean of `blend` and the best single metric), whichever is better in inner
folds. Averaging methods of similar quality is better than selecting one method. Another method is therefore chosen only
if it is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from custodes.combining.methods.method import Formula, Method, TrainingData, with_means
from custodes.combining.methods.trees import BLEND, HALF_BLEND
from custodes.stats.arrays import Floats
from custodes.stats.learning.folds import splits

CLEARLY = 4.0
"""Number of standard errors over inner folds by which another method must be better than the blends.

With 2 standard errors, choices followed noise: on 11 targets of SummEval, HANNA and WMT23, tau-b was .002 lower than
with the blend.
"""


def automatic(methods: Sequence[Method]) -> Method:
    """Return the method `auto`, which chooses one of `methods`.

    `auto` chooses the better of two blends. If another method is better than the better blend by more than `CLEARLY`
    standard errors of the paired difference, the other method is chosen.
    """
    candidate_methods = tuple(method for method in methods if method.by_default or method is HALF_BLEND)
    blend_indices = [candidate_methods.index(method) for method in (BLEND, HALF_BLEND)]

    def fit(training: TrainingData) -> Formula:
        inner_scores = training.inner or score_methods(training, candidate_methods)
        fold_scores_of_candidates = np.stack(
            [np.nan_to_num(inner_scores[method.name], nan=-1.0) for method in candidate_methods]
        )
        better_blend_index = max(blend_indices, key=lambda blend_index: fold_scores_of_candidates[blend_index].mean())
        score_differences = fold_scores_of_candidates - fold_scores_of_candidates[better_blend_index]
        mean_differences = score_differences.mean(axis=1)
        standard_errors = score_differences.std(axis=1, ddof=1) / np.sqrt(score_differences.shape[1])
        is_clearly_better_method = mean_differences > CLEARLY * standard_errors
        chosen_method = (
            candidate_methods[int(np.argmax(np.where(is_clearly_better_method, mean_differences, 0.0)))]
            if is_clearly_better_method.any()
            else candidate_methods[better_blend_index]
        )
        return replace(training.learn(chosen_method)[1], chosen=chosen_method.name)

    return Method(
        name="auto",
        label="automatic choice",
        doc=(
            "the better of `blend` and `half-blend` in inner folds. Another default method is used if it is better "
            "than these two by more than four standard errors of the paired difference (*ours*)"
        ),
        family=BLEND.family,
        fit=fit,
        among=candidate_methods,
        by_default=True,
    )


def score_methods(training: TrainingData, methods: Sequence[Method]) -> dict[str, Floats]:
    """Return the scores (folds,) of methods on held-out folds of a training part, by name of the method."""
    fold_of_row = training.inner_folds()
    predictions_of_method = {method.name: np.full(len(training.y), np.nan) for method in methods if not method.mean_of}
    for is_training_row, is_held_out_row in splits(fold_of_row):
        training_data_part = training.part(is_training_row)
        for method in methods:
            if not method.mean_of:
                predictions_of_method[method.name][is_held_out_row] = training_data_part.learn(method)[1].predict(
                    training.x[is_held_out_row]
                )
    return {
        method_name: training.fold_scores(method_predictions, fold_of_row)
        for method_name, method_predictions in with_means(methods, predictions_of_method).items()
    }
