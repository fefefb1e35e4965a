from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.annotators.annotator_statistics import FIRST, LITTLE, SECOND
from tests.simulation.planted_people import study

STUDIES = 150
AT_MOST = 0.06

WORLDS: dict[str, dict[str, Any]] = {
    "second opinions": {},
    "all by three": {"tasks": 200, "overlap": 1, "times": 3},
    "unequal shares": {"people": 40, "tasks": 1200, "uneven": True},
    "unlike skill": {"people": 10, "tasks": 1000, "overlap": 0.3, "skill": (2, 1)},
    "five people": {"people": 5, "tasks": 300, "overlap": 1, "times": 3, "skill": (2, 2)},
    "a fifth clicks": {"sided": 0.2},
    "a fifth guesses": {"tasks": 800, "overlap": 0.5, "careless": 0.2},
}


def flags(seed: int, world: dict[str, Any]) -> tuple[pl.DataFrame, np.ndarray]:
    """Flags of each annotator with answers, and the true types."""
    rows, kind, _ = study(np.random.default_rng(seed), **world)
    result = cu.annotators(cu.read(rows), method="majority", annotator_type="persons", resamples=0).annotators
    return result, kind[[int(name[1:4]) for name in result["rater"]]]


def upper(rate: float) -> float:
    """Upper limit for a measured rate: three standard errors above."""
    return rate + 3 * float(np.sqrt(rate * (1 - rate) / STUDIES))


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_nobody_is_named_who_is_honest_and_clickers_always_are(world: str) -> None:
    wrong, clickers, named = 0, 0, 0
    for seed in range(STUDIES):
        result, kind = flags(seed, WORLDS[world])
        sided = np.array([FIRST in value or SECOND in value for value in result["flags"]])
        little = np.array([LITTLE in value for value in result["flags"]])
        wrong += bool((sided & (kind != 1)).any() or (little & (kind == 0)).any())
        clickers += int((kind == 1).sum())
        named += int((sided & (kind == 1)).sum())
    assert wrong / STUDIES <= upper(AT_MOST - 0.01)
    assert named >= 0.97 * clickers  # measured: all


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "times", "power"), [(600, 2, 0.0), (1000, 3, 0.85)])
def test_who_only_guesses_is_named_with_enough_answers(tasks: int, times: int, power: float) -> None:
    """With two answers per task no annotator is flagged, because hard tasks give the same disagreement."""
    results: list[bool] = []
    for seed in range(25):
        result, kind = flags(seed, {"people": 10, "tasks": tasks, "overlap": 1, "times": times, "careless": 0.2})
        results += [LITTLE in value for value, k in zip(result["flags"], kind, strict=True) if k == 2]
    assert np.mean(results) >= power
    assert np.mean(results) <= (0 if times == 2 else 1)


COVERED: dict[str, dict[str, Any]] = {
    "all by three": {"tasks": 300, "overlap": 1, "times": 3, "careless": 0.2},
    "five people": {"people": 5, "tasks": 300, "overlap": 1, "times": 3},
    "two fifths by two": {"tasks": 1500, "overlap": 0.4, "careless": 0.2},
    "unequal shares": {"people": 30, "tasks": 400, "overlap": 1, "times": 3, "uneven": True, "careless": 0.1},
    "second opinions": {"tasks": 4000, "overlap": 0.12, "careless": 0.2},
}


@pytest.mark.slow
@pytest.mark.parametrize("world", COVERED)
def test_intervals_of_competence_hold_it(world: str) -> None:
    held: list[bool] = []
    for seed in range(12):
        rows, _, kappa = study(np.random.default_rng(seed), **COVERED[world])
        result = cu.annotators(cu.read(rows), method="dawid-skene", annotator_type="persons", resamples=100).annotators
        known = result.filter(pl.col("competence_low").is_not_null())
        truth = kappa[[int(name[1:4]) for name in known["rater"]]]
        low, high = (known[f"competence_{end}"].to_numpy() for end in ("low", "high"))
        held += ((low - 0.01 <= truth) & (truth <= high + 0.01)).tolist()
    assert np.mean(held) >= 0.88
