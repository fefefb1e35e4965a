"""Tests of rates of simulations."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

MOST_FALSE = 0.06


def is_at_most(n_false: int, n: int, level: float = MOST_FALSE) -> bool:
    """Whether the lower 95 % limit (Clopper and Pearson) of a rate is not above a level."""
    return n_false == 0 or float(beta.ppf(0.025, n_false, n - n_false + 1)) <= level


def lower(rate: float, studies: int) -> float:
    """The lower 95 % limit of a rate (one-sided)."""
    return rate - 1.645 * float(np.sqrt(rate * (1 - rate) / studies))


def most(level: float, studies: int) -> float:
    """The largest rate whose lower 95 % limit is not above the level."""
    return level + 1.645 * float(np.sqrt(level * (1 - level) / studies))
