from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.arrays import Floats
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.more_battles import more_battles
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import Strengths, strengths
from custodes.stats.strength.win_rates import pair_rates
from tests.stats.strength.battles import all_pairs, battles

LEVEL, STUDIES, REPETITIONS = 0.95, 30, 12


def fitted(data: Battles, n_systems: int) -> Strengths:
    return strengths(data, n_systems=n_systems, ties="davidson", resamples=30, rng=np.random.default_rng(0))


def power_if_the_estimate_is_true(data: Battles, n_systems: int, rng: np.random.Generator) -> float:
    """Rate at which the forecast number of new battles decides a random pair, with the estimated difference as truth;
    NaN without a forecast."""
    result, rates = fitted(data, n_systems), pair_rates(data, confidence=LEVEL)
    more = more_battles(result, rates, ranks(result, confidence=LEVEL).apart, confidence=LEVEL)
    forecasts = np.flatnonzero(more < 4000)
    if not forecasts.size:
        return np.nan
    pair = rng.choice(forecasts)
    a, b, n = rates.first[pair], rates.second[pair], int(more[pair])
    p_win, p_tie = 1 / (1 + np.exp(result.draws[0, b] - result.draws[0, a])), rates.outcomes[pair, 1]
    p_tie = p_tie / rates.outcomes[pair].sum()
    n_decided = 0
    for _ in range(REPETITIONS):
        later = battles(
            np.append(data.first, np.full(n, a)),
            np.append(data.second, np.full(n, b)),
            np.append(data.sign, np.where(rng.random(n) < p_tie, 0, np.where(rng.random(n) < p_win, 1, -1))),
            unit=np.append(data.unit, data.unit.max() + 1 + np.arange(n)),
        )
        n_decided += bool(ranks(fitted(later, n_systems), confidence=LEVEL).apart[a, b])
    return n_decided / REPETITIONS


def single_battles(rng: np.random.Generator, quality: Floats, n: int) -> Battles:
    first = rng.integers(0, len(quality), n)
    second = (first + rng.integers(1, len(quality), n)) % len(quality)
    return battles(first, second, np.sign(quality[first] - quality[second] + rng.logistic(size=n)))


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("shape", ["normal scores", "skewed scores", "integer ratings", "single battles"])
def test_power_is_near_one_half_if_the_true_difference_is_the_observed_one(shape: str, spread: float) -> None:
    rng, powers = np.random.default_rng(int(100 * spread)), list[float]()
    for _ in range(STUDIES):
        quality = spread * rng.normal(size=5)
        errors = rng.exponential(size=(60, 5)) if shape == "skewed scores" else rng.normal(size=(60, 5))
        scores = np.round(quality + errors) if shape == "integer ratings" else quality + errors
        data = single_battles(rng, quality, 300) if shape == "single battles" else all_pairs(scores)
        powers.append(power_if_the_estimate_is_true(data, 5, rng))
    power = np.array(powers)[np.isfinite(powers)]
    print(f"{shape}, spread {spread}: {power.mean():.2f}, {np.quantile(power, [0.05, 0.95])} of {len(power)}")
    assert len(power) >= STUDIES / 2
    assert 0.42 <= power.mean() <= 0.6
    # With 12 repetitions, a power of .5 is estimated as at most .08 or at least .92 in .6 % of studies.
    assert (np.abs(power - 0.5) >= 0.4).mean() <= 0.1
