"""Tables of a fit: comparison of methods, favoritism, weights, and agreement within groups of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.combining.methods import Formula, Method, TrainingData
from custodes.combining.task import Task, aspect_of
from custodes.combining.trial import STATISTICS, Trial
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, build_notes
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.evaluate.clusters import counts_by_aspect
from custodes.evaluate.favoritism import mean_columns
from custodes.evaluate.rater_scores import METRIC
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.intervals import ANY, CORRELATION

REFITS = 100
"""Number of bootstrap refits for the intervals of weights."""


def comparison_columns(trial: Trial, scores_of_repeats: Sequence[Floats]) -> dict[str, Any]:
    """Return the columns of the comparison; `scores_of_repeats` has the scores (folds, methods) of each repeat."""
    table_columns: dict[str, Any] = {"method": trial.methods}
    for statistic_name in STATISTICS:
        table_columns |= with_interval(
            statistic_name,
            trial.scores(statistic_name),
            trial.terms.confidence,
            clusters=trial.n_clusters,
            bounds=CORRELATION,
        )
    means_of_repeats = np.ma.stack(
        [np.ma.masked_invalid(fold_scores).mean(axis=0) for fold_scores in scores_of_repeats]
    ).filled(np.nan)
    sd_over_repeats = (
        means_of_repeats.std(axis=0, ddof=1) if len(means_of_repeats) > 1 else np.full(len(trial.methods), np.nan)
    )
    return table_columns | {"spread": sd_over_repeats, "seconds": trial.seconds, "metrics_used": trial.used}


def difference_columns(trial: Trial) -> dict[str, Any]:
    """Return columns with the differences in the objective between methods on the same folds."""
    first_method_indices, second_method_indices = np.triu_indices(len(trial.methods), 1)
    return {
        "method_a": [trial.methods[method_index] for method_index in first_method_indices],
        "method_b": [trial.methods[method_index] for method_index in second_method_indices],
        **trial.moves.contrast(first_method_indices, second_method_indices).columns(
            "difference", "units", confidence=trial.terms.confidence, folds=(trial.n_folds, 0)
        ),
    }


def group_columns(trial: Trial) -> dict[str, Any]:
    """Return columns with the objective within each group of items; no rows if there are fewer than two groups."""
    is_rated_item, group_of_item = np.asarray(trial.of.rated.any(axis=1)), np.array(trial.of.design.group)
    item_mask_of_group = {
        group_name: group_of_item == group_name for group_name in sorted({*trial.of.design.group} - {""})
    }
    trial_of_group = {
        group_name: replace(
            trial,
            folds=[np.where(is_item_in_group[:, np.newaxis], fold_of_output, -1) for fold_of_output in trial.folds],
        )
        for group_name, is_item_in_group in item_mask_of_group.items()
        if len(item_mask_of_group) > 1
    }
    trial_of_group = {
        group_name: trial_of_one_group
        for group_name, trial_of_one_group in trial_of_group.items()
        if any((fold_of_output >= 0).any() for fold_of_output in trial_of_one_group.folds)
    }
    n_methods = len(trial.methods)
    return {
        "method": trial.methods * len(trial_of_group),
        "group": [group_name for group_name in trial_of_group for _ in range(n_methods)],
        "items": [
            int(is_rated_item[item_mask_of_group[group_name]].sum())
            for group_name in trial_of_group
            for _ in range(n_methods)
        ],
        **with_interval(
            "score",
            np.concatenate(
                [trial.times[:, :0], *(trial_of_one_group.scores() for trial_of_one_group in trial_of_group.values())],
                axis=1,
            ),
            trial.terms.confidence,
            clusters=trial.n_clusters,
            bounds=CORRELATION,
        ),
    }


def held_out_ratings(trial: Trial) -> Ratings:
    """Return the predictions of the first repeat as ratings, with one rater for each method."""
    rating_frame = pl.concat(
        [
            _score_rows(trial.of, method_name, predictions)
            for method_name, predictions in zip(trial.methods, trial.predicted[0], strict=True)
        ]
    )
    return Ratings.make(rating_frame.with_columns(aspect=pl.lit(aspect_of(trial.of.target))), where="held out")[0]


def _score_rows(task: Task, rater: str, scores: Floats) -> pl.DataFrame:
    """Return scores (items, systems) as table rows."""
    item_positions, system_positions = np.nonzero(np.isfinite(scores))
    return pl.DataFrame(
        {
            "item": [task.design.items[item_position] for item_position in item_positions],
            "system": [task.design.systems[system_position] for system_position in system_positions],
            "score": scores[item_positions, system_positions],
        }
    ).with_columns(rater=pl.lit(rater))


def favoritism_columns(trial: Trial, ratings: Ratings, rng: np.random.Generator) -> tuple[dict[str, Any], list[Note]]:
    """Return columns with favoritism and pairwise accuracy of the held-out ratings.

    If favoritism cannot be computed, return no columns, and a note with the reason.
    """
    task, settings = trial.of, trial.terms
    reasons_and_conditions = (
        (
            "folds='system': different models predict the systems of an item, so favoritism is not computed",
            settings.folds == "system",
        ),
        (
            "human ratings are verdicts, so favoritism is not computed here; to compute it, join the held-out "
            "ratings with the verdicts, and call favoritism",
            task.verdicts,
        ),
        (
            "no item has human ratings of two outputs, so favoritism is not computed",
            not (task.rated.sum(axis=1) > 1).any(),
        ),
    )
    for reason, applies in reasons_and_conditions:
        if applies:
            return {}, build_notes(("no-favoritism", True, reason), aspect=aspect_of(task.target))
    human_score_rows = _score_rows(task, HUMAN, task.human)
    (aspect_counts,) = counts_by_aspect(
        Study(
            ratings=Ratings.make(pl.concat([human_score_rows, ratings.frame.select(human_score_rows.columns)]))[0],
            raters=Raters.infer({HUMAN: "human", **dict.fromkeys(trial.methods, METRIC)}),
            items=task.study.items,
            name=task.study.name,
        ),
        {},
    )
    table_columns = mean_columns(aspect_counts, confidence=settings.confidence, resamples=settings.resamples, rng=rng)
    return {"method": table_columns.pop("metric"), **table_columns}, []


def weight_columns(
    trial: Trial, formula: Formula, model_method: Method, training: TrainingData, rng: np.random.Generator
) -> dict[str, Any]:
    """Return columns with the weights of normalised metrics, with intervals from refits on resampled clusters.

    If the model consists only of trees, the weights are importances. Importances are never negative and increase with
    repeated rows, so that a bootstrap gives no valid interval for importances.
    """
    weights = formula.importance if model_method.family == "importances" else formula.weights
    refitted_weights = model_method.refitted_weights(training, min(trial.terms.resamples, REFITS), rng)
    metric_order = np.argsort(-round_for_sorting(np.abs(weights)), kind="stable")
    return {
        "metric": [trial.of.metrics.names[metric_index] for metric_index in metric_order],
        **with_interval(
            "weight",
            np.stack([weights, *refitted_weights])[:, metric_order],
            trial.terms.confidence,
            clusters=trial.n_clusters,
            bounds=ANY,
        ),
    }


def calibration_columns(task: Task, formula: Formula) -> dict[str, Any]:
    """Return columns with the shift of each kind of output; no columns if kinds are not calibrated."""
    if task.kinds is None:
        return {}
    kind_of_output = task.kinds.position[task.rated]
    n_outputs_of_kind = np.bincount(kind_of_output[kind_of_output >= 0], minlength=len(task.kinds.names))
    return {"kind": list(task.kinds.names), "outputs": n_outputs_of_kind, "shift": formula.shifts}


def pruning_columns(task: Task, formula: Formula) -> dict[str, Any]:
    """Return columns with the pruning steps of the saved model; no rows if the model was not pruned."""
    return {
        "step": np.arange(1, len(formula.pruned) + 1),
        "metrics": [len(step.columns) for step in formula.pruned],
        "removed": [task.metrics.names[step.removed] for step in formula.pruned],
        "score": [step.score for step in formula.pruned],
    }
