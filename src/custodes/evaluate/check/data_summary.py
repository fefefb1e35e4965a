"""Data summary of one aspect: raters, numbers of ratings and tie rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.data.study import Study
from custodes.data.table import distinct, kept
from custodes.evaluate.rater_comparison import RaterComparison


def tie_rates(comparison: RaterComparison, *, comparable: bool) -> dict[str, float | None]:
    """Return the tie rates of the combined annotators ('human') and of each metric; None without comparisons.

    If annotators are not `comparable`, because they use different scales, they have no combined preference.
    """
    rates: dict[str, float | None] = {}
    for rater, name in enumerate(comparison.preferences.raters):
        signs = comparison.preferences.of_rater(rater).sign
        has_signs = signs.size and (comparable or name != HUMAN)
        rates[name] = float((signs == 0).mean()) if has_signs else None
    return rates


def raters_of(study: Study, comparison: RaterComparison, ties: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the columns of the table `raters`, with one row per annotator and per metric."""
    ours = pl.col("aspect").is_in([comparison.aspect, ""])
    systems = list(comparison.systems)
    rows = study.ratings.frame.filter(ours & pl.col("system").is_in(systems))
    if rows.height:
        rows = rows.filter(pl.col("item").is_in(pl.Series(comparison.items, dtype=pl.String).implode()))
    inside = ours & pl.col("system_a").is_in(systems) & pl.col("system_b").is_in(systems)
    verdicts = kept(study.preferences.frame, inside)
    # A cell is one output of an item; a verdict rates two cells.
    outputs = [rows.select("rater", "item", "system")]
    outputs += [verdicts.select("rater", "item", system=side) for side in ("system_a", "system_b")]
    table = pl.DataFrame({"rater": [*comparison.people, *comparison.metrics]})
    for counted in (
        rows.group_by("rater").agg(pl.len().alias("ratings"), low=pl.col("score").min(), high=pl.col("score").max()),
        verdicts.group_by("rater").agg(pl.len().alias("verdicts")),
        distinct(pl.concat(outputs)).group_by("rater").agg(pl.len().alias("cells")),
    ):
        table = table.join(counted, on="rater", how="left", maintain_order="left")
    cells = len(comparison.items) * len(systems)
    seen = table["cells"].fill_null(0)
    alone = [ties.get(HUMAN)] if len(comparison.people) == 1 else [None] * len(comparison.people)
    return {
        "rater": table["rater"],
        "kind": ["human"] * len(comparison.people) + ["metric"] * len(comparison.metrics),
        "ratings": table["ratings"].fill_null(0),
        "verdicts": table["verdicts"].fill_null(0),
        "coverage": seen / cells if cells else None,
        "missing": cells - seen,
        "ties": [*alone, *map(ties.get, comparison.metrics)],
        "low": table["low"],
        "high": table["high"],
    }


def summary_of(
    comparison: RaterComparison, raters: Mapping[str, Any], ties: Mapping[str, float | None], *, comparable: bool
) -> dict[str, Any]:
    """Return the row of the table `summary` for one aspect, computed from the rows of the raters."""
    missing, n = int(raters["missing"].sum()), len(raters["rater"])
    cells = len(comparison.items) * len(comparison.systems) * n
    return {
        "items": len(comparison.items),
        "clusters": comparison.design.n_units,
        "systems": len(comparison.systems),
        "raters": n,
        "humans": len(comparison.people),
        "metrics": len(comparison.metrics),
        "ratings": int(raters["ratings"].sum()),
        "verdicts": int(raters["verdicts"].sum()),
        "coverage": 1 - missing / cells if cells else None,
        "missing": missing,
        "ties": ties.get(HUMAN),
        "unpaired": comparison.unpaired if comparable and comparison.people else 0,
    }
