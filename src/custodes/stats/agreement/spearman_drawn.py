"""Spearman's correlation over very many outputs in bootstrap resamples, to first order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import correlation
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import same_outputs, unit_sums, weighted_sums

MANY = 50_000
"""Outputs above which resamples may be taken to first order."""

LIGHT = 0.001
"""A unit that holds no more than this share of the outputs is light: what a first order leaves out is of that order."""


def drawn_spearman(human: Floats, metrics: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Correlate ranks over all outputs of all items in bootstrap resamples -> (B, metrics).

    human (items, systems), metrics (metrics, items, systems), NaN = not rated; units (items,), weights (B, units) of
    the data or drawn with replacement. Exact up to `MANY` outputs, and where a unit is not `LIGHT`; else each resample
    adds the influence of its units to the coefficient of the data. NaN where either side is constant.

    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 30], [2, 40]]])
    >>> drawn_spearman(human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.8]]

    Source: Spearman 1904; Hampel 1974 (the influence curve); Croux and Dehon 2010 (that of Spearman's).
    """
    result = np.full((len(weights), len(metrics)), np.nan)
    for rows, rated in same_outputs(human, metrics):
        unit = units[rated // human.shape[1]]
        if len(rated) <= MANY or np.bincount(unit).max() > LIGHT * len(rated):
            result[:, rows] = correlation.pooled_spearman(human, metrics[rows], units=units, weights=weights)
            continue
        people = _Side(human.ravel()[rated])
        for m in rows:
            value, influence = _influences(people, _Side(metrics[m].ravel()[rated]))
            per_unit = unit_sums(influence, units=unit, n_units=weights.shape[1])
            result[:, m] = value + weighted_sums(weights, per_unit)  # influences add up to 0
    return result.clip(-1.0, 1.0)


class _Side:
    """The level of each output, how many outputs each level has, and where it ranks: outputs below less those above, as
    a share of all."""

    def __init__(self, values: Floats) -> None:
        self.level, self.size = np.unique(values, return_inverse=True, return_counts=True)[1:]
        self.ranks = self.beyond(self.size / len(values))[self.level]
        self.spread = float(np.mean(self.ranks**2))

    def beyond(self, by_level: Floats) -> Floats:
        """What levels below hold less what those above do: (levels,) -> (levels,)."""
        upto = np.cumsum(by_level)
        return np.asarray(2 * upto - by_level - upto[-1])

    def pulled(self, ranks: Floats) -> Floats:
        """By how much one output more would move the mean of this side's ranks times those (outputs,) of the other."""
        mean = np.bincount(self.level, ranks) / len(ranks)
        return np.asarray(-self.beyond(mean)[self.level])


def _influences(x: _Side, y: _Side) -> tuple[float, Floats]:
    """The coefficient, and by how much it moves (outputs,) with each output once more."""
    if x.spread == 0 or y.spread == 0:
        return np.nan, np.zeros(len(x.level))
    product, size = x.ranks * y.ranks, np.sqrt(x.spread * y.spread)
    value = float(product.mean()) / size
    moved = (product + x.pulled(y.ranks) + y.pulled(x.ranks)) / size
    own = sum((side.ranks**2 + 2 * side.pulled(side.ranks)) / side.spread for side in (x, y))
    return value, np.asarray((moved - value * own / 2) / len(x.level))
