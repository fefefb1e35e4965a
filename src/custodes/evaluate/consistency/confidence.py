"""Calibration of the judges' outcome probabilities against human verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes, pair_positions
from custodes.data.preferences import CHANCES, COMPARISON, Preferences
from custodes.data.study import Study, select_aspect_rows
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import CONFIDENCE, FEWEST, POINTS, Finding
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Floats
from custodes.stats.judging.calibration import (
    bins_of,
    brier,
    confidence_and_correctness,
    constant_forecast,
    correct_count_variance,
    estimate_overconfidence,
    expected_error,
    share_by_bin,
)
from custodes.stats.ratios import ratio

TOO_FEW = f"fewer than {FEWEST} items or clusters with probabilities and human verdicts"
KEY = ("comparison", "people", "unit")


def confidence_rows(
    study: Study,
    preferences: AspectPreferences,
    setting: PreferenceOptions,
    bootstrap_weights: Floats,
    confidence: float,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Finding]]:
    """Return the rows of the tables `confidence` and `reliability`, and the overconfidence test of each rater.

    A rater is included if it gave outcome probabilities for comparisons with human verdicts.
    """
    confidence_table_rows, reliability_table_rows = list[dict[str, Any]](), list[dict[str, Any]]()
    findings = list[Finding]()
    for (rater_index,), rater_forecasts in _forecasts(study, preferences, setting).group_by(
        "rater", maintain_order=True
    ):
        rater_name, unit_of_verdict = preferences.raters[int(str(rater_index))], rater_forecasts["unit"].to_numpy()
        outcome_probabilities = _outcome_probabilities(rater_forecasts)
        human_outcomes = 1 - rater_forecasts["people"].to_numpy().astype(np.int64)
        confidences, is_right_verdict = confidence_and_correctness(outcome_probabilities, human_outcomes)
        bin_of_verdict = bins_of(confidences)
        overconfidence_test = estimate_overconfidence(
            confidences,
            is_right_verdict,
            least_variance=correct_count_variance(outcome_probabilities, rater_forecasts["comparison"].to_numpy()),
            units=unit_of_verdict,
            confidence=confidence,
        )
        # Probabilities are averaged over repeats and then over orders.
        comparison_rows = (
            rater_forecasts.group_by(*KEY, "order", maintain_order=True)
            .agg(pl.col(CHANCES).mean())
            .group_by(KEY, maintain_order=True)
            .agg(pl.col(CHANCES).mean())
        )
        overconfidence, low, high = (POINTS * float(value) for value in overconfidence_test[:3])
        p_value, reason = float(overconfidence_test.p_value), ""
        if len(np.unique(unit_of_verdict)) < FEWEST:
            low, high, p_value, reason = np.nan, np.nan, np.nan, TOO_FEW
        findings.append(
            Finding(preferences.aspect, rater_name, CONFIDENCE, "", overconfidence, low, high, p_value, reason)
        )
        ece, ece_if_calibrated = expected_error(confidences, is_right_verdict, bin_of_verdict, units=unit_of_verdict)
        confidence_table_rows.append(
            {
                "rater": rater_name,
                "comparisons": len(comparison_rows),
                "mean_confidence": confidences.mean(),
                "accuracy": is_right_verdict.mean(),
                "ece": ece,
                "expected_ece": ece_if_calibrated,
                **_brier_columns(comparison_rows, preferences.n_units, bootstrap_weights, confidence),
            }
        )
        n_verdicts_of_bin = np.bincount(bin_of_verdict)
        reliability_table_rows += pl.DataFrame(
            {
                "rater": [rater_name] * len(n_verdicts_of_bin),
                "verdicts": n_verdicts_of_bin,
                "mean_confidence": np.bincount(bin_of_verdict, weights=confidences) / n_verdicts_of_bin,
                **dict(
                    zip(
                        ("accuracy", "accuracy_low", "accuracy_high"),
                        share_by_bin(is_right_verdict, bin_of_verdict, units=unit_of_verdict, confidence=confidence),
                        strict=True,
                    )
                ),
            }
        ).to_dicts()
    return confidence_table_rows, reliability_table_rows, findings


def _forecasts(study: Study, preferences: AspectPreferences, setting: PreferenceOptions) -> pl.DataFrame:
    """Return a row per verdict with probabilities, sorted by rater.

    A comparison is included if it has a human verdict and all verdicts of the rater on it have probabilities. The
    columns are the probabilities, `order`, `rater`, `item`, `pair`, `people`, `unit` and `comparison`.

    Each row is one forecast. Verdicts are not averaged, because the mean of two calibrated forecasts is underconfident.
    Verdicts are not selected by agreement, because verdicts that agree are a biased selection. With `orders='first'`,
    only the first verdict of a rater on a comparison is used.
    """
    metric_preferences = study.preferences.select_rows(pl.col("rater").is_in(list(study.metrics)))
    metric_preferences = metric_preferences if metric_preferences.frame["p_a"].count() else Preferences()
    is_first_order_only = setting["orders"] == "first"
    merged_verdict_rows, _ = metric_preferences.merge_verdicts("first" if is_first_order_only else "mean")
    verdict_rows = select_aspect_rows(metric_preferences.frame, preferences.aspect).join(
        merged_verdict_rows, on=COMPARISON, how="semi", maintain_order="left"
    )
    if is_first_order_only:
        verdict_rows = verdict_rows.unique(COMPARISON, keep="first", maintain_order=True)
    verdict_rows_with_probabilities = verdict_rows.filter((pl.col("p_a").null_count() == 0).over(COMPARISON))
    human_preference_rows = pl.DataFrame(
        {
            "item": preferences.item,
            "pair": preferences.pair,
            "unit": preferences.unit,
            "people": preferences.people,
        }
    ).with_row_index("comparison")
    return (
        verdict_rows_with_probabilities.select(*CHANCES, "order")
        .with_columns(
            rater=pl.Series(label_codes(verdict_rows_with_probabilities["rater"], preferences.raters)),
            item=pl.Series(label_codes(verdict_rows_with_probabilities["item"], preferences.design.items)),
            pair=pl.Series(pair_positions(verdict_rows_with_probabilities, preferences.design.systems)),
        )
        .join(human_preference_rows.filter(pl.col("people") != ABSENT), on=["item", "pair"], maintain_order="left")
        .sort("rater", maintain_order=True)
    )


def _outcome_probabilities(forecast_rows: pl.DataFrame) -> Floats:
    """Return the probabilities of the three outcomes, (n, 3), scaled to the sum 1."""
    probabilities = forecast_rows.select(CHANCES).to_numpy()
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


def _brier_columns(
    comparison_rows: pl.DataFrame, n_units: int, bootstrap_weights: Floats, confidence: float
) -> dict[str, Floats]:
    """Return the Brier score, and the Brier skill score relative to a constant forecast."""
    outcome_probabilities, unit_of_comparison = (
        _outcome_probabilities(comparison_rows),
        comparison_rows["unit"].to_numpy(),
    )
    human_outcomes = 1 - comparison_rows["people"].to_numpy().astype(np.int64)
    n_comparisons, brier_sums, constant_brier_sums = (
        bootstrap_weights @ np.bincount(unit_of_comparison, weights=summed_values, minlength=n_units)
        for summed_values in (
            None,
            brier(outcome_probabilities, human_outcomes),
            brier(np.broadcast_to(constant_forecast(human_outcomes), outcome_probabilities.shape), human_outcomes),
        )
    )
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": len(np.unique(unit_of_comparison))}
    relative_columns = with_interval(
        "brier_skill", ratio(brier_sums, constant_brier_sums), bounds=intervals.POSITIVE, **interval_options
    )
    return {
        **with_interval("brier", ratio(brier_sums, n_comparisons), bounds=(0.0, 2.0), **interval_options),
        "brier_skill": 1 - relative_columns["brier_skill"],
        "brier_skill_low": 1 - relative_columns["brier_skill_high"],
        "brier_skill_high": 1 - relative_columns["brier_skill_low"],
    }
