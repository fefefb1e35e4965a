"""Notes: exclusions, inferences and undefined values, with counts, so that nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """A note for the reader of a result.

    `rule` is a short stable name (`missing-score`, `constant-metric`), `count` the number of cases (0 if not
    countable), `aspect` the aspect concerned ('' for all).
    """

    rule: str
    message: str
    count: int = 0
    aspect: str = ""


def noted(*entries: tuple[str, int, str], aspect: str = "") -> list[Note]:
    """Notes from tuples of rule, count (True: applies, not countable) and message; those with a count of 0 are omitted.

    >>> [note.rule for note in noted(("seen", 2, "two seen"), ("unseen", 0, "none unseen"))]
    ['seen']
    """
    return [
        Note(rule=rule, message=message, count=0 if count is True else count, aspect=aspect)
        for rule, count, message in entries
        if count
    ]
