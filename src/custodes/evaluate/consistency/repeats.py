"""Repeatability of verdicts: noise within one presentation order, compared with the effect of the order."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.rater_preferences import OUTPUT, RaterPreferences, repeated_labels
from custodes.stats import intervals
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences

KEY = ["rater", "comparison", "unit"]
WAYS = ("won", "tied", "lost")


def repeat_columns(part: RaterPreferences, times: Floats, confidence: float) -> dict[str, Any]:
    """Return the columns of the table `repeats`, for raters with several verdicts on one comparison in one order."""
    within_orders, counts = equal_runs(part)
    if within_orders.is_empty():
        return {}
    first, second = (counts.filter(pl.col("order") == order) for order in (1, -1))
    agreement_across = sum((pl.col(way) * pl.col(f"{way}_ba") for way in WAYS), pl.lit(0)) / (
        pl.col("n") * pl.col("n_ba")
    )
    across_orders = first.join(second, on=KEY, suffix="_ba").select(*KEY, across=agreement_across)
    rows = within_orders.join(across_orders, on=KEY, how="left").sort("rater", "comparison")
    raters, rater_index = np.unique(rows["rater"].to_numpy(), return_inverse=True)
    means = _means(rows, rater_index, len(raters), part.n_units, times)
    agreement_within, agreement_across_means, agreement_within_of_both = means
    proportion_due_to_order = ratio(agreement_within_of_both - agreement_across_means, 1 - agreement_across_means)
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    n_comparisons = np.bincount(rater_index, minlength=len(raters))
    return {
        "rater": [part.raters[r] for r in raters],
        "comparisons": n_comparisons,
        "runs": np.bincount(rater_index, weights=rows["n"].to_numpy(), minlength=len(raters)) / n_comparisons,
        **with_interval("agreement_within_order", agreement_within, bounds=intervals.SHARE, **ends),
        **with_interval("agreement_across_orders", agreement_across_means, bounds=intervals.SHARE, **ends),
        **with_interval("proportion_due_to_order", proportion_due_to_order, bounds=intervals.ANY, **ends),
    }


def equal_runs(part: RaterPreferences) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return comparisons with several verdicts in one order, and counts of all verdicts by comparison and order.

    The first table has a row for each rater and comparison. In this table, `equal` is the proportion of equal pairs of
    verdicts, and `n` is the number of verdicts.
    """
    counts = (
        part.asked.drop_nulls("preference")
        .group_by(*KEY, "item", "order")
        .agg(pl.len().alias("n"), *((pl.col("preference") == 1 - k).sum().alias(way) for k, way in enumerate(WAYS)))
    )
    equal = sum((pl.col(way) * (pl.col(way) - 1) for way in WAYS), pl.lit(0)) / (pl.col("n") * (pl.col("n") - 1))
    within = counts.filter(pl.col("n") > 1).with_columns(equal=equal).group_by(*KEY, "item")
    return within.agg(pl.col("equal").mean(), pl.col("n").sum()), counts


def _means(rows: pl.DataFrame, rater_index: Any, n_raters: int, n_units: int, times: Floats) -> list[Floats]:
    """Return three means for each rater, (1 + B, raters): the agreement of runs within one order, the agreement between
    orders, and the agreement of runs only for comparisons in both orders."""
    agreement_across = rows["across"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    agreement_within, has_both_orders = rows["equal"].to_numpy(), np.isfinite(agreement_across)
    unit = rows["unit"].to_numpy()

    def mean(values: Floats, is_chosen: Any) -> Floats:
        value_sums, weight_sums = (
            times @ table_sums(rater_index[is_chosen], unit[is_chosen], shape=(n_raters, n_units), weights=weights).T
            for weights in (values[is_chosen], np.ones(is_chosen.sum()))
        )
        return ratio(value_sums, weight_sums)

    is_any_row = np.ones(len(agreement_within), dtype=np.bool_)
    return [
        mean(agreement_within, is_any_row),
        mean(agreement_across, has_both_orders),
        mean(agreement_within, has_both_orders),
    ]


def label_columns(study: Study, part: RaterPreferences, times: Floats, confidence: float) -> dict[str, Any]:
    """Return the columns of the table `repeated_labels`."""
    rows = repeated_labels(study, part.aspect)
    if rows.is_empty():
        return {}
    scale = study.labels.get(part.aspect)
    is_ordered = scale is None or scale.ordered
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    results: list[dict[str, Any]] = []
    for rater in [name for name in part.raters if name in set(rows["rater"])]:
        of_rater = rows.filter(rater=rater)
        tasks = of_rater.select(OUTPUT).unique().sort(OUTPUT)
        task = of_rater.join(tasks.with_row_index("task"), on=OUTPUT, how="left", maintain_order="left")["task"]
        run = of_rater["repeat"].rank("dense").to_numpy() - 1
        distinct_labels, label_codes_of_row = np.unique(of_rater["score"].to_numpy(), return_inverse=True)
        labels = AnnotatorLabels.from_labels(
            task.to_numpy(),
            run,
            label_codes_of_row,
            n_tasks=tasks.height,
            n_workers=int(run.max()) + 1,
            n_labels=len(distinct_labels),
        )
        units = part.design.units[label_codes(tasks["item"], part.design.items)]
        resampled_coincidences = times @ coincidences(labels, units=units, n_units=part.n_units).reshape(
            part.n_units, -1
        )
        coincidence_tables = resampled_coincidences.reshape(len(times), len(distinct_labels), len(distinct_labels))
        agreements = ratio(np.trace(coincidence_tables, axis1=1, axis2=2), coincidence_tables.sum(axis=(1, 2)))
        reliability = alpha(coincidence_tables, scale="ordinal" if is_ordered else "nominal")
        results.append(
            {
                "rater": rater,
                "outputs": tasks.height,
                "runs": of_rater.height / tasks.height,
                **with_interval("agreement", agreements, bounds=intervals.SHARE, **interval_options),
                **with_interval("alpha", reliability, bounds=intervals.CORRELATION, **interval_options),
                "changed": ((labels.votes > 0).sum(axis=1) > 1).mean(),
            }
        )
    return {name: np.array([row[name] for row in results]) for name in results[0]}
