"""Battles: the bridge from scores and verdicts to long rows of who won against whom, never dense over pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.pairs import Aggregate, difference_signs, people_preference, people_tie
from custodes.data.panel import label_codes
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs, read_only


@dataclass(frozen=True, kw_only=True)
class Battles:
    """One row per comparison of two systems on one item, as one rater sees it; no two have the same three positions.

    `item`, `first`, `second` (n,) are positions, first < second; `sign` (n,) is 1 where the first system won, 0 for a
    tie, -1; `order` (n,) 1 where the first was shown first, -1 where the second was, 0 where that is not known or both
    orders were shown (between them where verdicts in several orders were taken together).
    """

    item: Ints
    first: Ints
    second: Ints
    sign: Signs
    order: Floats

    def __post_init__(self) -> None:
        assert len({len(own) for own in (self.item, self.first, self.second, self.sign, self.order)}) == 1
        read_only(self)

    def __len__(self) -> int:
        return len(self.sign)

    def where(self, rows: NDArray[np.bool_]) -> Battles:
        """Some of the rows: (n,)."""
        return Battles(
            item=self.item[rows],
            first=self.first[rows],
            second=self.second[rows],
            sign=self.sign[rows],
            order=self.order[rows],
        )

    def keys(self, n_systems: int) -> Ints:
        """(n,): a number for every item and pair, the same for every rater."""
        return (self.item.astype(np.int64) * n_systems + self.first) * n_systems + self.second

    @classmethod
    def none(cls) -> Self:
        """No battle."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(item=empty, first=empty, second=empty, sign=empty.astype(np.int8), order=np.zeros(0))

    @classmethod
    def where_rated(cls, rated: Bools, *, items: Ints) -> Self:
        """Every two systems of an item that are `rated` (items, systems), as ties; `items` (items,) are positions."""
        place, system = np.nonzero(rated)
        most = int(rated.sum(axis=1).max(initial=0))
        # Two that stand so far apart in the list of an item; farther than the largest item there is none.
        near = [np.flatnonzero(place[apart:] == place[:-apart]) for apart in range(1, most)]
        first = np.concatenate([np.zeros(0, dtype=np.int64), *near])
        second = np.concatenate([np.zeros(0, dtype=np.int64), *(own + i for i, own in enumerate(near, start=1))])
        return cls(
            item=items[place[first]],
            first=system[first],
            second=system[second],
            sign=np.zeros(len(first), dtype=np.int8),
            order=np.zeros(len(first)),
        )

    @classmethod
    def of_verdicts(cls, settled: pl.DataFrame, *, items: Sequence[str], systems: Sequence[str]) -> Self:
        """Settled verdicts of one rater (see `Preferences.settled`); `systems` are sorted."""
        codes = [
            label_codes(settled[name], known)
            for name, known in zip(("item", "system_a", "system_b"), (items, systems, systems), strict=True)
        ]
        known = (np.array(codes) >= 0).all(axis=0)
        item, first, second = (own[known] for own in codes)
        return cls(
            item=item,
            first=first,
            second=second,
            sign=settled["preference"].to_numpy()[known],
            order=settled["order"].to_numpy()[known],
        )


def metric_battles(values: Floats, epsilon: Floats, verdicts: Battles, *, items: Ints) -> Battles:
    """Battles of one metric: by its scores (items, systems), which tie up to `epsilon` (items,), else by its verdicts.

    `items` (items,) are the positions of the items with scores, in ascending order.
    """
    scored = Battles.where_rated(np.isfinite(values), items=items)
    place = np.searchsorted(items, scored.item)
    difference = values[place, scored.first] - values[place, scored.second]
    return _beside(
        replace(scored, sign=difference_signs(difference, epsilon[place])), verdicts, n_systems=values.shape[1]
    )


def people_battles(
    values: Floats, verdicts: Sequence[Battles], *, items: Ints, aggregate: Aggregate, ties: float | None
) -> Battles:
    """Battles of several people taken together, as `people_signs` does: `values` (people, items, systems), `verdicts`
    of each of them.

    By scores alone their mean or vote; where anybody gave verdicts all vote: the side that more people prefer, else a
    tie.
    """
    n_systems, tie = values.shape[2], people_tie(values, ties)
    if any(map(len, verdicts)):
        epsilon = np.full(len(items), tie)
        each = [metric_battles(own, epsilon, said, items=items) for own, said in zip(values, verdicts, strict=True)]
        return _majority([own for own in each if len(own)], n_systems=n_systems)
    met = Battles.where_rated(np.asarray(np.isfinite(values).any(axis=0)), items=items)
    place = np.searchsorted(items, met.item)
    difference = (values[:, place, met.first] - values[:, place, met.second]).T[..., None]
    sign = people_preference(difference, None, aggregate=aggregate, tie=tie)[:, 0]
    return replace(met, sign=sign).where(sign != ABSENT)


def _joined(parts: Sequence[Battles]) -> Battles:
    """All rows below each other."""
    names = ("item", "first", "second", "sign", "order")
    return Battles(**{name: np.concatenate([getattr(own, name) for own in parts]) for name in names})


def _beside(scored: Battles, verdicts: Battles, *, n_systems: int) -> Battles:
    """What scores say, and verdicts on what they do not speak of."""
    if not len(scored) or not len(verdicts):
        return scored if len(scored) else verdicts
    new = ~np.isin(verdicts.keys(n_systems), scored.keys(n_systems))
    return _joined([scored, verdicts.where(new)])


def _majority(each: Sequence[Battles], *, n_systems: int) -> Battles:
    """One row per item and pair: the side that more people prefer, else a tie; the mean of the orders they saw."""
    if len(each) == 1:
        return each[0]
    rows = _joined(each)
    _, start, own, votes = np.unique(rows.keys(n_systems), return_index=True, return_inverse=True, return_counts=True)
    balance = np.bincount(own, weights=rows.sign, minlength=len(start))
    order = np.bincount(own, weights=rows.order, minlength=len(start)) / votes
    return Battles(
        item=rows.item[start],
        first=rows.first[start],
        second=rows.second[start],
        sign=np.sign(balance).astype(np.int8),
        order=order,
    )
