"""Position bias, estimated from comparisons in both orders or in randomly assigned orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.study import Study
from custodes.evaluate.consistency.findings import POINTS, POSITION, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.evaluate.decision_graph import CELLS
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.intervals import Inference
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, pair_coincidences

ONE_ORDER = "every pair was shown in only one order"
KEY = ["rater", "comparison"]


def order_columns(
    study: Study, part: RaterPreferences, times: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any], list[Finding]]:
    """Return the columns of the tables `orders` and `confusion`, and the position test of raters with known orders."""
    verdicts = part.asked.drop_nulls("preference").filter(pl.col("order") != 0)
    if verdicts.is_empty():
        return {}, {}, []
    raters, rater_index = np.unique(verdicts["rater"].to_numpy(), return_inverse=True)
    verdicts, shape = verdicts.with_columns(rater=rater_index), (len(raters), part.n_units)
    tables = _tables(verdicts, shape)  # (raters, units, 9)
    resampled_tables = bootstrap.weighted_sums(times, np.moveaxis(tables, 1, 2)).reshape(len(times), len(raters), 3, 3)
    n_both = resampled_tables.sum(axis=(-1, -2))
    n_first_wins_in_both, n_second_wins_in_both = resampled_tables[..., 0, 2], resampled_tables[..., 2, 0]
    decided_verdicts = verdicts.filter(pl.col("preference") != 0)
    is_first_preferred = (decided_verdicts["preference"] == decided_verdicts["order"]).cast(pl.Float64).to_numpy()
    margin_test = _test(verdicts, shape, confidence)
    n_orders = verdicts.group_by(KEY).agg(n=pl.col("order").n_unique())
    n_one_order, n_both_orders = (
        np.bincount(n_orders.filter(n=n)["rater"].to_numpy(), minlength=len(raters)) for n in (1, 2)
    )
    answered_once = study.preferences.queried_verdicts.half_comparisons().filter(aspect=part.aspect)
    n_half_answered_of = dict(answered_once.group_by("rater").len().iter_rows())
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    columns: dict[str, Any] = {
        "rater": [part.raters[r] for r in raters],
        "n_both_orders": n_both_orders,
        "n_one_order": n_one_order,
        "n_half_answered": [n_half_answered_of.get(part.raters[r], 0) for r in raters],
        **with_interval(
            "consistency",
            ratio(np.trace(resampled_tables, axis1=-2, axis2=-1), n_both),
            bounds=intervals.SHARE,
            **interval_options,
        ),
        **with_interval(
            "flip_rate",
            ratio(n_first_wins_in_both + n_second_wins_in_both, n_both),
            bounds=intervals.SHARE,
            **interval_options,
        ),
        **with_interval(
            "alpha",
            alpha(pair_coincidences(resampled_tables), scale="nominal"),
            bounds=intervals.CORRELATION,
            **interval_options,
        ),
        **with_interval(
            "first_rate",
            group_means(is_first_preferred, decided_verdicts, shape, times),
            bounds=intervals.SHARE,
            **interval_options,
        ),
        "margin": POINTS * margin_test.estimate,
        "margin_low": POINTS * margin_test.low.clip(-1, 1),
        "margin_high": POINTS * margin_test.high.clip(-1, 1),
        **with_interval(
            "flip_asymmetry",
            ratio(n_first_wins_in_both - n_second_wins_in_both, n_first_wins_in_both + n_second_wins_in_both),
            bounds=intervals.CORRELATION,
            **interval_options,
        ),
        "reason": np.where(np.isfinite(margin_test.estimate), "", ONE_ORDER),
    }
    has_both_orders = n_both[0] > 0
    cell_columns = zip(
        CELLS, resampled_tables[0].reshape(len(raters), 9)[has_both_orders].astype(np.int64).T, strict=True
    )
    confusion = {"rater": [part.raters[r] for r in raters[has_both_orders]], **dict(cell_columns)}
    names = ("rater", "margin", "margin_low", "margin_high", "reason")
    findings = [
        Finding(part.aspect, rater, POSITION, "", float(margin), float(low), float(high), float(p_value), str(reason))
        for rater, margin, low, high, reason, p_value in zip(
            *(columns[name] for name in names), margin_test.p_value, strict=True
        )
    ]
    return columns, confusion if has_both_orders.any() else {}, findings


def _tables(verdicts: pl.DataFrame, shape: tuple[int, int]) -> Floats:
    """Return counts of the nine combinations of outcomes of the first system, (raters, units, 9).

    A combination is the outcome if the first system is shown first, and the outcome if it is shown second. Verdicts are
    paired by run.
    """
    both = both_orders(verdicts)
    cell = ((1 - both["preference"]) * 3 + 1 - both["preference_ba"]).cast(pl.Int64).to_numpy()
    return table_sums(both["rater"].to_numpy(), both["unit"].to_numpy(), cell, shape=(*shape, 9)).astype(np.float64)


def both_orders(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return comparisons with verdicts in both orders, paired by run; `preference_ba` is in the swapped order."""
    columns = (*KEY, "run", "unit", "item", "preference")
    sides = [verdicts.filter(pl.col("order") == order).select(columns) for order in (1, -1)]
    return sides[0].join(sides[1], on=[*KEY, "run"], suffix="_ba")


def group_means(values: Floats, rows: pl.DataFrame, shape: tuple[int, int], times: Floats) -> Floats:
    """(1 + B, raters): the mean of the defined values (n,) of each rater in every resample.

    `rows` has the positions `rater` and `unit` of each value, and `shape` is the number of raters and of units.
    """
    is_defined = np.isfinite(values)
    rater, unit = (rows[name].to_numpy()[is_defined] for name in ("rater", "unit"))
    value_sums, counts = (
        bootstrap.weighted_sums(times, table_sums(rater, unit, shape=shape, weights=weights))
        for weights in (values[is_defined], None)
    )
    return ratio(value_sums, counts)


def _test(verdicts: pl.DataFrame, shape: tuple[int, int], confidence: float) -> Inference:
    """Return the test of the margin of the first position.

    Each comparison that was shown in both orders is a stratum. All other comparisons of a pair of systems form one
    stratum. Within each stratum, the verdict is regressed on the order, so unbalanced orders of a pair do not bias the
    result.
    """
    is_both_orders = pl.col("order").n_unique().over(KEY) > 1
    rows = verdicts.with_columns(
        within=is_both_orders, stratum=pl.when(is_both_orders).then(pl.col("comparison")).otherwise(-1 - pl.col("pair"))
    )
    stratum_columns = ["rater", "stratum"]
    rows = rows.with_columns(
        order=pl.col("order") - pl.col("order").mean().over(stratum_columns),
        preference=pl.col("preference") - pl.col("preference").mean().over(stratum_columns),
        n=pl.len().over(stratum_columns),
    )
    score, squared_orders = (rows["order"] * rows["preference"]).to_numpy(), (rows["order"] ** 2).to_numpy()
    rater, unit = rows["rater"].to_numpy(), rows["unit"].to_numpy()
    score_sums, sizes = (table_sums(rater, unit, shape=shape, weights=values) for values in (score, squared_orders))
    # Fitted means make the residuals of a stratum too small. A stratum of one comparison needs no correction, because
    # all its rows are in one cluster.
    n_in_stratum = rows["n"].to_numpy()
    variance_factor = np.where(rows["within"].to_numpy(), 1.0, n_in_stratum / np.maximum(n_in_stratum - 1, 1))
    variances, corrected_variances = (
        np.bincount(rater, weights=factor * score**2, minlength=shape[0]) for factor in (1.0, variance_factor)
    )
    return slot_test(
        score_sums,
        sizes,
        further_variance_factors=np.where(variances > 0, corrected_variances / np.maximum(variances, 1e-300), 1.0),
        confidence=confidence,
    )
