"""Do failures (empty or unreadable verdicts) fall on some systems, orders or lengths more than on others?"""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import CHUNK, Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio

LEAST_FAILURES = 5
"""With fewer failures no unevenness can show."""
ENOUGH = 100
"""So many draws beyond what was seen settle that nothing is to be claimed."""


def uneven_p(failed: Bools, features: Floats, *, units: Ints, draws: int, rng: np.random.Generator) -> float:
    """The p-value of "failures do not depend on these features": failed (n,), features (k, n), units (n,) clusters.

    The largest |z| of a feature, where z compares its sum over failures with that of as many verdicts drawn at random,
    against the same of `draws` draws (fewer where it is clear that nothing shows). Where failures come in clusters, z
    is divided by the root of their design effect (all features together, at least 1). NaN with fewer than five failures
    (or verdicts that did not fail), or where no feature varies.

    >>> failed = np.arange(60) < 8
    >>> rng = np.random.default_rng(0)
    >>> uneven_p(failed, np.array([np.arange(60.0)]), units=np.arange(60), draws=999, rng=rng)
    0.001

    Source: Phipson and Smyth 2010 for the p-value; Kish 1965 for the design effect; the combination is ours.
    """
    number, n = int(failed.sum()), failed.size
    spread = features.std(axis=1)
    vary = spread > 0
    if min(number, n - number) < LEAST_FAILURES or not vary.any():
        return np.nan
    standard = (features[vary] - features[vary].mean(axis=1, keepdims=True)) / spread[vary, None]
    kinds, kind, counts = np.unique(standard, axis=1, return_inverse=True, return_counts=True)
    of_kind = np.bincount(kind.reshape(-1), weights=failed, minlength=counts.size)
    error = np.sqrt(number * (n - number) / max(n - 1, 1))
    largest = np.abs(kinds @ of_kind).max() / error
    moved = (failed - number / n) * standard
    sums = unit_sums(moved, units=units, n_units=int(units.max()) + 1)
    effect = max(1.0, float(ratio(np.array((sums**2).sum()), np.array((moved**2).sum()))))
    beyond = drawn = 0
    while drawn < draws and beyond < ENOUGH:
        size = min(draws - drawn, max(1, CHUNK // counts.size))
        null = rng.multivariate_hypergeometric(counts, number, size=size, method="marginals") @ kinds.T
        beyond += int((np.abs(null).max(axis=1) / error >= largest / np.sqrt(effect) - 1e-9).sum())
        drawn += size
    return (1 + beyond) / (drawn + 1)
