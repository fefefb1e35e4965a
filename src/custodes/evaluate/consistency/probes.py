"""Probes: how the outcome changes if an output is shown in another form."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.data.panel import label_codes
from custodes.data.probes import NAME, OUTCOMES
from custodes.data.study import Study
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import PROBE, Finding, margin_findings
from custodes.evaluate.consistency.orders import share_columns
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.judging.bias_tests import slot_test

KEY = ["rater", "factor"]


def probe_columns(
    study: Study,
    preferences: AspectPreferences,
    bootstrap_weights: Floats,
    confidence: float,
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the columns of the table `probes`, and the test of each probe.

    If the form has no effect, the two answers to a question are exchangeable, whatever the quality of the outputs. The
    difference between the two answers, summed over a cluster, is then positive or negative with equal probability.
    """
    outcome_rows = study.probes.filter(
        pl.col("aspect") == preferences.aspect, pl.col("rater").is_in(preferences.raters)
    ).select(
        "rater",
        pl.when(pl.col("probe") == NAME).then(pl.format("name: {}", "system")).otherwise("probe").alias("factor"),
        "item",
        *OUTCOMES,
    )
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
    cells = [answered_rows[code_column].to_numpy() for code_column in ("rater", "unit")]
    n_answers = table_sums(*cells, shape=table_shape)
    effect_tests = slot_test(
        table_sums(*cells, shape=table_shape, weights=changed_outcomes - plain_outcomes),
        n_answers.astype(np.float64),
        further_variance_factors=np.ones(1),
        confidence=confidence,
    )
    return {
        "rater": rater_probe_rows["rater"],
        "probe": rater_probe_rows["factor"],
        "n": n_answers.sum(axis=1),
        **share_columns(
            "change_rate",
            (changed_outcomes != plain_outcomes).astype(np.float64),
            answered_rows,
            table_shape,
            bootstrap_weights,
            confidence,
        ),
    }, margin_findings(
        preferences.aspect,
        PROBE,
        rater_probe_rows.iter_rows(),
        effect_tests,
        "there is no question that was answered in both forms",
    )
