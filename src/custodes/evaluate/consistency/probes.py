"""Probes: effects of another form of the same output on the outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.probes import NAME, OUTCOMES
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


def probe_columns(
    study: Study,
    preferences: RaterPreferences,
    bootstrap_weights: Floats,
    confidence: float,
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the columns of the table `probes`, and the test of each probe.

    If the form has no effect, the two answers to a question are exchangeable, whatever the quality of the outputs. The
    difference of a cluster then has either sign with equal probability.
    """
    factor_expression = pl.when(pl.col("probe") == NAME).then(pl.format("name: {}", "system")).otherwise("probe")
    outcome_rows = study.probes.filter(
        pl.col("aspect") == preferences.aspect, pl.col("rater").is_in(preferences.raters)
    ).select("rater", factor_expression.alias("factor"), "item", *OUTCOMES)
    probe_group_rows = outcome_rows.select(KEY).unique().sort(KEY)
    if probe_group_rows.is_empty():
        return {}, []
    group_of_row = outcome_rows.join(
        probe_group_rows.with_row_index("group"), on=KEY, how="left", maintain_order="left"
    )["group"].to_numpy()
    item_of_row = label_codes(outcome_rows["item"], preferences.design.items)
    unit_of_row = preferences.design.units[item_of_row]
    plain_outcomes, changed_outcomes = outcome_rows.select(OUTCOMES).fill_null(np.nan).to_numpy().T
    has_both_outcomes = np.isfinite(plain_outcomes + changed_outcomes) & (item_of_row >= 0)

    def sum_by_group(row_values: Floats) -> Floats:
        return np.asarray(
            table_sums(
                group_of_row,
                unit_of_row,
                shape=(probe_group_rows.height, preferences.n_units),
                weights=np.where(has_both_outcomes, row_values, 0.0),
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
    columns_of_probes: dict[str, Any] = {
        "rater": probe_group_rows["rater"].to_list(),
        "probe": probe_group_rows["factor"].to_list(),
        "n": np.bincount(group_of_row[has_both_outcomes], minlength=probe_group_rows.height),
        **with_interval(
            "change_rate",
            change_rates,
            bounds=intervals.SHARE,
            confidence=confidence,
            clusters=effective_clusters_by_row(n_answers_by_group),
        ),
    }
    findings = [
        Finding(
            preferences.aspect,
            rater,
            PROBE,
            probe,
            float(POINTS * effect),
            float(POINTS * low.clip(-1, 1)),
            float(POINTS * high.clip(-1, 1)),
            float(p_value),
            "" if np.isfinite(effect) else NO_ANSWER,
        )
        for (rater, probe), effect, low, high, p_value in zip(probe_group_rows.iter_rows(), *effect_tests, strict=True)
    ]
    return columns_of_probes, findings
