"""Probes: effects of another form of the same output, of the presentation order and of repeats on the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import Column, count, label, points, share, table, with_interval
from custodes.data.panel import label_codes
from custodes.data.probes import NAME, ORDER, OUTCOMES, REPEAT
from custodes.data.study import Study
from custodes.evaluate.consistency.findings import POINTS, PROBE, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.ratios import ratio

NO_ANSWER = "there is no question that was answered in both forms"
KEY = ["rater", "factor"]


def probe_table(rater: Column) -> Any:
    """Return the declaration of the table `probes`."""
    return table(
        "One row per rater and probe (`judge --probe`): does another form of the same output change the outcome?",
        rater,
        label(
            "probe",
            f"`length`, `format`, `name: SYSTEM` or a file of rewritten outputs; `{ORDER}` compares the two orders, "
            f"and `{REPEAT}` compares repeats",
        ),
        count("n", "questions answered in both forms"),
        count(
            "unanswered", "questions without an answer in the plain or the changed form of the output", essential=False
        ),
        share(
            "plain_rate",
            "mean outcome of the plain form: win rate, position on the scale of scores, or rate of the positive label; "
            f"for `{ORDER}`, of the output shown second",
            "Plain",
        ),
        share(
            "changed_rate",
            f"mean outcome of the changed form; for `{ORDER}`, of the output shown first",
            "Changed",
        ),
        points("effect", "`changed_rate` minus `plain_rate`; null for repeats", interval=True),
        share("change_rate", "proportion of outcomes that differ between the forms", "Differ", interval=True),
        label("reason", "reason for a missing effect", essential=False),
    )


def probe_rows(
    study: Study,
    part: RaterPreferences,
    tables: Mapping[str, Mapping[str, Any]],
    times: Floats,
    confidence: float,
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the rows of the table `probes`, and the test of each probe.

    If the form has no effect, the two answers to a question are exchangeable, whatever the quality of the outputs. The
    difference of a cluster then has either sign with equal probability. `tables` has the columns of `orders`, `repeats`
    and `repeated_labels`, which are needed for the probes of order and repeat.
    """
    probes = study.probes.filter(pl.col("aspect") == part.aspect, pl.col("rater").is_in(part.raters))
    factor = pl.when(pl.col("probe") == NAME).then(pl.format("name: {}", "system")).otherwise("probe")
    labels = probes.select("rater", factor.alias("factor"), "item", *OUTCOMES)
    probe_groups = labels.select(KEY).unique().sort(KEY)
    if probe_groups.is_empty():
        return [], []
    group_of_row = labels.join(probe_groups.with_row_index("group"), on=KEY, how="left", maintain_order="left")[
        "group"
    ].to_numpy()
    item = label_codes(labels["item"], part.design.items)
    unit = part.design.units[item]
    plain_outcome, changed_outcome = labels.select(OUTCOMES).fill_null(np.nan).to_numpy().T
    has_both_outcomes = np.isfinite(plain_outcome + changed_outcome) & (item >= 0)

    def sum_by_group(values: Floats) -> Floats:
        weights = np.where(has_both_outcomes, values, 0.0)
        return np.asarray(table_sums(group_of_row, unit, shape=(probe_groups.height, part.n_units), weights=weights))

    n_by_group = sum_by_group(np.ones(len(plain_outcome)))
    effect_test = slot_test(
        sum_by_group(changed_outcome - plain_outcome),
        n_by_group,
        further_variance_factors=np.ones(probe_groups.height),
        confidence=confidence,
    )
    change_rates = ratio(
        *(
            bootstrap.weighted_sums(times, summed)
            for summed in (sum_by_group((changed_outcome != plain_outcome) * 1.0), n_by_group)
        )
    )
    reason = np.where(n_by_group.any(axis=1), "", NO_ANSWER)
    bounds = {"effect_low": effect_test.low.clip(-1, 1), "effect_high": effect_test.high.clip(-1, 1)}
    columns: dict[str, Any] = {
        "rater": probe_groups["rater"].to_list(),
        "probe": probe_groups["factor"].to_list(),
        "n": np.bincount(group_of_row[has_both_outcomes], minlength=probe_groups.height),
        "unanswered": np.bincount(group_of_row[~has_both_outcomes], minlength=probe_groups.height),
        "plain_rate": ratio(sum_by_group(plain_outcome).sum(axis=1), n_by_group.sum(axis=1)),
        "changed_rate": ratio(sum_by_group(changed_outcome).sum(axis=1), n_by_group.sum(axis=1)),
        **{name: POINTS * values for name, values in {"effect": effect_test.estimate, **bounds}.items()},
        **with_interval(
            "change_rate", change_rates, bounds=intervals.SHARE, confidence=confidence, clusters=part.n_units
        ),
        "reason": reason,
    }
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    findings = []
    for row, p_value in zip(rows, effect_test.p_value, strict=True):
        effect, low, high = (float(row[f"effect{end}"]) for end in ("", "_low", "_high"))
        findings.append(
            Finding(
                part.aspect, row["rater"], PROBE, row["probe"], effect, low, high, float(p_value), str(row["reason"])
            )
        )
    pairwise = {*probes.filter(pl.col("against") != "")["rater"]}
    pointwise = {*probes["rater"]} - pairwise
    rows = [
        *_order_rows(tables["orders"], pairwise),
        *rows,
        *_repeat_rows(tables["repeats"], "comparisons", "agreement_within_order", pairwise),
        *_repeat_rows(tables["repeated_labels"], "outputs", "agreement", pointwise),
    ]
    return rows, findings


def _order_rows(orders: Mapping[str, Any], probed: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the probe `order`, in which an output is plain if shown second, and changed if shown first."""
    for i, rater in enumerate(orders.get("rater", ())):
        if rater in probed and orders["n_both_orders"][i]:
            shift = orders["margin"][i] / (2 * POINTS)
            yield {
                "rater": rater,
                "probe": ORDER,
                "n": orders["n_both_orders"][i],
                "unanswered": orders["n_half_answered"][i],
                "plain_rate": 0.5 - shift,
                "changed_rate": 0.5 + shift,
                **{f"effect{end}": orders[f"margin{end}"][i] for end in ("", "_low", "_high")},
                **_complement(orders, "consistency", i),
                "reason": orders["reason"][i],
            }


def _repeat_rows(
    repeats: Mapping[str, Any], count_column: str, rate_column: str, probed: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the probe `repeat`, whose effect has no direction."""
    for i, rater in enumerate(repeats.get("rater", ())):
        if rater in probed:
            yield {
                "rater": rater,
                "probe": REPEAT,
                "n": repeats[count_column][i],
                **dict.fromkeys(("unanswered", "plain_rate", "changed_rate", "effect", "effect_low", "effect_high")),
                **_complement(repeats, rate_column, i),
                "reason": "",
            }


def _complement(columns: Mapping[str, Any], name: str, i: int) -> dict[str, float]:
    """Return `change_rate` as one minus another rate; the lower and the upper bound change places."""
    other_end_of = {"": "", "_low": "_high", "_high": "_low"}
    return {f"change_rate{end}": 1 - columns[f"{name}{other}"][i] for end, other in other_end_of.items()}
