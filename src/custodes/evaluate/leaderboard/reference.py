"""Win rates against a reference system that all other systems were compared with, as in AlpacaEval and Arena-Hard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.data.preferences import CHANCES
from custodes.data.study import Study, select_aspect_rows
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.intervals import student_quantile
from custodes.stats.logistic import first_coefficient

FEWEST_ON_A_SIDE = 0.1
"""Minimum proportion of outputs that are longer than the reference's output, and minimum proportion that are shorter.
"""
EXTRAPOLATED = (
    f"fewer than {100 * FEWEST_ON_A_SIDE:.0f} % of the outputs are longer (or shorter) than the reference's output"
)
FEWEST_SYSTEMS = 2
"""Minimum number of systems besides the reference. With only one, either system of the pair could be the reference."""


def reference_rows(study: Study, aspect: str, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `reference`, with the highest win rate first."""
    verdicts = select_aspect_rows(study.preferences.frame, aspect)
    for (rater,), rows in verdicts.group_by("rater", maintain_order=True):
        reference = _reference(rows)
        if reference is None:
            continue
        rows = _reference_verdicts(rows, reference, study)
        system_rows = [
            {"rater": str(rater), "system": str(system), "reference": reference, **_row(rows_of_system, confidence)}
            for (system,), rows_of_system in rows.group_by("system", maintain_order=True)
        ]
        yield from sorted(system_rows, key=lambda row: -row["win_rate"])


def _reference(rows: pl.DataFrame) -> str | None:
    """Return the system that takes part in every comparison; None if there is no such system or more than one."""
    pairs = rows.select("system_a", "system_b").unique()
    common_systems = set.intersection(*({*pair} for pair in pairs.iter_rows()))
    return common_systems.pop() if len(common_systems) == 1 and pairs.height >= FEWEST_SYSTEMS else None


def _reference_verdicts(rows: pl.DataFrame, reference: str, study: Study) -> pl.DataFrame:
    """Return a row per verdict with system, cluster, `won` (1, .5 or 0), `graded` (probability of winning) and
    `longer` (length minus length of the reference, in characters)."""
    is_first_system = pl.col("system_b") == reference
    p_a, p_tie, p_b = (pl.col(name) for name in CHANCES)
    points = pl.when(is_first_system).then(p_a).otherwise(p_b) + p_tie / 2
    won = (1 + pl.when(is_first_system).then("preference").otherwise(-pl.col("preference"))) / 2
    rows = rows.select(
        "item",
        won=won.cast(pl.Float64),
        graded=points,
        system=pl.when(is_first_system).then("system_a").otherwise("system_b"),
    )
    cluster = study.items.item_rows(rows["item"])["cluster"]
    rows = rows.with_columns(cluster=pl.when(cluster == "").then("item").otherwise(cluster))
    if study.outputs is None:
        return rows.with_columns(longer=pl.lit(None, dtype=pl.Float64))
    length = study.outputs.texts.select("item", "system", length=pl.col("text").str.len_chars().cast(pl.Float64))
    reference_length = length.filter(system=reference).select("item", other="length")
    rows = rows.join(length, on=["item", "system"], how="left", maintain_order="left")
    rows = rows.join(reference_length, on="item", how="left", maintain_order="left")
    return rows.with_columns(longer=pl.col("length") - pl.col("other"))


def _row(rows: pl.DataFrame, confidence: float) -> dict[str, Any]:
    discrete_points = rows["won"].to_numpy()
    graded_points = rows["graded"].to_numpy() if rows["graded"].null_count() == 0 else discrete_points
    units = rows["cluster"].rank("dense").to_numpy().astype(np.intp) - 1
    length_differences = rows["longer"].to_numpy()
    rates_and_bounds = {
        "win_rate": _mean(graded_points, units, confidence),
        "discrete_win_rate": _mean(discrete_points, units, confidence),
    }
    reason = ""
    if not np.isfinite(length_differences).all():
        reason = "not every output has a text"
    elif min((length_differences > 0).mean(), (length_differences < 0).mean()) < FEWEST_ON_A_SIDE:
        reason = EXTRAPOLATED
    if reason:
        length_differences = np.full(len(length_differences), np.nan)
    rates_and_bounds["length_controlled_win_rate"] = _length_controlled(
        graded_points, length_differences, units, confidence
    )
    suffixes = ("", "_low", "_high")
    return {
        "n": rows.height,
        **{
            f"{name}{suffix}": value
            for name, rate_and_bounds in rates_and_bounds.items()
            for suffix, value in zip(suffixes, rate_and_bounds, strict=True)
        },
        "reason": reason,
    }


def _mean(values: Floats, units: Ints, confidence: float) -> Sequence[float]:
    """Return a mean and the bounds of Student's t interval over clusters."""
    n_units = int(units.max()) + 1
    sums, n_per_cluster = (
        unit_sums(summands, units=units, n_units=n_units) for summands in (values, np.ones(len(values)))
    )
    mean = float(values.mean())
    if n_units < 2:
        return mean, np.nan, np.nan
    standard_error = np.sqrt(n_units / (n_units - 1) * ((sums - mean * n_per_cluster) ** 2).sum()) / len(values)
    half_width = student_quantile(confidence, n_units) * float(standard_error)
    return mean, max(mean - half_width, 0.0), min(mean + half_width, 1.0)


def _length_controlled(
    win_points: Floats, length_differences: Floats, units: Ints, confidence: float
) -> Sequence[float]:
    """Return the win rate at equal lengths, by logistic regression on tanh of the standardised length difference."""
    standard_deviation = float(length_differences.std())
    if not standard_deviation > 0:  # NaN without all texts
        return np.nan, np.nan, np.nan
    design = np.stack([np.ones(len(win_points)), np.tanh(length_differences / standard_deviation)], axis=1)
    coefficient = first_coefficient(win_points, design, units, confidence=confidence)
    return [float(1 / (1 + np.exp(-value))) for value in coefficient[:3]]
