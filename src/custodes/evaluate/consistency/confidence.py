"""Calibration of the judges' outcome probabilities against human verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes, pair_positions
from custodes.data.preferences import CHANCES, COMPARISON, Preferences
from custodes.data.study import Study, select_aspect_rows
from custodes.evaluate.consistency.findings import CONFIDENCE, FEWEST, POINTS, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Floats, Ints
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
LARGEST_BRIER = (0.0, 2.0)
KEY = ("comparison", "people", "unit")


def confidence_rows(
    study: Study, part: RaterPreferences, setting: PreferenceOptions, times: Floats, confidence: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Finding]]:
    """Return the rows of the tables `confidence` and `reliability`, and the overconfidence test of each rater.

    A rater is included if it gave outcome probabilities for comparisons with human verdicts.
    """
    forecasts = _forecasts(study, part, setting)
    results, curves, findings = list[dict[str, Any]](), list[dict[str, Any]](), list[Finding]()
    for (rater,), answers in forecasts.group_by("rater", maintain_order=True):
        name, unit = part.raters[int(str(rater))], answers["unit"].to_numpy()
        chances = _chances(answers)
        outcome = 1 - answers["people"].to_numpy().astype(np.int64)
        confidences, is_right = confidence_and_correctness(chances, outcome)
        bins = bins_of(confidences)
        variance = correct_count_variance(chances, answers["comparison"].to_numpy())
        overconfidence_test = estimate_overconfidence(
            confidences, is_right, least_variance=variance, units=unit, confidence=confidence
        )
        # Probabilities are averaged over repeats and then over orders.
        by_order = answers.group_by(*KEY, "order", maintain_order=True).agg(pl.col(CHANCES).mean())
        comparison_rows = by_order.group_by(KEY, maintain_order=True).agg(pl.col(CHANCES).mean())
        has_too_few_units = len(np.unique(unit)) < FEWEST
        low, high, p_value = (
            np.nan if has_too_few_units else float(value)
            for value in (
                POINTS * overconfidence_test.low,
                POINTS * overconfidence_test.high,
                overconfidence_test.p_value,
            )
        )
        overconfidence, reason = POINTS * float(overconfidence_test.estimate), TOO_FEW if has_too_few_units else ""
        findings.append(Finding(part.aspect, name, CONFIDENCE, "", overconfidence, low, high, p_value, reason))
        calibration_error, expected_by_chance = expected_error(confidences, is_right, bins, units=unit)
        results.append(
            {
                "rater": name,
                "comparisons": len(comparison_rows),
                "verdicts": len(answers),
                "mean_confidence": confidences.mean(),
                "accuracy": is_right.mean(),
                "overconfidence": overconfidence,
                "overconfidence_low": low,
                "overconfidence_high": high,
                "ece": calibration_error,
                "expected_ece": expected_by_chance,
                "reason": reason,
                **_scores(comparison_rows, part.n_units, times, confidence),
            }
        )
        curves += _curve(name, confidences, is_right, bins, unit, confidence)
    return results, curves, findings


def _forecasts(study: Study, part: RaterPreferences, setting: PreferenceOptions) -> pl.DataFrame:
    """Return a row per verdict with probabilities, sorted by rater.

    A comparison is included if it has a human verdict and all verdicts of the rater on it have probabilities. The
    columns are the probabilities, `order`, `rater`, `item`, `pair`, `people`, `unit` and `comparison`.

    Each row is one forecast. Verdicts are not averaged, because the mean of two calibrated forecasts is underconfident.
    Verdicts are not selected by agreement, because verdicts that agree are a biased selection. With `orders='first'`,
    only the first verdict of a rater on a comparison is used.
    """
    preferences = study.preferences.select_rows(pl.col("rater").is_in(list(study.metrics)))
    preferences = preferences if preferences.frame["p_a"].count() else Preferences.empty()
    is_first_order_only = setting["orders"] == "first"
    settled_comparisons, _ = preferences.merge_verdicts("first" if is_first_order_only else "mean")
    verdicts = select_aspect_rows(preferences.frame, part.aspect).join(
        settled_comparisons, on=COMPARISON, how="semi", maintain_order="left"
    )
    verdicts = verdicts.unique(COMPARISON, keep="first", maintain_order=True) if is_first_order_only else verdicts
    with_probabilities = verdicts.filter((pl.col("p_a").null_count() == 0).over(COMPARISON))
    coded = with_probabilities.select(*CHANCES, "order").with_columns(
        rater=pl.Series(label_codes(with_probabilities["rater"], part.raters)),
        item=pl.Series(label_codes(with_probabilities["item"], part.design.items)),
        pair=pl.Series(pair_positions(with_probabilities, part.design.systems)),
    )
    human_preferences = pl.DataFrame(
        {"item": part.item, "pair": part.pair, "unit": part.unit, "people": part.people}
    ).with_row_index("comparison")
    with_human_preferences = coded.join(
        human_preferences.filter(pl.col("people") != ABSENT), on=["item", "pair"], maintain_order="left"
    )
    return with_human_preferences.sort("rater", maintain_order=True)


def _chances(rows: pl.DataFrame) -> Floats:
    """Return the probabilities of the three outcomes, (n, 3), scaled to the sum 1."""
    chances = rows.select(CHANCES).to_numpy()
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _scores(rows: pl.DataFrame, n_units: int, times: Floats, confidence: float) -> dict[str, float]:
    """Return the Brier score, the Brier score of a constant forecast, and the Brier skill score."""
    chances, unit, outcome = _chances(rows), rows["unit"].to_numpy(), 1 - rows["people"].to_numpy().astype(np.int64)
    n_by_unit = np.bincount(unit, minlength=n_units)
    constant_forecasts = np.broadcast_to(constant_forecast(outcome), chances.shape)
    brier_by_unit, constant_brier_by_unit = (
        np.bincount(unit, weights=brier(probabilities, outcome), minlength=n_units)
        for probabilities in (chances, constant_forecasts)
    )
    n_sums, brier_sums, constant_brier_sums = (
        times @ by_unit for by_unit in (n_by_unit, brier_by_unit, constant_brier_by_unit)
    )
    interval_options: dict[str, Any] = {"confidence": confidence, "clusters": len(np.unique(unit))}
    result = with_interval("brier", ratio(brier_sums, n_sums), bounds=LARGEST_BRIER, **interval_options)
    relative_score = with_interval(
        "left", ratio(brier_sums, constant_brier_sums), bounds=intervals.POSITIVE, **interval_options
    )
    result |= {
        "brier_skill": 1 - relative_score["left"],
        "brier_skill_low": 1 - relative_score["left_high"],
        "brier_skill_high": 1 - relative_score["left_low"],
    }
    return {name: float(column) for name, column in result.items()} | {
        "brier_constant": float(constant_brier_by_unit.sum() / len(outcome))
    }


def _curve(
    name: str, confidences: Floats, is_right: Floats, bins: Ints, unit: Ints, confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the reliability curve, one per bin."""
    n_by_bin = np.bincount(bins)
    means = np.bincount(bins, weights=confidences) / n_by_bin
    shares = share_by_bin(is_right, bins, units=unit, confidence=confidence)
    for k, (n, mean, share, low, high) in enumerate(zip(n_by_bin, means, *shares, strict=True), start=1):
        yield {
            "rater": name,
            "bin": k,
            "verdicts": n,
            "mean_confidence": mean,
            "accuracy": share,
            "accuracy_low": low,
            "accuracy_high": high,
        }
