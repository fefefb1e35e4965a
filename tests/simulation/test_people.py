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
