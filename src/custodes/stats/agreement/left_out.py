"""Kendall's tau-b over all outputs, with every block of units left out in turn: O(n log n) for all blocks together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import same_outputs

_CONSTANT = 1e-12  # a share of untied pairs below this is rounding


def kendall_left_out(
    human: Floats, metrics: Floats, *, block: Ints, n_blocks: int, item_weights: Floats | None = None
) -> NDArray[np.float64]:
    """Give tau-b over all outputs of all items, and without each block of items -> (1 + blocks, metrics).

    human (items, systems), metrics (metrics, items, systems), NaN = not rated: only outputs rated by both count. block
    (items,) from 0 to `n_blocks`; item_weights (items,) are multiplicities. NaN where either side is constant. The same
    as `pooled_kendall` with weights that leave out a block each: what is left is all less twice what the outputs of the
    block agree with, plus what they agree on among themselves.

    >>> human, metric = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([[[1.0, 3], [2, 4], [5, 6]]])
    >>> kendall_left_out(human, metric, block=np.arange(3), n_blocks=3).round(3).ravel().tolist()
    [0.867, 1.0, 1.0, 0.667]

    Source: Kendall 1945; Quenouille 1956 and Tukey 1958 for the jackknife.
    """
    result = np.full((1 + n_blocks, len(metrics)), np.nan)
    of_output = np.repeat(block, human.shape[1])
    times = np.ones(human.size) if item_weights is None else np.repeat(item_weights, human.shape[1])
    for rows, rated in same_outputs(human, metrics):
        if not len(rated):
            continue
        own, weight, people = of_output[rated], times[rated], _codes(human.ravel()[rated])
        everywhere = np.zeros_like(own)
        of_block: Floats = np.bincount(own, weights=weight, minlength=n_blocks).astype(np.float64)
        pairs = _left_out(of_block[np.newaxis])
        untied = _untied(people, pairs, own, weight, n_blocks)
        for m in rows:
            scores = _codes(metrics[m].ravel()[rated])
            agreed, within = (concordance(people, scores, weight=weight, group=of) for of in (everywhere, own))
            lost = np.bincount(own, weights=weight * (within - 2 * agreed), minlength=n_blocks)
            concordant = float(weight @ agreed) + np.append(0.0, lost)
            with np.errstate(invalid="ignore", divide="ignore"):
                ends = np.sqrt(untied) * np.sqrt(_untied(scores, pairs, own, weight, n_blocks))
                result[:, m] = concordant / ends
    return result


def concordance(x: Ints, y: Ints, *, weight: Floats, group: Ints) -> NDArray[np.float64]:
    """Give for each output the weight of those of its group that x and y order alike, less of those in which they
    differ: codes (n,) from 0, weight (n,), group (n,) -> (n,). A tie in x or y counts for neither.

    Outputs stand sorted by y. From the highest bit of x down, those that are alike in the higher bits are told apart
    by this one: 1 is more than 0, and what stands before has less of y. So each pair is counted at the one bit where it
    parts, and a pass over all outputs takes as many additions as there are.

    >>> x, y = np.array([0, 1, 2]), np.array([0, 2, 1])
    >>> concordance(x, y, weight=np.ones(3), group=np.zeros(3, dtype=int)).tolist()
    [2.0, 0.0, 0.0]

    Source: the definition of Kendall 1945; counting by bits as in wavelet matrices (Claude, Navarro and Ordóñez 2015).
    """
    if y.max(initial=0) < x.max(initial=0):
        x, y = y, x  # fewer bits to pass over
    place = np.lexsort((y, group))
    code, score, own, times = x[place], y[place], group[place], weight[place]
    result = np.zeros(len(x))
    for bit in reversed(range(int(x.max(initial=0)).bit_length())):
        one = (code >> bit & 1).astype(bool)
        parted = _changes(own) | _changes(code >> (bit + 1))  # these stand together, sorted by y
        run = np.flatnonzero(parted | _changes(score))  # of equal y
        start = np.flatnonzero(parted)
        set_of = np.cumsum(parted)[run] - 1
        end, last = np.append(run[1:], len(code)), np.append(start[1:], len(code))
        balance = []
        for side in (~one, one):
            total = np.append(0.0, np.cumsum(np.where(side, times, 0.0)))
            before, after = total[run] - total[start][set_of], total[last][set_of] - total[end]
            balance.append(np.repeat(before - after, end - run))
        result[place] += np.where(one, balance[0], -balance[1])
        if bit:
            order = np.concatenate([np.flatnonzero(~one), np.flatnonzero(one)])
            place, code, score, own, times = (values[order] for values in (place, code, score, own, times))
    return result


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Where a value is another one than that before it; so is the first."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def _codes(values: Floats) -> Ints:
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _left_out(weights: Floats) -> Floats:
    """(1 + blocks,): the sum over rows (k, blocks) of the squared sum, of all blocks and without each."""
    total = weights.sum(axis=1)
    left = total[:, np.newaxis] - weights
    return np.append(total @ total, np.einsum("kb,kb->b", left, left))


def _untied(codes: Ints, pairs: Floats, block: Ints, weight: Floats, n_blocks: int) -> Floats:
    """Ordered pairs that do not tie, of all and without each block: (1 + blocks,); NaN where all tie."""
    total = np.bincount(codes, weights=weight)
    met, own = np.unique(codes.astype(np.int64) * n_blocks + block, return_inverse=True)
    held = np.bincount(own.reshape(-1), weights=weight)
    lost = np.bincount(met % n_blocks, weights=held * (held - 2 * total[met // n_blocks]), minlength=n_blocks)
    squares = float(total @ total) + np.append(0.0, lost)
    return np.where(pairs - squares > _CONSTANT * pairs, pairs - squares, np.nan)
