"""Battles with known strengths, and rows of a leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.evaluate.leaderboard.leaderboard import Leaderboard

QUICK = {"resamples": 200}
NAMES = np.array(list("ABCDEFGHIJKLMNOP"))


def battles(
    rng: np.random.Generator,
    *,
    strength: Sequence[float] = (1.0, 0.5, 0.0, -0.5, -1.0),
    n: int = 1500,
    ties: float = 0.15,
    first: float = 0.0,
) -> pl.DataFrame:
    """Return battles of random pairs, one per item; the system in the first place gains `first` in log odds."""
    strengths, k = np.array(strength), len(strength)
    a = rng.integers(0, k, n)
    b = (a + rng.integers(1, k, n)) % k
    won = rng.random(n) < 1 / (1 + np.exp(strengths[b] - strengths[a] - first))
    preference = np.where(rng.random(n) < ties, 0, np.where(won, 1, -1))
    columns = {"item": np.arange(n), "system_a": NAMES[a], "system_b": NAMES[b], "preference": preference}
    return pl.DataFrame(columns).with_columns(order=pl.lit("ab"))


def by(table: pl.DataFrame, rater: str, kind: str) -> pl.DataFrame:
    return table.with_columns(rater=pl.lit(rater), kind=pl.lit(kind))


def of(board: Leaderboard, rater: str = "human", table: str = "systems") -> dict[str, dict[str, Any]]:
    """Return the rows of a rater by system."""
    return {row["system"]: row for row in board.to_frame(table).filter(rater=rater).iter_rows(named=True)}


def rules(board: Leaderboard) -> list[str]:
    return [note.rule for note in board.notes]
