"""Random scores for the tests of protocols."""

from __future__ import annotations

import numpy as np


def scores_of(seed: int, *, items: int = 40, systems: int = 4, raters: int = 2, strength: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    latent = strength * np.arange(systems) + rng.normal(size=(items, systems))
    return np.round(np.stack([latent, *(latent + rng.normal(size=latent.shape) for _ in range(raters - 1))]))
