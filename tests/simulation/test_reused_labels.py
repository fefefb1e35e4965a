"""False openings and power of a gate with a ledger of its candidates."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulation.rates import most
from tests.simulation.reused_labels import STUDIES, Candidates, Gate, worst_searcher

RUNS = 200
POWER = {0.5: 0.43, 0.8: 0.50, 0.95: 0.57}
"""Correlation of errors to the lowest power; Bonferroni with the same spending has .35."""


@pytest.mark.slow
@pytest.mark.parametrize("correlation", POWER)
@pytest.mark.parametrize("name", STUDIES)
def test_false_openings_and_power(name: str, correlation: float) -> None:
    openings = []
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, int(100 * correlation)])
        openings.append(STUDIES[name](Gate(rng), Candidates(correlation, rng)))
    rate = float(np.mean(openings))
    print(name, correlation, rate)
    if name.startswith("power"):
        assert 1 - rate <= most(1 - POWER[correlation], RUNS)
    else:
        assert rate <= most(0.05, RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("copy", [0.8, 0.9, 0.97])
@pytest.mark.parametrize("gain", [0.5, 1.0, 1.5, 2.0])
def test_a_searcher_who_knows_the_truth_stays_below_the_level(gain: float, copy: float) -> None:
    assert worst_searcher(gain, copy) <= 0.05
