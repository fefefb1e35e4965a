"""Notes: what was left out, inferred or undefined, counted and named, so that nothing is dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """One thing the reader of a number should know.

    `rule` is a short stable name (`missing-score`, `constant-metric`), `count` how often it happened
    (0 where counting makes no sense), `aspect` the one that it speaks of ('' for all).
    """

    rule: str
    message: str
    count: int = 0
    aspect: str = ""


def noted(*entries: tuple[str, int, str], aspect: str = "") -> list[Note]:
    """Notes from rule, how often it happened (True: it did, and counting makes no sense) and message; none where it did
    not.

    >>> [note.rule for note in noted(("seen", 2, "two seen"), ("unseen", 0, "none unseen"))]
    ['seen']
    """
    return [
        Note(rule=rule, message=message, count=0 if count is True else count, aspect=aspect)
        for rule, count, message in entries
        if count
    ]
