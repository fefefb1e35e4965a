"""Kendall's tau-b, plain and exact under bootstrap multiplicities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import linear
from custodes.stats.agreement.ranks import compared
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.resampling.resample import same_outputs, weighted_sums

_CONSTANT = 1e-12  # a share of untied pairs below this is rounding
_ROWS = 127  # signs of so many outputs add up within an int8


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
    """Give tau-b over all outputs of all items in every resample -> (B, metrics).

    human (items, systems), metrics (metrics, items, systems), NaN = not rated: only outputs rated by both count. units
    (items,), weights (B, units), item_weights (items,) as fractional multiplicities. Copies of an output tie with each
    other. NaN where either side is constant in the resample. Takes outputs^2 comparisons once per metric, whatever the
    number of resamples. Above `linear.MANY` outputs they are counted, and clusters that are many and light are taken to
    first order (`linear.pooled_kendall`); the data, and the data without one unit, stay exact.

    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 3], [2, 4]]])
    >>> pooled_kendall(human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.667]]

    Source: Kendall 1945, as the ratio of quadratic forms w'Kw with K summed over pairs of resampling units.
    """
    result = np.full((len(weights), len(metrics)), np.nan)
    for rows, rated in same_outputs(human, metrics):
        item = rated // human.shape[1]
        if len(rated) == 0:
            continue
        if linear.is_counted(len(rated), weights):
            share = np.ones(len(rated)) if item_weights is None else item_weights[item]
            people, scores = human.ravel()[rated], metrics.reshape(len(metrics), -1)[rows][:, rated]
            result[:, rows] = linear.pooled_kendall(people, scores, share, units=units[item], weights=weights)
            continue
        place, drawn = exact_units(units, weights, item_weights)
        rated = rated[np.argsort(place[item], kind="stable")]
        present, start = np.unique(place[rated // human.shape[1]], return_index=True)
        times = np.ascontiguousarray(drawn[:, present])
        bounds = np.append(start, len(rated))
        people, scores = human.ravel()[rated], metrics.reshape(len(metrics), -1)[rows][:, rated]
        human_codes, metric_codes = _codes(people), np.stack([_codes(s) for s in scores])
        concordance = _concordance(human_codes, metric_codes, bounds, times)
        human_pairs = _untied(human_codes, bounds, times)
        metric_pairs = np.stack([_untied(codes, bounds, times) for codes in metric_codes], axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            result[:, rows] = concordance / (np.sqrt(human_pairs)[:, np.newaxis] * np.sqrt(metric_pairs))
    return result


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


def _codes(values: Floats) -> Ints:
    """Dense ranks in the smallest integer type: comparing them is several times faster than comparing floats."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int16 if len(values) <= np.iinfo(np.int16).max else np.int32)


def _concordance(people: NDArray[Any], scores: NDArray[Any], bounds: NDArray[np.intp], weights: Floats) -> Floats:
    """w'Kw for every metric, K[u, v] = sum over outputs o of u, p of v of sign(human) sign(metric) -> (B, metrics).

    people (outputs,), scores (metrics, outputs) sorted by unit, unit u being bounds[u]:bounds[u + 1]. K is symmetric:
    only v >= u is computed, in blocks of units that keep memory bounded.
    """
    n_metrics, n_units = len(scores), len(bounds) - 1
    total = np.zeros((len(weights), n_metrics))
    for rows in chunks(n_units, n_metrics * max(n_units, len(weights))):
        upper = np.zeros((n_metrics, rows.stop - rows.start, n_units))
        for u in range(rows.start, rows.stop):
            later = slice(bounds[u], None)
            for begin in range(bounds[u], bounds[u + 1], _ROWS):
                part = slice(begin, min(begin + _ROWS, bounds[u + 1]))
                human_signs = compared(people[part, np.newaxis], people[later])
                for m in range(n_metrics):
                    signs = compared(scores[m, part, np.newaxis], scores[m, later])
                    signs *= human_signs
                    column = np.add.reduce(signs, axis=0, dtype=np.int8)
                    upper[m, u - rows.start, u:] += np.add.reduceat(column, bounds[u:-1] - bounds[u], dtype=np.int64)
            upper[:, u - rows.start, u + 1 :] *= 2
        total += np.einsum("bu,bmu->bm", weights[:, rows], weighted_sums(weights, upper))
    return total


def exact_units(units: Ints, weights: NDArray[Any], item_weights: Floats | None) -> tuple[Ints, Floats]:
    """The unit of each item, and what each unit counts in every resample, with the weights of items in it.

    What differs between the items of a unit makes every item a unit of its own.

    >>> exact_units(np.array([0, 0]), np.array([[2.0]]), np.array([1.0, 0.5]))[1].tolist()
    [[2.0, 1.0]]
    """
    if item_weights is None:
        return units, np.asarray(weights, dtype=np.float64)
    return np.arange(len(units)), weights[:, units] * item_weights


def _untied(codes: Ints, bounds: NDArray[np.intp], weights: Floats) -> Floats:
    """Ordered pairs that do not tie, N^2 - sum over tie groups of (weight in group)^2, in every resample -> (B,).

    codes (outputs,) from `_codes`, sorted by unit.
    """
    unit, sizes = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)), np.bincount(codes)
    alone, tied = (sizes == 1)[codes], sizes > 1
    squares = weights**2 @ np.bincount(unit[alone], minlength=weights.shape[1])  # a group of one output
    n_tied = int(np.count_nonzero(tied))
    place = (np.cumsum(tied) - 1)[codes[~alone]]
    members = np.bincount(place * weights.shape[1] + unit[~alone], minlength=n_tied * weights.shape[1])
    for part in chunks(n_tied, max(weights.shape)):
        together = weighted_sums(weights, members.reshape(n_tied, -1)[part])
        squares += np.einsum("bg,bg->b", together, together)
    pairs = (weights @ np.diff(bounds)) ** 2
    return np.where(pairs - squares > _CONSTANT * pairs, pairs - squares, np.nan)
