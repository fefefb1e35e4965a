"""Boundaries against published constants and simulation; predictive probability by simulation."""

import numpy as np
import pytest
from scipy.stats import norm

from custodes.stats.stopping.sequential import (
    BOUNDARIES,
    crossing_probability,
    group_sequential_bounds,
    predictive_probability,
)


# Jennison and Turnbull 2000, "Group Sequential Methods", Tables 2.1 (Pocock) and 2.3 (O'Brien-Fleming), alpha = .05.
@pytest.mark.parametrize(
    ("looks", "pocock", "obrien_fleming"),
    [(2, 2.178, 1.977), (3, 2.289, 2.004), (5, 2.413, 2.040), (10, 2.555, 2.087), (20, 2.672, 2.126)],
)
def test_boundaries_are_the_published_ones(looks: int, pocock: float, obrien_fleming: float) -> None:
    times = np.arange(1, looks + 1)
    constant = group_sequential_bounds(times, shape=BOUNDARIES["pocock"], level=0.05)
    assert constant == pytest.approx(np.full(looks, pocock), abs=5.1e-4)
    falling = group_sequential_bounds(times, shape=BOUNDARIES["obrien-fleming"], level=0.05)
    assert falling == pytest.approx(obrien_fleming * np.sqrt(looks / times), rel=5e-4)


@pytest.mark.parametrize("kind", ["pocock", "obrien-fleming"])
@pytest.mark.parametrize("looks", [(10, 20, 40), (5, 50, 60, 61, 100), (7,)])
def test_unequal_looks_keep_the_level_by_simulation(kind: str, looks: tuple[int, ...]) -> None:
    bounds = group_sequential_bounds(looks, shape=BOUNDARIES[kind], level=0.05)
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(200_000, len(looks))) * np.sqrt(np.diff(looks, prepend=0))
    z = steps.cumsum(axis=1) / np.sqrt(looks)
    # Monte Carlo sd of a proportion of .05 over 200,000: .0005
    assert (np.abs(z) > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert crossing_probability(bounds, np.array(looks, dtype=float)) == pytest.approx(0.05, abs=1e-8)


def test_repeated_looks_without_a_boundary() -> None:
    # Armitage, McPherson and Rowe 1969, Table 2, nominal 5 %: 2, 5 and 10 equally spaced interim analyses.
    for looks, level in ((2, 0.083), (5, 0.142), (10, 0.193)):
        result = crossing_probability(np.full(looks, norm.isf(0.025)), np.arange(1.0, looks + 1))
        assert result == pytest.approx(level, abs=6e-4)


def test_no_boundary_asks_every_look_as_if_it_were_the_only_one() -> None:
    bounds = group_sequential_bounds((10, 20), shape=BOUNDARIES["none"], level=0.1)
    assert bounds == pytest.approx([norm.isf(0.05)] * 2)


def test_predictive_probability_by_simulation() -> None:
    rng = np.random.default_rng(1)
    margin, sd, share, bound = 0.12, 0.08, 0.3, 2.3
    # the true margin given the data, then the remaining annotations
    rest = sd * np.sqrt(share / (1 - share))
    later = rng.normal(rng.normal(margin, sd, 400_000), rest)
    final = share * margin + (1 - share) * later
    decided = np.abs(final) > bound * sd * np.sqrt(share)
    result = predictive_probability(np.array(margin), np.array(sd), information_share=np.array(share), bound=bound)
    assert float(result) == pytest.approx(decided.mean(), abs=0.003)
    ends = predictive_probability(np.array([0.3, 0.1, -0.3]), np.full(3, 0.1), information_share=np.ones(3), bound=2.0)
    assert ends.tolist() == [1, 0, 1]
