"""Tests of rates of simulations."""

from __future__ import annotations

from scipy.stats import beta

MOST_FALSE = 0.06


def is_at_most(n_false: int, n: int, level: float = MOST_FALSE) -> bool:
    """Whether the lower 95 % limit (Clopper and Pearson) of a rate is not above a level."""
    return n_false == 0 or float(beta.ppf(0.025, n_false, n - n_false + 1)) <= level
