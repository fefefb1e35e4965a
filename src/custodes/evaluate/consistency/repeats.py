"""Repeatability of verdicts and labels, and all rates of consistency by item, for the comparison of slices.

The noise of verdicts within one presentation order is compared with the effect of the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.orders import both_orders, group_means
from custodes.evaluate.consistency.rater_preferences import OUTPUT, RaterPreferences, repeated_labels
from custodes.evaluate.slices import Ratios
from custodes.stats import intervals
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences

KEY = ["rater", "comparison", "unit"]
WAYS = ("won", "tied", "lost")
FAILED = "failure_rate"


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
    rows = rows.with_columns(rater=rater_index, across=pl.col("across").cast(pl.Float64).fill_null(np.nan))
    equal, across = rows["equal"].to_numpy(), rows["across"].to_numpy()
    # The last mean is the agreement within one order, only for comparisons in both orders.
    within_means, across_means, within_means_of_both = (
        group_means(values, rows, (len(raters), part.n_units), times)
        for values in (equal, across, np.where(np.isfinite(across), equal, np.nan))
    )
    due_to_order = ratio(within_means_of_both - across_means, 1 - across_means)
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    n_comparisons = np.bincount(rater_index, minlength=len(raters))
    return {
        "rater": [part.raters[r] for r in raters],
        "comparisons": n_comparisons,
        "runs": np.bincount(rater_index, weights=rows["n"].to_numpy(), minlength=len(raters)) / n_comparisons,
        **with_interval("agreement_within_order", within_means, bounds=intervals.SHARE, **ends),
        **with_interval("agreement_across_orders", across_means, bounds=intervals.SHARE, **ends),
        **with_interval("proportion_due_to_order", due_to_order, bounds=intervals.ANY, **ends),
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


def ratios_of(study: Study, part: RaterPreferences) -> Ratios:
    """Return the ratios of every rater, with numerators and denominators as sums by item."""
    labels, sums = list[tuple[str, str]](), list[np.ndarray]()
    n = len(part.design.items)
    for name, rows in _rows(study, part):
        for rater in rows["rater"].unique().sort().to_list():
            of_rater = rows.filter(rater=rater)
            if name == FAILED and not of_rater["equal"].sum():
                continue
            item, is_equal_pair = of_rater["item"].to_numpy(), of_rater["equal"].to_numpy()
            labels.append((part.raters[rater], name))
            sums.append(
                np.stack([np.bincount(item, weights=weights, minlength=n) for weights in (is_equal_pair, None)])
            )
    ratio_sums = np.stack(sums) if sums else np.zeros((0, 2, n))
    return Ratios(labels=labels, numerator=ratio_sums[:, 0], denominator=ratio_sums[:, 1], units=part.design.units)


def _rows(study: Study, part: RaterPreferences) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name of each statistic, with rows of rater, item and value `equal` (0 to 1)."""
    keys = ["rater", "item"]
    verdicts = part.asked.drop_nulls("preference").filter(pl.col("order") != 0)
    paired_verdicts = both_orders(verdicts)
    yield (
        "consistency",
        paired_verdicts.select(*keys, equal=(pl.col("preference") == pl.col("preference_ba")).cast(pl.Float64)),
    )
    # Only comparisons in both orders are used, so that the rate does not depend on quality.
    both_order_verdicts = verdicts.filter(pl.col("order").n_unique().over("rater", "comparison") > 1)
    decided_verdicts = both_order_verdicts.filter(pl.col("preference") != 0)
    yield "first_rate", decided_verdicts.select(*keys, equal=(pl.col("preference") == pl.col("order")).cast(pl.Float64))
    yield "agreement_within_order", equal_runs(part)[0].select(*keys, "equal")
    yield "agreement", _repeat_agreement(study, part)
    yield FAILED, part.asked.select(*keys, equal=pl.col("preference").is_null().cast(pl.Float64))


def _repeat_agreement(study: Study, part: RaterPreferences) -> pl.DataFrame:
    """Return the proportion of equal pairs among the repeated labels by a rater, for each output."""
    rows = repeated_labels(study, part.aspect)
    label_counts = rows.group_by("rater", *OUTPUT, "score").len().group_by("rater", *OUTPUT)
    n = pl.col("len").sum()
    shares = label_counts.agg(equal=(pl.col("len") * (pl.col("len") - 1)).sum() / (n * (n - 1)))
    return shares.select(
        rater=pl.Series(label_codes(shares["rater"], part.raters)),
        item=pl.Series(label_codes(shares["item"], part.design.items)),
        equal="equal",
    )
