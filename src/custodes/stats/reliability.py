"""How well people agree with each other, and what that leaves for anything that predicts their mean."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BISECTIONS = 60


def halves(n: int, *, most: int, rng: np.random.Generator) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split n annotators into two halves (the smaller first), in every way or in `most` random ones.

    >>> [(a.tolist(), b.tolist()) for a, b in halves(3, most=10, rng=np.random.default_rng(0))]
    [([0], [1, 2]), ([1], [0, 2]), ([2], [0, 1])]
    """
    everyone = np.arange(n)
    ways = [np.array(one, dtype=np.intp) for one in combinations(range(n), n // 2)] if n <= 12 else []
    if n % 2 == 0:
        ways = ways[: len(ways) // 2]  # the second half of the list holds the complements of the first
    if not ways or len(ways) > most:
        ways = [np.sort(rng.permutation(n)[: n // 2]) for _ in range(most)]
    return [(one, np.setdiff1d(everyone, one)) for one in ways]


def attainable(tau: NDArray[Any], *, sizes: tuple[int, int], total: int) -> Floats:
    """Kendall's tau between a predictor that knows people's true opinion and the mean of `total` annotators.

    tau (...) is that between the means of two groups of `sizes` annotators. Takes errors of annotators to be
    independent, equally large and normal, as the opinions. NaN where tau is; 0 where tau is not positive.

    >>> attainable(np.array([1.0, 0.5]), sizes=(1, 1), total=2).round(2).tolist()
    [1.0, 0.73]

    Source: Greiner's relation r = sin(pi tau / 2) (Kruskal 1958); Spearman 1910 and Brown 1910 for the reliability of a
    mean, whose root bounds the correlation with it.
    """
    product = np.sin(np.pi / 2 * np.maximum(np.asarray(tau, dtype=np.float64), 0.0)) ** 2
    low, high = np.zeros_like(product), np.ones_like(product)
    for _ in range(_BISECTIONS):  # the reliability of one annotator; the product of those of the means grows with it
        middle = (low + high) / 2
        below = _of_mean(middle, sizes[0]) * _of_mean(middle, sizes[1]) < product
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    reached = 2 / np.pi * np.arcsin(np.sqrt(_of_mean((low + high) / 2, total)))
    return np.where(np.isnan(product), np.nan, np.where(product > 0, reached, 0.0))


def _of_mean(one: Floats, n: int) -> Floats:
    """The reliability of the mean of n annotators from that of one (Spearman-Brown)."""
    return np.asarray(n * one / (1 + (n - 1) * one))
