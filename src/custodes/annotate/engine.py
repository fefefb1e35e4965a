"""The engine of rating studies, which closes a system when its outputs have their answers; and clusters of items."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from custodes.evaluate.protocol.asking import Ruling
from custodes.stats.arrays import Ints
from custodes.stats.stopping.allocation import granted


def clusters_of(clusters: Sequence[str]) -> Ints:
    """A number for the cluster of each item; an item without one stands for itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    names = [("cluster", own) if own else ("item", place) for place, own in enumerate(clusters)]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([known[name] for name in names], dtype=np.int64)


FREE, LEASED, ANSWERED, IMPOSSIBLE = range(4)


class Quota:
    """As `Asking`, where a pair is one system and there is nothing to decide: all places are wanted at once.

    A `budget` of outputs that is short is shared evenly over systems, from the front of each order; what is promised
    stays, and systems and items that come later get what is left.
    """

    def __init__(self, *, orders: Sequence[Sequence[int]], budget: int | None) -> None:
        self._budget = budget
        self.orders: list[tuple[int, ...]] = []
        self.n: list[int] = []
        self.look: list[int] = []
        self.is_open: list[bool] = []
        self.decision: list[int] = []
        self.target: list[int] = []
        self.rulings: list[Ruling] = []
        self._place: list[list[int]] = []
        self._end: list[int] = []  # places that are asked: those before it
        self.add(orders)

    def add(self, orders: Sequence[Sequence[int]]) -> None:
        """Systems that come later."""
        for order in orders:
            self.orders.append(tuple(order))
            self._place.append([FREE] * len(order))
            for own in (self.n, self.look, self.decision, self.target, self._end):
                own.append(0)
            self.is_open.append(False)
        self._share()

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Items that come later."""
        self.orders[pair] = (*self.orders[pair], *items)
        self._place[pair] += [FREE] * len(items)
        self._share()

    def set_budget(self, budget: int | None) -> None:
        """Another budget of all systems together (None: without one), not below what is asked already."""
        self._budget = budget
        self._share()

    def _share(self) -> None:
        """Promise what is left of the budget: alike to all that lack some, until nobody does or nothing is left."""
        while True:
            lacking = np.array(
                [len(own) - end for own, end in zip(self._place, self._end, strict=True)], dtype=np.int64
            )
            left = lacking.sum() if self._budget is None else max(0, self._budget - sum(self.target))
            given = granted(lacking, np.asarray(left)).tolist()
            for pair, n in enumerate(given):
                self.target[pair] += n
                self._end[pair] += n
                self._see(pair)
            if not any(given):
                return

    def _asked(self, pair: int) -> list[int]:
        return self._place[pair][: self._end[pair]]

    def _see(self, pair: int) -> None:
        asked = self._asked(pair)
        self.is_open[pair] = FREE in asked or LEASED in asked

    def wanted(self, pair: int) -> list[int]:
        """Places that nobody has, lowest first."""
        return [place for place, own in enumerate(self._asked(pair)) if own == FREE]

    def open_pairs(self) -> list[int]:
        """Systems with at least one wanted place."""
        return [pair for pair in range(len(self._place)) if FREE in self._asked(pair)]

    def lease(self, pair: int, place: int) -> None:
        """Somebody has this place before him."""
        self._place[pair][place] = LEASED

    def release(self, pair: int, place: int) -> None:
        """Nobody has it before him any more."""
        if self._place[pair][place] == LEASED:
            self._place[pair][place] = FREE

    def is_settled(self, pair: int, place: int) -> bool:
        """Whether it is answered, or impossible."""
        return self._place[pair][place] in (ANSWERED, IMPOSSIBLE)

    def in_present_look(self, pair: int, place: int) -> bool:
        """Nothing is ever judged, so an answer may always be taken back."""
        return 0 <= place < self._end[pair]

    def goes_on(self, pair: int) -> bool:
        """All places are wanted at once."""
        return False

    def answer(self, pair: int, place: int, preference: int) -> None:
        """All answers that this output needs are in."""
        self._settle(pair, place, ANSWERED)
        self.n[pair] += 1

    def impossible(self, pair: int, place: int) -> None:
        """It cannot be rated: what was promised for it goes to the next of the order, or to other systems."""
        self._settle(pair, place, IMPOSSIBLE)
        if self._end[pair] < len(self._place[pair]):
            self._end[pair] += 1
            self._see(pair)
        else:
            self.target[pair] -= 1
            self._share()

    def possible(self, pair: int, places: Sequence[int], *, begun: Collection[int] = ()) -> list[int]:
        """Those of them that were impossible are free again, whoever has `begun` others."""
        back = [place for place in places if self._place[pair][place] == IMPOSSIBLE]
        for place in back:
            self._place[pair][place] = FREE
        self.target[pair] += len(back)
        self.is_open[pair] = FREE in self._place[pair] or LEASED in self._place[pair]
        return back

    def withdraw(self, pair: int, place: int) -> None:
        """An answer taken back: free again."""
        self._place[pair][place] = FREE
        self.n[pair] -= 1
        self.is_open[pair] = True

    def _settle(self, pair: int, place: int, what: int) -> None:
        self._place[pair][place] = what
        self._see(pair)

    def state_bytes(self) -> bytes:
        """All that answers made of it, without leases."""
        settled = [[FREE if own == LEASED else own for own in places] for places in self._place]
        return msgspec.json.encode([settled, self.n, self.target, self.is_open])
