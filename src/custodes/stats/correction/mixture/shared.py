"""Weighted draws of the mixture model for many tables at once, all out of the same normal numbers.

The proposal is the plain one of `proposal`: the metric's shares, and people's answers given each verdict of the metric.
A draw is twelve gammas, which together take a fifth of the time of a table's own. What is said of a table depends on
it and the numbers alone. Tables of the same numbers share their Monte Carlo error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.proposal import pseudo_counts

CHUNK = 30_000
"""Draws of all tables at once: about twenty floats each, which stay in a core's cache."""

_SMALLEST = np.float32(1e-30)
_NEARLY_NORMAL = 1000.0  # a shape from which the acceptance of a gamma is 1, within .003 at four sigma


class Numbers(NamedTuple):
    """What all tables draw from: `normals` (12, draws), one for each gamma, and `waits` (9, draws), standard
    exponential, one for each cell."""

    normals: NDArray[np.float32]
    waits: NDArray[np.float32]

    @classmethod
    def of(cls, draws: int, rng: np.random.Generator) -> Numbers:
        """So many draws."""
        return cls(
            rng.standard_normal((12, draws), dtype=np.float32), rng.standard_exponential((9, draws), dtype=np.float32)
        )

    def gammas(self, shape: Floats, k: int, log_weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Gamma draws (t, draws) of the k-th of the twelve with shapes (t,), up to weights whose logarithms are added.

        A cube of a normal number is nearly a gamma, and accepted with a chance that is always near 1. Here it is the
        weight, so that all tables share the normal numbers, and a draw takes a fifth of the time.

        Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
        """
        boosted = np.flatnonzero(shape < 1)
        d = (shape + (shape < 1) - 1 / 3).astype(np.float32)[:, None]
        normal = self.normals[k]
        root = normal / np.sqrt(9 * d)
        root += 1
        np.maximum(root, np.float32(1e-9), out=root)
        cube = root * root
        cube *= root
        accepted = np.log(root, out=root)
        accepted *= 3
        accepted -= cube
        accepted += 1
        accepted *= d
        accepted += normal * normal / 2
        accepted *= d < _NEARLY_NORMAL
        log_weights += accepted
        cube *= d
        if boosted.size:
            # Gamma(a) is Gamma(a + 1) * U^(1 / a)
            cube[boosted] *= np.exp(-self.waits[k] / shape[boosted, None].astype(np.float32))
        return np.asarray(cube)


def shared_draws(counts: Counts, numbers: Numbers) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """Of tables (t, 3, 3) the shares of people's win, tie and loss and the log weights, each (t, draws)."""
    paired, metric_only, human_only = counts
    kappa = pseudo_counts(paired)
    cells = paired + kappa
    # Single precision resolves a share to 1e-7, far below the Monte Carlo error, and draws twice as fast.
    margins = cells.sum(axis=1) + metric_only
    log_weights = np.zeros((len(paired), numbers.normals.shape[1]), dtype=np.float32)
    pi = [[numbers.gammas(cells[:, h, r], 3 * h + r, log_weights) for r in range(3)] for h in range(3)]
    q = [numbers.gammas(margins[:, r], 9 + r, log_weights) for r in range(3)]
    whole = q[0] + q[1] + q[2]
    for r in range(3):
        scale = q[r] / whole / np.maximum(pi[0][r] + pi[1][r] + pi[2][r], _SMALLEST)
        for h in range(3):
            pi[h][r] *= scale
    p = [pi[h][0] + pi[h][1] + pi[h][2] for h in range(3)]
    for h in range(3):
        log_weights += (human_only[:, h, None] - 2).astype(np.float32) * np.log(np.maximum(p[h], _SMALLEST))
        rare = np.flatnonzero(kappa[:, h, 0] != 1)
        for r in range(3):
            power = (1 - kappa[rare, h]).astype(np.float32)
            log_weights[rare] += power * np.log(np.maximum(pi[h][r][rare], _SMALLEST))
    return p, log_weights
