"""Committees of judges: accuracy and cost of each judge and of majority votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import FEWEST
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Bools, Floats
from custodes.stats.clusters import effective_clusters
from custodes.stats.judging.committee import best_subset, correct, held_out_correctness, majority
from custodes.stats.system_scores import weighted_item_mean

FOLDS = 5
MOST_JUDGES = 60
MOST_LEFT_OUT = 0.5
"""Minimum number of comparisons of a judge, as a proportion of the largest number of comparisons of any judge."""

EVERYBODY, BEST, CHOSEN = "all", "best single judge", "best majority"


def panel_columns(
    study: Study, preferences: AspectPreferences, bootstrap_weights: Floats, confidence: float
) -> tuple[dict[str, Any], list[Note]]:
    """Return the columns of the table `panels`, and a note on the judges that the table excludes.

    The table is empty if annotators and all judges rated fewer than `FEWEST` clusters in common.
    """
    has_human_preference = preferences.people != ABSENT
    metric_indices = np.arange(preferences.n_humans, len(preferences.raters))
    n_comparisons_of_metric = (has_human_preference & (preferences.signs[metric_indices] != ABSENT)).sum(axis=1)
    has_enough_comparisons = n_comparisons_of_metric >= MOST_LEFT_OUT * n_comparisons_of_metric.max(initial=0)
    # Judges of this aspect take precedence over metrics with one score for all aspects.
    metrics_of_aspect = set(study._rater_rows(study.metrics).filter(aspect=preferences.aspect)["rater"].unique())
    judge_indices = sorted(
        sorted(
            metric_indices[has_enough_comparisons].tolist(),
            key=lambda rater_index: preferences.raters[rater_index] not in metrics_of_aspect,
        )[:MOST_JUDGES]
    )
    is_shared_comparison = has_human_preference & (preferences.signs[judge_indices] != ABSENT).all(axis=0)
    if not judge_indices or len(np.unique(preferences.unit[is_shared_comparison])) < FEWEST:
        return {}, []
    interval_options: dict[str, Any] = {
        "confidence": confidence,
        "clusters": effective_clusters(np.bincount(preferences.unit[is_shared_comparison])),
    }
    panel_table_columns = _panel_columns(
        study, preferences, judge_indices, is_shared_comparison, bootstrap_weights, interval_options
    )
    if len(judge_indices) < 2:
        return panel_table_columns, []
    # A metric of another aspect has no preference here, so it is not a candidate.
    left_out_judges = [
        preferences.raters[rater_index]
        for rater_index in metric_indices
        if rater_index not in judge_indices and (preferences.signs[rater_index] != ABSENT).any()
    ]
    message = (
        f"the table panels excludes {join_labels(left_out_judges)}{label_of(preferences.aspect)}; the table has at "
        f"most {MOST_JUDGES} judges and metrics with enough comparisons, and prefers those with scores for the aspect"
    )
    return panel_table_columns, build_notes(
        ("not-in-committee", len(left_out_judges), message), aspect=preferences.aspect
    )


def _panel_columns(
    study: Study,
    preferences: AspectPreferences,
    judge_indices: list[int],
    is_shared_comparison: Bools,
    bootstrap_weights: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the accuracy and cost of the majority vote of all judges, of the selected panels, and of each judge."""
    judge_signs, human_signs, unit_of_comparison = (
        preferences.signs[judge_indices][:, is_shared_comparison],
        preferences.people[is_shared_comparison],
        preferences.unit[is_shared_comparison],
    )
    correctness_of_judge = correct(judge_signs, human_signs)
    judge_names = [preferences.raters[rater_index] for rater_index in judge_indices]
    panels = [
        (judge_names[judge_position], [judge_position], correctness_of_judge[judge_position])
        for judge_position in range(len(judge_names))
    ]
    best_judge_correctness = np.full(len(unit_of_comparison), np.nan)
    if len(judge_indices) > 1:
        best_majority_correctness, best_judge_correctness = held_out_correctness(
            judge_signs, human_signs, fold=np.unique(unit_of_comparison, return_inverse=True)[1] % FOLDS
        )
        best_judge_position = int(correctness_of_judge.mean(axis=1).round(12).argmax())
        panels = [
            (EVERYBODY, [*range(len(judge_names))], correct(majority(judge_signs), human_signs)),
            (CHOSEN, [*best_subset(judge_signs, human_signs)], best_majority_correctness),
            (BEST, [best_judge_position], best_judge_correctness),
            *panels,
        ]
    panel_labels, panel_members, correctness_of_panel = zip(*panels, strict=True)
    accuracy_draws, gain_draws = (
        weighted_item_mean(panel_values, units=unit_of_comparison, weights=bootstrap_weights)
        for panel_values in (np.stack(correctness_of_panel), np.stack(correctness_of_panel) - best_judge_correctness)
    )
    gain_draws[:, [panel_label == BEST for panel_label in panel_labels]] = np.nan  # no gain over itself
    cost_of_judge, cost_unit_of_judge = _verdict_costs(study, preferences, judge_indices, is_shared_comparison)
    cost_of_panel = [
        cost_of_judge[members_of_panel].sum()
        if len({cost_unit_of_judge[judge_position] for judge_position in members_of_panel}) == 1
        else np.nan
        for members_of_panel in panel_members
    ]
    return {
        "panel": panel_labels,
        "comparisons": [len(human_signs)] * len(panel_labels),
        "judges": [
            [judge_names[judge_position] for judge_position in members_of_panel] for members_of_panel in panel_members
        ],
        **with_interval("accuracy", accuracy_draws, bounds=intervals.SHARE, **interval_options),
        **with_interval("gain", gain_draws.round(12), bounds=intervals.ANY, **interval_options),
        "cost_per_correct": np.array(cost_of_panel) / accuracy_draws[0],
    }


def _verdict_costs(
    study: Study, preferences: AspectPreferences, judge_indices: list[int], is_shared_comparison: Bools
) -> tuple[Floats, list[str | None]]:
    """Return the cost of a judge's verdicts on a comparison (judges,), NaN if unknown, and the units of the costs."""
    comparison_ids = (
        preferences.item[is_shared_comparison] * max(1, len(preferences.design.pairs))
        + preferences.pair[is_shared_comparison]
    )
    verdict_rows = preferences.queried_verdicts.drop_nulls("preference").filter(
        pl.col("comparison").is_in(comparison_ids.tolist())
    )
    # A score is for one output, and a comparison needs two scores.
    mean_n_verdicts_of_rater = dict(
        verdict_rows.group_by("rater", "comparison").len().group_by("rater").agg(pl.col("len").mean()).iter_rows()
    )
    judge_rows = study.raters.select_raters([preferences.raters[rater_index] for rater_index in judge_indices]).frame
    cost_per_verdict = np.array([cost or np.nan for cost in judge_rows["cost"]], dtype=np.float64)
    return cost_per_verdict * [
        mean_n_verdicts_of_rater.get(rater_index, 2.0) for rater_index in judge_indices
    ], judge_rows["cost_unit"].to_list()
