"""Kendall's tau-b over many outputs, counted in n log n.

Untied pairs are exact in every resample; concordance, a sum over pairs of outputs, changes with their weights, to first
order, by the sum of what each output adds to it: its influence. What a first order leaves out is of order 1 / clusters,
however many outputs these hold, so clusters that weigh are taken exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement.counted import kendall_parts
from custodes.stats.agreement.left_out import concordance
from custodes.stats.agreement.unit_pairs import UnitPairs, untied
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio

MANY = 4096
"""Outputs that both rated above which concordance is taken to first order."""

HEAVY = 0.01
"""A unit that touches more than this share of the untied pairs of people or of a metric is exact in every resample.

All are with fewer than 200 equal ones; and what is not is as even as 200 equal ones or more."""

_CONSTANT = 1e-12  # a share of untied pairs below this is rounding
_ROOM = 4  # metrics at a time, that what is kept of their units stays small


def is_counted(n_outputs: int, weights: NDArray[Any]) -> bool:
    """Whether these weights (B, units) are of many outputs, or of the data alone: then counting takes less time.

    >>> is_counted(10, np.ones((1, 3))), is_counted(10, np.ones((2, 3))), is_counted(10**6, np.ones((2, 3)))
    (True, False, True)
    """
    return n_outputs > MANY or (len(weights) == 1 and bool((weights == 1).all()))


def pooled_kendall(human: Floats, metrics: Floats, share: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """tau-b over many outputs in every resample -> (B, metrics).

    human (outputs,), metrics (metrics, outputs) without NaN, share and units (outputs,), weights (B, units). Untied
    pairs are exact, so NaN stands where either side is constant in the resample. Concordance is exact in units that
    touch more than `HEAVY` of the untied pairs of either side, alone and against all others, within every unit, and
    where no more than one unit is left out; the rest is to first order.

    >>> human, metric = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]])
    >>> pooled_kendall(human, metric, np.ones(3), units=np.arange(3), weights=np.ones((1, 3))).round(3)
    array([[0.333]])
    """
    sides, n_units = [human, *metrics], weights.shape[1]
    codes = [np.unique(own, return_inverse=True)[1] for own in sides]
    apart = untied(sides, share, units=units, weights=weights)
    if (weights == 1).all():  # the data alone
        concordant = np.array([kendall_parts(codes[0], code, share)[0][0] for code in codes[1:]])
        return ratio(concordant, np.sqrt(apart[:, :1]) * np.sqrt(apart[:, 1:])).clip(-1.0, 1.0)
    pairs = UnitPairs(human, metrics, share, units=units, n_units=n_units)
    result = np.empty((len(weights), len(metrics)))
    for some in chunks(len(metrics), _ROOM * len(share)):
        own = [_FirstOrder(codes[0], code, share, units, n_units) for code in codes[1:][some]]
        between = _between(pairs, own, np.arange(len(metrics))[some])
        for m, (first, heavy) in enumerate(zip(own, between, strict=True), start=some.start):
            ends = apart[:, [0, m + 1]]
            concordant = first.concordance(heavy, weights) - ends @ first.parts[1:]
            result[:, m] = ratio(concordant, np.sqrt(ends[:, 0]) * np.sqrt(ends[:, 1]))
    return result.clip(-1.0, 1.0)


class _FirstOrder:
    """Concordance of people and a metric by units, and what it is with all of them.

    What is taken to first order is concordance less what the untied pairs say of it: their second orders are alike.
    `parts` (3,) is 1 and what each side's untied pairs count in that.
    """

    def __init__(self, people: Ints, metric: Ints, share: Floats, units: Ints, n_units: int) -> None:
        self.sides = people, metric
        self.values, influences = kendall_parts(people, metric, share)
        known = (self.values[1:] > 0).all()
        likely = self.values[0] / np.sqrt(self.values[1:].prod()) if known else 0.0
        slopes = likely / 2 * np.sqrt(ratio(self.values[:0:-1], self.values[1:]))
        self.parts = np.array([1.0, *-np.nan_to_num(slopes)])
        self.per_unit = unit_sums((self.parts @ influences) * share, units=units, n_units=n_units)
        self.heavy = _heavy(self.sides, share, units, n_units)
        agreed = concordance(people, metric, weight=share, group=units)
        size = unit_sums(share, units=units, n_units=n_units)
        for codes, part in zip(self.sides, self.parts[1:], strict=True):
            _, own = np.unique(units * (int(codes.max()) + 1) + codes, return_inverse=True)
            agreed += part * (size[units] - np.bincount(own, share)[own])
        self.within, self.light = unit_sums(share * agreed, units=units, n_units=n_units), size
        self.within[self.heavy] = self.light[self.heavy] = 0.0

    def concordance(self, between: Floats, weights: NDArray[Any]) -> Floats:
        """In every resample, less what untied pairs say of it: (B,); `between` (heavy, units) heavy units and all."""
        result = np.empty(len(weights))
        for rows in chunks(len(weights), weights.shape[1]):
            times = np.asarray(weights[rows], dtype=np.float64)
            # Light units are brought to their size in the data, which makes what is left out less. Where one unit at
            # most is not as in the data nothing is left out.
            drawn = times @ self.light
            several = (drawn > 0) & ((times != 1).sum(axis=1) > 1)
            scale = np.where(several, ratio(self.light.sum(), drawn), 1.0)
            moved = times * scale[:, np.newaxis] - 1
            own = moved[:, self.heavy]
            made = self.parts @ self.values + moved @ self.per_unit + moved**2 @ self.within
            made += np.einsum("bh,bh->b", 2 * (moved @ between.T) - own @ between[:, self.heavy].T, own)
            result[rows] = made / scale**2
        return result


def _between(pairs: UnitPairs, metrics: Sequence[_FirstOrder], rows: Ints) -> list[Floats]:
    """The `parts` of pairs of heavy units with all units, (heavy, units), of each of some metrics (their `rows`)."""
    made = [np.zeros((len(own.heavy), pairs.n_units)) for own in metrics]
    for unit in np.unique(np.concatenate([own.heavy for own in metrics])).tolist():
        having = [k for k, own in enumerate(metrics) if unit in own.heavy]
        parts = np.array([metrics[k].parts[1:] for k in having])
        for k, own in zip(having, pairs.with_unit(unit, rows[having], parts), strict=True):
            made[k][np.searchsorted(metrics[k].heavy, unit)] = own
    return made


def _heavy(sides: tuple[Ints, Ints], share: Floats, units: Ints, n_units: int) -> NDArray[np.intp]:
    """Units that touch more than `HEAVY` of the untied pairs of either side, of all and then of those that are left.

    A resample may lack the heaviest; so what is left must be as even.
    """
    heavy, least = np.zeros(n_units, dtype=bool), _CONSTANT * share.sum() ** 2
    while True:
        left = np.where(heavy[units], 0.0, share)
        more = np.zeros_like(heavy)
        for codes in sides:
            apart = left * (left.sum() - np.bincount(codes, left)[codes])
            if apart.sum() > least:
                more |= 2 * unit_sums(apart, units=units, n_units=n_units) > HEAVY * apart.sum()
        if not (more & ~heavy).any():
            return np.flatnonzero(heavy)
        heavy |= more
