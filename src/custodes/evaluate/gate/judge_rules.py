"""Rules of a gate that need no human ratings: consistency of a judge, its failures, and the rate of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from custodes.answers.result import Result
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.consistency.consistency import consistency
from custodes.evaluate.consistency.missing import ALL
from custodes.evaluate.gate.rules import INCONCLUSIVE, JUDGE_RATE, GateRule
from custodes.evaluate.rates.rates import rates


class ResultColumn(NamedTuple):
    """Table and column of a statistic, the column of its number of observations, and what it needs."""

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


@dataclass(frozen=True, kw_only=True)
class JudgeTest:
    """Estimate of a rule without human ratings; `value` and bounds are None if undefined."""

    rule: GateRule
    aspect: str
    system: str
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None

    def row(self, metric: str) -> dict[str, Any]:
        """A row of the table `rules` of a gate."""
        low, high = (np.nan if bound is None else bound for bound in (self.low, self.high))
        outcome = self.rule.outcome(low, high)
        reason = "the interval contains the threshold"
        if self.value is None:
            reason = f"there are no {COLUMNS_OF_STATISTICS[self.rule.statistic or ''].needs} of this judge"
        elif self.low is None:
            reason = "too few clusters of items for an interval"
        return {
            "rule": self.rule.text,
            "metric": metric,
            "against": None,
            "statistic": self.rule.statistic,
            "system": self.system or None,
            "n": self.n,
            "value": self.value,
            "value_low": self.low,
            "value_high": self.high,
            "relation": self.rule.relation,
            "threshold": self.rule.threshold,
            "p_value": None,
            "outcome": outcome,
            "reason": reason if outcome == INCONCLUSIVE else None,
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
    """Rows of the table `rules` of a gate by aspect, with bounds that hold jointly (Bonferroni).

    Parameters
    ----------
    study : Study
        The study, selected; its only metric is the judge.
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
    tests = _tests(study, rules, metric, positive, confidence, options)
    defined = sum(test.low is not None for test in tests)
    if defined > 1:
        tests = _tests(study, rules, metric, positive, 1 - (1 - confidence) / defined, options)
    rows: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        rows.setdefault(test.aspect, []).append(test.row(metric))
    return rows


def _tests(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    positive: str | None,
    confidence: float,
    options: Mapping[str, Any],
) -> list[JudgeTest]:
    named = {rule.statistic for rule in rules}
    results: dict[str, Result] = {}
    if JUDGE_RATE in named:
        results[JUDGE_RATE] = rates(study, positive=positive, confidence=confidence, rng=options["rng"])
    if named - {JUDGE_RATE}:
        results["consistency"] = consistency(study, confidence=confidence, **options)
    tests = []
    for rule in rules:
        place = COLUMNS_OF_STATISTICS[rule.statistic or ""]
        result = results[JUDGE_RATE if rule.statistic == JUDGE_RATE else "consistency"]
        frame = result.to_frame(place.table)
        rows = frame.filter(pl.col("metric" if "metric" in frame.columns else "rater") == metric)
        if place.table == "missing":
            rows = rows.filter(pl.col("factor") == ALL)
        if place.table == "rates" and rows["label"].n_unique() > 1:
            raise InputError(
                f"gate: {JUDGE_RATE} needs two labels; name one of {', '.join(rows['label'].unique().sort())} with "
                "positive=LABEL"
            )
        for row in rows.to_dicts():
            value, low, high = (row[f"{place.column}{end}"] for end in ("", "_low", "_high"))
            tests.append(
                JudgeTest(
                    rule=rule,
                    aspect=row["aspect"],
                    system=row.get("system") or "" if place.table == "rates" else "",
                    n=int(row[place.n] or 0),
                    value=value,
                    low=low,
                    high=high,
                )
            )
        lacking = [aspect for aspect in study.aspects if aspect not in {row["aspect"] for row in rows.to_dicts()}]
        tests += [JudgeTest(rule=rule, aspect=aspect, system="", n=0) for aspect in lacking]
    return tests
