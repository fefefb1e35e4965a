"""What was asked and not answered, and how often a judge ties: by system, order and length."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.evaluate.consistency.material import Material
from custodes.stats.arrays import Floats
from custodes.stats.judging.failures import uneven_p
from custodes.stats.ratios import ratio
from custodes.stats.resampling import resample

DRAWS = 9999
ALL, SYSTEM, ORDER, LENGTH = "all", "system", "order", "length"
TENTHS = 10
NAMES = {1: "ab", -1: "ba"}


def missing_columns(part: Material, times: Floats, confidence: float, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of `missing`; of raters with verdicts."""
    blocks: list[dict[str, Any]] = []
    for (rater,), rows in part.asked.group_by("rater", maintain_order=True):
        blocks += _of_rater(part, part.raters[int(str(rater))], rows, times, confidence, rng)
    return {name: np.concatenate([own[name] for own in blocks]) for name in blocks[0]} if blocks else {}


def _of_rater(
    part: Material,
    rater: str,
    rows: pl.DataFrame,
    times: Floats,
    confidence: float,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    pairs, item, pair = part.design.pairs, rows["item"].to_numpy(), rows["pair"].to_numpy()
    unit, order = rows["unit"].to_numpy(), rows["order"].to_numpy()
    failed = rows["preference"].is_null().to_numpy()
    sides = [pairs[pair, side] for side in (0, 1)]
    tenth = _tenths(part.words[item, sides[0]] + part.words[item, sides[1]])
    names = part.design.systems
    splits: list[tuple[str, list[str], list[Any]]] = [
        (ALL, [""], [np.ones(len(rows), dtype=np.bool_)]),
        (SYSTEM, list(names), [(sides[0] == s) | (sides[1] == s) for s in range(len(names))]),
        (ORDER, list(NAMES.values()), [order == o for o in NAMES]),
        (LENGTH, [str(t + 1) for t in range(TENTHS)], [tenth == t for t in range(TENTHS)]),
    ]
    kinds = [
        rows["preference"].eq(0).fill_null(False).to_numpy(),
        rows["why"].eq(EMPTY).fill_null(False).to_numpy(),
        rows["why"].eq(UNREADABLE).fill_null(False).to_numpy(),
    ]
    made = []
    for by, values, members in splits:
        kept = [k for k, own in enumerate(members) if own.any()]
        if not kept or (by != ALL and len(kept) < 2):
            continue
        inside = np.stack([members[k] for k in kept])
        p_value = np.nan if by == ALL else _p_value(by, failed, inside, tenth, unit, rng)
        sums = resample.unit_sums(np.stack([inside & failed, inside]), units=unit, n_units=part.n_units)
        lost, asked = np.moveaxis(resample.weighted_sums(times, sums), 1, 0)
        shares = with_interval("failed", ratio(lost, asked), confidence, clusters=part.n_units, bounds=resample.SHARE)
        made.append(
            {
                "rater": [rater] * len(kept),
                "by": [by] * len(kept),
                "value": [values[k] for k in kept],
                "asked": inside.sum(axis=1),
                **{
                    name: (inside & own).sum(axis=1) / inside.sum(axis=1)
                    for name, own in zip(("ties", EMPTY, UNREADABLE), kinds, strict=True)
                },
                **shares,
                "p_value": np.full(len(kept), p_value),
            }
        )
    return made


def _tenths(words: Floats) -> Floats:
    """In which tenth of its verdicts each lies by the words of both outputs, from 0; NaN unknown."""
    known = np.isfinite(words)
    cuts = np.quantile(words[known], np.arange(1, TENTHS) / TENTHS) if known.any() else np.zeros(TENTHS - 1)
    return np.where(known, np.searchsorted(cuts, np.where(known, words, 0.0), side="left"), np.nan)


def _p_value(by: str, failed: Any, inside: Any, tenth: Floats, unit: Any, rng: np.random.Generator) -> float:
    if by == LENGTH:  # one trend
        known = np.isfinite(tenth)
        return uneven_p(failed[known], tenth[None, known], units=unit[known], draws=DRAWS, rng=rng)
    features = inside[:1] if by == ORDER else inside
    known = inside.any(axis=0)
    return uneven_p(failed[known], features[:, known].astype(np.float64), units=unit[known], draws=DRAWS, rng=rng)
