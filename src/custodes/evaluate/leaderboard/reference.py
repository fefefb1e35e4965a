"""Win rates against a reference system that all other systems were compared with, as in AlpacaEval and Arena-Hard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from custodes.data.study import Study, select_aspect_rows
from custodes.stats.logistic import rate_at_zero

FEWEST_ON_A_SIDE = 0.1
"""Minimum proportion of outputs that are longer than the reference's output, and minimum proportion that are shorter.
"""
EXTRAPOLATED = (
    f"fewer than {100 * FEWEST_ON_A_SIDE:.0f} % of the outputs are longer (or shorter) than the reference's output"
)
FEWEST_SYSTEMS = 2
"""Minimum number of systems besides the reference. With only one other system, either system of the pair could be the
reference."""


def reference_rows(study: Study, aspect: str, *, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `reference`, with the highest win rate first.

    Several annotators, who are combined in the other tables, have no rows.
    """
    for (rater,), rater_verdicts in select_aspect_rows(study.preferences.frame, aspect).group_by(
        "rater", maintain_order=True
    ):
        reference_system = _reference(rater_verdicts)
        if reference_system is None or (rater in study.humans and len(study.humans) > 1):
            continue
        yield from sorted(
            [
                {
                    "rater": str(rater),
                    "system": str(system),
                    "reference": reference_system,
                    **_row(system_verdicts, confidence),
                }
                for (system,), system_verdicts in _reference_verdicts(rater_verdicts, reference_system, study).group_by(
                    "system", maintain_order=True
                )
            ],
            key=lambda row: -row["win_rate"],
        )


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
    """Return a row per verdict with system, cluster, weight, `won`, `graded` and `longer`. `won` is 1, .5 or 0.
    `graded` is the probability of winning. `longer` is the length minus the length of the reference, in characters.
    """
    is_system_a_expression = pl.col("system_b") == reference_system
    item_table = study.items.item_rows(verdict_rows["item"])
    cluster_series, weight_series = item_table["cluster"], item_table["weight"].fill_null(1.0)
    if verdict_rows["rater"][0] in study.humans:
        weight_series /= item_table["probability"].fill_null(1.0)
    verdict_rows = verdict_rows.select(
        "item",
        won=((1 + pl.when(is_system_a_expression).then("preference").otherwise(-pl.col("preference"))) / 2).cast(
            pl.Float64
        ),
        graded=pl.when(is_system_a_expression).then("p_a").otherwise("p_b") + pl.col("p_tie") / 2,
        system=pl.when(is_system_a_expression).then("system_a").otherwise("system_b"),
        cluster=pl.when(cluster_series == "").then("item").otherwise(cluster_series),
        weight=weight_series,
    )
    if study.outputs is None:
        return verdict_rows.with_columns(longer=pl.lit(None, dtype=pl.Float64))
    length_table = study.outputs.texts.select("item", "system", length=pl.col("text").str.len_chars().cast(pl.Float64))
    return (
        verdict_rows.join(length_table, on=["item", "system"], how="left", maintain_order="left")
        .join(
            length_table.filter(system=reference_system).select("item", other="length"),
            on="item",
            how="left",
            maintain_order="left",
        )
        .with_columns(longer=pl.col("length") - pl.col("other"))
    )


def _row(verdict_rows: pl.DataFrame, confidence: float) -> dict[str, Any]:
    discrete_win_points = verdict_rows["won"].to_numpy()
    win_points = discrete_win_points if verdict_rows["graded"].null_count() else verdict_rows["graded"].to_numpy()
    no_covariates = np.empty((verdict_rows.height, 0))
    length_differences = verdict_rows["longer"].to_numpy()
    reason = ""
    if not np.isfinite(length_differences).all():
        reason = "not every output has a text"
    elif min((length_differences > 0).mean(), (length_differences < 0).mean()) < FEWEST_ON_A_SIDE:
        reason = EXTRAPOLATED
    rate_of = partial(
        rate_at_zero,
        units=verdict_rows["cluster"].rank("dense").to_numpy().astype(np.intp) - 1,
        weights=verdict_rows["weight"].to_numpy(),
        confidence=confidence,
    )
    return {
        "n": verdict_rows.height,
        **{
            f"{column_name}{column_suffix}": rate_or_bound
            for column_name, rate_and_bounds in {
                "win_rate": rate_of(win_points, no_covariates),
                "discrete_win_rate": rate_of(discrete_win_points, no_covariates),
                "length_controlled_win_rate": (np.nan, np.nan, np.nan)
                if reason
                else rate_of(win_points, np.tanh(length_differences / length_differences.std())[:, None]),
            }.items()
            for column_suffix, rate_or_bound in zip(("", "_low", "_high"), rate_and_bounds, strict=True)
        },
        "reason": reason,
    }
