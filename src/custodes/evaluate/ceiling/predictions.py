"""Predictions from metrics, from other aspects and from both, information that metrics lack, and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import PredictedAspect, Target
from custodes.stats import bootstrap, intervals, split_half
from custodes.stats.arrays import Floats
from custodes.stats.correlation import within_item
from custodes.stats.intervals import ANY, CORRELATION, POSITIVE
from custodes.stats.learning import heldout
from custodes.stats.learning.lasso import ALPHAS, lasso_errors, lasso_weights
from custodes.stats.ratios import mean_of_defined, ratio
from custodes.stats.system_scores import weighted_item_mean

GAPS = (("humans", "metrics"), ("both", "metrics"), ("both", "humans"))


def agreements(target: Target, fit: heldout.Fit) -> dict[str, Floats]:
    """Return tau-b of the predictions from each set of features, over all outputs and within items.

    Both arrays are (1 + B, sets).
    """
    predictions = target.predict_from_raters(target.columns.values(), fit)
    draws_of_statistic = {"kendall": target.agreement(predictions)}
    if target.whole:  # with plain folds, different models predict the outputs of an item
        human_scores = target.rater_scores.scores[target.target_index]
        predicted_scores = np.full((len(predictions), *human_scores.shape), np.nan)
        predicted_scores.reshape(len(predictions), -1)[:, target.row] = predictions
        draws_of_statistic["kendall_item"] = weighted_item_mean(
            within_item(human_scores, predicted_scores, kind="kendall"),
            units=target.rater_scores.design.units,
            weights=target.times,
        )
    return draws_of_statistic


def prediction_columns(
    target: PredictedAspect,
    draws_of_statistic: Mapping[str, Floats],
    n_predictions: int,
    confidence: float,
    n_clusters: int,
) -> dict[str, dict[str, Any]]:
    """Return the columns of `prediction` and `gaps`; `draws_of_statistic` has the values (1 + B, sets) by statistic."""
    feature_set_names = list(target.columns)
    compared_feature_pairs = [
        (features_a, features_b) for features_a, features_b in GAPS if {features_a, features_b} <= {*feature_set_names}
    ]
    first_set_positions, second_set_positions = (
        [feature_set_names.index(feature_pair[position_in_pair]) for feature_pair in compared_feature_pairs]
        for position_in_pair in (0, 1)
    )
    interval_arguments: dict[str, Any] = {"confidence": confidence, "clusters": n_clusters}
    nan_draws = np.full_like(draws_of_statistic["kendall"], np.nan)
    unexplained_error_columns = with_interval(
        "error", draws_of_statistic.get("unexplained", nan_draws), bounds=POSITIVE, **interval_arguments
    )
    kendall_draws = draws_of_statistic["kendall"]
    return {
        "prediction": {
            "features": feature_set_names,
            **with_interval("kendall", draws_of_statistic["kendall"], bounds=CORRELATION, **interval_arguments),
            **with_interval(
                "kendall_item",
                draws_of_statistic.get("kendall_item", nan_draws),
                confidence,
                clusters=target.n_effective_clusters,
                bounds=CORRELATION,
            ),
            "r2": 1 - unexplained_error_columns["error"],
            "r2_low": 1 - unexplained_error_columns["error_high"],
            "r2_high": 1 - unexplained_error_columns["error_low"],
            "n": n_predictions,
        },
        "gaps": {
            "features_a": [features_a for features_a, _ in compared_feature_pairs],
            "features_b": [features_b for _, features_b in compared_feature_pairs],
            **with_interval(
                "difference",
                kendall_draws[:, first_set_positions] - kendall_draws[:, second_set_positions],
                bounds=ANY,
                **interval_arguments,
            ),
        },
    }


def annotator_columns(target: Target, rng: np.random.Generator, confidence: float) -> dict[str, Any]:
    """Return the columns of `annotators`: agreement of two halves of the annotators, and the attainable tau-b.

    The attainable tau-b is undefined if the agreement of two halves is not positive in the data, even if it is positive
    in some resamples.
    """
    if len(target.persons) < 2:
        return {}
    annotator_ratings, annotator_halves = target.split_annotators(rng)
    half_means, other_half_means = (
        np.stack(
            [target.rows(mean_of_defined(annotator_ratings[halves[half_index]], axis=0)) for halves in annotator_halves]
        )
        for half_index in (0, 1)
    )
    agreement_draws = replace(target, y=half_means).agreement(other_half_means)
    is_defined_split = np.isfinite(agreement_draws[0])
    defined_splits = np.flatnonzero(
        is_defined_split | ~is_defined_split.any()
    )  # if no split has a value, the mean is undefined
    split_half_draws = agreement_draws[:, defined_splits].mean(axis=1, keepdims=True)
    attainable_draws = split_half.attainable_tau(
        split_half_draws,
        target.rows(annotator_ratings).T,
        [annotator_halves[split_index] for split_index in defined_splits],
        rng=rng,
    )
    if split_half_draws[0] <= 0:  # the errors of annotators cannot be estimated
        attainable_draws = np.full_like(attainable_draws, np.nan)
    return {
        "annotators": len(annotator_ratings),
        **with_interval("split_half", split_half_draws, confidence, clusters=target.n_clusters, bounds=CORRELATION),
        **with_interval("attainable", attainable_draws, confidence, clusters=target.n_clusters, bounds=CORRELATION),
    }


def history_columns(
    target: PredictedAspect,
    agreement: Callable[[Sequence[NDArray[np.intp]]], Floats],
    confidence: float,
    n_clusters: int,
) -> dict[str, Any]:
    """Return the columns of `history`: predictions from all metrics released by each date (Figure 1 of the paper)."""
    dates_and_metric_positions = [
        (date, metric_position)
        for metric_position in target.columns["metrics"]
        if (date := target.rater_scores.dates[metric_position]) is not None
    ]
    dates = sorted({date for date, _ in dates_and_metric_positions})
    if len(dates) < 2:
        return {}
    rater_sets = [
        np.array([metric_position for date, metric_position in dates_and_metric_positions if date <= release_date])
        for release_date in dates
    ]
    return {
        "date": dates,
        "newest": [
            [
                target.rater_scores.names[metric_position]
                for date, metric_position in dates_and_metric_positions
                if date == release_date
            ]
            for release_date in dates
        ],
        **with_interval(
            "kendall",
            agreement(rater_sets),
            confidence,
            clusters=n_clusters,
            bounds=CORRELATION,
        ),
    }


def information_columns(target: Target, confidence: float) -> dict[str, Any]:
    """Return the columns of `information` for a predicted aspect: errors with and without the annotators' other
    aspects, and the ratio of these errors.

    The result has one row per penalty. The result is empty if the annotators rated no other aspect."""
    if "both" not in target.columns:
        return {}
    return error_columns(
        {
            feature_set: bootstrap.unit_sums(
                lasso_errors(target.x[:, target.columns[feature_set]], target.y, target.fold, alphas=ALPHAS),
                units=target.groups,
                n_units=target.rater_scores.design.n_units,
            )
            for feature_set in ("metrics", "both")
        },
        target.times,
        len(target.y),
        confidence,
        target.n_clusters,
    )


def error_columns(
    unit_error_sums_of_feature_set: Mapping[str, Floats],
    bootstrap_weights: NDArray[Any],
    n_predictions: int,
    confidence: float,
    n_clusters: int,
) -> dict[str, Any]:
    """Return the columns of `information` from squared errors (alphas, units) for each set of features, summed within
    units.

    `bootstrap_weights` (1 + B, units) are weights of the units, and `n_predictions` is the number of predictions."""
    error_sums_with_metrics, error_sums_with_both = (
        bootstrap.weighted_sums(bootstrap_weights, unit_error_sums_of_feature_set[feature_set])
        for feature_set in ("metrics", "both")
    )
    return {
        "alpha": ALPHAS,
        **with_interval(
            "mse_ratio",
            ratio(error_sums_with_both, error_sums_with_metrics),
            confidence,
            clusters=n_clusters,
            bounds=intervals.POSITIVE,
        ),
        "mse_both": error_sums_with_both[0] / n_predictions,
    }


def lasso_columns(target: PredictedAspect, x: Floats, y: Floats) -> dict[str, Any]:
    """Return the columns of `lasso`: standardised weights by penalty, fitted to all rows of `x` (rows, raters)."""
    rater_positions = target.columns.get("both", target.columns["metrics"])
    return {
        "alpha": np.repeat(ALPHAS, len(rater_positions)),
        "rater": [target.rater_scores.names[rater_position] for rater_position in rater_positions] * len(ALPHAS),
        "kind": [target.rater_scores.kinds[rater_position] for rater_position in rater_positions] * len(ALPHAS),
        "weight": lasso_weights(x[:, rater_positions], y, alphas=ALPHAS),
    }
