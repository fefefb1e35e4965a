"""The engine of rating studies, which closes a system when all outputs of the system have all answers. Clusters of
items."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from custodes.evaluate.protocol.concurrent_annotation import Ruling
from custodes.stats.arrays import Ints
from custodes.stats.stopping.allocation import evenly


def clusters_of(clusters: Sequence[str]) -> Ints:
    """Cluster number of each item. An item without a cluster is a cluster of one item.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    names = [("cluster", cluster) if cluster else ("item", place) for place, cluster in enumerate(clusters)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


FREE, LEASED, ANSWERED, IMPOSSIBLE = range(4)


class Quota:
    """`ConcurrentAnnotation` for ratings: each pair is a single system, no decisions are made, and all positions are
    open.

    If the `budget` of outputs is too small, it is shared evenly over systems, from the front of each order. Allocations
    are never reduced. Systems and items that are added later share the remaining budget. `target`: outputs allocated to
    each system, `n`: outputs with all answers.
    """

    def __init__(self, *, budget: int | None) -> None:
        self._budget = budget
        self.n: list[int] = []
        self.look: list[int] = []
        self.is_open: list[bool] = []
        self.decision: list[int] = []
        self.target: list[int] = []
        self.rulings: list[Ruling] = []
        self._places: list[list[int]] = []
        self._end: list[int] = []  # end of the allocated positions

    def add(self, sizes: Sequence[int]) -> None:
        """Add systems with these numbers of items."""
        for size in sizes:
            self._places.append([FREE] * size)
            for counts in (self.n, self.look, self.decision, self.target, self._end):
                counts.append(0)
            self.is_open.append(False)
        self._share()

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Add items later."""
        self._places[pair] += [FREE] * len(items)
        self._share()

    def set_budget(self, budget: int | None) -> None:
        """Set the joint budget of all systems (None: unlimited), at least the answers already requested."""
        self._budget = budget
        self._share()

    def _share(self) -> None:
        """Allocate the remaining budget evenly to all systems that need outputs, until all systems have enough outputs
        or the budget is spent."""
        sizes = np.array([len(places) for places in self._places], dtype=np.int64)
        lacking = sizes - np.array(self._end, dtype=np.int64)
        left = lacking.sum() if self._budget is None else max(0, self._budget - sum(self.target))
        for pair, n in enumerate(evenly(np.asarray(left), lacking).tolist()):
            self.target[pair] += n
            self._end[pair] += n
            self._see(pair)

    def _see(self, pair: int) -> None:
        places = self._places[pair][: self._end[pair]]
        self.is_open[pair] = FREE in places or LEASED in places

    def wanted(self, pair: int) -> list[int]:
        """Free positions, lowest first."""
        return [place for place, what in enumerate(self._places[pair][: self._end[pair]]) if what == FREE]

    def lease(self, pair: int, place: int) -> None:
        """Mark that an annotator is answering a position."""
        self._places[pair][place] = LEASED

    def release(self, pair: int, place: int) -> None:
        """Undo `lease`."""
        if self._places[pair][place] == LEASED:
            self._places[pair][place] = FREE

    def is_settled(self, pair: int, place: int) -> bool:
        """Whether the position has an answer or was refused."""
        return self._places[pair][place] in (ANSWERED, IMPOSSIBLE)

    def in_present_look(self, pair: int, place: int) -> bool:
        """True: without interim analyses, answers may always be removed."""
        return 0 <= place < self._end[pair]

    def goes_on(self, pair: int) -> bool:
        """False: all positions are open at once."""
        return False

    def answer(self, pair: int, place: int, preference: int) -> None:
        """Record that an output has all its answers."""
        self._places[pair][place] = ANSWERED
        self.n[pair] += 1
        self._see(pair)

    def impossible(self, pair: int, place: int) -> None:
        """Record that an output cannot be rated:

        its allocation passes to the next output in order, or to other systems.
        """
        self._places[pair][place] = IMPOSSIBLE
        if self._end[pair] < len(self._places[pair]):
            self._end[pair] += 1
            self._see(pair)
        else:
            self.target[pair] -= 1
            self._share()

    def possible(self, pair: int, places: Sequence[int], *, begun: Collection[int] = ()) -> list[int]:
        """Reopen refused positions, regardless of which positions have `begun`; returns the reopened ones."""
        back = [place for place in places if self._places[pair][place] == IMPOSSIBLE]
        for place in back:
            self._places[pair][place] = FREE
        self.target[pair] += len(back)
        self._see(pair)
        return back

    def withdraw(self, pair: int, place: int) -> None:
        """Remove an answer: the position is free again."""
        self._places[pair][place] = FREE
        self.n[pair] -= 1
        self.is_open[pair] = True
