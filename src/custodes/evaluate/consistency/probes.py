"""Probes: how the outcome changes if an output is shown in another form."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.probes import NAME, OUTCOMES
from custodes.data.study import Study
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import POINTS, PROBE, Finding
from custodes.evaluate.consistency.orders import group_means
from custodes.stats import intervals
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.judging.bias_tests import slot_test

NO_ANSWER = "there is no question that was answered in both forms"
KEY = ["rater", "factor"]


def probe_columns(
    study: Study,
    preferences: AspectPreferences,
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
    rater_probe_rows = outcome_rows.select(KEY).unique().sort(KEY)
    if rater_probe_rows.is_empty():
        return {}, []
    item_of_row = label_codes(outcome_rows["item"], preferences.design.items)
    # As for raters in the table `orders`, with a probe of a rater in place of a rater.
    answered_rows = outcome_rows.with_columns(
        rater=pl.struct(KEY).rank("dense").cast(pl.Int64) - 1,
        unit=pl.Series(preferences.design.units[item_of_row]),
    ).filter(pl.Series(item_of_row >= 0), pl.all_horizontal(pl.col(OUTCOMES).is_not_null()))
    plain_outcomes, changed_outcomes = answered_rows.select(OUTCOMES).to_numpy().T
    table_shape = (rater_probe_rows.height, preferences.n_units)
    effect_sums, n_answers = (
        table_sums(
            answered_rows["rater"].to_numpy(),
            answered_rows["unit"].to_numpy(),
            shape=table_shape,
            weights=summed_values,
        )
        for summed_values in (changed_outcomes - plain_outcomes, None)
    )
    effect_tests = slot_test(
        effect_sums,
        n_answers.astype(np.float64),
        further_variance_factors=np.ones(rater_probe_rows.height),
        confidence=confidence,
    )
    change_draws, n_clusters = group_means(
        (changed_outcomes != plain_outcomes).astype(np.float64), answered_rows, table_shape, bootstrap_weights
    )
    columns_of_probes: dict[str, Any] = {
        "rater": rater_probe_rows["rater"].to_list(),
        "probe": rater_probe_rows["factor"].to_list(),
        "n": n_answers.sum(axis=1),
        **with_interval("change_rate", change_draws, confidence, clusters=n_clusters, bounds=intervals.SHARE),
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
        for (rater, probe), effect, low, high, p_value in zip(rater_probe_rows.iter_rows(), *effect_tests, strict=True)
    ]
    return columns_of_probes, findings
