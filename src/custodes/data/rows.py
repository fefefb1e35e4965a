"""Signs as rows: what raters said of the comparisons that were made, where most of pairs x items were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from custodes.data.battles import Battles
from custodes.data.pairs import PairCounts, SignRows, pair_codes, pairs_of
from custodes.errors import InputError
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs, read_only
from custodes.stats.clusters import outcomes

MOST_CELLS = 4_000_000_000
"""Signs (pairs x raters x items, a byte each) above which the dense bridge would not fit a common machine."""

ROW_BYTES = 16
"""What a row takes, with room to work on it; a cell of the dense bridge takes one."""


def are_sparse(cells: int, rows: int) -> bool:
    """Whether rows take less memory than dense signs."""
    return ROW_BYTES * rows < cells


def check_cells(items: int, pairs: int, raters: int) -> None:
    """Raise `InputError` where every pair on every item would not fit."""
    if items * pairs * raters > MOST_CELLS:
        raise InputError(
            f"{items} items x {pairs} pairs of systems x {raters} raters are too many for this question, which needs"
            " every pair on every item; select fewer, or ask leaderboard, favoritism, ranking, correction, or agreement"
            " of verdicts alone, which need only what was compared"
        )


@dataclass(frozen=True, kw_only=True)
class SparsePreferences:
    """`PairPreferences` without what nobody said: for each rater `keys` (n,), pair x items + item, in ascending order,
    and its `said` (n,) 1, 0, -1. All that `PairPreferences` answers, this does, with the same numbers.
    """

    keys: tuple[NDArray[np.int64], ...]
    said: tuple[Signs, ...]
    system_a: tuple[str, ...]
    system_b: tuple[str, ...]
    raters: tuple[str, ...]
    items: tuple[str, ...]

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(
        cls, battles: Sequence[Battles], *, systems: Sequence[str], raters: Sequence[str], items: Sequence[str]
    ) -> SparsePreferences:
        """The battles of each rater; `systems` are sorted."""
        n, (a, b) = len(systems), pairs_of(systems)
        positions = [[each.astype(np.int64) for each in (own.first, own.second, own.item)] for own in battles]
        keys = [pair_codes(first, second, n) * len(items) + item for first, second, item in positions]
        orders = [np.argsort(own, kind="stable") for own in keys]
        return cls(
            keys=tuple(own[order] for own, order in zip(keys, orders, strict=True)),
            said=tuple(own.sign[order] for own, order in zip(battles, orders, strict=True)),
            system_a=tuple(systems[i] for i in a),
            system_b=tuple(systems[i] for i in b),
            raters=tuple(raters),
            items=tuple(items),
        )

    @cached_property
    def signs(self) -> Signs:
        """Dense (pairs, raters, items), for what needs every cell; raises `InputError` where that would not fit."""
        check_cells(len(self.items), len(self.system_a), len(self.raters))
        signs = np.full((len(self.system_a), len(self.raters), len(self.items)), ABSENT, dtype=np.int8)
        for r, (keys, said) in enumerate(zip(self.keys, self.said, strict=True)):
            pair, item = np.divmod(keys, len(self.items))
            signs[pair, r, item] = said
        return read_only(signs)

    def rows(self, *raters: int) -> SignRows:
        """What some raters said, beside each other, where any of them did."""
        keys = self.keys[raters[0]]
        for own in (self.keys[r] for r in raters[1:]):
            if not np.array_equal(own, keys):
                both = np.sort(np.concatenate([keys, own]), kind="stable")
                keys = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
        signs = np.full((len(raters), len(keys)), ABSENT, dtype=np.int8)
        for i, r in enumerate(raters):
            whole = len(self.keys[r]) == len(keys)  # then they are the same
            signs[i, slice(None) if whole else np.searchsorted(keys, self.keys[r])] = self.said[r]
        pair, item = np.divmod(keys, max(1, len(self.items)))
        return SignRows(pair=pair, item=item, signs=signs)

    def counts(self) -> PairCounts:
        """The 3x3 counts of the first rater (people) against every other one."""
        n_pairs = len(self.system_a)
        tables = np.empty((n_pairs, len(self.raters) - 1, 4, 4), dtype=np.int64)
        for m in range(1, len(self.raters)):
            rows = self.rows(0, m)
            cell = (rows.pair * 4 + outcomes(rows.signs[0])) * 4 + outcomes(rows.signs[1])
            tables[:, m - 1] = np.bincount(cell, minlength=16 * n_pairs).reshape(n_pairs, 4, 4)
        return PairCounts.of_tables(tables, system_a=self.system_a, system_b=self.system_b, metrics=self.raters[1:])

    def on(self, items: NDArray[np.intp]) -> SparsePreferences:
        """Some of the items, in ascending order."""
        place = np.full(len(self.items), -1)
        place[items] = np.arange(len(items))
        keys, said = [], []
        for own, signs in zip(self.keys, self.said, strict=True):
            pair, item = np.divmod(own, len(self.items))
            kept = place[item] >= 0
            keys.append(pair[kept] * len(items) + place[item[kept]])
            said.append(signs[kept])
        return replace(self, keys=tuple(keys), said=tuple(said), items=tuple(self.items[int(i)] for i in items))
