"""Rules of a gate that need no human ratings: consistency, failures and the rate of positive labels of a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from custodes.answers.result import Result
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.consistency.consistency import consistency
from custodes.evaluate.consistency.missing import ALL
from custodes.evaluate.gate.rules import CONTAINED, JUDGE_RATE, GateRule
from custodes.evaluate.rates.rates import rates


class ResultColumn(NamedTuple):
    """Position of a statistic in a result: `table` and `column`.

    `n` is the column with the number of observations, and `needs` names the data that the statistic needs.
    """

    table: str
    column: str
    n: str
    needs: str


COLUMNS_OF_STATISTICS: Mapping[str, ResultColumn] = {
    "consistency": ResultColumn("orders", "consistency", "n_both_orders", "verdicts in both orders"),
    "flip_rate": ResultColumn("orders", "flip_rate", "n_both_orders", "verdicts in both orders"),
    "first_rate": ResultColumn("orders", "first_rate", "n_both_orders", "verdicts with their order"),
    "agreement_within_order": ResultColumn("repeats", "agreement_within_order", "comparisons", "repeated verdicts"),
    "repeat_agreement": ResultColumn("repeated_labels", "agreement", "outputs", "repeated labels"),
    "failure_rate": ResultColumn("missing", "failure_rate", "queried", "verdicts"),
    JUDGE_RATE: ResultColumn("rates", "judge_rate", "n", "labels"),
}


def judge_rows(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    *,
    positive: str | None,
    confidence: float,
    options: Mapping[str, Any],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the table `rules` by aspect; the bounds of all rows hold jointly (Bonferroni).

    Parameters
    ----------
    study : Study
        The selected study; the judge must be the only metric.
    rules : sequence of GateRule
    metric : str
        Name of the judge.
    positive : str or None
        See `rates`.
    confidence : float
        Joint level of the bounds.
    options : mapping
        Further arguments of `consistency`.
    """
    rows = _rows(study, rules, metric, positive, confidence, options)
    n_defined = sum(not np.isnan(row["value_low"]) for aspect_rows in rows.values() for row in aspect_rows)
    if n_defined < 2:
        return rows
    return _rows(study, rules, metric, positive, 1 - (1 - confidence) / n_defined, options)


def _rows(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    positive: str | None,
    confidence: float,
    options: Mapping[str, Any],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows by aspect, with bounds at the level `confidence` for each row."""
    statistics = {rule.statistic for rule in rules}
    results: dict[str, Result] = {}
    if JUDGE_RATE in statistics:
        results[JUDGE_RATE] = rates(study, positive=positive, confidence=confidence, rng=options["rng"])
    if statistics - {JUDGE_RATE}:
        results["consistency"] = consistency(study, confidence=confidence, **options)
    rows_of_aspect = dict[str, list[dict[str, Any]]]()
    for rule in rules:
        statistic = rule.statistic or ""
        column = COLUMNS_OF_STATISTICS[statistic]
        frame = results[JUDGE_RATE if statistic == JUDGE_RATE else "consistency"].to_frame(column.table)
        rows = frame.filter(pl.col("metric" if "metric" in frame.columns else "rater") == metric)
        if column.table == "missing":
            rows = rows.filter(pl.col("factor") == ALL)
        if column.table == "rates" and rows["label"].n_unique() > 1:
            raise InputError(
                f"gate: {JUDGE_RATE} needs two labels; name one of {', '.join(rows['label'].unique().sort())} with "
                "positive=LABEL"
            )
        missing_text = f"this judge has no {column.needs}"
        for row in rows.to_dicts():
            estimate_and_bounds = [row[f"{column.column}{suffix}"] for suffix in ("", "_low", "_high")]
            values = [np.nan if value is None else value for value in (*estimate_and_bounds, None)]
            reason = CONTAINED if estimate_and_bounds[1] is not None else "too few clusters of items for an interval"
            rule_row = rule.row(
                metric,
                statistic,
                int(row[column.n] or 0),
                values,
                system=row.get("system") or "" if column.table == "rates" else "",
                reason=missing_text if estimate_and_bounds[0] is None else reason,
            )
            rows_of_aspect.setdefault(row["aspect"], []).append(rule_row)
        for aspect in study.aspects:
            if aspect not in rows["aspect"]:
                rows_of_aspect.setdefault(aspect, []).append(rule.row(metric, statistic, 0, reason=missing_text))
    return rows_of_aspect
