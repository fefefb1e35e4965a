"""Intervals of what is told of each person, by as many clusters of items as that person answered."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.resampling.resample import Bounds
from custodes.stats.resampling.simultaneous import Estimate


def intervals(
    draws: Floats, clusters: Ints, *, confidence: float, bounds: Bounds, fewest: int
) -> tuple[Floats, Floats]:
    """Student's ends (workers,) from draws (1 + B, workers), the data first; NaN with fewer clusters than `fewest`."""
    low, high = np.full((2, draws.shape[1]), np.nan)
    if len(draws) < 2:
        return low, high
    for who in np.flatnonzero(clusters >= fewest):
        own = Estimate(draws=draws[:, who], population=None, n_units=int(clusters[who]), bounds=bounds, width=1.0)
        low[who], high[who] = own.interval(confidence)
    return low, high
