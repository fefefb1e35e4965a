"""Ratings of outputs: every output gets its answers, nothing is decided, and a system is closed when it has all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from custodes.evaluate.protocol.asking import Ruling

FREE, LEASED, ANSWERED, IMPOSSIBLE = range(4)


class Quota:
    """As `Asking`, where a pair is one system and there is nothing to decide: all places are wanted at once."""

    def __init__(self, *, orders: Sequence[Sequence[int]]) -> None:
        self.orders: list[tuple[int, ...]] = []
        self.n: list[int] = []
        self.look: list[int] = []
        self.is_open: list[bool] = []
        self.decision: list[int] = []
        self.target: list[int] = []
        self.rulings: list[Ruling] = []
        self._place: list[list[int]] = []
        for order in orders:
            self.add(order, ())

    def add(self, order: Sequence[int], systems: Sequence[int]) -> int:
        """A system that comes later; its number."""
        self.orders.append(tuple(order))
        self.n.append(0)
        self.look.append(0)
        self.decision.append(0)
        self.is_open.append(len(order) > 0)
        self.target.append(len(order))
        self._place.append([FREE] * len(order))
        return len(self.n) - 1

    def extend(self, pair: int, items: Sequence[int]) -> None:
        """Items that come later."""
        self.orders[pair] = (*self.orders[pair], *items)
        self._place[pair] += [FREE] * len(items)
        self.target[pair] += len(items)
        self.is_open[pair] = True

    def wanted(self, pair: int) -> list[int]:
        """Places that nobody has, lowest first."""
        return [place for place, own in enumerate(self._place[pair]) if own == FREE]

    def open_pairs(self) -> list[int]:
        """Systems with at least one wanted place."""
        return [pair for pair, own in enumerate(self._place) if FREE in own]

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
        return 0 <= place < len(self._place[pair])

    def goes_on(self, pair: int) -> bool:
        """All places are wanted at once."""
        return False

    def answer(self, pair: int, place: int, preference: int) -> None:
        """All answers that this output needs are in."""
        self._settle(pair, place, ANSWERED)
        self.n[pair] += 1

    def impossible(self, pair: int, place: int) -> None:
        """It cannot be rated."""
        self._settle(pair, place, IMPOSSIBLE)
        self.target[pair] -= 1

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
        self.is_open[pair] = FREE in self._place[pair] or LEASED in self._place[pair]

    def state_bytes(self) -> bytes:
        """All that answers made of it, without leases."""
        settled = [[FREE if own == LEASED else own for own in places] for places in self._place]
        return msgspec.json.encode([settled, self.n, self.target, self.is_open])
