"""Position bias, estimated from comparisons in both orders or in randomly assigned orders."""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.data.study import Study
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import POSITION, Finding, margin_findings
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
    raters = [preferences.raters[rater_index] for rater_index in rater_indices]
    verdict_rows = verdict_rows.with_columns(rater=rater_code_of_verdict)
    table_shape = (len(raters), preferences.n_units)
    # Counts of the nine combinations of two outcomes of the first system, when shown first and when shown second.
    both_order_rows = both_orders(verdict_rows)
    outcome_tables = table_sums(
        both_order_rows["rater"].to_numpy(),
        both_order_rows["unit"].to_numpy(),
        ((1 - both_order_rows["preference"]) * 3 + 1 - both_order_rows["preference_ba"]).cast(pl.Int64).to_numpy(),
        shape=(*table_shape, 9),
    ).astype(np.float64)
    resampled_outcome_tables = bootstrap.weighted_sums(bootstrap_weights, np.moveaxis(outcome_tables, 1, 2)).reshape(
        len(bootstrap_weights), len(raters), 3, 3
    )
    n_both_orders_draws = resampled_outcome_tables.sum(axis=(-1, -2))
    decided_verdict_rows = verdict_rows.filter(pl.col("preference") != 0)
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
    columns_of_orders: dict[str, Any] = {
        "rater": raters,
        "n_both_orders": np.bincount(
            verdict_rows.group_by(KEY).agg(n=pl.col("order").n_unique()).filter(n=2)["rater"].to_numpy(),
            minlength=len(raters),
        ),
        "n_half_answered": [n_half_answered_of_rater.get(rater, 0) for rater in raters],
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
        **share_columns(
            "first_rate",
            (decided_verdict_rows["preference"] == decided_verdict_rows["order"]).cast(pl.Float64).to_numpy(),
            decided_verdict_rows,
            table_shape,
            bootstrap_weights,
            confidence,
        ),
    }
    has_both_orders = n_both_orders_draws[0] > 0
    counts_of_cells = resampled_outcome_tables[0].reshape(len(raters), 9)[has_both_orders].astype(np.int64)
    columns_of_confusion = {
        "rater": list(compress(raters, has_both_orders)),
        **dict(zip(CELLS, counts_of_cells.T, strict=True)),
    }
    return (
        columns_of_orders,
        columns_of_confusion,
        margin_findings(
            preferences.aspect,
            POSITION,
            [(rater, "") for rater in raters],
            _margin_tests(verdict_rows, table_shape, confidence),
            ONE_ORDER,
        ),
    )


def both_orders(verdict_rows: pl.DataFrame) -> pl.DataFrame:
    """Return comparisons with verdicts in both orders, paired by run; `preference_ba` is in the swapped order."""
    rows_of_orders = [
        verdict_rows.filter(pl.col("order") == order_code).select((*KEY, "run", "unit", "item", "preference"))
        for order_code in (1, -1)
    ]
    return rows_of_orders[0].join(rows_of_orders[1], on=[*KEY, "run"], suffix="_ba")


def share_columns(
    column_name: str,
    values: Floats,
    value_rows: pl.DataFrame,
    shape: tuple[int, int],
    bootstrap_weights: Floats,
    confidence: float,
) -> dict[str, Floats]:
    """Return the mean of the defined values (n,) of each rater as a column, with the bounds of its interval.

    `value_rows` has the positions `rater` and `unit` of each value, and `shape` is the number of raters and of units.
    """
    is_defined_value = np.isfinite(values)
    cells = [value_rows[code_column].to_numpy()[is_defined_value] for code_column in ("rater", "unit")]
    return ratio_columns(
        column_name,
        table_sums(*cells, shape=shape, weights=values[is_defined_value]),
        table_sums(*cells, shape=shape),
        bootstrap_weights,
        confidence,
    )


def ratio_columns(
    column_name: str, numerators: NDArray[Any], denominators: NDArray[Any], bootstrap_weights: Floats, confidence: float
) -> dict[str, Floats]:
    """Return the ratios of sums over units (k, units) as a column, with the bounds of their intervals."""
    return with_interval(
        column_name,
        ratio(
            bootstrap.weighted_sums(bootstrap_weights, numerators),
            bootstrap.weighted_sums(bootstrap_weights, denominators),
        ),
        confidence,
        clusters=effective_clusters_by_row(denominators),
        bounds=intervals.SHARE,
    )


def _margin_tests(verdict_rows: pl.DataFrame, shape: tuple[int, int], confidence: float) -> Inference:
    """Return the test of the margin of the first position for each rater.

    Each comparison that was shown in both orders is a stratum. All other comparisons of a pair of systems form one
    stratum. Within each stratum, the verdict is regressed on the order, so unbalanced orders of a pair do not bias the
    result.
    """
    is_in_both_orders_expression = pl.col("order").n_unique().over(KEY) > 1
    stratum_column_names = ["rater", "stratum"]
    centred_rows = verdict_rows.with_columns(
        within=is_in_both_orders_expression,
        stratum=pl.when(is_in_both_orders_expression).then(pl.col("comparison")).otherwise(-1 - pl.col("pair")),
    ).with_columns(
        order=pl.col("order") - pl.col("order").mean().over(stratum_column_names),
        preference=pl.col("preference") - pl.col("preference").mean().over(stratum_column_names),
        n=pl.len().over(stratum_column_names),
    )
    order_preference_products = (centred_rows["order"] * centred_rows["preference"]).to_numpy()
    rater_of_verdict = centred_rows["rater"].to_numpy()
    product_sums, squared_order_sums = (
        table_sums(rater_of_verdict, centred_rows["unit"].to_numpy(), shape=shape, weights=weight_of_verdict)
        for weight_of_verdict in (order_preference_products, (centred_rows["order"] ** 2).to_numpy())
    )
    # Fitted means make the residuals of a stratum too small. A stratum of one comparison needs no correction, because
    # all its rows are in one cluster.
    n_verdicts_in_stratum = centred_rows["n"].to_numpy()
    uncorrected_variances, corrected_variances = (
        np.bincount(rater_of_verdict, weights=variance_factor * order_preference_products**2, minlength=shape[0])
        for variance_factor in (
            1.0,
            np.where(
                centred_rows["within"].to_numpy(), 1.0, n_verdicts_in_stratum / np.maximum(n_verdicts_in_stratum - 1, 1)
            ),
        )
    )
    return slot_test(
        product_sums,
        squared_order_sums,
        further_variance_factors=np.nan_to_num(ratio(corrected_variances, uncorrected_variances), nan=1.0),
        confidence=confidence,
    )
