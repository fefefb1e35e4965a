"""Rank correlations over many outputs, counted in n log n.

Spearman's is exact in every resample. Of Kendall's, untied pairs are exact; concordance, a sum over pairs of outputs,
changes with their weights, to first order, by the sum of what each output adds to it: its influence. What a first order
leaves out is of order 1 / clusters, however many outputs these hold, so clusters that weigh are taken exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement.left_out import concordance
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.ratios import ratio
from custodes.stats.resampling.resample import unit_sums

MANY = 4096
"""Outputs that both rated above which a rank correlation over all of them is counted, not compared."""

HEAVY = 0.01
"""A unit that touches more than this share of the untied pairs of people or of a metric is exact in every resample.

All are with fewer than 200 equal ones; and what is not is as even as 200 equal ones or more."""

_CONSTANT = 1e-12  # a share of untied pairs, or a variance of ranks, below this is rounding
_CELLS = 4_000_000  # of a table of a unit's values, which takes less time than counting


def is_counted(n_outputs: int, weights: NDArray[Any]) -> bool:
    """Whether these weights (B, units) are of many outputs, or of the data alone: then counting takes less time.

    >>> is_counted(10, np.ones((1, 3))), is_counted(10, np.ones((2, 3))), is_counted(10**6, np.ones((2, 3)))
    (True, False, True)
    """
    return n_outputs > MANY or (len(weights) == 1 and bool((weights == 1).all()))


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
    codes = [np.unique(own, return_inverse=True)[1] for own in (human, *metrics)]
    untied = _untied(codes, share, units, weights)
    result = np.empty((len(weights), len(metrics)))
    for m, own in enumerate(codes[1:]):
        sides = untied[:, [0, m + 1]]
        concordant = _concordance((codes[0], own), sides, share, units, weights)
        result[:, m] = ratio(concordant, np.sqrt(sides[:, 0]) * np.sqrt(sides[:, 1]))
    return result.clip(-1.0, 1.0)


def pooled_spearman(human: Floats, metrics: Floats, share: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Spearman's correlation over many outputs, exact in every resample -> (B, metrics); arguments as above.

    A resample takes steps in proportion to outputs: their order is that of the data.

    >>> human, metric = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]])
    >>> pooled_spearman(human, metric, np.ones(3), units=np.arange(3), weights=np.ones((1, 3))).round(3)
    array([[0.5]])
    """
    codes = [np.unique(own, return_inverse=True)[1] for own in (human, *metrics)]
    result = np.empty((len(weights), len(metrics)))
    for b, drawn in enumerate(weights):
        times = share * drawn[units]
        least = _CONSTANT * times.sum() ** 3
        people, own = _ranks(codes[0], times)
        weighed, spread = times * people, own if own > least else np.nan
        for m, code in enumerate(codes[1:]):
            ranks, own = _ranks(code, times)
            result[b, m] = weighed @ ranks / np.sqrt(spread * own) if own > least else np.nan
    return result.clip(-1.0, 1.0)


def _ranks(codes: Ints, times: Floats) -> tuple[Floats, float]:
    """Twice the centred mid-ranks of all outputs, and the sum of their squares."""
    size = np.bincount(codes, times)
    upto = np.cumsum(size)
    ranks = 2 * upto - size - upto[-1]
    return ranks[codes], float(size @ ranks**2)


def _untied(codes: Sequence[Ints], share: Floats, units: Ints, weights: NDArray[Any]) -> Floats:
    """Ordered pairs that do not tie, in every resample: (B, sides); NaN where all tie."""
    result = np.empty((len(weights), len(codes)))
    for b, drawn in enumerate(weights):
        times = share * drawn[units]
        pairs = times.sum() ** 2
        for k, own in enumerate(codes):
            size = np.bincount(own, times)
            apart = pairs - size @ size
            result[b, k] = apart if apart > _CONSTANT * pairs else np.nan
    return result


def _concordance(sides: tuple[Ints, Ints], untied: Floats, share: Floats, units: Ints, weights: NDArray[Any]) -> Floats:
    """Concordant minus discordant ordered pairs in every resample: (B,), of which `untied` (B, sides) is known.

    What is taken to first order is concordance less what the untied pairs say of it: their second orders are alike.
    """
    n_units = weights.shape[1]
    values, influences = kendall_parts(*sides, share)
    likely = values[0] / np.sqrt(values[1:].prod()) if (values[1:] > 0).all() else 0.0
    slopes = likely / 2 * np.sqrt(ratio(values[:0:-1], values[1:]))
    parts = np.array([1.0, *-np.nan_to_num(slopes)])
    per_unit = unit_sums((parts @ influences) * share, units=units, n_units=n_units)
    heavy = _heavy(sides, share, units, n_units)
    alone = [_with_unit(sides, share, units, unit, n_units, parts) for unit in heavy]
    between = np.stack([np.zeros(n_units), *alone])[1:]
    agreed = concordance(*sides, weight=share, group=units)
    size = unit_sums(share, units=units, n_units=n_units)
    for codes, part in zip(sides, parts[1:], strict=True):
        _, own = np.unique(units * (int(codes.max()) + 1) + codes, return_inverse=True)
        agreed += part * (size[units] - np.bincount(own, share)[own])
    within = unit_sums(share * agreed, units=units, n_units=n_units)
    light = size.copy()
    within[heavy] = light[heavy] = 0.0
    result = np.empty(len(weights))
    for rows in chunks(len(weights), n_units):
        times = np.asarray(weights[rows], dtype=np.float64)
        # Light units are brought to their size in the data, which makes what is left out less. Where one unit at most
        # is not as in the data nothing is left out.
        drawn = times @ light
        scale = np.where((drawn > 0) & ((times != 1).sum(axis=1) > 1), ratio(light.sum(), drawn), 1.0)
        moved = times * scale[:, np.newaxis] - 1
        own = moved[:, heavy]
        made = parts @ values + moved @ per_unit + moved**2 @ within
        made += np.einsum("bh,bh->b", 2 * (moved @ between.T) - own @ between[:, heavy].T, own)
        result[rows] = made / scale**2
    return np.asarray(result - untied @ parts[1:])


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


def _with_unit(sides: tuple[Ints, Ints], share: Floats, units: Ints, unit: int, n_units: int, parts: Floats) -> Floats:
    """The `parts` of `kendall_parts` of the pairs of one unit's outputs with those of every unit: (units,).

    From a table of all places between and at the unit's own values, where it has few, else by counting.
    """
    inside = units == unit
    places, shape = [], []
    for codes in sides:
        own = np.bincount(codes[inside], minlength=int(codes.max()) + 1) > 0
        upto = np.cumsum(own)
        places.append((2 * upto - own)[codes])
        shape.append(2 * int(upto[-1]) + 1)
    if shape[0] * shape[1] > _CELLS:
        influences = kendall_parts(*sides, np.where(inside, share, 0.0))[1]
        agreed: Floats = np.asarray(parts @ influences / 2, dtype=np.float64)
    else:
        cell = places[0] * shape[1] + places[1]
        table: Floats = np.bincount(cell[inside], share[inside], shape[0] * shape[1]).astype(np.float64)
        table = table.reshape(shape)
        for axis in (0, 1):
            lower = np.cumsum(table, axis=axis)
            table = np.asarray(2 * lower - table - lower.take([-1], axis=axis))
        agreed = table.ravel()[cell]
        for codes, part in zip(sides, parts[1:], strict=True):
            size = np.bincount(codes[inside], share[inside], int(codes.max()) + 1)
            agreed = agreed + part * (size.sum() - size[codes])
    return unit_sums(share * agreed, units=units, n_units=n_units)


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
