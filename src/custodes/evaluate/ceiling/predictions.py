"""Predictions from metrics, from other aspects and from both; bounds of prediction; and the history of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import PredictedAspect, Target
from custodes.stats import split_half
from custodes.stats.arrays import Floats
from custodes.stats.correlation import within_item
from custodes.stats.intervals import ANY, CORRELATION, POSITIVE
from custodes.stats.learning import heldout
from custodes.stats.ratios import mean_of_defined
from custodes.stats.system_scores import weighted_item_mean

GAPS = (("humans", "metrics"), ("both", "metrics"), ("both", "humans"))
SPLITS = 20
"""Number of random splits of the annotators into halves. If there are fewer different splits, all of them are used."""


def agreements(target: Target, fit: heldout.Fit) -> dict[str, Floats]:
    """Return tau-b of the predictions from each set of features, over all outputs and within items.

    Both arrays are (1 + B, sets).
    """
    predictions = target.predict_from_raters(target.columns.values(), fit)
    draws = {"kendall": target.agreement(predictions)}
    if target.whole:  # otherwise different models predict the outputs of an item
        item_correlations = within_item(target.grid(target.y), target.grid(predictions), kind="kendall")
        draws["kendall_item"] = weighted_item_mean(
            item_correlations, units=target.who.design.units, weights=target.times
        )
    return draws


def prediction_columns(
    target: PredictedAspect, draws: Mapping[str, Floats], n: int, confidence: float, clusters: int
) -> dict[str, dict[str, Any]]:
    """Return the columns of `prediction` and of `gaps`; `draws` has the values (1 + B, sets) of each statistic."""
    names = list(target.columns)
    compared_sets = [(set_a, set_b) for set_a, set_b in GAPS if {set_a, set_b} <= {*names}]
    first_positions, second_positions = (
        [names.index(set_pair[pair_position]) for set_pair in compared_sets] for pair_position in (0, 1)
    )
    interval_arguments: dict[str, Any] = {"confidence": confidence, "clusters": clusters}
    undefined = np.full_like(draws["kendall"], np.nan)
    error_columns = with_interval("error", draws.get("unexplained", undefined), bounds=POSITIVE, **interval_arguments)
    difference = draws["kendall"][:, first_positions] - draws["kendall"][:, second_positions]
    return {
        "prediction": {
            "features": names,
            **with_interval("kendall", draws["kendall"], bounds=CORRELATION, **interval_arguments),
            **with_interval(
                "kendall_item", draws.get("kendall_item", undefined), bounds=CORRELATION, **interval_arguments
            ),
            "r2": 1 - error_columns["error"],
            "r2_low": 1 - error_columns["error_high"],
            "r2_high": 1 - error_columns["error_low"],
            "columns": [len(rater_positions) for rater_positions in target.columns.values()],
            "n": n,
        },
        "gaps": {
            "features_a": [set_a for set_a, _ in compared_sets],
            "features_b": [set_b for _, set_b in compared_sets],
            **with_interval("difference", difference, bounds=ANY, **interval_arguments),
        },
    }


def annotator_columns(target: Target, rng: np.random.Generator, confidence: float) -> dict[str, Any]:
    """Return the columns of `annotators`: agreement of two halves of the annotators, and the attainable tau-b.

    The attainable tau-b is undefined if two halves do not agree, even if they agree in some resamples.
    """
    if len(target.persons) < 2:
        return {}
    sorted_persons = sorted(
        target.persons, key=target.who.people.__getitem__
    )  # halves do not depend on the input order
    person_ratings = np.stack([target.persons[person] for person in sorted_persons])
    splits = split_half.halves(len(person_ratings), most=SPLITS, rng=rng)
    draws = np.stack(
        [
            replace(target, y=target.rows(mean_of_defined(person_ratings[half], axis=0))).agreement(
                target.rows(mean_of_defined(person_ratings[other_half], axis=0))[np.newaxis]
            )
            for half, other_half in splits
        ]
    )
    is_defined = np.isfinite(draws[:, 0, 0])
    defined_splits = np.flatnonzero(is_defined | ~is_defined.any())  # if no split has a value, the mean is undefined
    split_half_values = draws[defined_splits].mean(axis=0)
    attainable_values = split_half.attainable_tau(
        split_half_values, target.rows(person_ratings).T, [splits[k] for k in defined_splits], rng=rng
    )
    if split_half_values[0] <= 0:  # the errors of annotators have no estimate
        attainable_values = np.full_like(attainable_values, np.nan)
    return {
        "annotators": len(person_ratings),
        **with_interval("split_half", split_half_values, confidence, clusters=target.n_clusters, bounds=CORRELATION),
        **with_interval("attainable", attainable_values, confidence, clusters=target.n_clusters, bounds=CORRELATION),
    }


def history_columns(
    target: PredictedAspect, agreement: Callable[[Sequence[NDArray[np.intp]]], Floats], confidence: float, clusters: int
) -> dict[str, Any]:
    """Return the columns of `history`: predictions from all metrics released by each date (Figure 1 of the paper)."""
    dates_and_metrics = [(date, i) for i in target.columns["metrics"] if (date := target.who.dates[i]) is not None]
    dates = sorted({date for date, _ in dates_and_metrics})
    if len(dates) < 2:
        return {}
    sets = [np.array([i for date, i in dates_and_metrics if date <= release_date]) for release_date in dates]
    return {
        "date": dates,
        "newest": [
            [target.who.names[i] for date, i in dates_and_metrics if date == release_date] for release_date in dates
        ],
        "columns": [len(columns) for columns in sets],
        **with_interval("kendall", agreement(sets), confidence, clusters=clusters, bounds=CORRELATION),
    }
