"""Task of combining: human ratings of one target, metrics that predict these ratings, and held-out folds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.combining.kinds import Kinds
from custodes.data.loading import load_table
from custodes.data.notes import Note, build_notes
from custodes.data.panel import label_codes
from custodes.data.raters import Scale
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column
from custodes.errors import InputError, OptionError, join_labels, reject, short_repr, suggestion
from custodes.evaluate.comparable import label_of
from custodes.evaluate.design import Design
from custodes.evaluate.rater_comparison import compare_selection
from custodes.evaluate.rater_scores import METRIC, RaterScores, select_rater_scores
from custodes.evaluate.scores import without_float_noise
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, ReadOnlyArrays
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.ratios import mean_of_defined

FOLDS = ("item", "system", "dataset", "group")
N_FOLDS = 5
MOST_OUTPUTS, LEAST_CLUSTERS = 20_000, 100
"""Maximum number of rated outputs for fits and tests. If there are more, clusters are drawn until this number is
reached, but at least `LEAST_CLUSTERS` clusters. The limit saves time, because resampled correlations and refits take
longer with more outputs."""
MEAN = "mean:"
SAMPLED = "outputs-sampled"
"""Code of the note which says that only a part of the rated outputs was used."""


@dataclass(frozen=True, kw_only=True)
class Task(ReadOnlyArrays):
    """Target and predictors. The rows of the study are already selected.

    - `human` (items, systems) are the human ratings of the target. They are NaN where `rated` (items, systems) is
      false.
    - `verdicts`: whether the human judgments are preferences. The rating is then the proportion of wins minus the
      proportion of losses within the item.
    - `metrics`: the metrics that predict the ratings.
    - `directions` (metrics,): directions of the raw scores of the metrics.
    - `declared`: declared bounds of metrics, by name.
    - `kinds`: kinds of output that are calibrated separately, if any.
    """

    study: Study
    target: str
    human: Floats
    rated: NDArray[np.bool_]
    verdicts: bool
    metrics: RaterScores
    directions: Floats
    declared: Mapping[str, tuple[float, float]]
    notes: tuple[Note, ...]
    kinds: Kinds | None = None

    @property
    def design(self) -> Design:
        """The items and systems of `human`."""
        return self.metrics.design

    @property
    def persons(self) -> Floats:
        """Ratings of the target by each annotator, (annotators, items, systems).

        A rating is NaN if the annotator did not rate all aspects of the target. If no annotator rated all aspects of
        any output, the result is the mean ratings, as if there were one annotator.
        """
        aspect_names = self.target.removeprefix(MEAN).split(",") if self.target.startswith(MEAN) else [self.target]
        aspect_indices = [self.metrics.aspects.index(aspect_name) for aspect_name in aspect_names]
        annotator_ratings = np.asarray(self.metrics.annotators[aspect_indices].mean(axis=0))
        return annotator_ratings if np.isfinite(annotator_ratings).any() else self.human[np.newaxis]

    def rows(self, positions: NDArray[np.intp]) -> Floats:
        """Return the scores (outputs, metrics) of some outputs, given by positions in `human.ravel()`."""
        return self.metrics.scores.reshape(len(self.metrics.names), -1)[:, positions].T


def task(selected_study: Study, target: str | None) -> Task:
    """Return the target and the predictors of a selected study.

    `target` is an aspect, or 'mean:A,B' for the mean of several aspects; None means the only aspect. Metrics that rate
    another aspect are not predictors. Raises `OptionError` if the target is unknown or missing. Raises `InputError` if
    nothing can be learned, because no metric varies, human ratings are constant, or there are too few items.

    """
    aspects = aspects_of(target, selected_study.aspects)
    if set(aspects) != set(selected_study.aspects):
        selected_study = selected_study.select(aspect=list(aspects))
    rater_scores = select_rater_scores(selected_study, selected_study, "aspects")
    for rater_name, rater_kind, aspect in zip(
        rater_scores.names, rater_scores.kinds, rater_scores.rater_aspects, strict=True
    ):
        if rater_kind != METRIC and rater_name in rater_scores.constant:
            raise InputError(
                f"{selected_study.name}: human ratings{label_of(aspect)} are constant, so nothing can be learned; "
                "select another aspect"
            )
    human_ratings, has_verdicts = _ratings(selected_study, rater_scores, aspects)
    is_rated_output = np.isfinite(human_ratings)
    n_clusters = len(np.unique(rater_scores.design.units[is_rated_output.any(axis=1)]))
    if n_clusters < N_FOLDS:
        raise InputError(
            f"{selected_study.name}: {n_clusters} items (or clusters) have human ratings"
            f"{' and metric scores' if has_verdicts else ''}; cross-validation needs at least {N_FOLDS}"
        )
    if np.ptp(human_ratings[is_rated_output]) == 0:
        raise InputError(
            f"{selected_study.name}: human ratings of the target are all {human_ratings[is_rated_output][0]:g}, so "
            "nothing can be learned; select another target"
        )
    metric_indices = rater_scores.select_kind(METRIC)
    metric_scores = rater_scores.scores[metric_indices][:, is_rated_output]
    is_varying_metric = np.fmax.reduce(metric_scores, axis=1) > np.fmin.reduce(metric_scores, axis=1)
    if not is_varying_metric.any():
        raise InputError(
            f"{selected_study.name}: no metric has varying scores of rated outputs, so there is nothing to "
            "combine; add metrics"
        )
    metric_rater_scores = _select_raters(rater_scores, metric_indices[is_varying_metric])
    target_name = aspects[0] if len(aspects) == 1 else MEAN + ",".join(aspects)
    constant_metrics = [rater_scores.names[rater_index] for rater_index in metric_indices[~is_varying_metric]]
    n_metrics = int(is_varying_metric.sum())
    n_missing_scores = int(np.isnan(metric_scores[is_varying_metric]).sum())
    unscored_metric_texts = [
        f"{metric_name} ({reason})"
        for metric_name, reason in rater_scores.left_out
        if metric_name in selected_study.metrics and metric_name not in rater_scores.constant
    ]
    metric_notes = build_notes(
        (
            "no-scores-of-outputs",
            len(unscored_metric_texts),
            "metrics without scores of single outputs cannot be combined and are excluded: "
            f"{join_labels(unscored_metric_texts)}",
        ),
        (
            "not-on-rated",
            len(constant_metrics),
            "metrics whose scores of the rated outputs are missing or constant are excluded: "
            f"{join_labels(constant_metrics)}",
        ),
        (
            "missing-metric-scores",
            n_missing_scores,
            f"{n_missing_scores} metric scores of rated outputs are missing; all methods except boosted trees "
            "replace missing scores by the training mean",
        ),
        (
            "more-features-than-rows",
            n_metrics if n_metrics >= is_rated_output.sum() else 0,
            f"there are {n_metrics} metrics and only {is_rated_output.sum()} rated outputs, so there is at most one "
            "output per metric",
        ),
        aspect=aspect_of(target_name),
    )
    bounds_of_rater, direction_of_rater = selected_study.raters.bounds, selected_study.raters.direction
    return Task(
        study=selected_study,
        target=target_name,
        human=human_ratings,
        rated=is_rated_output,
        verdicts=has_verdicts,
        metrics=metric_rater_scores,
        directions=np.array([direction_of_rater[rater_name] for rater_name in metric_rater_scores.raters]),
        declared={
            metric_name: bounds_of_rater[rater_name]
            for metric_name, rater_name in zip(metric_rater_scores.names, metric_rater_scores.raters, strict=True)
            if rater_name in bounds_of_rater
        },
        notes=(
            *(note for note in rater_scores.notes if note.rule != "missing-scores"),
            *build_notes(
                (
                    "weights-unused",
                    rater_scores.design.has_item_weights,
                    "item weights do not affect combined metrics",
                )
            ),
            *metric_notes,
        ),
    )


def _select_raters(rater_scores: RaterScores, rater_indices: NDArray[np.intp]) -> RaterScores:
    """Return the scores of the raters at the positions `rater_indices`."""

    values_of_field: dict[str, Any] = {
        field_name: tuple(getattr(rater_scores, field_name)[rater_index] for rater_index in rater_indices)
        for field_name in ("names", "raters", "kinds", "rater_aspects", "dates")
    }
    return replace(rater_scores, **values_of_field, scores=rater_scores.scores[rater_indices])


def sample_task(full_task: Task, rng: np.random.Generator) -> Task:
    """Return the task on random clusters with about `MOST_OUTPUTS` rated outputs, with a note.

    If the task has at most `MOST_OUTPUTS` rated outputs, it is returned unchanged.
    """
    design, n_rated_outputs = full_task.design, int(full_task.rated.sum())
    if n_rated_outputs <= MOST_OUTPUTS:
        return full_task
    n_rated_outputs_of_cluster = np.bincount(
        design.units, weights=full_task.rated.sum(axis=1), minlength=design.n_units
    )
    shuffled_clusters = rng.permutation(np.flatnonzero(n_rated_outputs_of_cluster))
    sampled_clusters = shuffled_clusters[
        : max(
            LEAST_CLUSTERS, np.count_nonzero(np.cumsum(n_rated_outputs_of_cluster[shuffled_clusters]) <= MOST_OUTPUTS)
        )
    ]
    if len(sampled_clusters) == len(shuffled_clusters):
        return full_task
    sampled_item_indices = np.flatnonzero(np.isin(design.units, sampled_clusters) & full_task.rated.any(axis=1))
    is_rated_output = full_task.rated[sampled_item_indices]
    message_text = (
        f"to limit the time, methods are fitted and tested on {is_rated_output.sum()} of {n_rated_outputs} rated "
        f"outputs, from {len(sampled_clusters)} of {len(shuffled_clusters)} items (or clusters), drawn at random"
    )
    notes = (*full_task.notes, *build_notes((SAMPLED, True, message_text), aspect=aspect_of(full_task.target)))
    sampled_kinds = full_task.kinds and full_task.kinds._replace(
        position=full_task.kinds.position[sampled_item_indices]
    )
    return replace(
        full_task,
        human=full_task.human[sampled_item_indices],
        rated=is_rated_output,
        metrics=full_task.metrics.on(sampled_item_indices),
        kinds=sampled_kinds,
        notes=notes,
    )


def aspect_of(target: str) -> str:
    """Return the aspect that predictions of a target rate; it is empty for a mean of aspects."""
    return "" if target.startswith(MEAN) else target


def aspects_of(target: str | None, aspects: tuple[str, ...]) -> tuple[str, ...]:
    """Return the aspects of a target; raises `OptionError` if an aspect is unknown."""
    if target is None:
        if len(aspects) != 1:
            raise OptionError(
                f"the annotators rated several aspects; give one of {join_labels(aspects)} as target='ASPECT', or a "
                f"mean such as target='{MEAN}{','.join(aspects[:2])}'"
            )
        return aspects
    target_aspects = (
        tuple(aspect_name.strip() for aspect_name in target.removeprefix(MEAN).split(","))
        if target.startswith(MEAN)
        else (target,)
    )
    unknown_aspects = [aspect for aspect in target_aspects if aspect not in aspects]
    reject(
        (
            unknown_aspects and aspects == ("",),
            f"target={target!r}: the human ratings have no aspects; leave the target out",
        ),
        (
            unknown_aspects,
            f"target={target!r}: annotators did not rate {join_labels(map(repr, unknown_aspects))}; aspects: "
            f"{join_labels(aspects)}{suggestion(''.join(unknown_aspects[:1]), aspects)}",
        ),
        (len(set(target_aspects)) < len(target_aspects), f"target={target!r} names an aspect twice"),
    )
    return target_aspects


def _ratings(selected_study: Study, rater_scores: RaterScores, aspects: tuple[str, ...]) -> tuple[Floats, bool]:
    """Return the human ratings (items, systems), and whether these come from verdicts."""
    human_scores_of_aspect = {
        rater_scores.rater_aspects[rater_index]: rater_scores.scores[rater_index]
        for rater_index, rater_kind in enumerate(rater_scores.kinds)
        if rater_kind != METRIC
    }
    aspects_with_verdicts = [aspect for aspect in aspects if aspect not in human_scores_of_aspect]
    if not aspects_with_verdicts:
        for aspect in aspects[1:]:
            if not Scale.from_scores(human_scores_of_aspect[aspect]).comparable(
                Scale.from_scores(human_scores_of_aspect[aspects[0]])
            ):
                raise OptionError(
                    f"annotators rated {aspects[0]!r} and {aspect!r} on different scales, which cannot be "
                    "averaged; choose one aspect"
                )
        rating_matrices = np.stack([human_scores_of_aspect[aspect] for aspect in aspects])
        return without_float_noise(
            np.where(np.isfinite(rating_matrices).all(axis=0), mean_of_defined(rating_matrices, axis=0), np.nan)
        ), False
    if len(aspects) > 1:
        raise OptionError(
            f"human ratings of {join_labels(aspects_with_verdicts)} are verdicts, which cannot be averaged over "
            "aspects; choose one aspect"
        )
    (rater_comparison,) = compare_selection(selected_study, {})
    human_signs = rater_comparison.human_signs
    n_comparisons, net_wins = np.zeros((2, len(rater_comparison.systems), len(rater_comparison.items)))
    for sign, system_of_pair in zip((1, -1), rater_comparison.design.pairs.T, strict=True):
        np.add.at(net_wins, system_of_pair, sign * np.where(human_signs == ABSENT, 0, human_signs))
        np.add.at(n_comparisons, system_of_pair, human_signs != ABSENT)
    rating_matrix = np.where(n_comparisons > 0, net_wins / np.maximum(n_comparisons, 1), np.nan).T
    matrix_row_of_item = label_codes(pl.Series(rater_scores.design.items, dtype=pl.String), rater_comparison.items)
    return rating_matrix[matrix_row_of_item][
        :, label_codes(pl.Series(rater_scores.design.systems, dtype=pl.String), rater_comparison.systems)
    ], True


def outer_folds(
    target_task: Task, fold_source: str, *, repeats: int, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Return the folds (items, systems) of every repeat; outputs that are not used have fold -1.

    With 'item', folds are random sets of whole items. With 'system', 'dataset' or 'group', each system, data set or
    group is a fold. Any other `fold_source` is the path of a file with the columns item and fold.
    """
    design = target_task.design
    if fold_source == "item":
        unit_of_rated_output = np.repeat(design.units, target_task.rated.sum(axis=1))
        fold_of_unit_by_repeat = np.full((repeats, design.n_units), -1, dtype=np.intp)
        for fold_of_unit in fold_of_unit_by_repeat:
            fold_of_unit[unit_of_rated_output] = grouped_folds(unit_of_rated_output, n_folds=N_FOLDS, rng=rng)
        return [
            np.where(target_task.rated, fold_of_unit[design.units][:, np.newaxis], -1)
            for fold_of_unit in fold_of_unit_by_repeat
        ]
    if fold_source == "system":
        return [np.where(target_task.rated, np.arange(len(design.systems)), -1)]
    if fold_source in ("dataset", "group"):
        label_of_item = {"dataset": design.dataset, "group": design.group}[fold_source]
        option_text = f"folds={fold_source!r}"
        if not all(label_of_item):
            raise OptionError(
                f"{option_text}: some items have no {fold_source}; name the column, as in --column {fold_source}=NAME, "
                f"or give every item a {fold_source} in the items file"
            )
    else:
        label_of_item, option_text = _read_folds(design, fold_source), fold_source
    return [labelled_folds(target_task, label_of_item, option_text)]


def labelled_folds(target_task: Task, labels: tuple[str, ...], where: str) -> NDArray[np.intp]:
    """Return folds (items, systems) with one fold for each label; items with the label '' are not used."""
    is_rated_item = np.asarray(target_task.rated.any(axis=1))
    fold_labels = sorted(
        {
            label_of_fold
            for label_of_fold, is_rated in zip(labels, is_rated_item, strict=True)
            if is_rated and label_of_fold
        }
    )
    if len(fold_labels) < 2:
        raise OptionError(
            f"{where}: there is only {len(fold_labels)} fold ({join_labels(fold_labels)}); give at least two folds"
        )
    fold_of_item = np.where(is_rated_item, label_codes(pl.Series(labels, dtype=pl.String), fold_labels), -1)
    distinct_pair_clusters, distinct_pair_folds = np.unique(
        np.stack([target_task.design.units, fold_of_item])[:, fold_of_item >= 0], axis=1
    )
    if len(np.unique(distinct_pair_clusters)) < len(distinct_pair_clusters):
        raise OptionError(
            f"{where}: items of one cluster are in different folds, so training data leak into "
            f"the held-out data; put each cluster into one fold"
        )
    for fold_index, label_of_fold in enumerate(fold_labels):
        if np.count_nonzero(distinct_pair_folds != fold_index) < 2:
            raise OptionError(
                f"{where}: without fold {label_of_fold!r} only one item (or cluster) is left for training; at least "
                f"two are needed"
            )
    return np.where(target_task.rated, fold_of_item[:, np.newaxis], -1)


def _read_folds(design: Design, path: str) -> tuple[str, ...]:
    if not os.path.isfile(path):
        raise OptionError(
            f"folds={short_repr(path)}: there is no such file{suggestion(path, FOLDS)}; give {', '.join(FOLDS)}, or a "
            "file with the columns `item` and `fold`"
        )
    fold_frame, _ = read_keyed_column(path, "item", "fold", label_column)
    fold_of_item = dict(fold_frame.iter_rows())
    if not any(item in fold_of_item for item in design.items):
        raise InputError(
            f"{path}: no item of the file is in the data (file: {join_labels(fold_of_item, limit=3)}; data: "
            f"{join_labels(design.items, limit=3)})"
        )
    return tuple(fold_of_item.get(item, "") for item in design.items)


def read_keyed_column(
    path: str,
    key_name: str,
    value_column_name: str,
    read_values: Callable[..., pl.Series],
    *,
    alternative_key: str = "",
    text_columns: Sequence[str] = (),
) -> tuple[pl.DataFrame, str]:
    """Return the values of a table column by key, and the name of the table for messages.

    `alternative_key` is another name of the key column. `text_columns` are also read; their missing values are ''.
    """
    loaded_table = load_table(Path(path))
    column_names = loaded_table.frame.columns
    renamed_frame = (
        loaded_table.frame.rename({alternative_key: key_name})
        if alternative_key in column_names and key_name not in column_names
        else loaded_table.frame
    )
    check_columns(renamed_frame, where=loaded_table.name, required=(key_name, value_column_name), optional=text_columns)
    selected_frame = pl.DataFrame(
        [
            label_column(renamed_frame, key_name, where=loaded_table.name),
            read_values(renamed_frame, value_column_name, where=loaded_table.name),
            *(
                label_column(renamed_frame, text_column_name, where=loaded_table.name, empty=True)
                for text_column_name in text_columns
            ),
        ]
    )
    check_unique(
        selected_frame, [key_name], where=loaded_table.name, what=key_name, hint=f"one row for each {key_name}"
    )
    return selected_frame, loaded_table.name
