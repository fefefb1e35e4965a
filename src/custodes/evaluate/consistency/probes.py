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
from custodes.stats.clusters import effective_clusters_by_row
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
    preferences: RaterPreferences,
    columns_of_table: Mapping[str, Mapping[str, Any]],
    bootstrap_weights: Floats,
    confidence: float,
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the rows of the table `probes`, and the test of each probe.

    If the form has no effect, the two answers to a question are exchangeable, whatever the quality of the outputs. The
    difference of a cluster then has either sign with equal probability. `columns_of_table` has the columns of `orders`,
    `repeats` and `repeated_labels`, which are needed for the probes of order and repeat.
    """
    aspect_probes = study.probes.filter(
        pl.col("aspect") == preferences.aspect, pl.col("rater").is_in(preferences.raters)
    )
    factor_expression = pl.when(pl.col("probe") == NAME).then(pl.format("name: {}", "system")).otherwise("probe")
    outcome_rows = aspect_probes.select("rater", factor_expression.alias("factor"), "item", *OUTCOMES)
    probe_group_rows = outcome_rows.select(KEY).unique().sort(KEY)
    if probe_group_rows.is_empty():
        return [], []
    group_of_row = outcome_rows.join(
        probe_group_rows.with_row_index("group"), on=KEY, how="left", maintain_order="left"
    )["group"].to_numpy()
    item_of_row = label_codes(outcome_rows["item"], preferences.design.items)
    unit_of_row = preferences.design.units[item_of_row]
    plain_outcomes, changed_outcomes = outcome_rows.select(OUTCOMES).fill_null(np.nan).to_numpy().T
    has_both_outcomes = np.isfinite(plain_outcomes + changed_outcomes) & (item_of_row >= 0)

    def sum_by_group(row_values: Floats) -> Floats:
        masked_values = np.where(has_both_outcomes, row_values, 0.0)
        return np.asarray(
            table_sums(
                group_of_row,
                unit_of_row,
                shape=(probe_group_rows.height, preferences.n_units),
                weights=masked_values,
            )
        )

    n_answers_by_group = sum_by_group(np.ones(len(plain_outcomes)))
    effect_tests = slot_test(
        sum_by_group(changed_outcomes - plain_outcomes),
        n_answers_by_group,
        further_variance_factors=np.ones(probe_group_rows.height),
        confidence=confidence,
    )
    change_rates = ratio(
        *(
            bootstrap.weighted_sums(bootstrap_weights, group_sums)
            for group_sums in (sum_by_group((changed_outcomes != plain_outcomes) * 1.0), n_answers_by_group)
        )
    )
    reasons = np.where(n_answers_by_group.any(axis=1), "", NO_ANSWER)
    effect_bound_columns = {"effect_low": effect_tests.low.clip(-1, 1), "effect_high": effect_tests.high.clip(-1, 1)}
    columns_of_probes: dict[str, Any] = {
        "rater": probe_group_rows["rater"].to_list(),
        "probe": probe_group_rows["factor"].to_list(),
        "n": np.bincount(group_of_row[has_both_outcomes], minlength=probe_group_rows.height),
        "unanswered": np.bincount(group_of_row[~has_both_outcomes], minlength=probe_group_rows.height),
        "plain_rate": ratio(sum_by_group(plain_outcomes).sum(axis=1), n_answers_by_group.sum(axis=1)),
        "changed_rate": ratio(sum_by_group(changed_outcomes).sum(axis=1), n_answers_by_group.sum(axis=1)),
        **{
            column_name: POINTS * effects
            for column_name, effects in {"effect": effect_tests.estimate, **effect_bound_columns}.items()
        },
        **with_interval(
            "change_rate",
            change_rates,
            bounds=intervals.SHARE,
            confidence=confidence,
            clusters=effective_clusters_by_row(n_answers_by_group),
        ),
        "reason": reasons,
    }
    table_rows = [
        dict(zip(columns_of_probes, row_cells, strict=True))
        for row_cells in zip(*columns_of_probes.values(), strict=True)
    ]
    findings = []
    for table_row, p_value in zip(table_rows, effect_tests.p_value, strict=True):
        effect, low, high = (float(table_row[f"effect{bound_suffix}"]) for bound_suffix in ("", "_low", "_high"))
        findings.append(
            Finding(
                preferences.aspect,
                table_row["rater"],
                PROBE,
                table_row["probe"],
                effect,
                low,
                high,
                float(p_value),
                str(table_row["reason"]),
            )
        )
    pairwise_raters = {*aspect_probes.filter(pl.col("against") != "")["rater"]}
    pointwise_raters = {*aspect_probes["rater"]} - pairwise_raters
    table_rows = [
        *_order_rows(columns_of_table["orders"], pairwise_raters),
        *table_rows,
        *_repeat_rows(columns_of_table["repeats"], "comparisons", "agreement_within_order", pairwise_raters),
        *_repeat_rows(columns_of_table["repeated_labels"], "outputs", "agreement", pointwise_raters),
    ]
    return table_rows, findings


def _order_rows(order_table: Mapping[str, Any], probed_raters: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the probe `order`, in which an output is plain if shown second, and changed if shown first."""
    for row_index, rater in enumerate(order_table.get("rater", ())):
        if rater in probed_raters and order_table["n_both_orders"][row_index]:
            half_margin = order_table["margin"][row_index] / (2 * POINTS)
            yield {
                "rater": rater,
                "probe": ORDER,
                "n": order_table["n_both_orders"][row_index],
                "unanswered": order_table["n_half_answered"][row_index],
                "plain_rate": 0.5 - half_margin,
                "changed_rate": 0.5 + half_margin,
                **{
                    f"effect{bound_suffix}": order_table[f"margin{bound_suffix}"][row_index]
                    for bound_suffix in ("", "_low", "_high")
                },
                **_change_rate_columns(order_table, "consistency", row_index),
                "reason": order_table["reason"][row_index],
            }


def _repeat_rows(
    repeat_table: Mapping[str, Any], count_column_name: str, rate_column_name: str, probed_raters: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the probe `repeat`, whose effect has no direction."""
    for row_index, rater in enumerate(repeat_table.get("rater", ())):
        if rater in probed_raters:
            yield {
                "rater": rater,
                "probe": REPEAT,
                "n": repeat_table[count_column_name][row_index],
                **dict.fromkeys(("unanswered", "plain_rate", "changed_rate", "effect", "effect_low", "effect_high")),
                **_change_rate_columns(repeat_table, rate_column_name, row_index),
                "reason": "",
            }


def _change_rate_columns(table_columns: Mapping[str, Any], rate_column_name: str, row_index: int) -> dict[str, float]:
    """Return `change_rate` as one minus another rate; the lower and the upper bound change places."""
    opposite_suffix_of_suffix = {"": "", "_low": "_high", "_high": "_low"}
    return {
        f"change_rate{bound_suffix}": 1 - table_columns[f"{rate_column_name}{opposite_suffix}"][row_index]
        for bound_suffix, opposite_suffix in opposite_suffix_of_suffix.items()
    }
