"""Correlation: over all outputs, over systems, and within each item, exact in every bootstrap resample.

Common arrays: human (items, systems), metrics (metrics, items, systems), NaN = not rated; units (items,) says which
resampling unit an item belongs to; weights (B, units) how often each unit is present; item_weights (items,) what an
item counts. Only outputs rated by both the person and the metric count.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement.kendall import kendall
from custodes.stats.agreement.ranks import mid_ranks
from custodes.stats.agreement.spearman import resampled as spearman_resampled
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import same_outputs, unit_sums, weighted_sums
from custodes.stats.ratios import ratio

Kind = Literal["pearson", "spearman", "kendall"]

_CONSTANT = 1e-12  # a variance below this share of the second moment is rounding, not variance
_GRID = 40  # bits kept of a system mean


def pearson(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Correlate along the last axis, pairs with a NaN left out: (..., n), (..., n) -> (...), broadcasting.

    NaN where either side is constant or fewer than two pairs are left.

    >>> round(pearson(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 3, 2, 9])).item(), 3)
    0.5

    Source: Pearson 1895.
    """
    x, y = map(_centred, _jointly(x, y))
    xy, xx, yy = (np.einsum("...n,...n->...", a, b) for a, b in ((x, y), (x, x), (y, y)))
    return ratio(xy, np.sqrt(xx) * np.sqrt(yy)).clip(-1.0, 1.0)


def spearman(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Correlate ranks (mid-ranks for ties) along the last axis: (..., n), (..., n) -> (...), broadcasting.

    Pairs with a NaN are left out; NaN where either side is constant or fewer than two pairs are left.

    >>> round(spearman(np.array([1.0, 2, 30]), np.array([1.0, 3, 2])).item(), 3)
    0.5

    Source: Spearman 1904; Kendall 1945 for ties.
    """
    return pearson(*map(mid_ranks, _jointly(x, y)))


def pooled_pearson(
    human: Floats, metrics: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None
) -> Floats:
    """Correlate over all outputs of all items in every resample -> (B, metrics).

    NaN where either side is constant in the resample or nothing is rated.

    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 3], [2, 4]]])
    >>> pooled_pearson(human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.8]]

    Source: Pearson 1895, from moment sums per unit.
    """
    both = ~np.isnan(human) & ~np.isnan(metrics)
    x, y = _standardised(np.broadcast_to(human, metrics.shape), both), _standardised(metrics, both)
    moments = np.stack([m.sum(axis=-1) for m in (both, x, y, x * x, y * y, x * y)])
    n, sx, sy, sxx, syy, sxy = _sums(moments, units=units, weights=weights, item_weights=item_weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        r = (sxy - sx * sy / n) / np.sqrt(vx * vy)
    return np.where((vx > _CONSTANT * sxx) & (vy > _CONSTANT * syy), np.clip(r, -1.0, 1.0), np.nan)


def pooled_spearman(
    human: Floats, metrics: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None
) -> Floats:
    """Correlate ranks over all outputs of all items in every resample -> (B, metrics).

    human (people, items, systems) -> (people, B, metrics): people who rated the same outputs. The ranks are the exact
    mid-ranks of the resample, not those of the full data; an item weight is a multiplicity.
    NaN where either side is constant in the resample or nothing is rated.

    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 30], [2, 40]]])
    >>> pooled_spearman(human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.8]]

    Source: Spearman 1904; mid-ranks under multiplicities.
    """
    people = human.reshape(math.prod(human.shape[:-2]), math.prod(human.shape[-2:]))
    result = np.full((len(people), len(weights), len(metrics)), np.nan)
    for rows, rated in same_outputs(people[0], metrics.reshape(len(metrics), -1)):
        if len(rated) == 0:
            continue
        item = rated // human.shape[-1]
        scores = metrics.reshape(len(metrics), -1)[rows][:, rated]
        share = np.ones(len(rated)) if item_weights is None else item_weights[item]
        result[..., rows] = spearman_resampled(people[:, rated], scores, share, units=units[item], weights=weights)
    return result.reshape(*human.shape[:-2], *result.shape[1:])


def system_means(scores: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None) -> Floats:
    """Average every rater's scores of every system: scores (raters, items, systems) -> (B, raters, systems).

    NaN where a system has no rating in the resample. Means are kept to about twelve digits, so that systems with equal
    means tie exactly however the sums were taken.

    >>> system_means(np.array([[[1.0, 2], [3, np.nan]]]), units=np.arange(2), weights=np.ones((1, 2))).tolist()
    [[[2.0, 2.0]]]
    """
    means = weighted_item_mean(scores.swapaxes(-1, -2), units=units, weights=weights, item_weights=item_weights)
    largest = np.abs(np.where(np.isnan(scores), 0.0, scores)).max(axis=(1, 2), initial=0.0)
    grid = np.exp2(np.frexp(largest)[1] - _GRID)[:, np.newaxis]  # a power of two: rounding stays exact
    return np.asarray(np.rint(means / grid) * grid)


def within_item(human: Floats, metrics: Floats, *, kind: Kind) -> Floats:
    """Correlate over the systems of each item -> (metrics, items); NaN where undefined (a constant side, one output).

    >>> human, metric = np.array([[1.0, 2, 3], [1, 1, 1]]), np.array([[[1.0, 3, 2], [1, 2, 3]]])
    >>> within_item(human, metric, kind="spearman").round(3).tolist()
    [[0.5, nan]]
    """
    return {"pearson": pearson, "spearman": spearman, "kendall": kendall}[kind](human[np.newaxis], metrics)


def weighted_item_mean(
    values: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None
) -> Floats:
    """Average values (..., items) over the items where they are defined, in every resample -> (B, ...).

    NaN where no item is defined.

    >>> weighted_item_mean(np.array([[1.0, 3.0, np.nan]]), units=np.arange(3), weights=np.ones((1, 3))).tolist()
    [[2.0]]
    """
    defined = ~np.isnan(values)
    both = np.stack([np.where(defined, values, 0.0), defined])
    return ratio(*_sums(both, units=units, weights=weights, item_weights=item_weights))


def _sums(values: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None) -> Floats:
    """(what, ..., items) -> (what, B, ...)."""
    weighed = values if item_weights is None else values * item_weights
    per_unit = unit_sums(weighed, units=units, n_units=weights.shape[1])
    return np.moveaxis(weighted_sums(weights, per_unit), 1, 0)


def _standardised(values: Floats, both: NDArray[np.bool_]) -> Floats:
    """Centre and scale (metrics, items, systems) by metric so that moment sums lose no digits; 0 where not rated."""
    values = np.where(both, values, 0.0)
    n = np.maximum(both.sum(axis=(1, 2), keepdims=True), 1)
    centred = np.where(both, values - values.sum(axis=(1, 2), keepdims=True) / n, 0.0)
    largest = np.abs(centred).max(axis=(1, 2), keepdims=True, initial=0.0)
    return centred / np.where(largest > 0, largest, 1.0)


def _jointly(x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
    """Broadcast, and make a pair NaN on both sides where one side is."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    missing = np.isnan(x) | np.isnan(y)
    return np.where(missing, np.nan, x), np.where(missing, np.nan, y)


def _centred(x: Floats) -> Floats:
    """Deviations from the mean along the last axis, scaled to at most 1; 0 where NaN, all 0 where constant."""
    defined = ~np.isnan(x)
    values = np.where(defined, x, 0.0)
    mean = values.sum(axis=-1, keepdims=True) / np.maximum(defined.sum(axis=-1, keepdims=True), 1)
    centred = np.where(defined, x - mean, 0.0)
    largest = np.abs(centred).max(axis=-1, keepdims=True, initial=0.0)
    constant = largest <= _CONSTANT * np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, largest))
