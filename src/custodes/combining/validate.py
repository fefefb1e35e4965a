"""Validation of a combined metric on another data set, in comparison with the best single metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, label, score, table
from custodes.arguments import assignment_list, check_one_of
from custodes.combining.combined_metric import CombinedMetric, raw_scores
from custodes.combining.generalisation import ITEMS, LEAST_SYSTEMS, SYSTEMS, conclusion
from custodes.combining.normalise import LEAST_USED
from custodes.combining.task import MEAN, Task, aspect_of, task
from custodes.combining.trial import STATISTICS
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels, reject, short_repr, suggestion
from custodes.evaluate.rater_scores import few_clusters_notes, name_of
from custodes.progress import Progress, silent
from custodes.stats.arrays import Floats
from custodes.stats.learning.objective import OBJECTIVES, Objective, objective
from custodes.stats.learning.ridge import scaling
from custodes.stats.learning.unseen import Moves, moves
from custodes.stats.ratios import mean_of_defined

COMBINED, SINGLE, HINDSIGHT = "combined", "best single", "best in hindsight"

ELSEWHERE = 0.95
"""If at least this proportion of a metric's scores lies outside the bounds in the model, the scores count as scores on
a different scale."""

Scales = Literal["model", "data"]

Rename = Mapping[str, str] | Sequence[str] | None


@result
class Validate(Result):
    """Evaluation of a combined metric on data that were not used in the fit; see `validate`."""

    comparison: pl.DataFrame = table(
        "Agreement of the combined metric and of single metrics, on the outputs that annotators and all these "
        "metrics rated.",
        label(
            "rater",
            "combined: the combined metric; best single: the single metric that was best on the data of the fit; "
            "best in hindsight: the single metric that is best on the given data. The agreement of the last one is "
            "overestimated, because it is chosen by this agreement",
        ),
        label("metric", "name of the metric in these data"),
        count("n", "outputs", essential=False),
        *(
            score(name, text, title, interval=True, best="high", essential=name in ("kendall", "accuracy"))
            for name, text, title in (
                ("kendall", "Kendall's tau-b with human ratings over outputs", "Kendall τ-b"),
                ("spearman", "Spearman's correlation", "Spearman ρ"),
                ("pearson", "Pearson's correlation", "Pearson r"),
                (
                    "accuracy",
                    "proportion of pairs of outputs of an item that the metric orders as the annotators do; human "
                    "ties are left out",
                    "In order",
                ),
            )
        ),
    )
    gains: pl.DataFrame = table(
        "Differences between the objective of the combined metric and the objectives of single metrics.",
        label("rater", "the single metric, as in `comparison`"),
        label("metric", "name of the single metric in these data"),
        label("unseen", "what is resampled: items (with fixed systems), or systems and items"),
        count("n", "number of clusters of items, or of systems", essential=False),
        score("gain", "objective of the combined metric minus objective of the single metric", interval=True),
        label(
            "conclusion",
            "`gain`: the interval lies above 0; `no gain`: it does not. Null without an interval, and in rows of "
            "`best in hindsight`",
        ),
    )


@question(
    "custodes combine validate other.csv --model coherence.json --rename BERTScore=bertscore-f1",
    model="Model file.",
    rename="OLD=NEW: OLD is the name of a rater in the data, NEW the name in the model; comma list or repeated.",
    objective="Statistic of the gains (default: the objective of the model).",
    scales="Bounds of the metric scores: from the model, or from the given data.",
)
def validate(
    study: Study,
    *,
    model: str | Path = "combination.json",
    rename: Rename = None,
    objective: Objective | None = None,
    scales: Scales = "model",
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Validate:
    """Evaluate a saved combined metric on another data set, in comparison with the best single metric.

    Notes
    -----
    `rename` maps raters of the study to names in the model, {'old': 'new'} or 'old=new'. `aspect` is the human aspect
    (default: the target of the model, or the only aspect). With scales='data', the bounds of each metric come from this
    study: the range of its scores within three standard deviations of their mean.

    The combined metric is compared with two single metrics: the best metric on the data of the fit, and the best metric
    on this study. Nothing is fitted or drawn at random. Intervals are Student's t intervals with the infinitesimal
    jackknife, over clusters of items and over systems.

    References
    ----------
    Jaeckel 1972 (infinitesimal jackknife).

    Examples
    --------
    >>> import custodes as cu
    >>> study = cu.read("demo")
    >>> result = cu.combine(study, target="fluency", method="ridge", repeats=1, resamples=0, unseen="none")
    >>> path = result.model.save("fluency.json")
    >>> cu.validate(study, model=path, aspect="coherence").gains["rater"].unique(maintain_order=True).to_list()
    ['best single', 'best in hindsight']
    """
    combined_metric = CombinedMetric.load(model)
    objective_name = check_one_of("objective", objective or combined_metric.objective, OBJECTIVES)
    renamed_study = _rename_raters(study, rename)
    tables_and_notes_of_targets = [
        _validate_target(
            renamed_study,
            combined_metric,
            target_name,
            objective_name,
            scales,
            confidence,
            {**selection, "aspect": None},
        )
        for target_name in _targets(renamed_study, combined_metric, selection)
    ]
    return Validate.from_parts(
        [target_tables for target_tables, _ in tables_and_notes_of_targets],
        [note for _, target_notes in tables_and_notes_of_targets for note in target_notes],
    )


def _rename_raters(study: Study, rename: Rename) -> Study:
    """Return the study with raters renamed to the names in the model."""
    if not rename:
        return study
    direction_of_rater = study.raters.direction
    new_name_of_rater: dict[str, str] = dict(
        rename
        if isinstance(rename, Mapping)
        else (text.partition("=")[::2] for text in assignment_list(rename, keys=direction_of_rater))
    )
    unknown_raters = [rater for rater in new_name_of_rater if rater not in direction_of_rater]
    other_raters = [rater for rater in direction_of_rater if rater not in new_name_of_rater]
    repeated_names = [
        name for name, count in Counter([*other_raters, *new_name_of_rater.values()]).items() if count > 1
    ]
    reject(
        (
            not all(new_name_of_rater.values()),
            f"rename={short_repr(rename)}: give OLD=NEW, where OLD is the name of a rater in the data and NEW is the "
            "name in the model",
        ),
        (
            unknown_raters,
            f"rename: there is no rater {join_labels(map(repr, unknown_raters))} in {study.name}; raters: "
            f"{join_labels(direction_of_rater)}{suggestion(''.join(unknown_raters[:1]), direction_of_rater)}",
        ),
        (
            repeated_names,
            f"rename: two raters of {study.name} would get the name {join_labels(map(repr, repeated_names))}; rename "
            "or exclude one",
        ),
    )
    new_name_expression = pl.col("rater").replace(new_name_of_rater)
    return replace(
        study,
        ratings=Ratings(frame=study.ratings.frame.with_columns(new_name_expression)),
        preferences=Preferences(frame=study.preferences.frame.with_columns(new_name_expression)),
        raters=Raters(frame=study.raters.frame.with_columns(new_name_expression)),
        digest=study.fingerprint(),
    )


def _targets(study: Study, combined_metric: CombinedMetric, selection: Mapping[str, Any]) -> list[str]:
    """Return the targets with which the model can be compared: aspects, or the mean to which the model was fitted."""
    aspect_patterns: Patterns = selection.get("aspect")
    selected_study = study.select(human=selection.get("human"), aspect=aspect_patterns)
    if aspect_patterns is not None:
        return list(selected_study.aspects)
    if set(combined_metric.target.removeprefix(MEAN).split(",")) <= set(selected_study.aspects):
        return [combined_metric.target]
    if len(selected_study.aspects) == 1:
        return list(selected_study.aspects)
    raise OptionError(
        f"{study.name}: there are no human ratings of {combined_metric.target!r}, which the model predicts; give "
        "aspect='ASPECT', one of "
        f"{join_labels(selected_study.aspects)}{suggestion(combined_metric.target, selected_study.aspects)}"
    )


_Rival = tuple[str, str, Floats]
"""A single metric: its role, its name, and its scores (items, systems), for which higher is better."""


def _validate_target(
    study: Study,
    combined_metric: CombinedMetric,
    target: str,
    objective_name: Objective,
    scales: Scales,
    confidence: float,
    selection: Selection,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    target_task = task(study.select(**selection), target)
    items, systems = target_task.design.items, target_task.design.systems
    metric_scores = combined_metric.rows(study, items, systems)
    if scales == "data":
        metric_scores = _rescale_to_model(combined_metric, metric_scores)
    else:
        _check_scales(study, combined_metric, metric_scores[target_task.rated.ravel()])
    is_scored_output = np.isfinite(metric_scores).any(axis=1)
    predictions = combined_metric.predict(metric_scores, combined_metric.kinds(study, items, systems))
    combined_scores = np.where(is_scored_output, predictions, np.nan)
    rivals, why_no_best_single = _rivals(study, combined_metric, target_task, objective_name)
    compared_scores = np.stack(
        [combined_scores.reshape(target_task.human.shape), *(rival_scores for *_, rival_scores in rivals)]
    )
    compared_ratings = np.where(np.isfinite(compared_scores).all(axis=0), target_task.human, np.nan)
    n_outputs = int(np.isfinite(compared_ratings).sum())
    n_excluded = int((target_task.rated & ~np.isfinite(compared_ratings)).sum())
    if n_outputs < 2:
        raise InputError(
            f"{study.name}: fewer than two outputs have ratings by annotators, the combined metric and the compared "
            f"single metrics ({join_labels(dict.fromkeys(rival_name for _, rival_name, _ in rivals))})"
        )
    common_label_of_output = np.zeros(compared_ratings.shape, dtype=np.intp)
    scores_with_influences_of_statistic = {
        statistic_name: moves(
            statistic_name,  # type: ignore[arg-type]
            compared_ratings,
            compared_scores[:, np.newaxis],
            model=common_label_of_output,
            within=common_label_of_output,
            block=common_label_of_output,
            units=target_task.design.units,
            n_units=target_task.design.n_units,
        )
        for statistic_name in {*STATISTICS, objective_name}
    }
    comparison_columns: dict[str, Any] = {
        "rater": [COMBINED, *(rival_role for rival_role, *_ in rivals)],
        "metric": [combined_metric.name, *(rival_name for _, rival_name, _ in rivals)],
        "n": n_outputs,
    }
    for statistic_name in STATISTICS:
        comparison_columns |= scores_with_influences_of_statistic[statistic_name].columns(
            statistic_name, "units", confidence=confidence
        )
    table_frames = Validate.part(
        target,
        comparison=comparison_columns,
        gains=_gains(
            rivals, scores_with_influences_of_statistic[objective_name], target_task, compared_ratings, confidence
        ),
    )
    comparison_notes = build_notes(
        ("no-best-single", bool(why_no_best_single), why_no_best_single),
        (
            "not-in-common",
            n_excluded,
            f"{n_excluded} outputs with human ratings are excluded, because some of the compared metrics have no "
            "score for these outputs",
        ),
        aspect=aspect_of(target),
    )
    n_clusters = len(np.unique(target_task.design.units[np.isfinite(compared_ratings).any(axis=1)]))
    return table_frames, [
        *[note for note in target_task.notes if note.rule not in ("missing-metric-scores", "more-features-than-rows")],
        *combined_metric.notes_on(study, metric_scores[target_task.rated.ravel()], items),
        *comparison_notes,
        *few_clusters_notes(n_clusters, 1),
    ]


def _check_scales(study: Study, combined_metric: CombinedMetric, metric_scores: Floats) -> None:
    """Raise an error if the scores (outputs, columns) of a metric are on another scale than in the model."""
    for model_metric, column_scores in zip(combined_metric.columns, metric_scores.T, strict=True):
        finite_scores = column_scores[np.isfinite(column_scores)]
        if not len(finite_scores):
            continue
        share_beyond_model_bounds = float(
            ((finite_scores < model_metric.low) | (finite_scores > model_metric.high)).mean()
        )
        if share_beyond_model_bounds >= ELSEWHERE or 0 < float(np.ptp(finite_scores)) < LEAST_USED * (
            model_metric.high - model_metric.low
        ):
            direction_sign = 1.0 if model_metric.higher_is_better else -1.0
            data_bounds, model_bounds = (
                sorted(direction_sign * bound for bound in lower_and_upper_bound)
                for lower_and_upper_bound in (
                    (finite_scores.min(), finite_scores.max()),
                    (model_metric.low, model_metric.high),
                )
            )
            raise InputError(
                f"{study.name}: the scale of {model_metric.label!r} is {data_bounds[0]:.3g} to {data_bounds[1]:.3g} "
                f"here, but {model_bounds[0]:.3g} to {model_bounds[1]:.3g} in the model; use scales='data' to take the "
                "bounds from these data, or fit a model without this metric"
            )


def _rescale_to_model(combined_metric: CombinedMetric, metric_scores: Floats) -> Floats:
    """Return scores (outputs, columns) rescaled so that their range in these data becomes the range in the model."""
    data_scaling = scaling(metric_scores)
    lower_bounds = np.fmax(np.nanmin(metric_scores, axis=0), data_scaling.low)
    upper_bounds = np.fmin(np.nanmax(metric_scores, axis=0), data_scaling.high)
    model_bounds = np.array([(metric_column.low, metric_column.high) for metric_column in combined_metric.columns]).T
    bound_widths = np.where(upper_bounds > lower_bounds, upper_bounds - lower_bounds, 1.0)
    return np.asarray(
        model_bounds[0]
        + (np.clip(metric_scores, lower_bounds, upper_bounds) - lower_bounds)
        / bound_widths
        * (model_bounds[1] - model_bounds[0])
    )


def _rivals(
    study: Study, combined_metric: CombinedMetric, target_task: Task, objective_name: Objective
) -> tuple[list[_Rival], str]:
    """Return the single metrics for the comparison, and a reason if the best single metric of the fit is missing.

    The metrics are the best single metric of the fit (if this metric is known and in the study) and the best single
    metric in the study.
    """
    best_single = combined_metric.validation.get("single")
    if not isinstance(best_single, dict) or not {"metric", "aspect", "higher_is_better"} <= best_single.keys():
        raise InputError("the model file does not name the best single metric of the fit; fit the model again")
    rater_name, aspect = best_single["metric"], best_single["aspect"]
    metric_name = name_of(rater_name, aspect)
    single_scores = raw_scores(study, rater_name, aspect, target_task.design.items, target_task.design.systems)
    rivals: list[_Rival] = []
    why_no_best_single = (
        f"{metric_name!r}, the best single metric of the fit, is not in these data; if the metric has another name in "
        "these data, use rename"
    )
    if single_scores is not None:
        rivals.append((SINGLE, metric_name, (1.0 if best_single["higher_is_better"] else -1.0) * single_scores))
        why_no_best_single = ""
    output_positions = np.flatnonzero(target_task.rated.ravel())
    metric_scores = target_task.rows(output_positions)
    imputed_scores = np.where(np.isfinite(metric_scores), metric_scores, mean_of_defined(metric_scores, axis=0))
    objective_of_scores = objective(
        objective_name,
        target_task.human.ravel()[output_positions],
        items=output_positions // len(target_task.design.systems),
    )
    best_metric_index = int(np.argmax(np.nan_to_num(objective_of_scores(imputed_scores.T), nan=-np.inf)))
    rivals.append(
        (HINDSIGHT, target_task.metrics.names[best_metric_index], target_task.metrics.scores[best_metric_index])
    )
    return rivals, why_no_best_single


def _gains(
    rivals: Sequence[_Rival],
    objectives_with_influences: Moves,
    target_task: Task,
    compared_ratings: Floats,
    confidence: float,
) -> dict[str, Any]:
    """Return columns with the gain over each single metric, with an interval over items and one over systems and items.

    If there are fewer than `LEAST_SYSTEMS` systems, the bounds of the second interval are NaN.
    """
    is_compared_output = np.isfinite(compared_ratings)
    rival_indices = np.arange(1, len(rivals) + 1)
    gains_with_influences = objectives_with_influences.contrast(np.zeros_like(rival_indices), rival_indices)
    n_of_resampled_unit = {
        ITEMS: len(np.unique(target_task.design.units[is_compared_output.any(axis=1)])),
        SYSTEMS: int(is_compared_output.any(axis=0).sum()),
    }
    bounds_by_resampled_unit = [
        gains_with_influences.interval(resampled_unit, confidence=confidence) for resampled_unit in ("units", "systems")
    ]
    lower_bounds, upper_bounds = np.array(bounds_by_resampled_unit).transpose(
        1, 2, 0
    )  # (rivals, items or systems) each
    if n_of_resampled_unit[SYSTEMS] < LEAST_SYSTEMS:
        lower_bounds[:, 1] = upper_bounds[:, 1] = np.nan
    role_of_row = np.repeat([rival_role for rival_role, *_ in rivals], 2)
    return {
        "rater": role_of_row,
        "metric": np.repeat([rival_name for _, rival_name, _ in rivals], 2),
        "unseen": [*n_of_resampled_unit] * len(rivals),
        "n": [*n_of_resampled_unit.values()] * len(rivals),
        "gain": np.repeat(gains_with_influences.value, 2),
        "gain_low": lower_bounds.ravel(),
        "gain_high": upper_bounds.ravel(),
        "conclusion": [
            conclusion(lower_bound) if rival_role == SINGLE else None
            for rival_role, lower_bound in zip(role_of_row, lower_bounds.flat, strict=True)
        ],
    }
