"""Committees of judges: correlation of the errors of judges, and accuracy of majority votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.consistency.findings import FEWEST
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Bools, Floats
from custodes.stats.clusters import effective_clusters
from custodes.stats.judging.committee import (
    best_subset,
    correct,
    effective_size,
    error_correlation,
    held_out_correctness,
    majority,
)
from custodes.stats.system_scores import weighted_item_mean

FOLDS = 5
MOST_JUDGES = 60
MOST_LEFT_OUT = 0.5
"""Minimum number of comparisons of a judge, as a proportion of the largest number of comparisons of any judge."""

EVERYBODY, BEST, CHOSEN = "all", "best single judge", "best majority"


def committee_columns(
    study: Study, preferences: RaterPreferences, bootstrap_weights: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of the tables `committee` and `panels`.

    Both tables are empty if annotators and all judges rated fewer than `FEWEST` clusters in common. The table
    `committee` is also empty if there is only one judge.
    """
    has_human_preference = preferences.people != ABSENT
    metric_indices = np.arange(preferences.n_humans, len(preferences.raters))
    n_comparisons_of_metric = (has_human_preference & (preferences.signs[metric_indices] != ABSENT)).sum(axis=1)
    is_committee_judge = (n_comparisons_of_metric > 0) & (
        n_comparisons_of_metric >= MOST_LEFT_OUT * n_comparisons_of_metric.max(initial=0)
    )
    # Judges of this aspect take precedence over metrics with one score for all aspects.
    rating_and_verdict_frames = (study.ratings.frame, study.preferences.frame)
    aspect_raters = {
        rater
        for frame in rating_and_verdict_frames
        for rater in frame.filter(aspect=preferences.aspect)["rater"].unique()
    }
    judge_indices = sorted(
        sorted(
            metric_indices[is_committee_judge].tolist(),
            key=lambda rater_index: preferences.raters[rater_index] not in aspect_raters,
        )[:MOST_JUDGES]
    )
    is_shared_comparison = (
        has_human_preference & (preferences.signs[judge_indices] != ABSENT).all(axis=0)
        if judge_indices
        else np.zeros(0, dtype=np.bool_)
    )
    if len(np.unique(preferences.unit[is_shared_comparison])) < FEWEST:
        return {}, {}
    n_clusters = effective_clusters(np.bincount(preferences.unit[is_shared_comparison]))
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": n_clusters}
    # A metric of another aspect has no preference here, so it is not a candidate.
    left_out_judges = [
        preferences.raters[rater_index]
        for rater_index in metric_indices
        if rater_index not in judge_indices and (preferences.signs[rater_index] != ABSENT).any()
    ]
    return (
        _error_correlation(preferences, judge_indices, is_shared_comparison, bootstrap_weights, interval_options)
        | {"left_out": [left_out_judges]}
        if len(judge_indices) > 1
        else {},
        _panel_columns(study, preferences, judge_indices, is_shared_comparison, bootstrap_weights, interval_options),
    )


def committee_notes(committee: Mapping[str, Any], aspect: str) -> list[Note]:
    """Return a note on the judges that the tables `committee` and `panels` exclude."""
    (left_out_judges,) = committee.get("left_out", [[]])
    message = (
        f"the tables committee and panels exclude {join_labels(left_out_judges)}{label_of(aspect)}; these tables use "
        f"at most {MOST_JUDGES} judges and metrics with enough comparisons, first those with scores for the aspect"
    )
    return build_notes(("not-in-committee", len(left_out_judges), message), aspect=aspect)


def _error_correlation(
    preferences: RaterPreferences,
    judge_indices: list[int],
    is_shared_comparison: Bools,
    bootstrap_weights: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the mean correlation of the errors of two judges, and the effective number of judges."""
    judge_errors = 1 - correct(
        preferences.signs[judge_indices][:, is_shared_comparison],
        preferences.people[is_shared_comparison],
    )
    correlation_draws = error_correlation(
        judge_errors, units=preferences.unit[is_shared_comparison], weights=bootstrap_weights
    )
    columns_of_committee = with_interval(
        "error_correlation", correlation_draws, bounds=intervals.CORRELATION, **interval_options
    )
    # A higher correlation means fewer effective judges, so the bounds are exchanged.
    columns_of_committee |= {
        "effective_judges": effective_size(len(judge_indices), columns_of_committee["error_correlation"]),
        "effective_judges_low": effective_size(len(judge_indices), columns_of_committee["error_correlation_high"]),
        "effective_judges_high": effective_size(len(judge_indices), columns_of_committee["error_correlation_low"]),
    }
    return {"judges": len(judge_indices), "comparisons": int(is_shared_comparison.sum())} | {
        column_name: float(column_value) for column_name, column_value in columns_of_committee.items()
    }


def _panel_columns(
    study: Study,
    preferences: RaterPreferences,
    judge_indices: list[int],
    is_shared_comparison: Bools,
    bootstrap_weights: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the accuracy of the majority vote of all judges, of the selected panels, and of each judge."""
    judge_signs, human_signs, unit_of_comparison = (
        preferences.signs[judge_indices][:, is_shared_comparison],
        preferences.people[is_shared_comparison],
        preferences.unit[is_shared_comparison],
    )
    correctness_of_judge, judge_names = (
        correct(judge_signs, human_signs),
        [preferences.raters[rater_index] for rater_index in judge_indices],
    )
    judge_indices_of_panels: list[tuple[int, ...]] = [(judge_index,) for judge_index in range(len(judge_indices))]
    panel_labels, correctness_of_panel = [*judge_names], correctness_of_judge
    held_out_best_correctness = np.full(len(unit_of_comparison), np.nan)
    if len(judge_indices) > 1:
        held_out_majority_correctness, held_out_best_correctness = held_out_correctness(
            judge_signs, human_signs, fold=np.unique(unit_of_comparison, return_inverse=True)[1] % FOLDS
        )
        all_judges_correctness = correct(majority(judge_signs), human_signs)
        best_judge_index = int(correctness_of_judge.mean(axis=1).round(12).argmax())
        panel_labels = [EVERYBODY, CHOSEN, BEST, *panel_labels]
        judge_indices_of_panels = [
            (*range(len(judge_indices)),),
            best_subset(judge_signs, human_signs),
            (best_judge_index,),
            *judge_indices_of_panels,
        ]
        correctness_of_panel = np.stack(
            [all_judges_correctness, held_out_majority_correctness, held_out_best_correctness, *correctness_of_judge]
        )
    accuracy_draws = weighted_item_mean(correctness_of_panel, units=unit_of_comparison, weights=bootstrap_weights)
    gain_draws = weighted_item_mean(
        correctness_of_panel - held_out_best_correctness, units=unit_of_comparison, weights=bootstrap_weights
    ).round(12)
    gain_draws[:, [panel_label == BEST for panel_label in panel_labels]] = np.nan  # no gain over itself
    cost_of_judge, cost_unit_of_judge = _verdict_costs(study, preferences, judge_indices, is_shared_comparison)
    cost_of_panel = [
        cost_of_judge[[*panel_judge_indices]].sum()
        if len({cost_unit_of_judge[judge_index] for judge_index in panel_judge_indices}) == 1
        else np.nan
        for panel_judge_indices in judge_indices_of_panels
    ]
    return {
        "panel": panel_labels,
        "judges": [
            [judge_names[judge_index] for judge_index in panel_judge_indices]
            for panel_judge_indices in judge_indices_of_panels
        ],
        "size": [len(panel_judge_indices) for panel_judge_indices in judge_indices_of_panels],
        **with_interval("accuracy", accuracy_draws, bounds=intervals.SHARE, **interval_options),
        **with_interval("gain", gain_draws, bounds=intervals.ANY, **interval_options),
        "cost_per_correct": np.array(cost_of_panel) / accuracy_draws[0],
    }


def _verdict_costs(
    study: Study, preferences: RaterPreferences, judge_indices: list[int], is_shared_comparison: Bools
) -> tuple[Floats, list[str | None]]:
    """Return the cost of a judge's verdicts on a comparison (judges,), NaN if unknown, and the units of the costs."""
    comparison_ids = (
        preferences.item[is_shared_comparison] * max(1, len(preferences.design.pairs))
        + preferences.pair[is_shared_comparison]
    )
    verdict_rows = preferences.asked.drop_nulls("preference").filter(
        pl.col("comparison").is_in(comparison_ids.tolist())
    )
    mean_verdict_count_rows = (
        verdict_rows.group_by("rater", "comparison").len().group_by("rater").agg(pl.col("len").mean())
    )
    # A score is for one output, and a comparison needs two scores.
    mean_verdicts_of_rater = dict(mean_verdict_count_rows.iter_rows())
    judge_rows = study.raters.select_raters([preferences.raters[rater_index] for rater_index in judge_indices]).frame
    cost_per_verdict = np.array([cost or np.nan for cost in judge_rows["cost"]], dtype=np.float64)
    return cost_per_verdict * [
        mean_verdicts_of_rater.get(rater_index, 2.0) for rater_index in judge_indices
    ], judge_rows["cost_unit"].to_list()
