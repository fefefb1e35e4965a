"""Pearson, Spearman and Kendall correlation over all outputs, in every bootstrap resample.

Several functions share these arrays. `human` (items, systems) and `metrics` (metrics, items, systems) are ratings, NaN
if not rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights
of the units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the
metric rated it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import CHUNK, Floats, Ints, centred, chunks, table_sums
from custodes.stats.bootstrap import same_outputs, unit_sums, weighted_sums
from custodes.stats.correlation import Kind, concordance, tau_b
from custodes.stats.ranks import compared
from custodes.stats.ratios import ratio

EXACT = 4096**2
"""Up to this number of outputs x resampling units, Kendall's concordance is computed exactly in every resample."""

_CONSTANT = 1e-12  # a variance below this proportion of its largest possible value is rounding error
_BINS = 64  # bins per ranking of the grid that approximates very many outputs
_INT8 = 127  # maximum number of signs whose sum fits int8
_STEPS = 16  # rows of a block of running sums
_FEW_GROUPS = 50  # without sparse matrices, a fold takes a third of the time with 20 units, but more with 100 units
_WIDTH = 64  # resamples at a time, for the processor's cache
_CACHE = 8  # divisor of the size of temporary arrays, so that they fit the cache


def pooled_correlation(
    kind: Kind,
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> Floats:
    """Correlation over all outputs of all items in every resample.

    Ranks and ties are those of the resample, in which copies of an output tie. So each value equals the correlation of
    the repeated rows, with one exception. If outputs x units exceeds `EXACT`, Kendall's concordance is computed from
    rankings that are cut into 64 bins, with a first-order correction for pairs within a bin. This concordance is exact
    for the data themselves. It is also exact if neither side has more than 64 distinct values.

    Parameters
    ----------
    kind
        The correlation; 'kendall' is tau-b.
    human
        Human scores (items, systems).
    metrics, units, weights, item_weights
        As described for the module. Item weights act as fractional multiplicities of the items.

    Returns
    -------
    :
        Correlations (B, metrics). They are NaN if either side is constant in the resample, or if no output has both
        ratings.

    References
    ----------
    Pearson (1895); Spearman (1904); Kendall (1945) for ties and tau-b; Hoeffding (1948) for the influence of an output
    on a U-statistic.

    Examples
    --------
    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 3], [2, 4]]])
    >>> pooled_correlation("kendall", human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.667]]
    """
    people, scores = human.reshape(-1), metrics.reshape(len(metrics), human.size)
    result = np.full((len(weights), len(metrics)), np.nan)
    for rows, rated in same_outputs(people, scores):
        if len(rated) == 0:
            continue
        item = rated // human.shape[1]
        drawn, group, share = weights, units[item], np.ones(weights.shape[1])
        if item_weights is not None:  # all outputs of a group have the same unit and item weight
            keys = np.stack([units, item_weights], axis=1)[item]
            (unit, share), group = (part.T for part in np.unique(keys, axis=0, return_inverse=True))
            drawn, group = weights[:, unit.astype(np.intp)] * share, group.reshape(-1)
        result[:, rows] = _POOLED[kind](people[rated], scores[rows][:, rated], group, drawn, share)
    return result


def _pooled_pearson(human: Floats, metrics: Floats, group: Ints, drawn: NDArray[Any], _: Floats) -> Floats:
    """Pearson's r from moment sums by group: human (n,), metrics (metrics, n) -> (B, metrics)."""
    x, y = centred(human[np.newaxis]), centred(metrics)

    def sums(values: Floats) -> Floats:
        return weighted_sums(drawn, unit_sums(values, units=group, n_units=drawn.shape[1]))

    n, products = sums(np.ones((1, len(group)))), sums(x * y)
    (sx, sxx), (sy, syy) = ((sums(side), sums(side * side)) for side in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        vx[vx <= _CONSTANT * sxx], vy[vy <= _CONSTANT * syy] = np.nan, np.nan
        return np.asarray(((products - sx * (sy / n)) / np.sqrt(vx * vy)).clip(-1.0, 1.0))


class _Levels:
    """Levels of a ranking: its distinct values in ascending order.

    `level` and `group` (n,) are the level and the group of each output.
    """

    def __init__(self, values: Floats, group: Ints, n_groups: int) -> None:
        self.level = np.unique(values, return_inverse=True)[1].reshape(-1)
        self.group, self.shape = group, (int(self.level.max()) + 1, n_groups)

    @cached_property
    def counts(self) -> Any:
        """Number of outputs in each level and group. Multiplied by weights of groups, it gives the sizes of levels in
        resamples."""
        return self._matrix(self.level, self.group, self.shape[0])

    @cached_property
    def _steps(self) -> Any:
        """Number of outputs in each level plus those in the level below, by group; rows are in the order of `_row`."""
        level = np.concatenate([self.level, self.level + 1])
        inside = level < self.shape[0]
        return self._matrix(self._row(level[inside]), np.tile(self.group, 2)[inside], self._n_blocks * _STEPS)

    def _matrix(self, row: Ints, group: Ints, n_rows: int) -> Any:
        from scipy.sparse import csr_array

        return csr_array((np.ones(len(row)), (row, group)), shape=(n_rows, self.shape[1]))

    @property
    def _n_blocks(self) -> int:
        return -(-self.shape[0] // _STEPS)

    def _row(self, level: Ints) -> Ints:
        """Row of each level. Levels are cut into blocks of `_STEPS` levels. The first levels of all blocks have the
        first rows, the second levels have the next rows, and so on."""
        return level % _STEPS * self._n_blocks + level // _STEPS

    def ranks(self, weights: Floats) -> Floats:
        """Twice the mid-ranks in resamples with weights (groups, B): (n, B). A mid-rank is the weight of all lower
        outputs plus half the weight of equal outputs.

        NumPy adds one element at a time along the first axis; adding whole rows of many blocks takes a sixth of the
        time.
        """
        ranks = np.asarray(self._steps @ weights)
        blocks = ranks.reshape(_STEPS, self._n_blocks, -1)
        for step in range(1, _STEPS):
            blocks[step] += blocks[step - 1]
        blocks[:, 1:] += np.cumsum(blocks[-1, :-1], axis=0)
        return ranks.take(self._row(self.level), axis=0)

    def squares(self, drawn: Floats) -> Floats:
        """Sums of squared sizes of levels in resamples: (B,).

        If all outputs of a level are in one group, the size of the level is proportional to the weight of this group.
        """
        groups = np.diff(self.counts.indptr)
        shared, alone = (self.counts[np.flatnonzero(which)] for which in (groups > 1, groups == 1))
        diagonal: Floats = np.asarray((alone * alone).sum(axis=0))
        result = np.empty(len(drawn))
        for part, weights in _transposed(drawn, 4 * max(shared.shape)):
            size = np.asarray(shared @ weights)
            result[part] = np.einsum("lb,lb->b", size, size) + diagonal @ weights**2
        return result


def _squares(sides: list[_Levels], drawn: NDArray[Any]) -> Floats:
    """Sums of squared sizes of the levels of each ranking in resamples: (rankings, B)."""
    if drawn.shape[1] > _FEW_GROUPS:
        return np.stack([side.squares(drawn) for side in sides])
    weights = drawn.astype(np.float64)
    tables = [table_sums(side.level, side.group, shape=side.shape).astype(np.float64) for side in sides]
    products = np.stack([table.T @ table for table in tables])
    return np.asarray(np.einsum("bg,bsg->sb", weights, weighted_sums(weights, products)))


def _pooled_spearman(human: Floats, metrics: Floats, group: Ints, drawn: NDArray[Any], _: Floats) -> Floats:
    """Spearman's rho from mid-ranks in every resample: human (n,), metrics (metrics, n) -> (B, metrics)."""
    first, *sides = (_Levels(values, group, drawn.shape[1]) for values in (human, *metrics))
    result = np.empty((len(drawn), len(metrics)))
    for part, weights in _transposed(drawn, 4 * len(group)):
        times = weights[group]  # (n, B)
        total = times.sum(axis=0)

        def spread(ranks: Floats, times: Floats = times, total: Floats = total) -> Floats:
            """Sum of squared deviations of twice the mid-ranks from their mean, which is the total weight."""
            squares = np.einsum("nb,nb->b", ranks * times, ranks) - total**3
            return np.where(squares > _CONSTANT * total**3, squares, np.nan)

        ranks = first.ranks(weights)
        people, spread_of_people = (ranks - total) * times, spread(ranks)
        for m, side in enumerate(sides):
            ranks = side.ranks(weights)
            covariance = np.einsum("nb,nb->b", people, ranks)
            result[part, m] = ratio(covariance, np.sqrt(spread(ranks) * spread_of_people))
    return result.clip(-1.0, 1.0)


def _pooled_kendall(human: Floats, metrics: Floats, group: Ints, drawn: NDArray[Any], share: Floats) -> Floats:
    """Kendall's tau-b in every resample: human (n,), metrics (metrics, n) -> (B, metrics)."""
    x, *y = sides = [_Levels(values, group, drawn.shape[1]) for values in (human, *metrics)]
    pairs = weighted_sums(drawn, np.bincount(group, minlength=drawn.shape[1]).astype(np.float64)) ** 2
    untied = pairs - _squares(sides, drawn)
    untied[untied <= _CONSTANT * pairs] = np.nan
    compute = _paired_groups if len(group) * drawn.shape[1] <= EXACT else _on_grid
    return tau_b(compute(x, y, group, drawn, share), untied[0][:, np.newaxis], untied[1:].T)


def _paired_groups(x: _Levels, y: list[_Levels], group: Ints, drawn: NDArray[Any], _: Floats) -> Floats:
    """Concordance in every resample: w' K w with the weights w of the groups, (B, metrics).

    K[u, v] is the concordance between the outputs of groups u and v. K is symmetric, so blocks of its rows contain only
    the columns from the first row on. A group with many outputs is cut into several parts.
    """
    order = np.argsort(group, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    start = np.flatnonzero(place % _INT8 == 0)
    stop = np.append(start[1:], len(order))
    kind = np.int16 if len(order) <= np.iinfo(np.int16).max else np.int32
    codes = x.level[order].astype(kind)
    scores = np.stack([side.level[order] for side in y]).astype(kind)
    used = drawn[:, group[order][start]]
    total = np.zeros((len(drawn), len(y)))
    for some in chunks(len(start), max(_CACHE * len(order) * int((stop - start).max()), len(y) * len(drawn))):
        since, rows = start[some.start], slice(start[some.start], stop[some.stop - 1])
        signs = compared(codes[rows, np.newaxis], codes[np.newaxis, since:])
        upper = np.empty((len(y), some.stop - some.start, len(start) - some.start))
        for part in chunks(len(y), signs.size):
            agreed = compared(scores[part, rows, np.newaxis], scores[part, np.newaxis, since:])
            agreed *= signs
            by_row = np.empty((len(agreed), upper.shape[1], agreed.shape[2]), dtype=np.int8)
            for k, (first, last) in enumerate(zip(start[some] - since, stop[some] - since, strict=True)):
                np.add.reduce(agreed[:, first:last], axis=1, dtype=np.int8, out=by_row[:, k])
            upper[part] = np.add.reduceat(by_row, start[some.start :] - since, axis=2, dtype=np.int64)
        upper[:, :, some.stop - some.start :] *= 2
        total += np.einsum("bu,byu->by", used[:, some], weighted_sums(used[:, some.start :], upper))
    return total


def _on_grid(x: _Levels, y: list[_Levels], group: Ints, drawn: NDArray[Any], share: Floats) -> Floats:
    """Concordance of rankings that are cut into bins, with a first-order correction for pairs within a bin: (B,
    metrics)."""
    from scipy.sparse import csc_array

    result = np.empty((len(drawn), len(y)))
    mass = None if (share == 1).all() else share[group]
    first = _binned(x.level)
    for m, side in enumerate(y):
        second = _binned(side.level)
        shape = int(first.max()) + 1, int(second.max()) + 1
        place = first * shape[1] + second
        cells = csc_array((np.ones(len(group)), (place, group)), shape=(math.prod(shape), len(share)))
        signs = [np.sign(np.arange(n)[:, np.newaxis] - np.arange(n)).astype(np.float64) for n in shape]
        fine = concordance(x.level[np.newaxis], side.level[np.newaxis], weights=mass)[0]
        coarse = signs[0] @ np.asarray(cells @ share).reshape(shape) @ signs[1].T
        slope = np.bincount(group, fine - coarse.ravel()[place], drawn.shape[1])
        for part, weights in _transposed(drawn, 4 * max(cells.shape)):
            table = np.asarray(cells @ weights).reshape(*shape, -1)
            net = np.matmul(signs[1], np.tensordot(signs[0], table, 1))
            result[part, m] = np.einsum("xyb,xyb->b", table, net) + (2 * weights.T - share) @ slope
    return result


def _binned(level: Ints) -> Ints:
    """Levels grouped into bins with similar numbers of outputs. If there are few levels, they are unchanged."""
    size = np.bincount(level)
    if len(size) <= _BINS:
        return level
    middle = np.cumsum(size) - size / 2
    return np.unique((middle * (_BINS / len(level))).astype(np.intp)[level], return_inverse=True)[1].reshape(-1)


def _transposed(drawn: NDArray[Any], size: int) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of resamples: their slice, and their weights as columns (groups, resamples)."""
    for part in chunks(len(drawn), max(size, CHUNK // _WIDTH)):
        yield part, np.ascontiguousarray(drawn[part].T, dtype=np.float64)


_POOLED = {"pearson": _pooled_pearson, "spearman": _pooled_spearman, "kendall": _pooled_kendall}
