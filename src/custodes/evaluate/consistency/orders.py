"""Position bias, estimated from comparisons in both orders or in randomly assigned orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.study import Study
from custodes.evaluate.consistency.findings import POSITION, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.evaluate.decision_graph import CELLS
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.judging.bias_tests import Tested, slot_test
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, of_two

ONE_ORDER = "every pair was shown in only one order"
POINTS = 100.0
KEY = ["rater", "comparison"]


def order_columns(
    study: Study, part: RaterPreferences, times: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any], list[Finding]]:
    """Return the columns of the tables `orders` and `confusion`, and the position test of raters with known orders."""
    verdicts = part.asked.drop_nulls("preference").filter(pl.col("order") != 0)
    if verdicts.is_empty():
        return {}, {}, []
    raters, n_units = verdicts["rater"].unique().sort().to_numpy(), part.n_units
    tables = _tables(verdicts, raters, n_units)  # (raters, units, 9)
    drawn = bootstrap.weighted_sums(times, np.moveaxis(tables, 1, 2)).reshape(len(times), len(raters), 3, 3)
    total = drawn.sum(axis=(-1, -2))
    to_first, to_second = drawn[..., 0, 2], drawn[..., 2, 0]
    wins = bootstrap.weighted_sums(times, _slot_wins(verdicts, raters, n_units))
    test = _test(verdicts, raters, n_units, confidence)
    by_comparison = verdicts.group_by(KEY).agg(pl.col("order").n_unique().alias("orders")).group_by("rater")
    counts = dict(by_comparison.agg((pl.col("orders") == 2).sum()).iter_rows())
    answered_once = study.preferences.asked.half().filter(aspect=part.aspect)
    half = dict(answered_once.group_by("rater").len().iter_rows())
    alone = dict(by_comparison.agg((pl.col("orders") == 1).sum()).iter_rows())
    ends: dict[str, Any] = {"confidence": confidence, "clusters": n_units}
    columns: dict[str, Any] = {
        "rater": [part.raters[r] for r in raters],
        "n_both_orders": [counts.get(r, 0) for r in raters],
        "n_one_order": [alone.get(r, 0) for r in raters],
        "n_half_answered": [half.get(part.raters[r], 0) for r in raters],
        **with_interval(
            "consistency", ratio(np.trace(drawn, axis1=-2, axis2=-1), total), bounds=intervals.SHARE, **ends
        ),
        **with_interval("flip_rate", ratio(to_first + to_second, total), bounds=intervals.SHARE, **ends),
        **with_interval("alpha", alpha(of_two(drawn), scale="nominal"), bounds=intervals.CORRELATION, **ends),
        **with_interval("first_rate", ratio(wins[..., 0], wins.sum(axis=-1)), bounds=intervals.SHARE, **ends),
        "margin": POINTS * test.estimate,
        "margin_low": POINTS * test.low.clip(-1, 1),
        "margin_high": POINTS * test.high.clip(-1, 1),
        **with_interval(
            "flip_asymmetry", ratio(to_first - to_second, to_first + to_second), bounds=intervals.CORRELATION, **ends
        ),
        "reason": np.where(np.isfinite(test.estimate), "", ONE_ORDER),
    }
    seen = total[0] > 0
    cells = zip(CELLS, drawn[0].reshape(len(raters), 9)[seen].astype(np.int64).T, strict=True)
    confusion = {"rater": [part.raters[r] for r in raters[seen]], **dict(cells)}
    names = ("rater", "margin", "margin_low", "margin_high", "reason")
    findings = [
        Finding(part.aspect, rater, POSITION, "", float(margin), float(low), float(high), float(p_value), str(reason))
        for rater, margin, low, high, reason, p_value in zip(
            *(columns[name] for name in names), test.p_value, strict=True
        )
    ]
    return columns, confusion if seen.any() else {}, findings


def _tables(verdicts: pl.DataFrame, raters: Any, n_units: int) -> Floats:
    """Return counts of the nine combinations of outcomes of the first system, (raters, units, 9).

    A combination has the outcome when the first system is shown first and the outcome when it is shown second; verdicts
    are paired by run.
    """
    both = both_orders(verdicts)
    cell = ((1 - both["preference"]) * 3 + 1 - both["preference_ba"]).cast(pl.Int64).to_numpy()
    rater = np.searchsorted(raters, both["rater"].to_numpy())
    return table_sums(rater, both["unit"].to_numpy(), cell, shape=(len(raters), n_units, 9)).astype(np.float64)


def both_orders(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return comparisons with verdicts in both orders, paired by run; `preference_ba` is in the swapped order."""
    columns = (*KEY, "run", "unit", "item", "preference")
    sides = [verdicts.filter(pl.col("order") == order).select(columns) for order in (1, -1)]
    return sides[0].join(sides[1], on=[*KEY, "run"], suffix="_ba")


def _slot_wins(verdicts: pl.DataFrame, raters: Any, n_units: int) -> Floats:
    """Return the number of wins of the output shown first, and of the output shown second, (raters, 2, units)."""
    first = verdicts["preference"].to_numpy() * verdicts["order"].to_numpy()
    rater, unit = np.searchsorted(raters, verdicts["rater"].to_numpy()), verdicts["unit"].to_numpy()
    decided = first != 0
    side = np.where(first > 0, 0, 1)[decided]
    return table_sums(rater[decided], side, unit[decided], shape=(len(raters), 2, n_units)).astype(np.float64)


def _test(verdicts: pl.DataFrame, raters: Any, n_units: int, confidence: float) -> Tested:
    """Return the test of the margin of the first position.

    A comparison that was shown in both orders is a stratum; the remaining comparisons of a pair of systems are a
    stratum. Within each stratum, the verdict is regressed on the order, so unbalanced orders of a pair do not bias the
    result.
    """
    both = pl.col("order").n_unique().over(KEY) > 1
    rows = verdicts.with_columns(
        within=both, stratum=pl.when(both).then(pl.col("comparison")).otherwise(-1 - pl.col("pair"))
    )
    by = ["rater", "stratum"]
    rows = rows.with_columns(
        order=pl.col("order") - pl.col("order").mean().over(by),
        preference=pl.col("preference") - pl.col("preference").mean().over(by),
        n=pl.len().over(by),
    )
    score, size = (rows["order"] * rows["preference"]).to_numpy(), (rows["order"] ** 2).to_numpy()
    rater, unit = np.searchsorted(raters, rows["rater"].to_numpy()), rows["unit"].to_numpy()
    sums, sizes = (table_sums(rater, unit, shape=(len(raters), n_units), weights=values) for values in (score, size))
    # Fitted means make the residuals of a stratum too small. This does not concern a comparison, whose rows are all in
    # one cluster.
    number = rows["n"].to_numpy()
    lost = np.where(rows["within"].to_numpy(), 1.0, number / np.maximum(number - 1, 1))
    plain, mended = (np.bincount(rater, weights=factor * score**2, minlength=len(raters)) for factor in (1.0, lost))
    return slot_test(
        sums, sizes, wider=np.where(plain > 0, mended / np.maximum(plain, 1e-300), 1.0), confidence=confidence
    )
