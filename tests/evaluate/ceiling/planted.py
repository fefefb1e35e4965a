from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from tests.evaluate.judged_studies import judged

ITEMS, SYSTEMS = 60, 6


Planted = dict[tuple[str, str], np.ndarray]


def planted(seed: int = 0) -> Planted:
    """Return a study with human style = 2 a + b + noise; human truth shares a component with style that no metric
    knows."""
    rng = np.random.default_rng(seed)
    a, b, hidden, *noise = rng.normal(size=(8, ITEMS, SYSTEMS))
    return {
        ("ann", "style"): 2 * a + b + hidden + 0.5 * noise[0],
        ("ann", "truth"): hidden + 0.5 * noise[1],
        ("first", ""): a,
        ("second", ""): b,
        ("noise", ""): noise[2],
        ("more-noise", ""): noise[3],
    }


def ceiling_of(scores: Planted, **options: Any) -> Ceiling:
    return ceiling(judged(scores), **{"model": "ridge", "resamples": 50, **options})


def rows(table: pl.DataFrame, target: str, *key: str) -> dict[Any, dict[str, Any]]:
    """Return a dictionary from key column(s) to rows of one target."""
    target_rows = table.filter(pl.col("target") == target).iter_rows(named=True)
    return {row[key[0]] if len(key) == 1 else tuple(row[k] for k in key): row for row in target_rows}
