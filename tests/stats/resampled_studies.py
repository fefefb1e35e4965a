"""Random studies with every irregularity, and their resamples written out."""

from __future__ import annotations

import numpy as np


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return human scores, metrics, units and weights: ties, missing cells, clusters, units drawn repeatedly or
    never."""
    rng = np.random.default_rng(seed)
    n_items, n_systems, n_metrics = rng.integers(1, 8), rng.integers(1, 5), rng.integers(1, 4)
    n_units = rng.integers(1, n_items + 1)
    human = rng.integers(0, rng.integers(1, 6) + 1, (n_items, n_systems)) / 3
    metrics = np.round(human + rng.normal(size=(n_metrics, n_items, n_systems)), rng.integers(0, 3))
    human[rng.random(human.shape) < 0.1] = np.nan
    metrics[rng.random(metrics.shape) < rng.choice([0, 0.2])] = np.nan
    units = rng.permutation(np.concatenate([np.arange(n_units), rng.integers(0, n_units, n_items - n_units)]))
    return human, metrics, units, np.vstack([np.ones(n_units), rng.integers(0, 4, (5, n_units))])


def repeated(row: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the items repeated as often as their unit was drawn."""
    return np.repeat(np.arange(len(units)), row[units].astype(int))
