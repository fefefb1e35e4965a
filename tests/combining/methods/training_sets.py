"""Training sets for combined metrics, and fitted methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from custodes.combining.methods import METHODS, Formula, TrainingData


def training(seed: int = 0, *, items: int = 20, systems: int = 4, p: int = 5, by: Any = "kendall") -> TrainingData:
    """Return human ratings 2 x_0 + x_1 + noise with a tenth of the scores missing."""
    rng = np.random.default_rng(seed)
    n = items * systems
    x = rng.random((n, p))
    y = 2 * x[:, 0] + x[:, min(1, p - 1)] + 0.3 * rng.normal(size=n)
    x[rng.random(x.shape) < 0.1] = np.nan
    item = np.repeat(np.arange(items), systems)
    system, rng = np.tile(np.arange(systems), items), np.random.default_rng(seed)
    return TrainingData(x=x, y=y, items=item, systems=system, groups=item // 2, by=by, rng=rng)


def fill(of: TrainingData) -> np.ndarray:
    return np.where(np.isnan(of.x), np.nanmean(of.x, axis=0), of.x)


def fitted(name: str, of: TrainingData) -> Formula:
    return METHODS[name].fit(replace(of, rng=np.random.default_rng(0)))


def tau(a: np.ndarray, b: np.ndarray) -> float:
    return float(stats.kendalltau(a, b).statistic)
