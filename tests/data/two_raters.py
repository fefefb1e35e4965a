"""Labels of a judge and of an expert."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
N = 120
JUDGE = RNG.random(N) < 0.8
EXPERT = [bool(label) if k % 3 == 0 else None for k, label in enumerate(RNG.random(N) < 0.7)]


def words(labels: object, negative: object, positive: object) -> list[object]:
    return [None if label is None else positive if label else negative for label in labels]  # type: ignore[union-attr]
