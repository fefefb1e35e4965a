"""Automatic choice between methods.

The default is `blend` or `half-blend` (the mean of `blend` and the best single metric), whichever is better in inner
folds. Another method is chosen only if it is clearly better, because averaging methods of similar quality is better
than selecting one method.
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

    It chooses the better of two blends. If another method is better than this blend by more than `CLEARLY` standard
    errors of the paired difference, this method is chosen instead.
    """
    candidates = tuple(method for method in methods if method.by_default or method is HALF_BLEND)
    blends = [candidates.index(method) for method in (BLEND, HALF_BLEND)]

    def fit(training: TrainingData) -> Formula:
        inner_scores = training.inner or score_methods(training, candidates)
        scores = np.stack([np.nan_to_num(inner_scores[method.name], nan=-1.0) for method in candidates])
        base_index = max(blends, key=lambda blend_index: scores[blend_index].mean())
        score_differences = scores - scores[base_index]
        mean_difference, standard_error = (
            score_differences.mean(axis=1),
            score_differences.std(axis=1, ddof=1) / np.sqrt(score_differences.shape[1]),
        )
        is_clearly_better = mean_difference > CLEARLY * standard_error
        chosen_method = (
            candidates[int(np.argmax(np.where(is_clearly_better, mean_difference, 0.0)))]
            if is_clearly_better.any()
            else candidates[base_index]
        )
        return replace(training.learn(chosen_method)[1], chosen=chosen_method.name)

    return Method(
        name="auto",
        label="automatic choice",
        doc=(
            "the better of `blend` and `half-blend` in inner folds, unless another method that is fitted "
            "by default is better by more than four standard errors of the paired difference (*ours*)"
        ),
        family=BLEND.family,
        fit=fit,
        among=candidates,
        by_default=True,
    )


def score_methods(training: TrainingData, methods: Sequence[Method]) -> dict[str, Floats]:
    """Return the scores (folds,) of methods on held-out folds of a training part, by name of the method."""
    fold = training.inner_folds()
    predictions = {method.name: np.full(len(training.y), np.nan) for method in methods if not method.mean_of}
    for is_train, is_held in splits(fold):
        training_part = training.part(is_train)
        for method in methods:
            if not method.mean_of:
                predictions[method.name][is_held] = training_part.learn(method)[1].predict(training.x[is_held])
    return {name: training.fold_scores(method, fold) for name, method in with_means(methods, predictions).items()}
