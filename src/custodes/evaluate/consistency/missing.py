"""Rates of failures (empty and unreadable verdicts) and ties of judges, by reason, system, order and length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.evaluate.consistency.findings import FAILURES, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.evaluate.parallel import labelled_generators
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.clusters import effective_clusters_by_row
from custodes.stats.judging.bias_tests import LEAST_FAILURES, uneven_p
from custodes.stats.ratios import ratio

DRAWS = 9999
ALL, REASON, SYSTEM, ORDER, LENGTH = "all", "reason", "system", "order", "length"
TENTHS = 10
MOST_FEATURES = 50_000_000
"""Maximum product of the numbers of systems and of verdicts for a test of failures.

A larger test would need gigabytes of memory, so above this number, there are only rates and no test.
"""
NAMES = {1: "ab", -1: "ba"}


def missing_columns(
    preferences: RaterPreferences, bootstrap_weights: Floats, confidence: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of the table `missing`, for raters with verdicts."""
    columns_of_raters: list[dict[str, Any]] = []
    generator_of_rater = labelled_generators(preferences.raters, rng)
    for (rater_index_key,), verdict_rows in preferences.asked.group_by("rater", maintain_order=True):
        rater_index = int(str(rater_index_key))
        columns_of_raters += _factor_columns(
            preferences,
            preferences.raters[rater_index],
            verdict_rows,
            bootstrap_weights,
            confidence,
            generator_of_rater[rater_index],
        )
    return (
        {
            column_name: np.concatenate([columns_of_rater[column_name] for columns_of_rater in columns_of_raters])
            for column_name in columns_of_raters[0]
        }
        if columns_of_raters
        else {}
    )


def failure_findings(aspect: str, missing_table: dict[str, Any]) -> list[Finding]:
    """Return one test per rater, with the smallest p-value of the tests by system, order and length.

    The smallest p-value is multiplied by the number of tests of the rater.
    """
    if not missing_table:
        return []
    p_value_rows = pl.DataFrame(
        {column_name: missing_table[column_name] for column_name in ("rater", "factor", "p_value")}
    )
    tested_factor_rows = p_value_rows.filter(pl.col("p_value").is_finite()).unique(
        ["rater", "factor"], keep="first", maintain_order=True
    )
    smallest_p_value_expression = pl.col("factor", "p_value").sort_by("p_value", maintain_order=True).first()
    smallest_p_value_rows = tested_factor_rows.group_by("rater", maintain_order=True).agg(
        smallest_p_value_expression, pl.len()
    )
    return [
        Finding(aspect, rater, FAILURES, factor, p_value=min(1.0, p_value * n_tests))
        for rater, factor, p_value, n_tests in smallest_p_value_rows.iter_rows()
    ]


def _factor_columns(
    preferences: RaterPreferences,
    rater: str,
    verdict_rows: pl.DataFrame,
    bootstrap_weights: Floats,
    confidence: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the rows of one rater, for each factor."""
    system_pairs, item_of_verdict, pair_of_verdict = (
        preferences.design.pairs,
        verdict_rows["item"].to_numpy(),
        verdict_rows["pair"].to_numpy(),
    )
    unit_of_verdict, order_of_verdict = verdict_rows["unit"].to_numpy(), verdict_rows["order"].to_numpy()
    is_missing_verdict = verdict_rows["preference"].is_null().to_numpy()
    system_indices_of_side = [system_pairs[pair_of_verdict, side_index] for side_index in (0, 1)]
    length_class_of_verdict = _length_classes(
        preferences.words_of(item_of_verdict, system_indices_of_side[0])
        + preferences.words_of(item_of_verdict, system_indices_of_side[1])
    )
    system_names = preferences.design.systems
    factors_levels_and_masks: list[tuple[str, list[str], list[Any]]] = [
        (ALL, [""], [np.ones(len(verdict_rows), dtype=np.bool_)]),
        *_reason_factors(verdict_rows),
        (
            SYSTEM,
            list(system_names),
            [
                (system_indices_of_side[0] == system_index) | (system_indices_of_side[1] == system_index)
                for system_index in range(len(system_names))
            ],
        ),
        (ORDER, list(NAMES.values()), [order_of_verdict == order_code for order_code in NAMES]),
        (
            LENGTH,
            [str(tenth_index + 1) for tenth_index in range(TENTHS)],
            [length_class_of_verdict == tenth_index for tenth_index in range(TENTHS)],
        ),
    ]
    outcome_masks = [
        verdict_rows["preference"].eq(0).fill_null(False).to_numpy(),
        verdict_rows["why"].eq(EMPTY).fill_null(False).to_numpy(),
        verdict_rows["why"].ne(EMPTY).fill_null(False).to_numpy(),
    ]
    for factor, level_names, masks_of_level in factors_levels_and_masks:
        level_indices = [level_index for level_index, verdict_mask in enumerate(masks_of_level) if verdict_mask.any()]
        if not level_indices or (factor not in (ALL, REASON) and len(level_indices) < 2):
            continue
        level_masks = [masks_of_level[level_index] for level_index in level_indices]
        p_value = (
            np.nan
            if factor in (ALL, REASON)
            else _failure_p_value(
                factor, is_missing_verdict, level_masks, length_class_of_verdict, unit_of_verdict, rng
            )
        )
        # For a reason, the denominator is all queried verdicts. For any other factor, the denominator is the queried
        # verdicts of the level.
        denominator_masks = [np.ones_like(is_missing_verdict)] * len(level_indices) if factor == REASON else level_masks
        n_queried_verdicts = np.stack(
            [
                np.bincount(unit_of_verdict[verdict_mask], minlength=preferences.n_units)
                for verdict_mask in denominator_masks
            ]
        )
        n_missing_verdicts = np.stack(
            [
                np.bincount(unit_of_verdict[verdict_mask & is_missing_verdict], minlength=preferences.n_units)
                for verdict_mask in level_masks
            ]
        )
        resampled_sums = (
            bootstrap.weighted_sums(bootstrap_weights, verdict_counts)
            for verdict_counts in (n_missing_verdicts, n_queried_verdicts)
        )
        failure_rate_columns = with_interval(
            "failure_rate",
            ratio(*resampled_sums),
            confidence,
            clusters=effective_clusters_by_row(n_queried_verdicts),
            bounds=intervals.SHARE,
        )
        yield {
            "rater": [rater] * len(level_indices),
            "factor": [factor] * len(level_indices),
            "level": [level_names[level_index] for level_index in level_indices],
            "queried": n_queried_verdicts.sum(axis=1),
            **{
                column_name: np.array(
                    [np.nan if factor == REASON else outcome_mask[level_mask].mean() for level_mask in level_masks]
                )
                for column_name, outcome_mask in zip(
                    ("tie_rate", "empty_rate", "unreadable_rate"), outcome_masks, strict=True
                )
            },
            **failure_rate_columns,
            "p_value": np.full(len(level_indices), p_value),
        }


def _reason_factors(verdict_rows: pl.DataFrame) -> list[tuple[str, list[str], list[Any]]]:
    """Return the reasons in the file, with the most frequent reason first; empty if the file has no reasons."""
    reason_counts = verdict_rows.drop_nulls("why").group_by("why", maintain_order=True).len()
    reasons = reason_counts.sort("len", descending=True, maintain_order=True)["why"].to_list()
    if {*reasons} <= {EMPTY, UNREADABLE}:
        return []
    return [(REASON, reasons, [verdict_rows["why"].eq(reason).fill_null(False).to_numpy() for reason in reasons])]


def _length_classes(total_words: Floats) -> Floats:
    """Return the length class of each verdict, from 0 (shortest tenth) to 9; NaN if the lengths are unknown.

    `total_words` is the total number of words of the two outputs of each verdict.
    """
    has_text = np.isfinite(total_words)
    tenth_quantiles = (
        np.quantile(total_words[has_text], np.arange(1, TENTHS) / TENTHS) if has_text.any() else np.zeros(TENTHS - 1)
    )
    return np.where(
        has_text, np.searchsorted(tenth_quantiles, np.where(has_text, total_words, 0.0), side="left"), np.nan
    )


def _failure_p_value(
    factor: str,
    is_missing_verdict: Bools,
    level_masks: Sequence[Bools],
    length_class_of_verdict: Floats,
    unit_of_verdict: Ints,
    rng: np.random.Generator,
) -> float:
    if is_missing_verdict.sum() < LEAST_FAILURES or len(level_masks) * is_missing_verdict.size > MOST_FEATURES:
        return np.nan
    is_usable_verdict = np.isfinite(length_class_of_verdict) if factor == LENGTH else np.any(level_masks, axis=0)
    # The ten length classes are tested as one trend. For the two orders, one indicator is enough.
    level_features = (
        [length_class_of_verdict] if factor == LENGTH else level_masks[:1] if factor == ORDER else level_masks
    )
    usable_features = np.stack([feature[is_usable_verdict] for feature in level_features]).astype(np.float64)
    return uneven_p(
        is_missing_verdict[is_usable_verdict],
        usable_features,
        units=unit_of_verdict[is_usable_verdict],
        n_draws=DRAWS,
        rng=rng,
    )
