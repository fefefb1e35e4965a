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
from custodes.stats.judging.bias_tests import LEAST_FAILURES, uneven_p
from custodes.stats.ratios import ratio

DRAWS = 9999
ALL, REASON, SYSTEM, ORDER, LENGTH = "all", "reason", "system", "order", "length"
TENTHS = 10
MOST_FEATURES = 50_000_000
"""Maximum number of systems times number of verdicts for a test of failures.

A larger test would need gigabytes of memory, so above this number, there are only rates and no test.
"""
NAMES = {1: "ab", -1: "ba"}


def missing_columns(
    part: RaterPreferences, times: Floats, confidence: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of the table `missing`, for raters with verdicts."""
    blocks: list[dict[str, Any]] = []
    generators = labelled_generators(part.raters, rng)
    for (rater,), rows in part.asked.group_by("rater", maintain_order=True):
        rater_index = int(str(rater))
        blocks += _rater_rows(part, part.raters[rater_index], rows, times, confidence, generators[rater_index])
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}


def failure_findings(aspect: str, missing: dict[str, Any]) -> list[Finding]:
    """Return one test per rater, with the smallest p-value of the tests by system, order and length.

    This p-value is multiplied by the number of the tests of the rater.
    """
    if not missing:
        return []
    frame = pl.DataFrame({name: missing[name] for name in ("rater", "factor", "p_value")})
    tested_factors = frame.filter(pl.col("p_value").is_finite()).unique(
        ["rater", "factor"], keep="first", maintain_order=True
    )
    smallest_p_value = pl.col("factor", "p_value").sort_by("p_value", maintain_order=True).first()
    rows = tested_factors.group_by("rater", maintain_order=True).agg(smallest_p_value, pl.len())
    return [
        Finding(aspect, rater, FAILURES, by, p_value=min(1.0, p_value * n))
        for rater, by, p_value, n in rows.iter_rows()
    ]


def _rater_rows(
    part: RaterPreferences,
    rater: str,
    rows: pl.DataFrame,
    times: Floats,
    confidence: float,
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the rows of one rater, for each factor."""
    pairs, item, pair = part.design.pairs, rows["item"].to_numpy(), rows["pair"].to_numpy()
    unit, order = rows["unit"].to_numpy(), rows["order"].to_numpy()
    is_missing = rows["preference"].is_null().to_numpy()
    sides = [pairs[pair, side] for side in (0, 1)]
    length_class = _tenths(part.words_of(item, sides[0]) + part.words_of(item, sides[1]))
    system_names = part.design.systems
    factors: list[tuple[str, list[str], list[Any]]] = [
        (ALL, [""], [np.ones(len(rows), dtype=np.bool_)]),
        *_reason_factors(rows),
        (SYSTEM, list(system_names), [(sides[0] == s) | (sides[1] == s) for s in range(len(system_names))]),
        (ORDER, list(NAMES.values()), [order == o for o in NAMES]),
        (LENGTH, [str(t + 1) for t in range(TENTHS)], [length_class == t for t in range(TENTHS)]),
    ]
    outcome_masks = [
        rows["preference"].eq(0).fill_null(False).to_numpy(),
        rows["why"].eq(EMPTY).fill_null(False).to_numpy(),
        rows["why"].ne(EMPTY).fill_null(False).to_numpy(),
    ]
    for factor, level_names, masks_of_level in factors:
        level_indices = [k for k, mask in enumerate(masks_of_level) if mask.any()]
        if not level_indices or (factor not in (ALL, REASON) and len(level_indices) < 2):
            continue
        level_masks = [masks_of_level[k] for k in level_indices]
        p_value = (
            np.nan if factor in (ALL, REASON) else _p_value(factor, is_missing, level_masks, length_class, unit, rng)
        )
        # The denominator is all queried verdicts for a reason, and the queried verdicts of the level for other factors.
        denominator_masks = [np.ones_like(is_missing)] * len(level_indices) if factor == REASON else level_masks
        n_queried = np.stack([np.bincount(unit[mask], minlength=part.n_units) for mask in denominator_masks])
        n_missing = np.stack([np.bincount(unit[mask & is_missing], minlength=part.n_units) for mask in level_masks])
        resampled_sums = (bootstrap.weighted_sums(times, counts) for counts in (n_missing, n_queried))
        shares = with_interval(
            "failure_rate", ratio(*resampled_sums), confidence, clusters=part.n_units, bounds=intervals.SHARE
        )
        yield {
            "rater": [rater] * len(level_indices),
            "factor": [factor] * len(level_indices),
            "level": [level_names[k] for k in level_indices],
            "queried": n_queried.sum(axis=1),
            **{
                name: np.array(
                    [np.nan if factor == REASON else outcome_mask[level_mask].mean() for level_mask in level_masks]
                )
                for name, outcome_mask in zip(("tie_rate", "empty_rate", "unreadable_rate"), outcome_masks, strict=True)
            },
            **shares,
            "p_value": np.full(len(level_indices), p_value),
        }


def _reason_factors(rows: pl.DataFrame) -> list[tuple[str, list[str], list[Any]]]:
    """Return the reasons in the file, with the most frequent reason first; empty if the file has no reasons."""
    counts = rows.drop_nulls("why").group_by("why", maintain_order=True).len()
    reasons = counts.sort("len", descending=True, maintain_order=True)["why"].to_list()
    if {*reasons} <= {EMPTY, UNREADABLE}:
        return []
    return [(REASON, reasons, [rows["why"].eq(reason).fill_null(False).to_numpy() for reason in reasons])]


def _tenths(words: Floats) -> Floats:
    """Return the length class of each verdict, from 0 (shortest tenth) to 9; NaN if the lengths are unknown.

    `words` is the total number of words of the two outputs of each verdict.
    """
    has_text = np.isfinite(words)
    quantiles = np.quantile(words[has_text], np.arange(1, TENTHS) / TENTHS) if has_text.any() else np.zeros(TENTHS - 1)
    return np.where(has_text, np.searchsorted(quantiles, np.where(has_text, words, 0.0), side="left"), np.nan)


def _p_value(
    factor: str,
    is_missing: Bools,
    level_masks: Sequence[Bools],
    length_class: Floats,
    unit: Ints,
    rng: np.random.Generator,
) -> float:
    if is_missing.sum() < LEAST_FAILURES or len(level_masks) * is_missing.size > MOST_FEATURES:
        return np.nan
    is_usable = np.isfinite(length_class) if factor == LENGTH else np.any(level_masks, axis=0)
    # Tenths are tested as one trend. The indicator of one order is enough, as it determines the indicator of the other.
    features = [length_class] if factor == LENGTH else level_masks[:1] if factor == ORDER else level_masks
    usable_features = np.stack([feature[is_usable] for feature in features]).astype(np.float64)
    return uneven_p(is_missing[is_usable], usable_features, units=unit[is_usable], n_draws=DRAWS, rng=rng)
