"""Repeatability of verdicts and labels, and rates of consistency by item, from which slices are compared.

The noise of verdicts within one presentation order is compared with the effect of the order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.aspect_preferences import OUTPUT, AspectPreferences, repeated_labels
from custodes.evaluate.consistency.orders import both_orders, share_columns
from custodes.evaluate.design import Design
from custodes.evaluate.slices import Ratios
from custodes.stats import bootstrap, intervals
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.clusters import effective_clusters
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences

KEY = ["rater", "comparison", "unit"]
WAYS = ("won", "tied", "lost")
FAILED = "failure_rate"


def repeat_columns(preferences: AspectPreferences, bootstrap_weights: Floats, confidence: float) -> dict[str, Any]:
    """Return the columns of the table `repeats`, for raters with several verdicts on one comparison in one order."""
    within_order_rows, outcome_count_rows = equal_runs(preferences)
    if within_order_rows.is_empty():
        return {}
    first_order_rows, second_order_rows = (
        outcome_count_rows.filter(pl.col("order") == order_code) for order_code in (1, -1)
    )
    agreement_rows = within_order_rows.join(
        first_order_rows.join(second_order_rows, on=KEY, suffix="_ba").select(
            *KEY,
            across=(
                sum((pl.col(outcome_name) * pl.col(f"{outcome_name}_ba") for outcome_name in WAYS), pl.lit(0))
                / (pl.col("n") * pl.col("n_ba"))
            ),
        ),
        on=KEY,
        how="left",
    ).sort("rater", "comparison")
    rater_indices, rater_code_of_row = np.unique(agreement_rows["rater"].to_numpy(), return_inverse=True)
    agreement_rows = agreement_rows.with_columns(
        rater=rater_code_of_row, across=pl.col("across").cast(pl.Float64).fill_null(np.nan)
    )
    agreement_options = (agreement_rows, (len(rater_indices), preferences.n_units), bootstrap_weights, confidence)
    return {
        "rater": [preferences.raters[rater_index] for rater_index in rater_indices],
        "comparisons": np.bincount(rater_code_of_row, minlength=len(rater_indices)),
        **share_columns("agreement_within_order", agreement_rows["equal"].to_numpy(), *agreement_options),
        **share_columns("agreement_across_orders", agreement_rows["across"].to_numpy(), *agreement_options),
    }


def equal_runs(preferences: AspectPreferences) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return comparisons with several verdicts in one order, and counts of all verdicts by comparison and order.

    The first table has a row for each rater and comparison, with the proportion `equal` of equal pairs of verdicts.
    """
    outcome_count_rows = (
        preferences.queried_verdicts.drop_nulls("preference")
        .group_by(*KEY, "item", "order")
        .agg(
            pl.len().alias("n"),
            *(
                (pl.col("preference") == 1 - outcome_index).sum().alias(outcome_name)
                for outcome_index, outcome_name in enumerate(WAYS)
            ),
        )
    )
    return outcome_count_rows.filter(pl.col("n") > 1).with_columns(
        equal=(
            sum((pl.col(outcome_name) * (pl.col(outcome_name) - 1) for outcome_name in WAYS), pl.lit(0))
            / (pl.col("n") * (pl.col("n") - 1))
        )
    ).group_by(*KEY, "item").agg(pl.col("equal").mean()), outcome_count_rows


def label_agreement_rows(
    study: Study, preferences: AspectPreferences, bootstrap_weights: Floats, confidence: float
) -> list[dict[str, Any]]:
    """Return the rows of the table `repeated_labels`."""
    label_rows = repeated_labels(study, preferences.aspect)
    declared_labels = study.labels.get(preferences.aspect)
    result_rows: list[dict[str, Any]] = []
    for rater in [rater for rater in preferences.raters if rater in set(label_rows["rater"])]:
        rater_rows = label_rows.filter(rater=rater)
        output_rows = rater_rows.select(OUTPUT).unique().sort(OUTPUT)
        task_of_row = rater_rows.join(output_rows.with_row_index("task"), on=OUTPUT, how="left", maintain_order="left")[
            "task"
        ]
        run_of_row = rater_rows["repeat"].rank("dense").to_numpy() - 1
        distinct_labels, label_codes_of_row = np.unique(rater_rows["score"].to_numpy(), return_inverse=True)
        unit_of_task = preferences.design.units[label_codes(output_rows["item"], preferences.design.items)]
        interval_options: dict[str, Any] = {
            "confidence": confidence,
            "clusters": effective_clusters(np.bincount(unit_of_task)),
        }
        coincidence_table_draws = bootstrap.weighted_sums(
            bootstrap_weights,
            np.moveaxis(
                coincidences(
                    AnnotatorLabels.from_labels(
                        task_of_row.to_numpy(),
                        run_of_row,
                        label_codes_of_row,
                        n_tasks=output_rows.height,
                        n_workers=int(run_of_row.max()) + 1,
                        n_labels=len(distinct_labels),
                    ),
                    units=unit_of_task,
                    n_units=preferences.n_units,
                ),
                0,
                -1,
            ),
        )
        result_rows.append(
            {
                "rater": rater,
                "outputs": output_rows.height,
                **with_interval(
                    "agreement",
                    ratio(
                        np.trace(coincidence_table_draws, axis1=1, axis2=2), coincidence_table_draws.sum(axis=(1, 2))
                    ),
                    bounds=intervals.SHARE,
                    **interval_options,
                ),
                **with_interval(
                    "alpha",
                    alpha(
                        coincidence_table_draws,
                        scale="ordinal" if declared_labels is None or declared_labels.ordered else "nominal",
                    ),
                    bounds=intervals.CORRELATION,
                    **interval_options,
                ),
            }
        )
    return result_rows


def ratios_of(study: Study, preferences: AspectPreferences) -> Ratios:
    """Return the ratios of every rater, with numerators and denominators as sums by item.

    The units are the clusters of the study, not the blocks of `preferences.design`, because the number of clusters is
    counted.
    """
    verdict_rows = preferences.queried_verdicts.drop_nulls("preference").filter(pl.col("order") != 0)
    rows_of_statistic = {
        "consistency": both_orders(verdict_rows).with_columns(equal=pl.col("preference") == pl.col("preference_ba")),
        # Only comparisons in both orders are used, so that the rate does not depend on quality.
        "first_rate": verdict_rows.filter(pl.col("order").n_unique().over("rater", "comparison") > 1)
        .filter(pl.col("preference") != 0)
        .with_columns(equal=pl.col("preference") == pl.col("order")),
        "agreement_within_order": equal_runs(preferences)[0],
        "agreement": _repeat_agreement(study, preferences),
        FAILED: preferences.queried_verdicts.with_columns(equal=pl.col("preference").is_null()).filter(
            pl.col("equal").any().over("rater")
        ),
    }
    rate_rows = pl.concat(
        [
            statistic_rows.sort("rater", maintain_order=True).select(
                "rater", "item", pl.col("equal").cast(pl.Float64), statistic=pl.lit(statistic_name)
            )
            for statistic_name, statistic_rows in rows_of_statistic.items()
        ]
    ).with_columns(ratio=pl.struct("statistic", "rater").rle_id())
    ratio_labels = rate_rows.select("rater", "statistic").unique(maintain_order=True)
    numerators, denominators = (
        table_sums(
            rate_rows["ratio"].to_numpy(),
            rate_rows["item"].to_numpy(),
            shape=(ratio_labels.height, len(preferences.design.items)),
            weights=rates_or_none,
        )
        for rates_or_none in (rate_rows["equal"].to_numpy(), None)
    )
    return Ratios(
        labels=[
            (preferences.raters[rater_index], statistic_name) for rater_index, statistic_name in ratio_labels.rows()
        ],
        numerator=numerators,
        denominator=denominators,
        units=Design.from_study(study, items=preferences.design.items, systems=preferences.design.systems).units,
    )


def _repeat_agreement(study: Study, preferences: AspectPreferences) -> pl.DataFrame:
    """Return the proportion of equal pairs among the repeated labels by a rater, for each output."""
    agreement_rows = (
        repeated_labels(study, preferences.aspect)
        .group_by("rater", *OUTPUT, "score")
        .len()
        .group_by("rater", *OUTPUT)
        .agg(equal=(pl.col("len") * (pl.col("len") - 1)).sum() / (pl.col("len").sum() * (pl.col("len").sum() - 1)))
    )
    return agreement_rows.select(
        rater=pl.Series(label_codes(agreement_rows["rater"], preferences.raters)),
        item=pl.Series(label_codes(agreement_rows["item"], preferences.design.items)),
        equal="equal",
    )
