"""The table of comparisons: the preference of each rater between two outputs of an item.

`ties_and_orders.py` derives the comparisons from scores and verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.errors import InputError
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, Ints, ReadOnlyArrays, Signs, make_read_only

HUMAN = "human"
"""The name of the combined annotators in all tables."""

_COLUMNS = ("rater", "item", "pair", "sign", "order")

MOST_CELLS = 4_000_000_000
"""Maximum size of an array in bytes, which fits in the memory of a common machine."""


class JointPreferences(NamedTuple):
    """Preferences of several raters on the same comparisons.

    `pair` and `item` (n,) are the positions of the pair and the item of each comparison, ordered by pair, then item.
    `signs` is of shape (raters, n); each comparison has at least one sign that is not `ABSENT`.
    """

    pair: Ints
    item: Ints
    signs: Signs

    @property
    def is_rated_by_all(self) -> NDArray[np.bool_]:
        """(n,): whether every rater has a preference."""
        return np.asarray((self.signs != ABSENT).all(axis=0))


@dataclass(frozen=True, kw_only=True)
class Comparisons(ReadOnlyArrays):
    """Preferences: one row per rater, item and pair of systems.

    Attributes
    ----------
    raters, items, systems : tuple of str
        Labels; systems are sorted.
    rater, item, pair : int arrays of shape (n,)
        Positions of rater, item and pair. Pairs are in the order of `pairs_of`. Rows are unique and sorted by rater,
        pair and item.
    sign : int8 array of shape (n,)
        1 if the first system of the pair is preferred, 0 for a tie, -1 if the second system is preferred.
    order : array of shape (n,)
        1 if the first system was shown first, -1 if the second system was shown first, 0 if unknown. Merged verdicts
        have the mean of these codes.
    """

    raters: tuple[str, ...]
    items: tuple[str, ...]
    systems: tuple[str, ...]
    rater: Ints
    item: Ints
    pair: Ints
    sign: Signs
    order: Floats

    def __len__(self) -> int:
        return len(self.sign)

    @classmethod
    def from_rows(
        cls, rows: pl.DataFrame, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]
    ) -> Comparisons:
        """Comparisons from unique rows with rater, item, system_a, system_b (positions, system_a < system_b), sign and
        order."""
        rater_positions, item_positions, first_system_positions, second_system_positions = (
            rows[column_name].cast(pl.Int64).to_numpy() for column_name in ("rater", "item", "system_a", "system_b")
        )
        pair_positions = pair_codes(first_system_positions, second_system_positions, len(systems))
        # A single key: sorting by three columns takes three times as long.
        sorted_row_indices = np.argsort(
            (rater_positions * (int(pair_positions.max(initial=0)) + 1) + pair_positions) * max(1, len(items))
            + item_positions,
            kind="stable",
        )
        presentation_order_codes = (
            rows["order"].cast(pl.Float64).to_numpy()
        )  # for scores all are 0, and an array of zeros would need memory
        return cls(
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
            rater=rater_positions[sorted_row_indices].astype(np.int32),
            item=item_positions[sorted_row_indices].astype(np.int32),
            pair=pair_positions[sorted_row_indices].astype(np.int32),
            sign=rows["sign"].cast(pl.Int8).to_numpy()[sorted_row_indices],
            order=presentation_order_codes[sorted_row_indices]
            if presentation_order_codes.any()
            else np.broadcast_to(0.0, len(rows)),
        )

    @classmethod
    def from_signs(cls, signs: Signs, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]) -> Self:
        """Comparisons from an array of preferences (pairs, raters, items), with `ABSENT` for no preference.

        >>> signs = np.array([[[1, 0]]], dtype=np.int8)
        >>> Comparisons.from_signs(signs, raters=["m"], items=["1", "2"], systems=["A", "B"]).sign.tolist()
        [1, 0]
        """
        rater_positions, pair_positions, item_positions = np.nonzero(signs.swapaxes(0, 1) != ABSENT)
        return cls(
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
            rater=rater_positions,
            item=item_positions,
            pair=pair_positions,
            sign=signs[pair_positions, rater_positions, item_positions],
            order=np.zeros(len(rater_positions)),
        )

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """(pairs, 2): positions of the systems of each pair."""
        return make_read_only(np.stack(pairs_of(self.systems), axis=1))

    @property
    def system_a(self) -> tuple[str, ...]:
        """The first system of every pair."""
        return tuple(self.systems[system_position] for system_position in self.pairs[:, 0].tolist())

    @property
    def system_b(self) -> tuple[str, ...]:
        """The second system of every pair."""
        return tuple(self.systems[system_position] for system_position in self.pairs[:, 1].tolist())

    @property
    def first(self) -> Ints:
        """(n,): the first system of each row."""
        return np.asarray(self.pairs[self.pair, 0])

    @property
    def second(self) -> Ints:
        """(n,): the second system of each row."""
        return np.asarray(self.pairs[self.pair, 1])

    @property
    def keys(self) -> NDArray[np.int64]:
        """(n,): a number that identifies the pair and the item, the same for all raters. The numbers of a rater are
        ascending."""
        return self._keys(slice(None))

    def _keys(self, row_slice: slice) -> NDArray[np.int64]:
        return self.pair[row_slice].astype(np.int64) * len(self.items) + self.item[row_slice]

    @cached_property
    def _rater_row_bounds(self) -> Ints:
        return make_read_only(np.searchsorted(self.rater, np.arange(len(self.raters) + 1)))

    @property
    def active_raters(self) -> tuple[str, ...]:
        """The raters that have at least one comparison."""
        return tuple(
            rater_name
            for rater_name, n_comparisons in zip(self.raters, np.diff(self._rater_row_bounds), strict=True)
            if n_comparisons
        )

    def rater_rows(self, rater_position: int) -> slice:
        """The rows of the rater at a position."""
        return slice(int(self._rater_row_bounds[rater_position]), int(self._rater_row_bounds[rater_position + 1]))

    def select_rater(self, rater_position: int) -> Comparisons:
        """The comparisons of the rater at a position."""
        row_slice = self.rater_rows(rater_position)
        return replace(
            self.select_rows(row_slice),
            raters=(self.raters[rater_position],),
            rater=np.zeros_like(self.rater[row_slice]),
        )

    def select_raters(self, rater_positions: Sequence[int]) -> Comparisons:
        """The comparisons of the raters at these positions, in this order."""
        all_row_indices = np.arange(len(self))
        return replace(
            self.select_rows(
                np.concatenate([all_row_indices[self.rater_rows(rater_position)] for rater_position in rater_positions])
            ),
            raters=tuple(self.raters[rater_position] for rater_position in rater_positions),
            rater=np.repeat(np.arange(len(rater_positions)), np.diff(self._rater_row_bounds)[list(rater_positions)]),
        )

    def with_raters(self, other: Comparisons) -> Comparisons:
        """The comparisons of this table, followed by the comparisons of another table of the same items and systems."""
        array_of_column: dict[str, Any] = {
            column_name: np.concatenate([getattr(self, column_name), getattr(other, column_name)])
            for column_name in _COLUMNS
        }
        array_of_column["rater"][len(self) :] += len(self.raters)
        return replace(self, raters=self.raters + other.raters, **array_of_column)

    def select_rows(self, row_selection: NDArray[np.bool_] | slice) -> Comparisons:
        """The rows that a mask (n,) or a slice selects."""
        return replace(self, **{column_name: getattr(self, column_name)[row_selection] for column_name in _COLUMNS})

    def select_items(self, item_positions: Ints) -> Comparisons:
        """The comparisons on the items at these positions, which are in ascending order."""
        new_position_of_item = np.full(len(self.items), -1, dtype=self.item.dtype)
        new_position_of_item[item_positions] = np.arange(len(item_positions))
        selected_comparisons = self.select_rows(new_position_of_item[self.item] >= 0)
        return replace(
            selected_comparisons,
            item=new_position_of_item[selected_comparisons.item],
            items=tuple(self.items[int(item_position)] for item_position in item_positions),
        )

    def joint(self, *rater_positions: int) -> JointPreferences:
        """The joint preferences of the raters at these positions, on all comparisons that at least one of these raters
        rated."""
        first_slice, *other_slices = row_slices = list(map(self.rater_rows, rater_positions))
        if all(
            np.array_equal(column[other_slice], column[first_slice])
            for column in (self.pair, self.item)
            for other_slice in other_slices
        ):
            return JointPreferences(
                self.pair[first_slice].astype(np.int64),
                self.item[first_slice].astype(np.int64),
                np.stack([self.sign[row_slice] for row_slice in row_slices]),
            )
        keys_by_rater = list(map(self._keys, row_slices))
        distinct_keys = np.unique(np.concatenate(keys_by_rater))
        signs = np.full((len(rater_positions), len(distinct_keys)), ABSENT, dtype=np.int8)
        for rater_signs, row_slice, rater_keys in zip(signs, row_slices, keys_by_rater, strict=True):
            rater_signs[np.searchsorted(distinct_keys, rater_keys)] = self.sign[row_slice]
        pair_positions, item_positions = np.divmod(distinct_keys, max(1, len(self.items)))
        return JointPreferences(pair_positions, item_positions, signs)

    @cached_property
    def signs(self) -> Signs:
        """Preferences as an array (pairs, raters, items), with `ABSENT` for no preference. An array that is too large
        for memory raises `InputError`."""
        n_pairs, n_raters, n_items = shape = (len(self.pairs), len(self.raters), len(self.items))
        if math.prod(shape) > MOST_CELLS:
            raise InputError(
                f"{n_items} items x {n_pairs} pairs of systems x {n_raters} raters do not fit into memory, but this "
                "question stores every pair on every item. Select fewer items, systems or metrics, or use "
                "leaderboard, favoritism, ranking, correction or agreement, which store only the comparisons in the "
                "data"
            )
        signs = np.full(shape, ABSENT, dtype=np.int8)
        signs[self.pair, self.rater, self.item] = self.sign
        return make_read_only(signs)


def pairs_of(systems: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the first and the second system of every pair (first < second), in the order of
    `itertools.combinations`."""
    return np.triu_indices(len(systems), 1)


def pair_codes(
    first_positions: NDArray[np.int64], second_positions: NDArray[np.int64], n_systems: int
) -> NDArray[np.int64]:
    """The index of each pair (first < second) among all pairs of n systems, in the order of `pairs_of`."""
    return (
        first_positions * n_systems
        - first_positions * (first_positions + 1) // 2
        + second_positions
        - first_positions
        - 1
    )
