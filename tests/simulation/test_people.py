from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.annotators.annotator_statistics import FIRST, LITTLE, SECOND
from tests.simulation.planted_people import study
from tests.simulation.rates import is_at_most

STUDIES = 150

WORLDS: dict[str, dict[str, Any]] = {
    "second opinions": {},
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
    assert is_at_most(wrong, STUDIES)
    assert named >= 0.97 * clickers  # measured: all


@pytest.mark.slow
def test_with_two_answers_per_task_nobody_is_flagged_for_low_agreement() -> None:
    """Hard tasks give the same disagreement; test_careful_people.py has more answers per task."""
    for seed in range(25):
        result, _ = flags(seed, {"people": 10, "overlap": 1, "careless": 0.2})
        assert not any(LITTLE in value for value in result["flags"])


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
