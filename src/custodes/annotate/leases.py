"""How long a question is kept for its person: by a steady clock, longer while the page is open, noticed lazily.

The limits follow complaints about locks that never clear (label-studio#4781, #4190).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

SHORTEST, LONGEST, TIMES = 60.0, 600.0, 4.0
"""Seconds, and how many times what an answer takes."""


class Leases:
    """Until when questions are kept, by their numbers."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._next = 0.0

    def keep(self, question: int, *, until: float) -> None:
        """Keep it, or keep it longer."""
        self._next = min(self._next, until) if self._until else until
        self._until[question] = until

    def end(self, question: int) -> None:
        """It is answered, or is its person's no more."""
        self._until.pop(question, None)

    def is_kept(self, question: int, now: float) -> bool:
        """Whether its time is not over."""
        return self._until.get(question, now) > now

    def due(self, now: float) -> list[int]:
        """Those whose time is over, in the order in which they were given out; they stay until they are ended."""
        if not self._until or now < self._next:
            return []
        self._next = min(self._until.values())
        return sorted(question for question, until in self._until.items() if until <= now)

    def first(self) -> float | None:
        """When the next one is over at the earliest."""
        return min(self._until.values(), default=None)


def length(paces: Sequence[float], *, is_new: bool) -> float:
    """Seconds of a lease, where answers took `paces` lately; the shortest for somebody who has not answered yet.

    >>> length([20.0, 30.0, 40.0], is_new=False), length([], is_new=False)
    (120.0, 600.0)
    """
    if is_new:
        return SHORTEST
    if not paces:
        return LONGEST
    return min(LONGEST, max(SHORTEST, TIMES * median(paces)))
