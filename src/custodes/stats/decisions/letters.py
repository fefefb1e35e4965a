"""Letters for groups of things that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence

from custodes.stats.arrays import Bools

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def letters(apart: Bools, order: Sequence[int]) -> list[str]:
    """A word of letters for each thing: two share a letter exactly where they are not told apart.

    `apart` (n, n) symmetric: which pairs are told apart; `order` the things from the best, who have the first letters.
    After 26 letters come a1, b1, ...

    >>> import numpy as np
    >>> apart = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letters(apart, [0, 1, 2])
    ['a', 'ab', 'b']

    Source: Piepho 2004, insert and absorb.
    """
    groups = [frozenset(order)]
    for i, a in enumerate(order):
        for b in order[i + 1 :]:
            if apart[a, b]:
                halves = {group - {own} for group in groups if {a, b} <= group for own in (a, b)}
                groups = [group for group in groups if not {a, b} <= group]
                groups += [half for half in halves if not any(half <= group for group in groups)]
                groups = [group for group in groups if not any(group < other for other in groups)]
    place = {thing: i for i, thing in enumerate(order)}
    groups.sort(key=lambda group: sorted(place[thing] for thing in group))
    names = [_ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(len(groups))]
    words = {
        thing: "".join(name for name, group in zip(names, groups, strict=True) if thing in group) for thing in order
    }
    return [words.get(thing, "") for thing in range(len(apart))]
