from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

import custodes as cu
from tests.simulation.planted_judges import FAIR, PLANTED, Judge, World, planted
from tests.simulation.rates import is_at_most

STUDIES = 200

WORLDS = {
    "as they were built": World(),
    "quality goes with length": World(rho=0.8),
    "it does not": World(rho=0.0),
    "noisy people": World(noise=3.0),
    "one person": World(people=1),
    "verdicts of people": World(verdicts=True),
    "documents": World(document=5, items=100),
    "no ties": World(ties=0.0),
    "unequal systems": World(gap=1.0),
    "better systems write longer": World(gap=2.5, rho=0.8, longer=True, items=100),
    "one order at random": World(both=False),
    "few items": World(items=25),
}

RIGHT = {
    "position": ("position", "prefers what is shown first"),
    "length": ("length", "prefers longer outputs"),
    "own": ("own systems", "prefers its own systems"),
    "failing": ("failures", "fails unevenly"),
}

# The lowest measured power (80 or 100 studies: at least .97, and .90 for own systems) less about three standard errors.
POWER = {
    "as they were built": {"position": 0.97, "length": 0.94, "failing": 0.97},
    "unequal systems": {"position": 0.97, "length": 0.73, "failing": 0.97, "own": 0.8},
    "one order at random": {"position": 0.97, "length": 0.9, "failing": 0.97},
}


def claims(judges: tuple[Judge, ...], world: World, seed: int) -> list[tuple[str, str, str]]:
    result = cu.consistency(planted(judges, world, seed), resamples=0).findings
    claimed = result.filter(~pl.col("finding").is_in(["", "inconclusive"]))
    return claimed.select("rater", "kind", "finding").rows()


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_fair_judges_and_people_are_rarely_accused_of_anything(world: str) -> None:
    accused = sum(bool(claims(FAIR, WORLDS[world], seed)) for seed in range(STUDIES))
    assert is_at_most(accused, STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_each_fault_is_named_as_it_is(world: str) -> None:
    named: Counter[str] = Counter()
    wrong = 0
    for seed in range(STUDIES):
        result = claims(PLANTED, WORLDS[world], 10**6 + seed)
        named.update(rater for rater, *what in result if RIGHT.get(rater) == (*what,))
        wrong += any(RIGHT.get(rater) != (*what,) for rater, *what in result)
    assert is_at_most(wrong, STUDIES)
    for rater, least in POWER.get(world, {}).items():
        assert named[rater] / STUDIES >= least, (rater, named)
