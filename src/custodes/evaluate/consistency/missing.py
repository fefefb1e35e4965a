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
        place = int(str(rater))
        blocks += _of_rater(part, part.raters[place], rows, times, confidence, generators[place])
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}


def failure_findings(aspect: str, missing: dict[str, Any]) -> list[Finding]:
    """Return one test per rater, with the smallest p-value of the tests by system, order and length.

    This p-value is multiplied by the number of the tests of the rater.
    """
    if not missing:
        return []
    frame = pl.DataFrame({name: missing[name] for name in ("rater", "factor", "p_value")})
    tested = frame.filter(pl.col("p_value").is_finite()).unique(["rater", "factor"], keep="first", maintain_order=True)
    clearest = pl.col("factor", "p_value").sort_by("p_value", maintain_order=True).first()
    rows = tested.group_by("rater", maintain_order=True).agg(clearest, pl.len())
    return [
        Finding(aspect, rater, FAILURES, by, p_value=min(1.0, p_value * n))
        for rater, by, p_value, n in rows.iter_rows()
    ]


def _of_rater(
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
    failed = rows["preference"].is_null().to_numpy()
    sides = [pairs[pair, side] for side in (0, 1)]
    tenth = _tenths(part.words_of(item, sides[0]) + part.words_of(item, sides[1]))
    names = part.design.systems
    splits: list[tuple[str, list[str], list[Any]]] = [
        (ALL, [""], [np.ones(len(rows), dtype=np.bool_)]),
        *_by_reason(rows),
        (SYSTEM, list(names), [(sides[0] == s) | (sides[1] == s) for s in range(len(names))]),
        (ORDER, list(NAMES.values()), [order == o for o in NAMES]),
        (LENGTH, [str(t + 1) for t in range(TENTHS)], [tenth == t for t in range(TENTHS)]),
    ]
    kinds = [
        rows["preference"].eq(0).fill_null(False).to_numpy(),
        rows["why"].eq(EMPTY).fill_null(False).to_numpy(),
        rows["why"].ne(EMPTY).fill_null(False).to_numpy(),
    ]
    for by, values, members in splits:
        levels = [k for k, mask in enumerate(members) if mask.any()]
        if not levels or (by not in (ALL, REASON) and len(levels) < 2):
            continue
        inside = [members[k] for k in levels]
        p_value = np.nan if by in (ALL, REASON) else _p_value(by, failed, inside, tenth, unit, rng)
        # The denominator is all queried verdicts for a reason, and the queried verdicts of the level for other factors.
        of = [np.ones_like(failed)] * len(levels) if by == REASON else inside
        queried = np.stack([np.bincount(unit[mask], minlength=part.n_units) for mask in of])
        lost = np.stack([np.bincount(unit[mask & failed], minlength=part.n_units) for mask in inside])
        drawn = (bootstrap.weighted_sums(times, counts) for counts in (lost, queried))
        shares = with_interval("failure_rate", ratio(*drawn), confidence, clusters=part.n_units, bounds=intervals.SHARE)
        yield {
            "rater": [rater] * len(levels),
            "factor": [by] * len(levels),
            "level": [values[k] for k in levels],
            "queried": queried.sum(axis=1),
            **{
                name: np.array([np.nan if by == REASON else kind_rows[member].mean() for member in inside])
                for name, kind_rows in zip(("tie_rate", "empty_rate", "unreadable_rate"), kinds, strict=True)
            },
            **shares,
            "p_value": np.full(len(levels), p_value),
        }


def _by_reason(rows: pl.DataFrame) -> list[tuple[str, list[str], list[Any]]]:
    """Return the reasons in the file, with the most frequent reason first; empty if the file has no reasons."""
    counts = rows.drop_nulls("why").group_by("why", maintain_order=True).len()
    reasons = counts.sort("len", descending=True, maintain_order=True)["why"].to_list()
    if {*reasons} <= {EMPTY, UNREADABLE}:
        return []
    return [(REASON, reasons, [rows["why"].eq(reason).fill_null(False).to_numpy() for reason in reasons])]


def _tenths(words: Floats) -> Floats:
    """Return the length class of each verdict, from 0 (shortest tenth) to 9; NaN if the lengths are unknown.

    `words` are the numbers of words of both outputs.
    """
    has_text = np.isfinite(words)
    cuts = np.quantile(words[has_text], np.arange(1, TENTHS) / TENTHS) if has_text.any() else np.zeros(TENTHS - 1)
    return np.where(has_text, np.searchsorted(cuts, np.where(has_text, words, 0.0), side="left"), np.nan)


def _p_value(
    by: str, failed: Bools, inside: Sequence[Bools], tenth: Floats, unit: Ints, rng: np.random.Generator
) -> float:
    if failed.sum() < LEAST_FAILURES or len(inside) * failed.size > MOST_FEATURES:
        return np.nan
    usable = np.isfinite(tenth) if by == LENGTH else np.any(inside, axis=0)
    # Tenths are tested as one trend. The indicator of one order is enough, as it determines the indicator of the other.
    features = [tenth] if by == LENGTH else inside[:1] if by == ORDER else inside
    chosen = np.stack([feature[usable] for feature in features]).astype(np.float64)
    return uneven_p(failed[usable], chosen, units=unit[usable], draws=DRAWS, rng=rng)
