"""Correlation over many outputs: rank statistics with what each output adds to them, in n log n.

A sum over pairs or triples of outputs changes with their weights, to first order, by the sum of what each output adds:
its influence. A resample is then one sum over units. What is left out is of order 1 / n beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.ratios import ratio
from custodes.stats.resampling.resample import unit_sums, weighted_sums

MANY = 8192
"""Outputs that both rated above which resamples of a rank correlation over all of them are linear."""

_CONSTANT = 1e-12  # a share of untied pairs, or a variance of ranks, below this is rounding


def kendall_parts(x: Floats, y: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Concordant minus discordant ordered pairs, and those untied in x and in y: (3,), and influences (3, outputs).

    x, y (outputs,) without NaN, share (outputs,) how often each counts; copies of an output tie.

    >>> values, influences = kendall_parts(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.ones(3))
    >>> values.tolist(), influences[0].tolist()
    ([2.0, 6.0, 6.0], [4.0, 0.0, 0.0])

    Source: Knight 1966 for counting in n log n; Hoeffding 1948 for the influence of one value on a U-statistic.
    """
    cell, first, second = _cells(x, y)
    size = np.bincount(cell, share)
    tied = np.stack([np.bincount(own, size)[own] for own in (first, second)])
    influences = np.stack([_concordant(first, second, size), *(size.sum() - tied)])
    return influences @ size, 2 * influences[:, cell]


def spearman_parts(x: Floats, y: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Sums of products and squares of (twice centred) mid-ranks: xy, xx, yy (3,), and influences (3, outputs).

    >>> values, influences = spearman_parts(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.ones(3))
    >>> values.tolist(), influences.sum(axis=1).tolist()  # of the third degree: three times the value
    ([4.0, 8.0, 8.0], [12.0, 24.0, 24.0])
    """
    codes = [np.unique(own, return_inverse=True)[1] for own in (x, y)]
    ranks = [_lower_less_higher(code, share) for code in codes]
    values, influences = np.empty(3), np.empty((3, len(x)))
    for k, (i, j) in enumerate([(0, 1), (0, 0), (1, 1)]):
        values[k] = share @ (ranks[i] * ranks[j])
        moved = [_lower_less_higher(codes[a], share * ranks[b]) for a, b in ((i, j), (j, i))]
        influences[k] = ranks[i] * ranks[j] - moved[0] - moved[1]
    return values, influences


def pooled(
    parts: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]],
    human: Floats,
    metrics: Floats,
    share: Floats,
    *,
    degree: int,
    units: Ints,
    weights: NDArray[Any],
) -> Floats:
    """The correlation xy / sqrt(xx yy) of `parts`, sums over `degree` outputs, in every resample -> (B, metrics).

    human (outputs,), metrics (metrics, outputs), share and units (outputs,), weights (B, units): resamples, whose mean
    is near 1. A row of ones gives the exact value. NaN where either side is constant.

    >>> human, metric = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]])
    >>> pooled(kendall_parts, human, metric, np.ones(3), degree=2, units=np.arange(3), weights=np.ones((1, 3))).round(3)
    array([[0.333]])
    """
    values, per_unit = np.empty((len(metrics), 3)), np.empty((len(metrics), 3, weights.shape[1]))
    for m, metric in enumerate(metrics):
        values[m], influences = parts(human, metric, share)
        per_unit[m] = unit_sums(influences * share, units=units, n_units=weights.shape[1])
    # Weights are brought to the size of the data first: the correlation does not change, and what is left out is less.
    size = unit_sums(share, units=units, n_units=weights.shape[1])
    scale = ratio(share.sum(), weighted_sums(weights, size))[:, np.newaxis, np.newaxis]
    made = values + (weighted_sums(weights, per_unit) * scale - per_unit.sum(axis=-1))
    least = _CONSTANT * share.sum() ** degree
    one, other = (np.sqrt(np.where(made[..., k] > least, made[..., k], 0.0)) for k in (1, 2))
    return np.clip(ratio(made[..., 0], one * other), -1.0, 1.0)


def _cells(x: Floats, y: Floats) -> tuple[Ints, Ints, Ints]:
    """Outputs with the same x and the same y are one cell: the cell of each output; the codes of x and y of each."""
    (_, first), (of_y, second) = (np.unique(own, return_inverse=True) for own in (x, y))
    cells, cell = np.unique(first.astype(np.int64) * len(of_y) + second, return_inverse=True)
    return cell, cells // len(of_y), cells % len(of_y)


def _concordant(first: Ints, second: Ints, size: Floats) -> Floats:
    """(cells,): the size of the cells that are concordant with each, minus that of the discordant ones.

    Cells are unique and in the order of `first`, then `second`.
    """
    total = size.sum()
    lower, higher, tied = ([], [], [])
    for own in (first, second):
        sums = np.bincount(own, size)
        below = np.cumsum(sums) - sums
        lower.append(below[own])
        tied.append(sums[own])
        higher.append(total - below[own] - sums[own])
    both_lower = _both_lower(first, second, size)
    same_first = np.cumsum(size) - size - lower[0]  # same in the first, lower in the second
    by_second = np.lexsort((first, second))
    same_second = np.empty_like(size)
    same_second[by_second] = np.cumsum(size[by_second]) - size[by_second]
    same_second -= lower[1]
    lower_higher = lower[0] - both_lower - same_second
    higher_lower = lower[1] - both_lower - same_first
    same_higher = tied[0] - same_first - size
    both_higher = higher[1] - lower_higher - same_higher
    return np.asarray(both_lower + both_higher - lower_higher - higher_lower)


def _both_lower(first: Ints, second: Ints, size: Floats) -> Floats:
    """(cells,): the size of the cells that are lower in both.

    Bit by bit of one code: among cells that share all higher bits, those with a 0 are below those with a 1. So as many
    passes over all cells as the code with the fewest values has bits.
    """
    if second.max() > first.max():
        first, second = second, first
    place = np.lexsort((-second, first))  # a cell that ties in the first does not come earlier and lower
    code, size, below = second[place], size[place], np.zeros(len(place))
    start, end = np.zeros(len(place), dtype=np.intp), np.full(len(place), len(place))
    at = np.arange(len(place))
    for bit in reversed(range(int(code.max()).bit_length())):
        one = (code >> bit & 1).astype(bool)
        weight = np.concatenate([[0.0], np.cumsum(np.where(one, 0.0, size))])
        below += np.where(one, weight[:-1] - weight[start], 0.0)
        zeros = np.concatenate([[0], np.cumsum(~one)])
        earlier, middle = zeros[:-1] - zeros[start], start + zeros[end] - zeros[start]
        moved = np.where(one, middle + at - start - earlier, start + earlier)
        order = np.empty_like(moved)
        order[moved] = at
        start, end = np.where(one, middle, start)[order], np.where(one, end, middle)[order]
        place, code, size, below = place[order], code[order], size[order], below[order]
    result = np.empty_like(below)
    result[place] = below
    return result


def _lower_less_higher(codes: Ints, values: Floats) -> Floats:
    """(outputs,): the sum of the values of all outputs that are lower, minus that of those that are higher."""
    sums = np.bincount(codes, values)
    upto = np.cumsum(sums)
    return np.asarray((2 * upto - sums - upto[-1])[codes])
