"""Ranking of the metrics of an aspect by one statistic, with tests against the chance level."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.evaluate.agreement.differences import Differences, Tester, chance_tests
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.stats.arrays import Floats
from custodes.stats.graphs import letters

ORDERING, CHOOSING = "kendall_item", "sample_accuracy"
"""Statistics that rank metrics. `CHOOSING` is used if `ORDERING` is undefined, or if there are only two systems."""


def ranked_by(draws: dict[str, Floats], n_systems: int) -> str:
    """Return the name of the statistic that ranks metrics; row 0 of `draws` has the estimates of all statistics.

    With two systems, each item has one pair, and Kendall's tau within an item is only a sign. Sample accuracy is then
    used instead.
    """
    ordered = np.isfinite(draws[ORDERING][0][np.isfinite(draws[CHOOSING][0])])
    return ORDERING if n_systems > 2 and len(ordered) and ordered.all() else CHOOSING


def standing_columns(
    tester: Tester, draws: dict[str, Floats], differences: Differences, *, confidence: float, alpha: float
) -> dict[str, Any]:
    """Return the columns of the table `standing`, with the best metric first."""
    comparison = tester.sample.comparison
    name = ranked_by(draws, len(comparison.systems))
    value, low, high = STATISTICS[name].with_interval("value", tester.sample, draws[name], confidence).values()
    order = differences.order(name, value)
    chance = chance_tests(tester, name)
    better = differences.better(name, alpha)
    clear = chance.significant(alpha)
    side = np.select([clear & (chance.estimate > 0), clear & (chance.estimate < 0)], ["above", "below"], "unclear")
    words = None if better is None else letters(better | better.T, order.tolist())
    beaten = None if better is None else np.asarray(better.any(axis=0))
    return {
        "metric": [comparison.metrics[i] for i in order],
        "statistic": name,
        "value": value[order],
        "value_low": low[order],
        "value_high": high[order],
        "chance": STATISTICS[name].chance_of(tester.without)[0][order],
        "p_chance": chance.p_adjusted[order],
        "side": side[order].tolist(),
        "group": [None if words is None else words[i] for i in order],
        "may_be_best": [None if beaten is None else not beaten[i] for i in order],
    }
