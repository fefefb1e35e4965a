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


def ranking_statistic(values_of_statistic: dict[str, Floats], n_systems: int) -> str:
    """Return the name of the statistic that ranks metrics; row 0 of each value has the estimates.

    With two systems, each item has one pair, and Kendall's tau within an item is only a sign. Sample accuracy is then
    used instead.
    """
    has_ordering = np.isfinite(values_of_statistic[ORDERING][0][np.isfinite(values_of_statistic[CHOOSING][0])])
    return ORDERING if n_systems > 2 and len(has_ordering) and has_ordering.all() else CHOOSING


def standing_columns(
    tester: Tester, values_of_statistic: dict[str, Floats], differences: Differences, *, confidence: float, alpha: float
) -> dict[str, Any]:
    """Return the columns of the table `standing`, with the best metric first."""
    comparison = tester.sample.comparison
    statistic_name = ranking_statistic(values_of_statistic, len(comparison.systems))
    value, low, high = (
        STATISTICS[statistic_name]
        .with_interval("value", tester.sample, values_of_statistic[statistic_name], confidence)
        .values()
    )
    order = differences.order(statistic_name, value)
    tests_of_chance = chance_tests(tester, statistic_name)
    is_better = differences.better(statistic_name, alpha)
    is_significant = tests_of_chance.significant(alpha)
    direction = np.select(
        [is_significant & (tests_of_chance.estimate > 0), is_significant & (tests_of_chance.estimate < 0)],
        ["above", "below"],
        "unclear",
    )
    group_letters = None if is_better is None else letters(is_better | is_better.T, order.tolist())
    is_beaten = None if is_better is None else np.asarray(is_better.any(axis=0))
    return {
        "metric": [comparison.metrics[i] for i in order],
        "statistic": statistic_name,
        "value": value[order],
        "value_low": low[order],
        "value_high": high[order],
        "chance": STATISTICS[statistic_name].chance_of(tester.jackknife_sample)[0][order],
        "p_chance": tests_of_chance.p_adjusted[order],
        "side": direction[order].tolist(),
        "group": [None if group_letters is None else group_letters[i] for i in order],
        "may_be_best": [None if is_beaten is None else not is_beaten[i] for i in order],
    }
