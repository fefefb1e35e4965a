"""Kendall's tau-b, plain and exact under bootstrap multiplicities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import linear
from custodes.stats.agreement.ranks import compared
from custodes.stats.agreement.unit_pairs import UnitPairs, untied
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import same_outputs, weighted_sums


def kendall(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Give Kendall's tau-b along the last axis, pairs with a NaN left out: (..., n), (..., n) -> (...), broadcasting.

    NaN where either side is constant or fewer than two pairs are left. Takes n^2 comparisons: for systems and items.

    >>> round(kendall(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 3, 2, 9])).item(), 3)
    0.333

    Source: Kendall 1945.
    """
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    shape, n = x.shape[:-1], x.shape[-1]
    x, y = x.reshape(math.prod(shape), n), y.reshape(math.prod(shape), n)
    tau = np.empty(len(x))
    for part in chunks(len(x), n):
        tau[part] = _tau_b(x[part], y[part])
    return tau.reshape(shape)


def pooled_kendall(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> Floats:
    """Give tau-b over all outputs of all items in every resample -> (B, metrics), or (people, B, metrics).

    human (items, systems), or (people, items, systems) of people who rated the same outputs, metrics (metrics, items,
    systems), NaN = not rated: only outputs rated by both count. units (items,), weights (B, units), item_weights
    (items,) as fractional multiplicities. Copies of an output tie with each other. NaN where either side is constant in
    the resample. Pairs of units are counted once per metric, whatever the number of resamples. Above `linear.MANY`
    outputs clusters that are many and light are taken to first order (`linear.pooled_kendall`); the data, and the data
    without one unit, stay exact.

    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 3], [2, 4]]])
    >>> pooled_kendall(human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.667]]

    Source: Kendall 1945, as the ratio of quadratic forms w'Kw with K summed over pairs of resampling units.
    """
    people = human.reshape(math.prod(human.shape[:-2]), math.prod(human.shape[-2:]))
    result = np.full((len(people), len(weights), len(metrics)), np.nan)
    for rows, rated in same_outputs(people[0], metrics.reshape(len(metrics), -1)):
        item = rated // human.shape[-1]
        if len(rated) == 0:
            continue
        share = np.ones(len(rated)) if item_weights is None else item_weights[item]
        sides, scores = people[:, rated], metrics.reshape(len(metrics), -1)[rows][:, rated]
        design: Any = {"units": units[item], "weights": weights}
        if linear.is_counted(len(rated), weights):
            for k, own in enumerate(sides):
                result[k][:, rows] = linear.pooled_kendall(own, scores, share, **design)
            continue
        apart = np.sqrt(untied([*sides, *scores], share, **design))
        for k, own in enumerate(sides):
            pairs = UnitPairs(own, scores, share, units=units[item], n_units=weights.shape[1])
            concordance = _concordance(pairs, len(rows), weights)
            with np.errstate(invalid="ignore", divide="ignore"):
                result[k][:, rows] = concordance / (apart[:, [k]] * apart[:, len(sides) :])
    return result.reshape(*human.shape[:-2], *result.shape[1:])


def _tau_b(x: Floats, y: Floats) -> Floats:
    """tau-b of the rows of x and y (rows, n), one output against all later ones at a time."""
    missing = np.isnan(x) | np.isnan(y)
    concordance, untied_x, untied_y = np.zeros((3, len(x)), dtype=np.int64)
    for i in range(x.shape[1] - 1):
        both = ~(missing[:, i, np.newaxis] | missing[:, i + 1 :])
        sx = compared(x[:, i, np.newaxis], x[:, i + 1 :]) * both
        sy = compared(y[:, i, np.newaxis], y[:, i + 1 :]) * both
        concordance += (sx * sy).sum(axis=1, dtype=np.int64)
        untied_x += np.count_nonzero(sx, axis=1)
        untied_y += np.count_nonzero(sy, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(concordance / (np.sqrt(untied_x) * np.sqrt(untied_y)))


def _concordance(pairs: UnitPairs, n_metrics: int, weights: NDArray[Any]) -> Floats:
    """w'Kw for every metric, K[u, v] = sum over outputs o of u, p of v of sign(human) sign(metric) -> (B, metrics).

    K is symmetric: only v >= u is computed, some units at a time.
    """
    n_units, every = weights.shape[1], np.arange(n_metrics)
    total = np.zeros((len(weights), n_metrics))
    for some in chunks(len(pairs.present), n_metrics * max(n_units, len(weights))):
        present = pairs.present[some]
        upper = np.stack([pairs.with_unit(unit, every, later=True) for unit in present], axis=1)
        upper *= np.where(np.arange(n_units) == present[:, np.newaxis], 1.0, 2.0)
        total += np.einsum("bu,bmu->bm", weights[:, present], weighted_sums(weights, upper))
    return total
