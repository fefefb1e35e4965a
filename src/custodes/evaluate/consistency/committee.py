"""Committees of judges: accuracy of each judge and of majority votes."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import FEWEST
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Floats
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

    The table has the accuracy of the majority vote of all judges, of the selected panels, and of each judge. The table
    is empty if annotators and all judges rated fewer than `FEWEST` clusters in common.
    """
    has_human_preference = preferences.people != ABSENT
    metric_indices = np.arange(preferences.n_humans, len(preferences.raters))
    n_comparisons_of_metric = (has_human_preference & (preferences.signs[metric_indices] != ABSENT)).sum(axis=1)
    # Judges of this aspect take precedence over metrics with one score for all aspects.
    metrics_of_aspect = set(study._rater_rows(study.metrics).filter(aspect=preferences.aspect)["rater"].unique())
    judge_indices = sorted(
        sorted(
            metric_indices[n_comparisons_of_metric >= MOST_LEFT_OUT * n_comparisons_of_metric.max(initial=0)].tolist(),
            key=lambda rater_index: preferences.raters[rater_index] not in metrics_of_aspect,
        )[:MOST_JUDGES]
    )
    is_shared_comparison = has_human_preference & (preferences.signs[judge_indices] != ABSENT).all(axis=0)
    unit_of_comparison = preferences.unit[is_shared_comparison]
    if not judge_indices or len(np.unique(unit_of_comparison)) < FEWEST:
        return {}, []
    judge_signs = preferences.signs[judge_indices][:, is_shared_comparison]
    human_signs = preferences.people[is_shared_comparison]
    correctness_of_judge = correct(judge_signs, human_signs)
    judge_names = [preferences.raters[rater_index] for rater_index in judge_indices]
    panels = [
        (judge_name, [judge_name], judge_correctness)
        for judge_name, judge_correctness in zip(judge_names, correctness_of_judge, strict=True)
    ]
    best_judge_correctness, left_out_judges = np.full(len(human_signs), np.nan), list[str]()
    if len(judge_indices) > 1:
        best_majority_correctness, best_judge_correctness = held_out_correctness(
            judge_signs, human_signs, fold=np.unique(unit_of_comparison, return_inverse=True)[1] % FOLDS
        )
        panels = [
            (EVERYBODY, judge_names, correct(majority(judge_signs), human_signs)),
            (
                CHOSEN,
                [judge_names[judge_position] for judge_position in best_subset(judge_signs, human_signs)],
                best_majority_correctness,
            ),
            (BEST, [judge_names[int(correctness_of_judge.mean(axis=1).round(12).argmax())]], best_judge_correctness),
            *panels,
        ]
        # A metric of another aspect has no preference here, so it is not a candidate.
        left_out_judges = [
            preferences.raters[rater_index]
            for rater_index in metric_indices
            if rater_index not in judge_indices and (preferences.signs[rater_index] != ABSENT).any()
        ]
    panel_names, panel_members, correctness_of_panel = zip(*panels, strict=True)
    accuracy_draws, gain_draws = (
        weighted_item_mean(panel_values, units=unit_of_comparison, weights=bootstrap_weights)
        for panel_values in (np.stack(correctness_of_panel), np.stack(correctness_of_panel) - best_judge_correctness)
    )
    gain_draws[:, [panel_name == BEST for panel_name in panel_names]] = np.nan  # no gain over itself
    n_clusters = effective_clusters(np.bincount(unit_of_comparison))
    panel_table_columns = {
        "panel": panel_names,
        "comparisons": len(human_signs),
        "judges": panel_members,
        **with_interval("accuracy", accuracy_draws, confidence, clusters=n_clusters, bounds=intervals.SHARE),
        **with_interval("gain", gain_draws.round(12), confidence, clusters=n_clusters, bounds=intervals.ANY),
    }
    message = (
        f"the table panels excludes {join_labels(left_out_judges)}{label_of(preferences.aspect)}; the table has at "
        f"most {MOST_JUDGES} judges and metrics with enough comparisons, and prefers those with scores for the aspect"
    )
    return panel_table_columns, build_notes(
        ("not-in-committee", len(left_out_judges), message), aspect=preferences.aspect
    )
