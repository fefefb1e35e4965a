"""How well many predictions at once agree with one target: Kendall, Spearman, Pearson, or pairwise accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from custodes.errors import OptionError
from custodes.stats.agreement.correlation import pearson
from custodes.stats.agreement.ranks import mid_ranks
from custodes.stats.arrays import Floats, Ints, require

Objective = Literal["kendall", "spearman", "pearson", "accuracy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

_CHUNK = 250_000  # elements of a temporary array: a few of them fit a cache


def objective(kind: Objective, target: Floats, *, items: Ints) -> Callable[[Floats], Floats]:
    """Prepare the agreement with a target (rows,), finite, as a function of predictions (m, rows) -> (m,).

    `kendall` is tau-b; it, `spearman` and `pearson` are over all rows. `accuracy` is over the pairs of rows of one item
    (items (rows,)) whose targets differ: the share that the prediction orders alike, a predicted tie being wrong.
    NaN where undefined (a constant target or prediction, no such pair) and for a prediction that is not finite
    throughout. Takes n log n steps a prediction.

    >>> agreement = objective("kendall", np.array([1.0, 2.0, 3.0]), items=np.zeros(3, dtype=int))
    >>> agreement(np.array([[1.0, 3.0, 2.0], [4.0, 5.0, 6.0], [7.0, 7.0, 7.0]])).round(3).tolist()
    [0.333, 1.0, nan]

    Source: Winata et al. 2024, "MetaMetrics", Section 3.2 (the calibration function); Kendall 1945 for ties.
    """
    require(target.shape == items.shape, f"targets {target.shape} of items {items.shape}")
    require(np.isfinite(target).all(), "targets must be finite")
    measure = _prepared(kind, target, items)

    def agreement(predictions: Floats) -> Floats:
        values = np.full(len(predictions), np.nan)
        finite = np.flatnonzero(np.isfinite(predictions).all(axis=1))
        step = max(1, _CHUNK // max(1, len(target)))
        for start in range(0, len(finite), step):
            part = finite[start : start + step]
            values[part] = measure(predictions[part])
        return values

    return agreement


def _prepared(kind: Objective, target: Floats, items: Ints) -> Callable[[Floats], Floats]:
    """The same for finite predictions, few enough to hold several arrays of their size."""
    if kind not in OBJECTIVES:
        raise OptionError(f"objective: kind={kind!r} is none of {', '.join(OBJECTIVES)}")
    if kind in ("kendall", "accuracy"):
        return _Pairs(target, items).accuracy if kind == "accuracy" else _Pairs(target, np.zeros_like(items)).tau_b
    known, read = (mid_ranks(target), mid_ranks) if kind == "spearman" else (target, np.asarray)
    return lambda predictions: pearson(known, read(predictions))


class _Pairs:
    """The pairs of rows of one item, and how often predictions order them as the target does."""

    def __init__(self, target: Floats, items: Ints) -> None:
        self.item, per_item = np.unique(items, return_inverse=True, return_counts=True)[1:]
        value = np.unique(target, return_inverse=True)[1]
        self.code, per_code = np.unique(self.item * len(target) + value, return_inverse=True, return_counts=True)[1:]
        self.n_bits = max(0, len(per_code) - 1).bit_length()
        bits = (len(per_item) * len(target)).bit_length() + self.n_bits
        self.integer = np.int32 if bits < 32 else np.int64  # what holds item, prediction and target
        self.item, self.code = self.item.astype(self.integer), self.code.astype(self.integer)
        self.one_item = len(per_item) == 1
        self.pairs = _pairs(per_item)
        self.untied = self.pairs - _pairs(per_code)  # by the target
        self.no_inversions = _positions(np.sort(self.code)[np.newaxis], self.n_bits)

    def tau_b(self, predictions: Floats) -> Floats:
        discordant, tied, all_tied = self._counts(predictions)
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(float(self.untied)) * np.sqrt(self.pairs - all_tied)
            return np.asarray(np.clip((self.untied - tied - 2 * discordant) / root, -1.0, 1.0))

    def accuracy(self, predictions: Floats) -> Floats:
        discordant, tied, _ = self._counts(predictions)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((self.untied - discordant - tied) / np.float64(self.untied))

    def _counts(self, predictions: Floats) -> tuple[Ints, Ints, Ints]:
        """Pairs that the prediction orders against the target, ties where the target does not, and ties, (m,) each."""
        order = np.argsort(predictions, axis=1)
        ordered = np.take_along_axis(predictions, order, axis=1)
        differs = ordered[:, 1:] != ordered[:, :-1]
        if self.one_item and differs.all():  # the usual case, in half the time
            none = np.zeros(len(order), dtype=np.int64)
            return _positions(self.code[order], self.n_bits) - self.no_inversions, none, none
        keys = np.zeros(order.shape, dtype=self.integer)
        np.cumsum(differs, axis=1, dtype=self.integer, out=keys[:, 1:])
        if not self.one_item:
            keys += (self.item * order.shape[1])[order]
        keys <<= self.n_bits
        keys |= self.code[order]
        # by item, prediction, target: the target's order within an item is then inverted for discordant pairs only
        keys.sort(axis=1)
        all_tied = _tied(keys >> self.n_bits)
        discordant = _positions(keys & ((1 << self.n_bits) - 1), self.n_bits) - self.no_inversions
        return discordant, all_tied - _tied(keys), all_tied


def _pairs(sizes: Ints) -> int:
    """Pairs within groups of these sizes."""
    return int((sizes * (sizes - 1) // 2).sum())


def _tied(ordered: Ints) -> Ints:
    """Pairs of equal elements in each sorted row: (m, n) -> (m,)."""
    again = np.zeros(ordered.shape, dtype=bool)
    np.equal(ordered[:, 1:], ordered[:, :-1], out=again[:, 1:])  # each row starts anew
    equal = np.flatnonzero(again)
    # the first equal to its neighbour makes one pair, the next of the same run two, and so on
    each = np.arange(len(equal))
    pairs = each - np.maximum.accumulate(np.where(np.diff(equal, prepend=-1) == 1, 0, each)) + 1
    return np.bincount(equal // ordered.shape[1], pairs, len(ordered)).astype(np.int64)


def _positions(codes: Ints, n_bits: int) -> Ints:
    """Inversions of each row, up to a constant that depends on the counts of the codes alone: (m, n) -> (m,).

    A wavelet matrix: from the highest bit down, the rows are parted stably into zeros and ones. Each pair of codes
    is inverted at the first bit where they differ, and every inversion there moves a zero one place further back.
    """
    codes = codes.astype(np.uint16 if n_bits <= 16 else np.int32)
    m, n = codes.shape
    total = np.zeros(m, dtype=np.int64)
    for bit in reversed(range(n_bits)):
        is_one = (codes >> bit) & 1 == 1
        zeros, ones = (np.flatnonzero(part).reshape(m, -1) for part in (~is_one, is_one))
        total += zeros.sum(axis=1) - np.arange(m) * n * zeros.shape[1]
        codes = codes.ravel()[np.concatenate([zeros, ones], axis=1)]
    return total
