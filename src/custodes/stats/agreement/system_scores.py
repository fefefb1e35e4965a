"""Scores of systems from the cells that two raters share, free of how hard the items are that a system happened to get.

Common arrays: scores (raters, items, systems); rated (items, systems) the cells that count, the same for all raters;
units (items,) says which resampling unit an item belongs to; weights (B, units) how often each unit is present;
item_weights (items,) what an item counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import correlation
from custodes.stats.agreement.correlation import Kind
from custodes.stats.agreement.ranks import compared, mid_ranks
from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums, weighted_sums
from custodes.stats.ratios import mean_of_defined, ratio

_CACHE = 16  # temporary arrays so much smaller than elsewhere stay in the cache
_GRID = 40  # bits kept of a score
_SAME = 1e-12  # relative: the same number computed in another way


def is_complete(rated: Bools) -> bool:
    """Whether every item has all systems or none (of those that have any cell), so that plain means are fair.

    >>> is_complete(np.array([[True, True], [False, False]])), is_complete(np.array([[True, True], [True, False]]))
    (True, False)
    """
    some = rated[:, rated.any(axis=0)]
    return bool((some.all(axis=1) | ~some.any(axis=1)).all())


def common_items(rated: Bools) -> Bools:
    """(systems, systems): whether two systems have an item in common; not a system with itself.

    >>> common_items(np.array([[True, True, False], [False, False, True]])).tolist()
    [[False, True, False], [True, False, False], [False, False, False]]
    """
    cells = rated.astype(np.float64)
    shared = cells.T @ cells > 0
    np.fill_diagonal(shared, False)
    return np.asarray(shared)


def blocks_of(joined: Bools) -> NDArray[np.int64]:
    """(..., systems): the number of the block that a system is in; `joined` pairs, and chains of them, share one.

    >>> blocks_of(np.array([[False, True, False], [True, False, False], [False, False, False]])).tolist()
    [0, 0, 2]
    """
    n = joined.shape[-1]
    reached = joined | np.eye(n, dtype=bool)
    for _ in range(max(1, n - 1).bit_length()):
        reached = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0
    return np.asarray(reached.argmax(axis=-1))


def over_systems(kind: Kind, human: Floats, metrics: Floats, *, pairs: Bools) -> Floats:
    """Correlate scores of systems, two (B, metrics, systems), where they can be compared -> (B, metrics).

    `pairs` (metrics, systems, systems) as `common_items` gives them. Kendall's tau-b takes these pairs; Pearson and
    Spearman are taken within the blocks that they join, together: around the means (of ranks) of each block. NaN
    where either side is constant.

    >>> pairs = np.ones((1, 3, 3), dtype=bool)
    >>> over_systems("kendall", np.array([[[1.0, 2, 3]]]), np.array([[[1.0, 3, 2]]]), pairs=pairs).round(3).tolist()
    [[0.333]]

    Source: Pearson 1895, Spearman 1904, Kendall 1945.
    """
    missing = np.isnan(human) | np.isnan(metrics)
    if kind == "kendall":
        return _pair_tau(np.where(missing, np.nan, human), metrics, pairs)
    if not missing.any() and bool(pairs[:, *np.triu_indices(pairs.shape[1], 1)].all()):
        x, y = (_around_mean(mid_ranks(own) if kind == "spearman" else own) for own in (_once(human), metrics))
        xy, xx, yy = ((a * b).sum(axis=0) for a, b in ((x, y), (x, x), (y, y)))
        return np.asarray(ratio(xy, np.sqrt(xx) * np.sqrt(yy)).clip(-1.0, 1.0))
    x, y = (np.where(missing, np.nan, own) for own in (human, metrics))
    block = blocks_of(pairs)
    for number in np.unique(block):
        inside = block == number
        for own in (x, y):
            part = np.where(inside, own, np.nan)
            part = mid_ranks(part) if kind == "spearman" else part
            centred = part - mean_of_defined(part)[..., np.newaxis]
            np.copyto(own, np.where(np.abs(centred) <= _SAME * np.abs(part), 0.0, centred), where=inside)
    return correlation.pearson(x, y)


def _once(human: Floats) -> Floats:
    """(B, metrics, systems) -> (B, 1, systems) where they are the same for all metrics."""
    return np.asarray(human[:, :1] if (human == human[:, :1]).all() else human)


def _around_mean(values: Floats) -> Floats:
    """Deviations from the mean along the last axis, which comes first (sums over few systems take less time so),
    scaled to at most 1; 0 where that is mere rounding."""
    ordered = np.ascontiguousarray(np.moveaxis(values, -1, 0))  # may be a view
    centred = ordered - ordered.mean(axis=0)
    size = np.abs(centred)
    centred[size <= _SAME * np.abs(ordered)] = 0.0
    largest = size.max(axis=0)
    centred /= np.where(largest > 0, largest, 1.0)
    return np.asarray(centred)


def _pair_tau(x: Floats, y: Floats, pairs: Bools) -> Floats:
    """tau-b over some pairs of the last axis."""
    concordance, untied_x, untied_y = np.zeros((3, *y.shape[:-1]), dtype=np.int64)
    for sx, sy, _ in compared_pairs(x, y, pairs):
        concordance += (sx * sy).sum(axis=0)
        untied_x += np.abs(sx).sum(axis=0)
        untied_y += np.abs(sy).sum(axis=0)
    return ratio(concordance, np.sqrt(untied_x * untied_y))


def compared_pairs(
    x: Floats, y: Floats, pairs: Bools
) -> Iterator[tuple[NDArray[np.int8], NDArray[np.int8], NDArray[Any]]]:
    """Signs of both sides (B, metrics, systems) over pairs of systems, some pairs at a time: (some, B, metrics) each,
    (some, B, 1) of people who are the same for all metrics; 0 where a pair does not count, and whether it counts, which
    broadcasts against them.

    `pairs` (metrics, systems, systems); a pair with a NaN on either side does not count.
    """
    n = y.shape[-1]
    missing = np.isnan(x) | np.isnan(y)
    full, complete = bool(pairs[:, *np.triu_indices(n, 1)].all()), not missing.any()
    people, metrics, known = (
        np.ascontiguousarray(np.moveaxis(own, -1, 0)) for own in (_once(x) if complete else x, y, ~missing)
    )
    for first in range(n - 1):
        for some in chunks(n - 1 - first, _CACHE * metrics[0].size):
            later = slice(first + 1 + some.start, first + 1 + some.stop)
            sx, sy = (compared(own[first], own[later]) for own in (people, metrics))
            counted = np.ones((1, 1, 1), dtype=bool)
            if not full:
                counted = pairs[:, first, later].T[:, np.newaxis]
            if not complete:
                counted = counted & known[first] & known[later]
            if not (full and complete):
                sx, sy = sx * counted, sy * counted
            yield sx, sy, counted


def system_fit(
    scores: Floats, rated: Bools, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None
) -> Floats:
    """Score every system by every rater, in every resample -> (B, raters, systems).

    Where each item has all systems these are means over items. Else a score is an effect of the item and one of the
    system, fitted by least squares: the system's effect, and the mean of the items' effects on top. So a system that
    got the hard items is not taken for a bad one, as long as others got them, too. Scores of systems that no chain of
    common items joins have no common level. NaN where a system has no cell in the resample. Kept to about twelve
    digits, so that equal scores tie exactly.

    >>> scores = np.array([[[1.0, 2], [5, np.nan], [np.nan, 8]]])  # one easy, one hard, one harder item
    >>> fit = system_fit(scores, np.isfinite(scores[0]), units=np.arange(3), weights=np.ones((1, 3)), item_weights=None)
    >>> np.diff(fit).round(6).tolist()  # the only common item tells them apart
    [[[1.0]]]

    Source: Yates 1933, two-way tables with missing cells.
    """
    masked = np.where(rated, scores, np.nan)
    if is_complete(rated):
        return correlation.system_means(masked, units=units, weights=weights, item_weights=item_weights)
    n_units = weights.shape[1]
    share = np.ones(len(rated)) if item_weights is None else item_weights
    cells = rated * share[:, np.newaxis]
    size = np.maximum(rated.sum(axis=1), 1)
    largest = np.abs(np.where(rated, scores, 0.0)).max(axis=(1, 2), initial=0.0)[:, np.newaxis, np.newaxis]
    values = np.where(rated, scores, 0.0) / np.where(largest > 0, largest, 1.0)
    item_mean = values.sum(axis=2) / size
    # Normal equations after the items' effects are swept out: a Laplacian of the graph of common items.
    apart = -np.einsum("ia,ib->iab", cells / size[:, np.newaxis], rated.astype(np.float64))
    diagonal = np.arange(rated.shape[1])
    apart[:, diagonal, diagonal] += cells
    gained = cells * (values - item_mean[..., np.newaxis])
    per_unit = unit_sums(np.moveaxis(apart, 0, -1), units=units, n_units=n_units)
    gained_unit = unit_sums(gained.swapaxes(1, 2), units=units, n_units=n_units)
    used = rated.any(axis=1) * share
    level_unit = unit_sums(used * item_mean, units=units, n_units=n_units)
    spread_unit = unit_sums((used / size * rated.T), units=units, n_units=n_units)
    count_unit = unit_sums(used, units=units, n_units=n_units)
    result = np.empty((len(weights), len(scores), rated.shape[1]))
    for some in chunks(len(weights), rated.shape[1] ** 2 + rated.shape[1] * len(scores)):
        drawn = weights[some]
        equations = weighted_sums(drawn, per_unit)
        effect = np.einsum("bst,brt->brs", _inverse(equations), weighted_sums(drawn, gained_unit))
        items = weighted_sums(drawn, count_unit)
        level = weighted_sums(drawn, level_unit) - np.einsum("bs,brs->br", weighted_sums(drawn, spread_unit), effect)
        made = effect + ratio(level, np.broadcast_to(items[:, np.newaxis], level.shape))[..., np.newaxis]
        present = weighted_sums(drawn, unit_sums(cells.T, units=units, n_units=n_units)) > 0
        result[some] = np.where(present[:, np.newaxis], made, np.nan)
    grid = np.exp2(-_GRID)
    return np.asarray(np.rint(result / grid) * grid * np.where(largest > 0, largest, 1.0)[..., 0])


def _inverse(equations: Floats) -> Floats:
    """Inverses (B, systems, systems) of Laplacians; in each block of joined systems the effects add up to 0."""
    scale = np.maximum(np.abs(equations).max(axis=(1, 2), keepdims=True), 1e-300)
    equations = equations / scale
    block = blocks_of(equations < -_SAME)
    same = block[:, :, np.newaxis] == block[:, np.newaxis]
    added = same / same.sum(axis=2, keepdims=True)
    return np.asarray((np.linalg.inv(equations + added) - added) / scale)
