"""Win rates against a reference system that all other systems were compared with, as in AlpacaEval and Arena-Hard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.data.study import Study, select_aspect_rows
from custodes.stats.arrays import Floats, Ints
from custodes.stats.intervals import student_quantile, wilson_interval
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
    """Yield the rows of the table `reference`, with the highest win rate first.

    Several annotators, who are combined in the other tables, have no rows.
    """
    aspect_verdicts = select_aspect_rows(study.preferences.frame, aspect)
    for (rater,), rater_verdicts in aspect_verdicts.group_by("rater", maintain_order=True):
        reference_system = _reference(rater_verdicts)
        if reference_system is None or (rater in study.humans and len(study.humans) > 1):
            continue
        reference_verdicts = _reference_verdicts(rater_verdicts, reference_system, study)
        system_rows = [
            {
                "rater": str(rater),
                "system": str(system),
                "reference": reference_system,
                **_row(system_verdicts, confidence),
            }
            for (system,), system_verdicts in reference_verdicts.group_by("system", maintain_order=True)
        ]
        yield from sorted(system_rows, key=lambda row: -row["win_rate"])


def _reference(verdict_rows: pl.DataFrame) -> str | None:
    """Return the system that takes part in every comparison; None if there is no such system or more than one."""
    distinct_pair_rows = verdict_rows.select("system_a", "system_b").unique()
    systems_in_all_pairs = set.intersection(*({*pair} for pair in distinct_pair_rows.iter_rows()))
    return (
        systems_in_all_pairs.pop()
        if len(systems_in_all_pairs) == 1 and distinct_pair_rows.height >= FEWEST_SYSTEMS
        else None
    )


def _reference_verdicts(verdict_rows: pl.DataFrame, reference_system: str, study: Study) -> pl.DataFrame:
    """Return a row per verdict with system, cluster, `won` (1, .5 or 0), `graded` (probability of winning) and
    `longer` (length minus length of the reference, in characters)."""
    is_system_a_expression = pl.col("system_b") == reference_system
    won_expression = (1 + pl.when(is_system_a_expression).then("preference").otherwise(-pl.col("preference"))) / 2
    cluster_series = study.items.item_rows(verdict_rows["item"])["cluster"]
    verdict_rows = verdict_rows.select(
        "item",
        won=won_expression.cast(pl.Float64),
        graded=pl.when(is_system_a_expression).then("p_a").otherwise("p_b") + pl.col("p_tie") / 2,
        system=pl.when(is_system_a_expression).then("system_a").otherwise("system_b"),
        cluster=pl.when(cluster_series == "").then("item").otherwise(cluster_series),
    )
    if study.outputs is None:
        return verdict_rows.with_columns(longer=pl.lit(None, dtype=pl.Float64))
    length_table = study.outputs.texts.select("item", "system", length=pl.col("text").str.len_chars().cast(pl.Float64))
    reference_length_table = length_table.filter(system=reference_system).select("item", other="length")
    return (
        verdict_rows.join(length_table, on=["item", "system"], how="left", maintain_order="left")
        .join(reference_length_table, on="item", how="left", maintain_order="left")
        .with_columns(longer=pl.col("length") - pl.col("other"))
    )


def _row(verdict_rows: pl.DataFrame, confidence: float) -> dict[str, Any]:
    discrete_win_points = verdict_rows["won"].to_numpy()
    win_points = discrete_win_points if verdict_rows["graded"].null_count() else verdict_rows["graded"].to_numpy()
    cluster_codes = verdict_rows["cluster"].rank("dense").to_numpy().astype(np.intp) - 1
    length_differences = verdict_rows["longer"].to_numpy()
    reason = ""
    if not np.isfinite(length_differences).all():
        reason = "not every output has a text"
    elif min((length_differences > 0).mean(), (length_differences < 0).mean()) < FEWEST_ON_A_SIDE:
        reason = EXTRAPOLATED
    rate_and_bounds_of_column = {
        "win_rate": _mean(win_points, cluster_codes, confidence),
        "discrete_win_rate": _mean(discrete_win_points, cluster_codes, confidence),
        "length_controlled_win_rate": [np.nan] * 3
        if reason
        else _length_controlled(win_points, length_differences, cluster_codes, confidence),
    }
    return {
        "n": verdict_rows.height,
        **{
            f"{column_name}{column_suffix}": rate_or_bound
            for column_name, rate_and_bounds in rate_and_bounds_of_column.items()
            for column_suffix, rate_or_bound in zip(("", "_low", "_high"), rate_and_bounds, strict=True)
        },
        "reason": reason,
    }


def _mean(win_points: Floats, cluster_codes: Ints, confidence: float) -> Sequence[float]:
    """Return a mean of points and the bounds of its Wilson interval, with an effective number of comparisons.

    The effective number is n p (1 - p) / v. The rate p and the variance v also contain t^2 / 2 wins and t^2 / 2 losses,
    the pseudo-observations of Agresti and Coull 1998. Without these pseudo-observations, one tie among wins doubles the
    effective number.
    """
    n_values, n_clusters = len(win_points), int(cluster_codes.max()) + 1
    mean = float(win_points.mean())
    if n_clusters < 2:
        return mean, np.nan, np.nan
    deviation_sums = np.bincount(cluster_codes, weights=win_points - mean)
    squared_deviation_sum = n_clusters / (n_clusters - 1) * (deviation_sums**2).sum()
    t_quantile = student_quantile(confidence, n_clusters)
    n_effective: float = n_clusters
    if squared_deviation_sum > 0:
        adjusted_mean = (n_values * mean + t_quantile**2 / 2) / (n_values + t_quantile**2)
        squared_deviation_sum += n_values * (mean - adjusted_mean) ** 2
        squared_deviation_sum += t_quantile**2 / 2 * (adjusted_mean**2 + (1 - adjusted_mean) ** 2)
        n_effective = (
            n_values * adjusted_mean * (1 - adjusted_mean) * (n_values + t_quantile**2) / squared_deviation_sum
        )
    low, high = wilson_interval(mean, n_effective, quantile=t_quantile)
    return mean, float(low), float(high)


def _length_controlled(
    win_points: Floats, length_differences: Floats, cluster_codes: Ints, confidence: float
) -> Sequence[float]:
    """Return the win rate at equal lengths, by logistic regression on tanh of the standardised length difference."""
    standardised_differences = length_differences / length_differences.std()
    design_matrix = np.stack([np.ones(len(win_points)), np.tanh(standardised_differences)], axis=1)
    coefficient_and_bounds = first_coefficient(win_points, design_matrix, cluster_codes, confidence=confidence)
    return [float(1 / (1 + np.exp(-log_odds))) for log_odds in coefficient_and_bounds[:3]]
