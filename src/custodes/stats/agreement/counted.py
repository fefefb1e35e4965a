"""Kendall's pairs of outputs counted by sorting, in n log n."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints


def kendall_parts(x: NDArray[Any], y: NDArray[Any], share: Floats) -> tuple[Floats, Floats]:
    """Concordant minus discordant ordered pairs, and those untied in x and in y: (3,), and influences (3, outputs).

    x, y (outputs,) without NaN, share (outputs,) how often each counts; copies of an output tie.

    >>> values, influences = kendall_parts(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.ones(3))
    >>> values.tolist(), influences[0].tolist()
    ([2.0, 6.0, 6.0], [4.0, 0.0, 0.0])

    Source: Knight 1966 for counting in n log n; Hoeffding 1948 for the influence of one value on a U-statistic.
    """
    cell, first, second = _cells(x, y)
    size = np.bincount(cell, share).astype(np.float64)
    tied = np.stack([np.bincount(own, size)[own] for own in (first, second)])
    influences = np.stack([_concordant(first, second, size), *(size.sum() - tied)])
    return influences @ size, 2 * influences[:, cell]


def _cells(x: NDArray[Any], y: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
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
