"""The engine of rating studies, and the clusters of items. The engine closes a system when each of its outputs has all
answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from custodes.evaluate.protocol.concurrent_annotation import Ruling
from custodes.stats.arrays import Ints
from custodes.stats.stopping.allocation import evenly


def clusters_of(clusters: Sequence[str]) -> Ints:
    """Return the cluster number of each item. An item without a cluster is a cluster by itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    names = [("cluster", cluster) if cluster else ("item", place) for place, cluster in enumerate(clusters)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


FREE, ANSWERED, IMPOSSIBLE = range(3)


class Quota:
    """The counterpart of `ConcurrentAnnotation` for ratings. Each pair is a single system, there are no decisions, and
    all allocated positions are open at once.

    If the `budget` is smaller than the number of outputs, it is divided evenly between the systems, and each system
    uses the first positions of its order. Allocations are never reduced. Systems and items that are added later share
    the remaining budget. `target` is the number of outputs allocated to each system, and `n` is the number of its
    outputs that have all answers.
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
        self._end: list[int] = []  # number of allocated positions, from the first one

    def add(self, sizes: Sequence[int]) -> None:
        """Add systems. `sizes` has the number of items of each system."""
        for size in sizes:
            self._places.append([FREE] * size)
            for counts in (self.n, self.look, self.decision, self.target, self._end):
                counts.append(0)
            self.is_open.append(False)
        self._share()

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Add items to a system."""
        self._places[pair] += [FREE] * len(items)
        self._share()

    def set_budget(self, budget: int | None) -> None:
        """Set the joint budget of all systems. None means unlimited. A budget never removes allocated outputs."""
        self._budget = budget
        self._share()

    def _share(self) -> None:
        """Divide the remaining budget evenly between the systems that need outputs, until no system needs outputs or
        the budget is spent."""
        sizes = np.array([len(places) for places in self._places], dtype=np.int64)
        lacking = sizes - np.array(self._end, dtype=np.int64)
        left = lacking.sum() if self._budget is None else max(0, self._budget - sum(self.target))
        for pair, n in enumerate(evenly(np.asarray(left), lacking).tolist()):
            self.target[pair] += n
            self._end[pair] += n
            self._see(pair)

    def _see(self, pair: int) -> None:
        self.is_open[pair] = FREE in self._places[pair][: self._end[pair]]

    def wanted(self, pair: int) -> list[int]:
        """The free positions of a system, in order."""
        return [place for place, what in enumerate(self._places[pair][: self._end[pair]]) if what == FREE]

    def is_settled(self, pair: int, place: int) -> bool:
        """Whether the position has an answer or was refused."""
        return self._places[pair][place] != FREE

    def in_present_look(self, pair: int, place: int) -> bool:
        """Whether the answer at a position may still be removed. This holds for every allocated position, because
        ratings have no interim analyses."""
        return 0 <= place < self._end[pair]

    def goes_on(self, pair: int) -> bool:
        """Whether positions will be opened later. This is never so, because all positions are open at once."""
        return False

    def answer(self, pair: int, place: int, preference: int) -> None:
        """Record that an output has all its answers."""
        self._places[pair][place] = ANSWERED
        self.n[pair] += 1
        self._see(pair)

    def impossible(self, pair: int, place: int) -> None:
        """Record that an output cannot be rated. The next output of the system is rated instead; if there is none, the
        allocation passes to other systems."""
        self._places[pair][place] = IMPOSSIBLE
        if self._end[pair] < len(self._places[pair]):
            self._end[pair] += 1
            self._see(pair)
        else:
            self.target[pair] -= 1
            self._share()

    def possible(self, pair: int, places: Sequence[int], *, begun: Collection[int] = ()) -> list[int]:
        """Reopen refused positions, and return the reopened positions. Unlike in `ConcurrentAnnotation`, `begun` has no
        effect."""
        back = [place for place in places if self._places[pair][place] == IMPOSSIBLE]
        for place in back:
            self._places[pair][place] = FREE
        self.target[pair] += len(back)
        self._see(pair)
        return back

    def withdraw(self, pair: int, place: int) -> None:
        """Remove an answer. The position is free again."""
        self._places[pair][place] = FREE
        self.n[pair] -= 1
        self.is_open[pair] = True
