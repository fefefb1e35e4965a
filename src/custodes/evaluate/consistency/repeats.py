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
    within, counts = equal_runs(part)
    if within.is_empty():
        return {}
    first, second = (counts.filter(pl.col("order") == order) for order in (1, -1))
    across = sum((pl.col(way) * pl.col(f"{way}_ba") for way in WAYS), pl.lit(0)) / (pl.col("n") * pl.col("n_ba"))
    crossed = first.join(second, on=KEY, suffix="_ba").select(*KEY, across=across)
    rows = within.join(crossed, on=KEY, how="left").sort("rater", "comparison")
    raters, place = np.unique(rows["rater"].to_numpy(), return_inverse=True)
    drawn = _means(rows, place, len(raters), part.n_units, times)
    same, orders, same_there = drawn
    bias = ratio(same_there - orders, 1 - orders)
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    number = np.bincount(place, minlength=len(raters))
    return {
        "rater": [part.raters[r] for r in raters],
        "comparisons": number,
        "runs": np.bincount(place, weights=rows["n"].to_numpy(), minlength=len(raters)) / number,
        **with_interval("agreement_within_order", same, bounds=intervals.SHARE, **ends),
        **with_interval("agreement_across_orders", orders, bounds=intervals.SHARE, **ends),
        **with_interval("proportion_due_to_order", bias, bounds=intervals.ANY, **ends),
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


def _means(rows: pl.DataFrame, place: Any, n: int, n_units: int, times: Floats) -> list[Floats]:
    """Return three means for each rater, (1 + B, raters): the agreement of runs within one order, the agreement between
    orders, and the agreement of runs only for comparisons in both orders."""
    across = rows["across"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    equal, both = rows["equal"].to_numpy(), np.isfinite(across)
    unit = rows["unit"].to_numpy()

    def mean(values: Floats, chosen: Any) -> Floats:
        total, number = (
            times @ table_sums(place[chosen], unit[chosen], shape=(n, n_units), weights=weights).T
            for weights in (values[chosen], np.ones(chosen.sum()))
        )
        return ratio(total, number)

    every = np.ones(len(equal), dtype=np.bool_)
    return [mean(equal, every), mean(across, both), mean(equal, both)]


def label_columns(study: Study, part: RaterPreferences, times: Floats, confidence: float) -> dict[str, Any]:
    """Return the columns of the table `repeated_labels`."""
    rows = repeated_labels(study, part.aspect)
    if rows.is_empty():
        return {}
    scale = study.labels.get(part.aspect)
    ordered = scale is None or scale.ordered
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    results: list[dict[str, Any]] = []
    for rater in [name for name in part.raters if name in set(rows["rater"])]:
        of_rater = rows.filter(rater=rater)
        tasks = of_rater.select(OUTPUT).unique().sort(OUTPUT)
        task = of_rater.join(tasks.with_row_index("task"), on=OUTPUT, how="left", maintain_order="left")["task"]
        run = of_rater["repeat"].rank("dense").to_numpy() - 1
        words, code = np.unique(of_rater["score"].to_numpy(), return_inverse=True)
        labels = AnnotatorLabels.of(
            task.to_numpy(),
            run,
            code,
            n_tasks=tasks.height,
            n_workers=int(run.max()) + 1,
            n_labels=len(words),
        )
        units = part.design.units[label_codes(tasks["item"], part.design.items)]
        drawn = times @ coincidences(labels, units=units, n_units=part.n_units).reshape(part.n_units, -1)
        table = drawn.reshape(len(times), len(words), len(words))
        same = ratio(np.trace(table, axis1=1, axis2=2), table.sum(axis=(1, 2)))
        reliability = alpha(table, scale="ordinal" if ordered else "nominal")
        results.append(
            {
                "rater": rater,
                "outputs": tasks.height,
                "runs": of_rater.height / tasks.height,
                **with_interval("agreement", same, bounds=intervals.SHARE, **ends),
                **with_interval("alpha", reliability, bounds=intervals.CORRELATION, **ends),
                "changed": ((labels.votes > 0).sum(axis=1) > 1).mean(),
            }
        )
    return {name: np.array([row[name] for row in results]) for name in results[0]}
