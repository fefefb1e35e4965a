from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from custodes.stats.strength.win_rates import pair_rates, system_intervals, system_rates
from tests.stats.strength.battles import battles

STUDIES = 1000
TIES = 0.2

CASES = {
    "5 systems, 200 battles": (5, 200, 1, 0.0),
    "5 systems, 1,000 battles": (5, 1000, 1, 0.0),
    "5 systems, 200 battles, ten a cluster with a taste of its own": (5, 200, 10, 1.0),
    "5 systems, 1,000 battles, ten a cluster with a taste of its own": (5, 1000, 10, 1.0),
    "20 systems, 1,000 battles": (20, 1000, 1, 0.0),
    "20 systems, 200 battles": (20, 200, 1, 0.0),
}
"""Number of systems, battles, battles per cluster, and standard deviation of clusters' preferences for each system (log
odds)."""


@cache
def coverage(name: str, studies: int = STUDIES) -> tuple[float, float]:
    """Proportion of intervals that contain the true value, for systems and for pairs."""
    n_systems, n, per, taste = CASES[name]
    rng = np.random.default_rng(list(CASES).index(name))
    strength = np.linspace(1, -1, n_systems)
    # win rate of a pair over all clusters: the mean over the difference of two preferences
    likes = np.random.default_rng(0).normal(0, taste * np.sqrt(2), 4000)
    odds = (strength[:, None] - strength)[..., None] + np.concatenate([likes, -likes])
    truth = (1 - TIES) * (1 / (1 + np.exp(-odds))).mean(axis=-1) + TIES / 2
    held, pairs = [], []
    for _ in range(studies):
        first = rng.integers(0, n_systems, n)
        second = (first + rng.integers(1, n_systems, n)) % n_systems
        unit = np.repeat(np.arange(n // per), per)
        data = strength + rng.normal(0, taste, (n // per, n_systems))
        won = rng.random(n) < 1 / (1 + np.exp(data[unit, second] - data[unit, first]))
        sign = np.where(rng.random(n) < TIES, 0, np.where(won, 1, -1)).astype(np.int8)
        result = battles(first, second, sign, unit=unit)
        low, high = system_intervals(
            system_rates(result, n_systems=n_systems, resamples=200, rng=rng), result, confidence=0.95
        )
        compared = np.zeros((n_systems, n_systems), dtype=bool)
        compared[first, second] = compared[second, first] = True
        rate = (truth * compared).sum(axis=1) / compared.sum(axis=1)  # the mean over opponents in the data
        held.append(np.mean((low <= rate) & (rate <= high)))
        of_pairs = pair_rates(result, confidence=0.95)
        own_rate = truth[of_pairs.first, of_pairs.second]
        defined = np.isfinite(of_pairs.low)
        pairs.append(np.mean(((of_pairs.low <= own_rate) & (own_rate <= of_pairs.high))[defined]))
    return float(np.mean(held)), float(np.mean(pairs))


def test_intervals_of_win_rates_hold_the_truth_in_some_studies() -> None:
    systems, pairs = coverage("5 systems, 200 battles", 120)
    assert 0.92 <= systems <= 0.98
    assert 0.93 <= pairs <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_intervals_of_win_rates_hold_the_truth(name: str) -> None:
    systems, pairs = coverage(name)
    # Systems with 20 battles have about two per opponent, which is few for a resample.
    assert (0.91 if name == "20 systems, 200 battles" else 0.93) <= systems <= 0.97
    assert pairs >= 0.93
