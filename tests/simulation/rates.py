"""Binomial tests of simulated rates."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

MOST_FALSE = 0.06


def is_at_most(n_false: int, n: int, level: float = MOST_FALSE) -> bool:
    """Whether the lower 95 % bound (Clopper-Pearson) of a rate is at most a level."""
    return n_false == 0 or float(beta.ppf(0.025, n_false, n - n_false + 1)) <= level


def most(level: float, studies: int) -> float:
    """Largest rate whose lower 95 % bound is at most the level."""
    return level + 1.645 * float(np.sqrt(level * (1 - level) / studies))
