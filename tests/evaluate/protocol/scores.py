from __future__ import annotations

import numpy as np

from custodes.evaluate.protocol.annotations import RatedPairs
from custodes.stats import ABSENT


def scores_of(seed: int, *, items: int = 40, systems: int = 4, raters: int = 2, strength: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    latent = strength * np.arange(systems) + rng.normal(size=(items, systems))
    return np.round(np.stack([latent, *(latent + rng.normal(size=latent.shape) for _ in range(raters - 1))]))


def preferences_of(seed: int, *, items: int = 30, strength: float = 0.6) -> np.ndarray:
    """Return preferences (pairs, items) of four systems that get worse from A to D, with ties."""
    rng = np.random.default_rng(seed)
    quality = strength * np.arange(4)[::-1] + rng.normal(size=(items, 4))
    first, second = np.triu_indices(4, 1)
    return np.sign(np.round(quality[:, first] - quality[:, second])).T.astype(np.int8)


def rated_pairs_of(
    human: np.ndarray,
    *,
    metric: np.ndarray | None = None,
    units: np.ndarray | None = None,
    systems: np.ndarray | None = None,
) -> RatedPairs:
    """Return human and metric preferences (pairs, items) on the same items, by default for all pairs of systems."""
    n_systems = round((1 + np.sqrt(1 + 8 * len(human))) / 2)
    return RatedPairs(
        human=human,
        metric=np.full_like(human, ABSENT) if metric is None else metric,
        metric_more=np.zeros((len(human), 3), dtype=np.int64),
        systems=np.stack(np.triu_indices(n_systems, 1), axis=1) if systems is None else systems,
        units=np.arange(human.shape[1]) if units is None else units,
    )
