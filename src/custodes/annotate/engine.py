"""The engine of rating studies, which closes a system when its outputs have their answers; and clusters of items."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from custodes.evaluate.protocol.concurrent_annotation import Ruling
from custodes.stats.arrays import Ints
from custodes.stats.stopping.allocation import evenly


def clusters_of(clusters: Sequence[str]) -> Ints:
    """A number for the cluster of each item; an item without one stands for itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    names = [("cluster", cluster) if cluster else ("item", place) for place, cluster in enumerate(clusters)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


FREE, LEASED, ANSWERED, IMPOSSIBLE = range(4)


class Quota:
    """As `ConcurrentAnnotation`, where a pair is one system and nothing is decided: all places are wanted at once.

    A `budget` of outputs that is short is shared evenly over systems, from the front of each order; what is promised
    stays, and systems and items that come later get what is left. `target`: promised outputs of each system, `n`: those
    that have their answers.
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
        self._end: list[int] = []  # places that are asked: those before it

    def add(self, sizes: Sequence[int]) -> None:
        """Systems with so many items each."""
        for size in sizes:
            self._places.append([FREE] * size)
            for counts in (self.n, self.look, self.decision, self.target, self._end):
                counts.append(0)
            self.is_open.append(False)
        self._share()

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Items that come later."""
        self._places[pair] += [FREE] * len(items)
        self._share()

    def set_budget(self, budget: int | None) -> None:
        """Another budget of all systems together (None: without one), not below what is asked already."""
        self._budget = budget
        self._share()

    def _share(self) -> None:
        """Promise what is left of the budget, evenly to all that lack some, until nobody does or nothing is left."""
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
        """Places that nobody has, lowest first."""
        return [place for place, what in enumerate(self._places[pair][: self._end[pair]]) if what == FREE]

    def lease(self, pair: int, place: int) -> None:
        """Somebody has this place before him."""
        self._places[pair][place] = LEASED

    def release(self, pair: int, place: int) -> None:
        """Nobody has it before him any more."""
        if self._places[pair][place] == LEASED:
            self._places[pair][place] = FREE

    def is_settled(self, pair: int, place: int) -> bool:
        """Whether it is answered, or impossible."""
        return self._places[pair][place] in (ANSWERED, IMPOSSIBLE)

    def in_present_look(self, pair: int, place: int) -> bool:
        """Nothing is ever judged, so an answer may always be taken back."""
        return 0 <= place < self._end[pair]

    def goes_on(self, pair: int) -> bool:
        """All places are wanted at once."""
        return False

    def answer(self, pair: int, place: int, preference: int) -> None:
        """All answers that this output needs are in."""
        self._places[pair][place] = ANSWERED
        self.n[pair] += 1
        self._see(pair)

    def impossible(self, pair: int, place: int) -> None:
        """It cannot be rated: what was promised for it goes to the next of the order, or to other systems."""
        self._places[pair][place] = IMPOSSIBLE
        if self._end[pair] < len(self._places[pair]):
            self._end[pair] += 1
            self._see(pair)
        else:
            self.target[pair] -= 1
            self._share()

    def possible(self, pair: int, places: Sequence[int], *, begun: Collection[int] = ()) -> list[int]:
        """Those of them that were impossible are free again, whoever has `begun` others."""
        back = [place for place in places if self._places[pair][place] == IMPOSSIBLE]
        for place in back:
            self._places[pair][place] = FREE
        self.target[pair] += len(back)
        self._see(pair)
        return back

    def withdraw(self, pair: int, place: int) -> None:
        """An answer taken back: free again."""
        self._places[pair][place] = FREE
        self.n[pair] -= 1
        self.is_open[pair] = True
