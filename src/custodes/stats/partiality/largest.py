"""The largest partiality of a metric to any system, with a simultaneous interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.partiality.partiality import partiality, win_rate_without
from custodes.stats.partiality.placement import Placement


def rate_partiality(
    placements: Sequence[Placement], *, confidence: float, systems: Sequence[int] | None = None
) -> Floats:
    """Return the part of each system's win rate that is due to the partiality of each metric.

    Parameters
    ----------
    placements
        The placement by each metric.
    confidence
        Simultaneous level of all intervals of a metric (Bonferroni over all systems of the placements).
    systems
        Positions of the systems to test (default: all).

    Returns
    -------
    :
        Estimates and bounds (3, metrics, systems), from -1 to 1; NaN if not tested.

    Examples
    --------
    >>> from custodes.stats.partiality.scores import ScoredPeople
    >>> rng = np.random.default_rng(0)
    >>> quality = np.linspace(-1, 1, 8) + rng.normal(size=(100, 8))
    >>> persons = quality + rng.normal(size=(3, 100, 8))
    >>> metric = quality + rng.normal(size=(100, 8)) + np.array([0, 0, 0, 1, 0, 0, 0, 0])
    >>> placement = ScoredPeople(persons, units=np.arange(100)).placement(metric)
    >>> rates = rate_partiality([placement], confidence=0.95)
    >>> sizes, _, _, systems = largest(rates)
    >>> systems.tolist(), sizes.round(2).tolist()
    ([3], [0.18])
    """
    alpha = 1 - confidence
    rates_by_metric = []
    for placement in placements:  # other metrics do not affect the results of a metric
        partiality_results = partiality(
            [placement], alpha=alpha, confidence=1 - alpha / len(placement.human), systems=systems
        )
        win_rate_effects = [
            win_rate_without(placement, shift_or_bound[0])[0]
            for shift_or_bound in (partiality_results.shift, partiality_results.low, partiality_results.high)
        ]
        rates_by_metric.append(np.where(np.isfinite(partiality_results.shift[0]), win_rate_effects, np.nan))
    return np.stack(rates_by_metric, axis=1)


def largest(rates: Floats) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the largest absolute partiality of each metric (metrics,), its lower and upper bound, and the position of
    the system. The rates (3, metrics, systems) come from `rate_partiality`.

    If the intervals of all systems contain the true values, the interval contains the largest absolute partiality. If
    the partiality to every system is undefined, the size and the bounds are NaN and the position is -1.

    Examples
    --------
    >>> rates = np.array([[[0.1, -0.2]], [[0.05, -0.3]], [[0.4, -0.1]]])
    >>> [values.tolist() for values in largest(rates)]
    [[0.2], [0.1], [0.4], [1]]
    """
    absolute_rates = np.nan_to_num(np.abs(rates[0]), nan=-1.0)
    is_defined_metric = absolute_rates.max(axis=-1) >= 0
    smallest_absolute_in_interval = np.where(rates[1] * rates[2] > 0, np.abs(rates[1:]).min(axis=0), 0.0)
    size, low, high = (
        np.where(is_defined_metric, np.nan_to_num(absolute_values).max(axis=-1), np.nan)
        for absolute_values in (absolute_rates, smallest_absolute_in_interval, np.abs(rates[1:]).max(axis=0))
    )
    return size, low, high, np.where(is_defined_metric, absolute_rates.argmax(axis=-1), -1)
