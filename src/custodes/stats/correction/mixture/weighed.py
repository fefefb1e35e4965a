"""What weighted draws of one table say, how far that can be trusted, and how many more a decision needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import threshold_distance
from custodes.stats.correction.mixture.posterior import MixturePosterior, summarise
from custodes.stats.multiple_testing import SIGMAS

ENOUGH = 1000
"""Effective draws below which no interval is trusted."""


class Weighed:
    """`p` (3, n) and `weights` (n,) of independent draws: `effective` of `size` draws."""

    def __init__(self, p: NDArray[Any], log_weights: NDArray[Any]) -> None:
        self.p, self.weights = p.astype(np.float64, copy=False), _weights(log_weights.astype(np.float64, copy=False))
        self.size, total = len(self.weights), self.weights.sum()
        self.effective = float(total**2 / (self.weights @ self.weights))  # Kish
        better = self.p[0] > self.p[2]
        self._theta = float(self.weights[better].sum() / total)
        residual = self.weights * (better - self._theta)
        # The delta method, and a draw more as heavy as the heaviest: what was not seen is not impossible, and where
        # few draws hold the weight the squares alone understate the error.
        self._error = float(np.hypot(np.sqrt(residual @ residual), self.weights.max()) / total)

    def needed(self, *, precision: float | None, gamma: float | None) -> float:
        """How many draws the stopping rule asks for in all, by those so far; at most their number if that is enough."""
        shortfall = np.inf if precision is None else (self._error / precision) ** 2
        if gamma is not None:
            distance = max(float(threshold_distance(np.asarray(self._theta), gamma=gamma)), 1e-12)
            shortfall = min(shortfall, (SIGMAS * self._error / distance) ** 2)
        return self.size * max(shortfall, ENOUGH / self.effective)

    def posterior(self, *, confidence: float) -> MixturePosterior:
        """What the draws say."""
        return summarise(
            self.p,
            self.weights,
            confidence=confidence,
            theta_error=self._error,
            effective_draws=self.effective,
            r_hat=np.nan,
            method="exact",
        )


def _weights(log_weights: Floats) -> Floats:
    return np.asarray(np.exp(log_weights - log_weights.max()))
