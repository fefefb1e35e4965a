from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.combining.task import Task, task
from tests.evaluate.judged_studies import Scores, judged

ITEMS, N_SYSTEMS = 20, 4


def normal_scores(seed: int, *, items: int = ITEMS, systems: int = N_SYSTEMS) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(items, systems))


def with_noise(human: np.ndarray, *, seed: int, sd: float = 1.0) -> np.ndarray:
    return human + sd * np.random.default_rng(seed).normal(size=human.shape)


def planted(seed: int = 0, *, items: int = ITEMS, systems: int = N_SYSTEMS) -> dict[tuple[str, str], np.ndarray]:
    """Return human ratings 2 a + b + noise as integers, with metrics a, b and pure noise."""
    a, b, noise, unrelated = np.random.default_rng(seed).normal(size=(4, items, systems))
    return {("ann", ""): np.round(2 * a + b + noise / 2), ("a", ""): a, ("b", ""): b, ("noise", ""): unrelated}


def table_of_items(n: int = ITEMS, **columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({"item": [f"i{k:03}" for k in range(n)], **columns})


def task_of(
    scores: Scores, *, target: str | None = None, raters: Any = None, items: Any = None, **options: Any
) -> Task:
    return task(judged(scores).describe(raters=raters, items=items).select(**options), target=target)
