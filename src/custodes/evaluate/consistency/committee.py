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
    study: Study, part: RaterPreferences, times: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of the tables `committee` and `panels`.

    Both tables are empty if annotators and all judges rated fewer than `FEWEST` clusters in common. The table
    `committee` is also empty if there is only one judge.
    """
    has_human_preference = part.people != ABSENT
    metrics = range(part.n_humans, len(part.raters))
    n_rated_of_judge = {r: int((has_human_preference & (part.signs[r] != ABSENT)).sum()) for r in metrics}
    most_rated = max(n_rated_of_judge.values(), default=0)
    judges = [r for r in metrics if n_rated_of_judge[r] and n_rated_of_judge[r] >= MOST_LEFT_OUT * most_rated]
    # Judges of this aspect take precedence over metrics with one score for all aspects.
    frames = (study.ratings.frame, study.preferences.frame)
    of_aspect = {rater for frame in frames for rater in frame.filter(aspect=part.aspect)["rater"].unique()}
    judges = sorted(sorted(judges, key=lambda r: part.raters[r] not in of_aspect)[:MOST_JUDGES])
    is_used = (
        has_human_preference & (part.signs[judges] != ABSENT).all(axis=0) if judges else np.zeros(0, dtype=np.bool_)
    )
    if len(np.unique(part.unit[is_used])) < FEWEST:
        return {}, {}
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    # A metric of another aspect has no preference here, so it is not a candidate.
    left_out = [part.raters[r] for r in metrics if r not in judges and (part.signs[r] != ABSENT).any()]
    return (
        _error_correlation(part, judges, is_used, times, interval_options) | {"left_out": [left_out]}
        if len(judges) > 1
        else {},
        _panels(study, part, judges, is_used, times, interval_options),
    )


def committee_notes(committee: Mapping[str, Any], aspect: str) -> list[Note]:
    """Return a note on the judges that the tables `committee` and `panels` exclude."""
    (left_out,) = committee.get("left_out", [[]])
    message = (
        f"the tables committee and panels exclude {join_labels(left_out)}{label_of(aspect)}: they use at most "
        f"{MOST_JUDGES} judges and metrics with enough comparisons, and prefer those with scores for the aspect"
    )
    return build_notes(("not-in-committee", len(left_out), message), aspect=aspect)


def _error_correlation(
    part: RaterPreferences, judges: list[int], is_used: Bools, times: Floats, interval_options: dict[str, Any]
) -> dict[str, Any]:
    """Return the mean correlation of the errors of two judges, and the effective number of judges."""
    errors = 1 - correct(part.signs[judges][:, is_used], part.people[is_used])
    correlation = error_correlation(errors, units=part.unit[is_used], weights=times)
    columns = with_interval("error_correlation", correlation, bounds=intervals.CORRELATION, **interval_options)
    # A higher correlation means fewer effective judges, so the bounds are exchanged.
    columns |= {
        "effective_judges": effective_size(len(judges), columns["error_correlation"]),
        "effective_judges_low": effective_size(len(judges), columns["error_correlation_high"]),
        "effective_judges_high": effective_size(len(judges), columns["error_correlation_low"]),
    }
    return {"judges": len(judges), "comparisons": int(is_used.sum())} | {
        name: float(value) for name, value in columns.items()
    }


def _panels(
    study: Study,
    part: RaterPreferences,
    judges: list[int],
    is_used: Bools,
    times: Floats,
    interval_options: dict[str, Any],
) -> dict[str, Any]:
    """Return the accuracy of the majority vote of all judges, of the selected panels, and of each judge."""
    verdicts, people, unit = part.signs[judges][:, is_used], part.people[is_used], part.unit[is_used]
    is_right_judge, names = correct(verdicts, people), [part.raters[r] for r in judges]
    judges_of_panel: list[tuple[int, ...]] = [(j,) for j in range(len(judges))]
    labels, is_right_of_panel = [*names], is_right_judge
    best_elsewhere_right = np.full(len(unit), np.nan)
    if len(judges) > 1:
        subset_right, best_elsewhere_right = held_out_correctness(
            verdicts, people, fold=np.unique(unit, return_inverse=True)[1] % FOLDS
        )
        all_judges_right = correct(majority(verdicts), people)
        best_judge = int(is_right_judge.mean(axis=1).round(12).argmax())
        labels = [EVERYBODY, CHOSEN, BEST, *labels]
        judges_of_panel = [(*range(len(judges)),), best_subset(verdicts, people), (best_judge,), *judges_of_panel]
        is_right_of_panel = np.stack([all_judges_right, subset_right, best_elsewhere_right, *is_right_judge])
    accuracy = weighted_item_mean(is_right_of_panel, units=unit, weights=times)
    gain = weighted_item_mean(is_right_of_panel - best_elsewhere_right, units=unit, weights=times).round(12)
    gain[:, [label == BEST for label in labels]] = np.nan  # difference to itself
    cost, cost_units = _costs(study, part, judges, is_used)
    cost_of_panel = [
        cost[[*panel]].sum() if len({cost_units[j] for j in panel}) == 1 else np.nan for panel in judges_of_panel
    ]
    return {
        "panel": labels,
        "judges": [[names[j] for j in panel] for panel in judges_of_panel],
        "size": [len(panel) for panel in judges_of_panel],
        **with_interval("accuracy", accuracy, bounds=intervals.SHARE, **interval_options),
        **with_interval("gain", gain, bounds=intervals.ANY, **interval_options),
        "cost_per_correct": np.array(cost_of_panel) / accuracy[0],
    }


def _costs(study: Study, part: RaterPreferences, judges: list[int], is_used: Bools) -> tuple[Floats, list[str | None]]:
    """Return the cost of a judge's verdicts on a comparison (judges,), NaN if unknown, and the units of the costs."""
    comparison_ids = part.item[is_used] * max(1, len(part.design.pairs)) + part.pair[is_used]
    verdicts = part.asked.drop_nulls("preference").filter(pl.col("comparison").is_in(comparison_ids.tolist()))
    mean_verdicts = verdicts.group_by("rater", "comparison").len().group_by("rater").agg(pl.col("len").mean())
    # A score is for one output, and a comparison needs two scores.
    n_verdicts_of_rater = dict(mean_verdicts.iter_rows())
    raters = study.raters.select_raters([part.raters[r] for r in judges]).frame
    cost_per_verdict = np.array([price or np.nan for price in raters["cost"]], dtype=np.float64)
    return cost_per_verdict * [n_verdicts_of_rater.get(r, 2.0) for r in judges], raters["cost_unit"].to_list()
