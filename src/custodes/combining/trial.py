"""Cross-validation: every method is fitted to training parts and scored on held-out data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from custodes.combining import choices
from custodes.combining.methods import BEST
from custodes.combining.settings import Terms
from custodes.combining.task import Task, outer_folds
from custodes.combining.training import Scores, fit_and_predict, hold_out_fold
from custodes.memory import check_memory
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.correlation import Kind
from custodes.stats.learning import heldout
from custodes.stats.learning.objective import ordering_accuracy
from custodes.stats.learning.unseen import Moves, moves
from custodes.stats.pooled_correlation import pooled_correlation

STATISTICS: dict[str, heldout.ResampledStatistic] = {
    **{kind: partial(pooled_correlation, kind) for kind in get_args(Kind)},
    "accuracy": ordering_accuracy,
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Results of a cross-validation.

    - `folds`: folds (items, systems) of every repeat; -1 for an output that is not used.
    - `predicted` (repeats, methods, items, systems): held-out predictions of the methods.
    - `single` (repeats, items, systems): held-out predictions of the best single metric, selected in training.
    - `seconds`, `used` (methods,): mean time of a fit, and mean number of metrics in a formula.
    - `times` (B, clusters): bootstrap weights; row 0 has the weights of the data.
    - `inner`: scores of methods on inner folds, for the choices of the model that is fitted to all outputs.
    """

    of: Task
    terms: Terms
    folds: list[NDArray[np.intp]]
    predicted: Floats
    single: Floats
    seconds: Floats
    used: Floats
    times: NDArray[np.uint8]
    inner: Scores

    @property
    def n_clusters(self) -> int:
        """Number of resampled clusters."""
        return len(self.times[0])

    @property
    def methods(self) -> list[str]:
        """Names of the methods."""
        return [method.name for method in self.terms.methods]

    def scores(self, statistic: str = "") -> Floats:
        """Return a statistic (B, methods) in all resamples, averaged over folds and repeats; default: the objective."""
        return np.asarray(
            np.mean(
                [
                    heldout.held_out_statistic(
                        STATISTICS[statistic or self.terms.objective],
                        self.of.human,
                        predictions,
                        fold_of_output,
                        units=self.of.design.units,
                        weights=self.times,
                    )
                    for predictions, fold_of_output in zip(self.predicted, self.folds, strict=True)
                ],
                axis=0,
            )
        )

    @cached_property
    def jobs(self) -> list[tuple[int, int]]:
        """All folds of all repeats, as pairs (repeat, fold)."""
        return jobs_of(self.folds)

    @property
    def n_folds(self) -> int:
        """Number of folds of a repeat."""
        return len(self.jobs) // len(self.folds)

    @cached_property
    def moves(self) -> Moves:
        """The objective of each method, followed by that of the best single metric, with influence values."""
        return self.prediction_moves(
            np.concatenate([self.predicted, self.single[:, np.newaxis]], axis=1)[:, :, np.newaxis],
            np.zeros_like(self.folds[0]),
            groups_of_repeats=self.folds,
            blocks_of_repeats=self.folds,
        )

    def prediction_moves(
        self,
        predictions_of_repeats: Iterable[Floats],
        model_of_output: Ints,
        *,
        groups_of_repeats: Sequence[NDArray[Any]],
        blocks_of_repeats: Sequence[NDArray[Any]],
    ) -> Moves:
        """Return the objective of predictions (repeats, m, models, items, systems), averaged over repeats.

        The result includes influence values. `model_of_output` (items, systems) is the argument `model` of the function
        `moves`. For every repeat, `groups_of_repeats` and `blocks_of_repeats` have the arguments `within` and `block`
        of this function, with -1 for outputs that are not used.
        """
        return Moves.mean(
            [
                moves(
                    self.terms.objective,
                    np.where(group_of_output >= 0, self.of.human, np.nan),
                    predictions,
                    model=model_of_output,
                    within=group_of_output,
                    block=block_of_output,
                    units=self.of.design.units,
                    n_units=self.of.design.n_units,
                )
                for predictions, group_of_output, block_of_output in zip(
                    predictions_of_repeats, groups_of_repeats, blocks_of_repeats, strict=True
                )
            ]
        )

    def repeat_scores(self) -> list[Floats]:
        """Return the objective (folds, methods) in each fold for every repeat; NaN if it is undefined."""
        return [
            heldout.fold_statistics(
                STATISTICS[self.terms.objective],
                self.of.human,
                predictions,
                fold_of_output,
                units=self.of.design.units,
                weights=np.ones((1, self.n_clusters)),
            )[:, 0]
            for predictions, fold_of_output in zip(self.predicted, self.folds, strict=True)
        ]


def cross_validate(task: Task, settings: Terms, rng: np.random.Generator, progress: Progress) -> Trial:
    """Return the cross-validation: every method is fitted without each fold, and then predicts this fold."""
    check_memory("repeats", settings.repeats, float(settings.repeats) * task.human.size * (3 + len(settings.methods)))
    initial_rng = deepcopy(rng)
    folds = outer_folds(task, settings.folds, repeats=settings.repeats, rng=rng)
    repeat_fold_pairs = jobs_of(folds)
    methods_and_best = settings.methods if BEST in settings.methods else (*settings.methods, BEST)
    predictions = np.full((len(folds), len(methods_and_best), *task.human.shape), np.nan)
    candidate_methods = tuple(
        dict.fromkeys(candidate_method for method in settings.methods for candidate_method in method.among)
    )
    (inner_rng,) = rng.spawn(1)  # a separate generator, so that choices of one method do not change other methods
    has_item_folds = settings.folds == "item"
    inner_scores_of_repeat_and_fold = (
        choices.nested_fold_scores(task, settings, folds, candidate_methods, inner_rng, progress)
        if candidate_methods and has_item_folds
        else {}
    )

    splits = [
        hold_out_fold(
            folds[repeat],
            fold_number,
            str((repeat, fold_number)),
            inner_scores_of_repeat_and_fold.get((repeat, fold_number), {}),
        )
        for repeat, fold_number in repeat_fold_pairs
    ]
    mean_seconds, mean_metrics_used, predictions_of_splits = fit_and_predict(
        task, settings, methods_and_best, splits, rng=rng, progress=progress, desc="combine"
    )
    for (repeat, _), split, split_predictions in zip(repeat_fold_pairs, splits, predictions_of_splits, strict=True):
        predictions[repeat].reshape(len(methods_and_best), -1)[:, split.held] = split_predictions
    n_methods = len(settings.methods)
    outer_predictions = (
        {method.name: prediction_grid for method, prediction_grid in zip(methods_and_best, predictions[0], strict=True)}
        if has_item_folds
        else {}
    )
    # The model fitted to all outputs does not depend on the type of the folds or on the number of repeats.
    inner_fold_of_output = folds[0] if has_item_folds else outer_folds(task, "item", repeats=1, rng=initial_rng)[0]
    return Trial(
        of=task,
        terms=settings,
        folds=folds,
        predicted=predictions[:, :n_methods],
        single=predictions[:, methods_and_best.index(BEST)],
        seconds=mean_seconds[:n_methods],
        used=mean_metrics_used[:n_methods],
        times=task.design.draw_weights(settings.resamples, rng, dtype=np.uint8),
        inner=choices.held_out_scores(
            task, settings, inner_fold_of_output, candidate_methods, outer_predictions, inner_rng, progress
        )
        if candidate_methods
        else {},
    )


def jobs_of(folds: Sequence[NDArray[np.intp]]) -> list[tuple[int, int]]:
    """Return all folds of all repeats, as pairs (repeat, fold)."""
    return [
        (repeat, int(fold_number))
        for repeat, fold_of_output in enumerate(folds)
        for fold_number in np.unique(fold_of_output[fold_of_output >= 0])
    ]
