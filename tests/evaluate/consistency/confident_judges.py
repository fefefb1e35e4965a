from __future__ import annotations

import numpy as np
import polars as pl

import custodes as cu
from custodes.data.study import Study

N = 240


PAIRS = {"item": range(N), "system_a": "A", "system_b": "B"}


def confident_judge(
    steep: float, *, name: str = "judge", seed: int = 1, orders: tuple[str, ...] = ("ab", "ba")
) -> pl.DataFrame:
    """Return verdicts of a judge whose stated probabilities are calibrated at steep 1."""
    gap = 2 * np.random.default_rng(seed).normal(size=N)
    chance = 1 / (1 + np.exp(-steep * gap))
    columns = {"rater": name, "kind": "metric", "preference": np.where(chance > 0.5, 1, -1)}
    frame = pl.DataFrame({**PAIRS, **columns, "p_a": chance, "p_tie": 0.0, "p_b": 1 - chance})
    return pl.concat([frame.with_columns(order=pl.lit(order)) for order in orders])


def people(seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(-2 * rng.normal(size=N)))
    won = np.where(rng.random(N) < chance, 1, -1)
    return pl.DataFrame({**PAIRS, "rater": "ann", "kind": "human", "preference": won, "order": ""})


def study(*frames: pl.DataFrame) -> Study:
    return cu.read(pl.concat(frames, how="diagonal_relaxed"))
