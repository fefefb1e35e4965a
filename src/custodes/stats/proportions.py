"""Intervals of proportions that keep their width at 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Floats


def wilson_interval(proportion: Any, n: Any, *, quantile: Any) -> tuple[Floats, Floats]:
    """Bounds of proportions (...) among `n` independent observations, or as many as clustered ones are worth.

    `quantile` is that of the normal distribution, or of Student's t where the variance was estimated. The interval
    contains the proportion; NaN where anything is.

    >>> low, high = wilson_interval(np.array([1.0, 0.5]), 12, quantile=1.96)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.757, 0.254], [1.0, 0.746])

    Source: Wilson 1927; with effective counts: Kish 1965, Korn and Graubard 1998.
    """
    proportion, z = np.asarray(proportion, dtype=np.float64), quantile**2 / n
    middle = (proportion + z / 2) / (1 + z)
    half = np.sqrt(z * proportion * (1 - proportion) + z**2 / 4) / (1 + z)
    return np.minimum(middle - half, proportion).clip(0, 1), np.maximum(middle + half, proportion).clip(0, 1)
