"""Simulated outcome counts of the mixture model in the correction paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def simulate_counts(
    p: ArrayLike, channel: ArrayLike, *, n: int, rng: int | np.random.Generator
) -> np.ndarray[Any, Any]:
    """Draw paired counts (..., 3, 3) of n items: human outcomes from p (..., 3), metric outcomes from `channel`.

    `channel` [human, metric] is the transposed mixture matrix mu of the paper.
    """
    joint = np.asarray(p, dtype=float)[..., :, None] * np.asarray(channel, dtype=float)
    cells = joint.reshape(*joint.shape[:-2], 9)
    assert np.allclose(cells.sum(axis=-1), 1)
    counts = np.random.default_rng(rng).multinomial(n, cells / cells.sum(axis=-1, keepdims=True))
    return counts.reshape(joint.shape)
