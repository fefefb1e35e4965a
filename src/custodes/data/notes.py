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
