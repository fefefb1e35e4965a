"""How the metrics stand to chance and to the best of them, by one statistic of each aspect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.stats.arrays import Floats

ORDERING, CHOOSING = "kendall_item", "sample_accuracy"
"""Metrics are ranked by the first, and by the second where that is undefined, or says no more than a sign."""


def standing_columns(
    sample: Sample,
    draws: dict[str, Floats],
    p_values: dict[str, Floats],
    pairs: NDArray[Any],
    *,
    confidence: float,
    alpha: float,
) -> dict[str, Any]:
    """The columns of the table `standing`, best first; `p_values` (pairs,) by statistic for `pairs` (pairs, 2).

    Two systems leave one pair an item, where Kendall's tau is a sign: sample accuracy says it better.
    """
    comparison = sample.comparison
    comparable = np.isfinite(draws[CHOOSING][0])
    ordered = np.isfinite(draws[ORDERING][0][comparable])
    name = ORDERING if len(comparison.systems) > 2 and len(ordered) and ordered.all() else CHOOSING
    chance = STATISTICS[name].chance_of(comparison)
    value, low, high = STATISTICS[name].with_interval("value", sample, draws[name], confidence).values()
    order = np.argsort(-np.where(np.isfinite(value), value, -np.inf), kind="stable")[: np.isfinite(value).sum()]
    side = np.select([low > chance, high < chance], ["above", "below"], "unclear")
    worse = _worse_than(int(order[0]), p_values[name], pairs, alpha) if len(order) and name in p_values else None
    level = None if worse is None else [None if i == order[0] else i not in worse for i in order]
    return {
        "metric": [comparison.metrics[i] for i in order],
        "statistic": name,
        "value": value[order],
        "value_low": low[order],
        "value_high": high[order],
        "chance": chance[order],
        "side": side[order].tolist(),
        "level_with_best": [None] * len(order) if level is None else level,
    }


def _worse_than(best: int, p_values: Floats, pairs: NDArray[Any], alpha: float) -> set[int] | None:
    """The metrics that the best one is clearly better than (Benjamini and Hochberg), None where none was tested.

    Step-up: with many metrics a permutation p-value is too coarse for a bound on any single false claim.
    """
    rows = np.flatnonzero((pairs == best).any(axis=1) & np.isfinite(p_values))
    if not len(rows):
        return None
    rows = rows[np.argsort(p_values[rows], kind="stable")]
    found = np.flatnonzero(p_values[rows] <= alpha * np.arange(1, len(rows) + 1) / len(rows))
    return set(pairs[rows[: found.max(initial=-1) + 1]].ravel().tolist()) - {best}
