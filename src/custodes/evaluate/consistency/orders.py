"""Position bias, estimated from comparisons in both orders or in randomly assigned orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.study import Study
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import POINTS, POSITION, Finding
from custodes.evaluate.decision_graph import CELLS
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.clusters import effective_clusters_by_row
from custodes.stats.intervals import Inference
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, pair_coincidences

ONE_ORDER = "every pair was shown in only one order"
KEY = ["rater", "comparison"]


def order_columns(
    study: Study, preferences: AspectPreferences, bootstrap_weights: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any], list[Finding]]:
    """Return the columns of the tables `orders` and `confusion`, and the position test of raters with known orders."""
    verdict_rows = preferences.queried_verdicts.drop_nulls("preference").filter(pl.col("order") != 0)
    if verdict_rows.is_empty():
        return {}, {}, []
    rater_indices, rater_code_of_verdict = np.unique(verdict_rows["rater"].to_numpy(), return_inverse=True)
    verdict_rows, table_shape = (
        verdict_rows.with_columns(rater=rater_code_of_verdict),
        (len(rater_indices), preferences.n_units),
    )
    outcome_tables = _outcome_tables(verdict_rows, table_shape)  # (raters, units, 9)
    resampled_outcome_tables = bootstrap.weighted_sums(bootstrap_weights, np.moveaxis(outcome_tables, 1, 2)).reshape(
        len(bootstrap_weights), len(rater_indices), 3, 3
    )
    n_both_orders_draws = resampled_outcome_tables.sum(axis=(-1, -2))
    decided_verdict_rows = verdict_rows.filter(pl.col("preference") != 0)
    is_first_preferred = (
        (decided_verdict_rows["preference"] == decided_verdict_rows["order"]).cast(pl.Float64).to_numpy()
    )
    n_both_orders_of_rater = np.bincount(
        verdict_rows.group_by(KEY).agg(n=pl.col("order").n_unique()).filter(n=2)["rater"].to_numpy(),
        minlength=len(rater_indices),
    )
    n_half_answered_of_rater = dict(
        study.preferences.queried_verdicts.half_comparisons()
        .filter(aspect=preferences.aspect)
        .group_by("rater")
        .len()
        .iter_rows()
    )
    interval_options: dict[str, Any] = {
        "confidence": confidence,
        "clusters": effective_clusters_by_row(outcome_tables.sum(axis=2)),
    }
    first_rate_draws, n_clusters_of_first_rate = group_means(
        is_first_preferred, decided_verdict_rows, table_shape, bootstrap_weights
    )
    columns_of_orders: dict[str, Any] = {
        "rater": [preferences.raters[rater_index] for rater_index in rater_indices],
        "n_both_orders": n_both_orders_of_rater,
        "n_half_answered": [
            n_half_answered_of_rater.get(preferences.raters[rater_index], 0) for rater_index in rater_indices
        ],
        **with_interval(
            "consistency",
            ratio(np.trace(resampled_outcome_tables, axis1=-2, axis2=-1), n_both_orders_draws),
            bounds=intervals.SHARE,
            **interval_options,
        ),
        **with_interval(
            "flip_rate",
            ratio(resampled_outcome_tables[..., 0, 2] + resampled_outcome_tables[..., 2, 0], n_both_orders_draws),
            bounds=intervals.SHARE,
            **interval_options,
        ),
        **with_interval(
            "alpha",
            alpha(pair_coincidences(resampled_outcome_tables), scale="nominal"),
            bounds=intervals.CORRELATION,
            **interval_options,
        ),
        **with_interval(
            "first_rate",
            first_rate_draws,
            confidence,
            clusters=n_clusters_of_first_rate,
            bounds=intervals.SHARE,
        ),
    }
    has_both_orders = n_both_orders_draws[0] > 0
    columns_of_confusion = {
        "rater": [preferences.raters[rater_index] for rater_index in rater_indices[has_both_orders]],
        **dict(
            zip(
                CELLS,
                resampled_outcome_tables[0].reshape(len(rater_indices), 9)[has_both_orders].astype(np.int64).T,
                strict=True,
            )
        ),
    }
    findings = [
        Finding(
            preferences.aspect,
            rater,
            POSITION,
            "",
            float(POINTS * estimate),
            float(POINTS * low.clip(-1, 1)),
            float(POINTS * high.clip(-1, 1)),
            float(p_value),
            "" if np.isfinite(estimate) else ONE_ORDER,
        )
        for rater, estimate, low, high, p_value in zip(
            columns_of_orders["rater"], *_margin_test(verdict_rows, table_shape, confidence), strict=True
        )
    ]
    return columns_of_orders, columns_of_confusion if has_both_orders.any() else {}, findings


def _outcome_tables(verdict_rows: pl.DataFrame, shape: tuple[int, int]) -> Floats:
    """Return counts of the nine combinations of outcomes of the first system, (raters, units, 9).

    A combination consists of two outcomes: with the first system shown first, and with the first system shown second.
    Verdicts are paired by run.
    """
    both_order_rows = both_orders(verdict_rows)
    cell_of_comparison = (
        ((1 - both_order_rows["preference"]) * 3 + 1 - both_order_rows["preference_ba"]).cast(pl.Int64).to_numpy()
    )
    return table_sums(
        both_order_rows["rater"].to_numpy(), both_order_rows["unit"].to_numpy(), cell_of_comparison, shape=(*shape, 9)
    ).astype(np.float64)


def both_orders(verdict_rows: pl.DataFrame) -> pl.DataFrame:
    """Return comparisons with verdicts in both orders, paired by run; `preference_ba` is in the swapped order."""
    column_names = (*KEY, "run", "unit", "item", "preference")
    rows_of_orders = [verdict_rows.filter(pl.col("order") == order_code).select(column_names) for order_code in (1, -1)]
    return rows_of_orders[0].join(rows_of_orders[1], on=[*KEY, "run"], suffix="_ba")


def group_means(
    values: Floats, value_rows: pl.DataFrame, shape: tuple[int, int], bootstrap_weights: Floats
) -> tuple[Floats, Floats]:
    """Return the mean of the defined values (n,) of each rater in every resample, (1 + B, raters), and the effective
    number of clusters of these values, (raters,).

    `value_rows` has the positions `rater` and `unit` of each value, and `shape` is the number of raters and of units.
    """
    is_defined_value = np.isfinite(values)
    rater_of_value, unit_of_value = (
        value_rows[column_name].to_numpy()[is_defined_value] for column_name in ("rater", "unit")
    )
    value_sums, value_counts = (
        table_sums(rater_of_value, unit_of_value, shape=shape, weights=values_or_none)
        for values_or_none in (values[is_defined_value], None)
    )
    mean_draws = ratio(
        *(bootstrap.weighted_sums(bootstrap_weights, sums_or_counts) for sums_or_counts in (value_sums, value_counts))
    )
    return mean_draws, effective_clusters_by_row(value_counts)


def _margin_test(verdict_rows: pl.DataFrame, shape: tuple[int, int], confidence: float) -> Inference:
    """Return the test of the margin of the first position.

    Each comparison that was shown in both orders is a stratum. All other comparisons of a pair of systems form one
    stratum. Within each stratum, the verdict is regressed on the order, so unbalanced orders of a pair do not bias the
    result.
    """
    is_in_both_orders_expression = pl.col("order").n_unique().over(KEY) > 1
    stratified_rows = verdict_rows.with_columns(
        within=is_in_both_orders_expression,
        stratum=pl.when(is_in_both_orders_expression).then(pl.col("comparison")).otherwise(-1 - pl.col("pair")),
    )
    stratum_column_names = ["rater", "stratum"]
    centred_rows = stratified_rows.with_columns(
        order=pl.col("order") - pl.col("order").mean().over(stratum_column_names),
        preference=pl.col("preference") - pl.col("preference").mean().over(stratum_column_names),
        n=pl.len().over(stratum_column_names),
    )
    order_preference_products, squared_orders = (
        (centred_rows["order"] * centred_rows["preference"]).to_numpy(),
        (centred_rows["order"] ** 2).to_numpy(),
    )
    rater_of_verdict, unit_of_verdict = centred_rows["rater"].to_numpy(), centred_rows["unit"].to_numpy()
    product_sums, squared_order_sums = (
        table_sums(rater_of_verdict, unit_of_verdict, shape=shape, weights=weight_of_verdict)
        for weight_of_verdict in (order_preference_products, squared_orders)
    )
    # Fitted means make the residuals of a stratum too small. A stratum of one comparison needs no correction, because
    # all its rows are in one cluster.
    n_verdicts_in_stratum = centred_rows["n"].to_numpy()
    variance_factor_of_verdict = np.where(
        centred_rows["within"].to_numpy(), 1.0, n_verdicts_in_stratum / np.maximum(n_verdicts_in_stratum - 1, 1)
    )
    uncorrected_variances, corrected_variances = (
        np.bincount(rater_of_verdict, weights=variance_factor * order_preference_products**2, minlength=shape[0])
        for variance_factor in (1.0, variance_factor_of_verdict)
    )
    return slot_test(
        product_sums,
        squared_order_sums,
        further_variance_factors=np.nan_to_num(ratio(corrected_variances, uncorrected_variances), nan=1.0),
        confidence=confidence,
    )
