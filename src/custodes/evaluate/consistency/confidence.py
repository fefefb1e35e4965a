"""Calibration of the judges' outcome probabilities against human verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.shared_arguments import Setting
from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes, pair_positions
from custodes.data.preferences import CHANCES, COMPARISON, Preferences
from custodes.data.study import Study, of_aspect
from custodes.evaluate.consistency.findings import CONFIDENCE, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.stats import ABSENT, intervals
from custodes.stats.arrays import Floats, Ints
from custodes.stats.judging.calibration import (
    bins_of,
    brier,
    constant_forecast,
    expected_error,
    known_variance,
    share_by_bin,
    sure_and_right,
    surer_than_right,
)
from custodes.stats.ratios import ratio

FEWEST = 12
"""Minimum number of clusters with probabilities and human verdicts for a test."""
TOO_FEW = f"fewer than {FEWEST} items or clusters with probabilities and human verdicts"
POINTS = 100.0
LARGEST_BRIER = (0.0, 2.0)


def confidence_rows(
    study: Study, part: RaterPreferences, setting: Setting, times: Floats, confidence: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Finding]]:
    """Return the rows of the tables `confidence` and `reliability`, and the overconfidence test of each rater.

    A rater is included if it gave outcome probabilities for comparisons with human verdicts.
    """
    rows = _forecasts(study, part, setting)
    results: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    findings = []
    for (rater,), answers in rows.group_by("rater", maintain_order=True):
        name, unit = part.raters[int(str(rater))], answers["unit"].to_numpy()
        chances = _chances(answers)
        outcome = 1 - answers["people"].to_numpy().astype(np.int64)
        sure, right = sure_and_right(chances, outcome)
        bins = bins_of(sure)
        variance = known_variance(chances, answers["comparison"].to_numpy())
        tested = surer_than_right(sure, right, least_variance=variance, units=unit, confidence=confidence)
        together = _together(answers)
        few = len(np.unique(unit)) < FEWEST
        ends = [np.nan if few else POINTS * float(end) for end in (tested.low, tested.high)]
        surer, reason = POINTS * float(tested.estimate), TOO_FEW if few else ""
        p_value = np.nan if few else float(tested.p_value)
        findings.append(Finding(part.aspect, name, CONFIDENCE, "", surer, ends[0], ends[1], p_value, reason))
        error, by_chance = expected_error(sure, right, bins, units=unit)
        results.append(
            {
                "rater": name,
                "comparisons": len(together),
                "verdicts": len(answers),
                "mean_confidence": sure.mean(),
                "accuracy": right.mean(),
                "overconfidence": surer,
                "overconfidence_low": ends[0],
                "overconfidence_high": ends[1],
                "ece": error,
                "expected_ece": by_chance,
                "reason": reason,
                **_scores(together, part.n_units, times, confidence),
            }
        )
        curves += _curve(name, sure, right, bins, unit, confidence)
    return results, curves, findings


def _forecasts(study: Study, part: RaterPreferences, setting: Setting) -> pl.DataFrame:
    """Return a row per verdict with probabilities, sorted by rater.

    The comparisons have a human verdict, and all verdicts of the rater on the comparison have probabilities. The
    columns are the probabilities, `order`, `people`, `unit` and `comparison`.

    Each row is one forecast. Verdicts are not averaged, because the mean of two calibrated forecasts is underconfident.
    Verdicts are not selected by agreement, because verdicts that agree are a biased selection. Verdicts are excluded
    only with `orders='first'`.
    """
    preferences = study.preferences.where(pl.col("rater").is_in(list(study.metrics)))
    preferences = preferences if preferences.frame["p_a"].count() else Preferences.empty()
    first_alone = setting["orders"] == "first"
    settled, _ = preferences.settled("first" if first_alone else "mean")
    verdicts = of_aspect(preferences.frame, part.aspect).join(settled, on=COMPARISON, how="semi", maintain_order="left")
    verdicts = verdicts.unique(COMPARISON, keep="first", maintain_order=True) if first_alone else verdicts
    forecast = verdicts.filter((pl.col("p_a").null_count() == 0).over(COMPARISON))
    placed = forecast.select(*CHANCES, "order").with_columns(
        rater=pl.Series(label_codes(forecast["rater"], part.raters)),
        item=pl.Series(label_codes(forecast["item"], part.design.items)),
        pair=pl.Series(pair_positions(forecast, part.design.systems)),
    )
    people = pl.DataFrame(
        {"item": part.item, "pair": part.pair, "unit": part.unit, "people": part.people}
    ).with_row_index("comparison")
    judged = placed.join(people.filter(pl.col("people") != ABSENT), on=["item", "pair"], maintain_order="left")
    return judged.sort("rater", maintain_order=True)


def _together(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row per comparison of one rater, with probabilities averaged over repeats and then over orders."""
    key = ("comparison", "people", "unit")
    by_order = rows.group_by(*key, "order", maintain_order=True).agg(pl.col(CHANCES).mean())
    return by_order.group_by(key, maintain_order=True).agg(pl.col(CHANCES).mean())


def _chances(rows: pl.DataFrame) -> Floats:
    """Return the probabilities of the three outcomes, (n, 3), scaled to the sum 1."""
    chances = rows.select(CHANCES).to_numpy()
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _scores(rows: pl.DataFrame, n_units: int, times: Floats, confidence: float) -> dict[str, float]:
    """Return the Brier score, the Brier score of a constant forecast, and the Brier skill score."""
    chances, unit, outcome = _chances(rows), rows["unit"].to_numpy(), 1 - rows["people"].to_numpy().astype(np.int64)
    number = np.bincount(unit, minlength=n_units)
    still = np.broadcast_to(constant_forecast(outcome), chances.shape)
    actual, plain = (
        np.bincount(unit, weights=brier(forecast, outcome), minlength=n_units) for forecast in (chances, still)
    )
    total, mine, constant = (times @ each for each in (number, actual, plain))
    ends: dict[str, Any] = {"confidence": confidence, "clusters": len(np.unique(unit))}
    result = with_interval("brier", ratio(mine, total), bounds=LARGEST_BRIER, **ends)
    left = with_interval("left", ratio(mine, constant), bounds=intervals.POSITIVE, **ends)
    result |= {
        "brier_skill": 1 - left["left"],
        "brier_skill_low": 1 - left["left_high"],
        "brier_skill_high": 1 - left["left_low"],
    }
    return {name: float(column) for name, column in result.items()} | {
        "brier_constant": float(plain.sum() / len(outcome))
    }


def _curve(
    name: str, sure: Floats, right: Floats, bins: Ints, unit: Ints, confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the reliability curve, one per bin."""
    number = np.bincount(bins)
    means = np.bincount(bins, weights=sure) / number
    shares = share_by_bin(right, bins, units=unit, confidence=confidence)
    for k, (n, mean, share, low, high) in enumerate(zip(number, means, *shares, strict=True), start=1):
        yield {
            "rater": name,
            "bin": k,
            "verdicts": n,
            "mean_confidence": mean,
            "accuracy": share,
            "accuracy_low": low,
            "accuracy_high": high,
        }
