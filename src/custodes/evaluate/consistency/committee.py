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
    study: Study, part: RaterPreferences, bootstrap_weights: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of the tables `committee` and `panels`.

    Both tables are empty if annotators and all judges rated fewer than `FEWEST` clusters in common. The table
    `committee` is also empty if there is only one judge.
    """
    has_human_preference = part.people != ABSENT
    metric_indices = np.arange(part.n_humans, len(part.raters))
    n_comparisons = (has_human_preference & (part.signs[metric_indices] != ABSENT)).sum(axis=1)
    is_judge = (n_comparisons > 0) & (n_comparisons >= MOST_LEFT_OUT * n_comparisons.max(initial=0))
    # Judges of this aspect take precedence over metrics with one score for all aspects.
    row_tables = (study.ratings.frame, study.preferences.frame)
    aspect_raters = {rater for rows in row_tables for rater in rows.filter(aspect=part.aspect)["rater"].unique()}
    judge_indices = sorted(
        sorted(
            metric_indices[is_judge].tolist(), key=lambda rater_index: part.raters[rater_index] not in aspect_raters
        )[:MOST_JUDGES]
    )
    is_shared_comparison = (
        has_human_preference & (part.signs[judge_indices] != ABSENT).all(axis=0)
        if judge_indices
        else np.zeros(0, dtype=np.bool_)
    )
    if len(np.unique(part.unit[is_shared_comparison])) < FEWEST:
        return {}, {}
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    # A metric of another aspect has no preference here, so it is not a candidate.
    left_out_judges = [
        part.raters[rater_index]
        for rater_index in metric_indices
        if rater_index not in judge_indices and (part.signs[rater_index] != ABSENT).any()
    ]
    return (
        _error_correlation(part, judge_indices, is_shared_comparison, bootstrap_weights, interval_options)
        | {"left_out": [left_out_judges]}
        if len(judge_indices) > 1
        else {},
        _panel_columns(study, part, judge_indices, is_shared_comparison, bootstrap_weights, interval_options),
    )


def committee_notes(committee: Mapping[str, Any], aspect: str) -> list[Note]:
    """Return a note on the judges that the tables `committee` and `panels` exclude."""
    (left_out_judges,) = committee.get("left_out", [[]])
    message = (
        f"the tables committee and panels exclude {join_labels(left_out_judges)}{label_of(aspect)}: they use at most "
        f"{MOST_JUDGES} judges and metrics with enough comparisons, and prefer those with scores for the aspect"
    )
    return build_notes(("not-in-committee", len(left_out_judges), message), aspect=aspect)


def _error_correlation(
    part: RaterPreferences,
    judge_indices: list[int],
    is_shared_comparison: Bools,
    bootstrap_weights: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the mean correlation of the errors of two judges, and the effective number of judges."""
    judge_errors = 1 - correct(part.signs[judge_indices][:, is_shared_comparison], part.people[is_shared_comparison])
    correlation_draws = error_correlation(
        judge_errors, units=part.unit[is_shared_comparison], weights=bootstrap_weights
    )
    table_columns = with_interval(
        "error_correlation", correlation_draws, bounds=intervals.CORRELATION, **interval_options
    )
    # A higher correlation means fewer effective judges, so the bounds are exchanged.
    table_columns |= {
        "effective_judges": effective_size(len(judge_indices), table_columns["error_correlation"]),
        "effective_judges_low": effective_size(len(judge_indices), table_columns["error_correlation_high"]),
        "effective_judges_high": effective_size(len(judge_indices), table_columns["error_correlation_low"]),
    }
    return {"judges": len(judge_indices), "comparisons": int(is_shared_comparison.sum())} | {
        column_name: float(column_value) for column_name, column_value in table_columns.items()
    }


def _panel_columns(
    study: Study,
    part: RaterPreferences,
    judge_indices: list[int],
    is_shared_comparison: Bools,
    bootstrap_weights: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the accuracy of the majority vote of all judges, of the selected panels, and of each judge."""
    judge_signs, human_signs, unit_of_comparison = (
        part.signs[judge_indices][:, is_shared_comparison],
        part.people[is_shared_comparison],
        part.unit[is_shared_comparison],
    )
    correctness_of_judge, judge_names = (
        correct(judge_signs, human_signs),
        [part.raters[rater_index] for rater_index in judge_indices],
    )
    judges_of_panel: list[tuple[int, ...]] = [(judge,) for judge in range(len(judge_indices))]
    panel_labels, correctness_of_panel = [*judge_names], correctness_of_judge
    held_out_best_correctness = np.full(len(unit_of_comparison), np.nan)
    if len(judge_indices) > 1:
        held_out_majority_correctness, held_out_best_correctness = held_out_correctness(
            judge_signs, human_signs, fold=np.unique(unit_of_comparison, return_inverse=True)[1] % FOLDS
        )
        all_judges_correctness = correct(majority(judge_signs), human_signs)
        best_judge = int(correctness_of_judge.mean(axis=1).round(12).argmax())
        panel_labels = [EVERYBODY, CHOSEN, BEST, *panel_labels]
        judges_of_panel = [
            (*range(len(judge_indices)),),
            best_subset(judge_signs, human_signs),
            (best_judge,),
            *judges_of_panel,
        ]
        correctness_of_panel = np.stack(
            [all_judges_correctness, held_out_majority_correctness, held_out_best_correctness, *correctness_of_judge]
        )
    accuracy_draws = weighted_item_mean(correctness_of_panel, units=unit_of_comparison, weights=bootstrap_weights)
    gain_draws = weighted_item_mean(
        correctness_of_panel - held_out_best_correctness, units=unit_of_comparison, weights=bootstrap_weights
    ).round(12)
    gain_draws[:, [panel_label == BEST for panel_label in panel_labels]] = np.nan  # the best judge minus itself
    cost_of_judge, cost_unit_of_judge = _verdict_costs(study, part, judge_indices, is_shared_comparison)
    cost_of_panel = [
        cost_of_judge[[*panel]].sum() if len({cost_unit_of_judge[judge] for judge in panel}) == 1 else np.nan
        for panel in judges_of_panel
    ]
    return {
        "panel": panel_labels,
        "judges": [[judge_names[judge] for judge in panel] for panel in judges_of_panel],
        "size": [len(panel) for panel in judges_of_panel],
        **with_interval("accuracy", accuracy_draws, bounds=intervals.SHARE, **interval_options),
        **with_interval("gain", gain_draws, bounds=intervals.ANY, **interval_options),
        "cost_per_correct": np.array(cost_of_panel) / accuracy_draws[0],
    }


def _verdict_costs(
    study: Study, part: RaterPreferences, judge_indices: list[int], is_shared_comparison: Bools
) -> tuple[Floats, list[str | None]]:
    """Return the cost of a judge's verdicts on a comparison (judges,), NaN if unknown, and the units of the costs."""
    comparison_ids = part.item[is_shared_comparison] * max(1, len(part.design.pairs)) + part.pair[is_shared_comparison]
    verdict_rows = part.asked.drop_nulls("preference").filter(pl.col("comparison").is_in(comparison_ids.tolist()))
    mean_count_rows = verdict_rows.group_by("rater", "comparison").len().group_by("rater").agg(pl.col("len").mean())
    # A score is for one output, and a comparison needs two scores.
    mean_verdicts_of_rater = dict(mean_count_rows.iter_rows())
    judge_rows = study.raters.select_raters([part.raters[rater_index] for rater_index in judge_indices]).frame
    cost_per_verdict = np.array([cost or np.nan for cost in judge_rows["cost"]], dtype=np.float64)
    return cost_per_verdict * [
        mean_verdicts_of_rater.get(rater_index, 2.0) for rater_index in judge_indices
    ], judge_rows["cost_unit"].to_list()
