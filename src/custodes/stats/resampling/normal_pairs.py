"""Pairwise differences of jointly normal estimates: p-values for all pairs, with as many draws as decisions need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.resampling.stepdown import STREAM, adjusted_by_steps

FIRST_DIRECTIONS, MOST_DIRECTIONS = 250, 32_000
"""Random directions for every p-value, and the largest number for one that is close to the threshold."""

_WORK = 100_000_000  # pairs times directions, at most
_FEWEST = 4000  # directions at the cap, however many pairs
_BLOCK = 250  # directions at a time
_CRITICAL = 1000  # directions for a critical value
_TINY = np.finfo(np.float64).tiny
_SAME = 1e-9  # log odds; a smaller difference is rounding
_NONE = 1e-9  # relative size of a variance that is rounding error: systems with the same outcomes on every item


@dataclass(frozen=True, kw_only=True)
class PairTests:
    """Of every pair (k,): `p_adjusted` for the family, NaN where not tested; `at_threshold`, where `p_adjusted` is too
    close to the level for the number of draws."""

    p_adjusted: Floats
    at_threshold: Bools


def pair_tests(
    estimate: Floats, covariance: Floats, first: Ints, second: Ints, *, n_units: float, alpha: float
) -> PairTests:
    """Test that estimates (p,) with a covariance (p, p) are equal, for the pairs `first`, `second` (k,) together.

    Step-down of the largest |z|. t with `n_units` - 1 degrees of freedom is converted to z first; with too few units
    for any test at `alpha` nothing is tested. A normal vector is a random direction times a length with a chi
    distribution: only the direction is drawn, the tail of the length is exact. Directions are added until the p-value
    lies clearly on one side of `alpha`.

    >>> made = pair_tests(
    ...     np.array([0.0, 2.0, 2.1]), np.eye(3) / 4, np.array([0, 0, 1]), np.array([1, 2, 2]), n_units=500, alpha=0.05
    ... )
    >>> made.p_adjusted.round(2).tolist(), made.at_threshold.tolist()
    ([0.01, 0.01, 0.89], [False, False, False])

    Source: Romano and Wolf 2005 (step-down); Deak 1980 (random directions).
    """
    from scipy.special import ndtri, stdtr

    difference = np.abs(estimate[first] - estimate[second])
    variance, moves = variance_of_differences(covariance, first, second)
    error = np.sqrt(np.maximum(variance, 0.0))
    testable = (n_units > 1) & (moves | (difference <= _SAME)) & bool(np.exp2(1.0 - n_units) <= alpha)
    t = np.where(moves, difference, 0.0) / np.where(moves, error, 1.0)
    z = np.where(testable, -ndtri(stdtr(max(1.0, n_units - 1), -t)), np.nan)
    p_adjusted, at_threshold = np.full(len(z), np.nan), np.zeros(len(z), dtype=np.bool_)
    order = np.argsort(-z, kind="stable")[: int(testable.sum())]  # the most extreme first; NaN last
    if len(order):
        tails = _Tails(
            covariance,
            first[order[::-1]],
            second[order[::-1]],
            np.where(moves, error, 1.0)[order[::-1]],
            z[order[::-1]],
        )
        p_adjusted[order], at_threshold[order] = tails.adjusted(alpha)
    return PairTests(p_adjusted=p_adjusted, at_threshold=at_threshold)


def variance_of_differences(covariance: Floats, first: Ints, second: Ints) -> tuple[Floats, Bools]:
    """Variance of the difference of each pair `first`, `second` (k,) of estimates, and whether it is more than rounding
    error.

    >>> same = np.array([[0.3, 0.3, 0.0], [0.3, 0.3 + 1e-16, 0.0], [0.0, 0.0, 0.2]])
    >>> variance_of_differences(same, np.array([0, 0]), np.array([1, 2]))[1].tolist()
    [False, True]
    """
    total = covariance[first, first] + covariance[second, second]
    variance = np.asarray(total - 2 * covariance[first, second])
    return variance, np.asarray(variance > _NONE * total)


def critical_value(covariance: Floats, first: Ints, second: Ints, *, alpha: float) -> float:
    """The 1 - `alpha` quantile of the largest |z| over the pairs `first`, `second` (k,), if all estimates are equal.

    `covariance` (p, p) is that of the estimates; every pair has a positive variance.

    >>> one_pair = critical_value(np.eye(2), np.array([0]), np.array([1]), alpha=0.05)
    >>> three = critical_value(np.eye(3), np.array([0, 0, 1]), np.array([1, 2, 2]), alpha=0.05)
    >>> round(one_pair, 1), round(three, 1)
    (2.0, 2.3)

    Source: Deak 1980 (random directions).
    """
    from scipy.optimize import brentq
    from scipy.special import chdtrc, ndtri

    root, size = _symmetric_root(covariance), len(covariance)
    spread = np.sqrt(variance_of_differences(covariance, first, second)[0])
    direction = np.random.default_rng(STREAM).standard_normal((_CRITICAL, size))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    moved = np.ascontiguousarray((direction @ root).T)
    largest = np.zeros(_CRITICAL)
    for some in chunks(len(first), _CRITICAL):
        drawn = np.abs(moved[first[some]] - moved[second[some]]) / spread[some, np.newaxis]
        np.maximum(largest, drawn.max(axis=0), out=largest)

    def excess(value: float) -> float:
        return float(chdtrc(size, (value / largest) ** 2).mean()) - alpha

    bonferroni = -float(ndtri(alpha / 2 / len(first)))
    return min(bonferroni, float(brentq(excess, 0.0, 2 * bonferroni)))


def _symmetric_root(covariance: Floats) -> Floats:
    """The symmetric root, which does not depend on the signs and the rotation of eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(values.clip(0.0))) @ vectors.T)


class _Tails:
    """P(largest |z| of a pair and all less extreme ones >= the z observed), pairs from the least extreme."""

    def __init__(self, covariance: Floats, first: Ints, second: Ints, spread: Floats, z: Floats) -> None:
        self._root = _symmetric_root(covariance)
        self._first, self._second, self._spread, self._z = first, second, spread, z
        self._rng = np.random.default_rng(STREAM)
        self._total, self._squares, self._number = np.zeros((3, len(z)))

    def adjusted(self, alpha: float) -> tuple[Floats, Bools]:
        """p-values (k,) and whether they are at the threshold, the most extreme first."""
        from scipy.special import ndtr

        n = len(self._z)
        alone, pairs = 2 * ndtr(-self._z), np.arange(1, n + 1)  # exact for one pair; for several Bonferroni's bound
        most = max(_FEWEST, min(MOST_DIRECTIONS, _WORK // n))
        needed, size = np.arange(n), FIRST_DIRECTIONS
        while True:
            for block in _blocks(size):
                self._add(block, needed)
            mean = self._total / self._number
            variance = np.maximum(self._squares / self._number - mean**2, 0.0)
            error = np.where(pairs > 1, np.sqrt(variance / self._number), 0.0)
            tail = mean.clip(alone, np.minimum(pairs * alone, 1.0))
            found = adjusted_by_steps(tail[::-1], error[::-1], alpha=alpha)
            needed = n - 1 - np.flatnonzero(found.unclear)[::-1]
            done = int(self._number.max())
            if not len(needed) or done >= most:
                return found.p_adjusted, found.at_threshold
            size = min(3 * done, most - done)

    def _add(self, size: int, needed: Ints) -> None:
        """More directions for the pairs `needed` (ascending)."""
        from scipy.special import chdtrc

        direction = self._rng.standard_normal((size, len(self._root)))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        moved = np.ascontiguousarray((direction @ self._root).T)  # (estimates, directions)
        top = np.zeros(size)
        for some in chunks(int(needed[-1]) + 1, size):
            part = np.arange(some.start, some.stop)
            drawn = moved[self._first[part]]
            drawn -= moved[self._second[part]]
            np.abs(drawn, out=drawn)
            drawn /= self._spread[part, np.newaxis]
            here = needed[(needed >= some.start) & (needed < some.stop)]
            # The largest of each pair needed and those before it, back to the one needed before, and of the rest.
            starts = np.concatenate([[0], here - some.start + 1])
            largest = np.maximum.reduceat(drawn, starts[starts < len(part)], axis=0)
            largest[0] = np.maximum(largest[0], top)
            np.maximum.accumulate(largest, axis=0, out=largest)
            top = largest[-1]
            if not len(here):
                continue
            # Where no pair moves, the tail is 1 for a z of 0 and else 0.
            with np.errstate(over="ignore"):
                length = self._z[here, np.newaxis] / np.maximum(largest[: len(here)], _TINY)
                tail = chdtrc(len(self._root), length**2)
            self._total[here] += tail.sum(axis=1)
            self._squares[here] += (tail**2).sum(axis=1)
            self._number[here] += size


def _blocks(size: int) -> Iterator[int]:
    return (min(_BLOCK, size - start) for start in range(0, size, _BLOCK))
