"""Letters for groups of things that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence

from custodes.stats.arrays import Bools

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def letters(apart: Bools, order: Sequence[int]) -> list[str]:
    """A word of letters for each thing: two share a letter exactly where they are not told apart.

    `apart` (n, n) symmetric: which pairs are told apart; `order` the things from the best, who have the first letters.
    After 26 letters come a1, b1, ... Every letter goes to as many as it can; there are few letters, not always the
    fewest.

    >>> import numpy as np
    >>> apart = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letters(apart, [0, 1, 2])
    ['a', 'ab', 'b']

    Source: Piepho 2004 for the display; Gramm et al. 2007, who cover the pairs that are not told apart by cliques.
    """
    place = {thing: i for i, thing in enumerate(order)}
    open_ = {(a, b) for i, a in enumerate(order) for b in order[i:] if a == b or not apart[a, b]}
    groups: list[list[int]] = []
    for i, a in enumerate(order):
        for b in [*order[i + 1 :], a]:  # alone only where nobody shares
            if (a, b) in open_:
                group = sorted({a, b}, key=place.__getitem__)
                # first who brings what is still open, then anybody who fits
                for new in (True, False):
                    for c in order:
                        fits = c not in group and not any(apart[c, own] for own in group)
                        if fits and (not new or any(_pair(c, own, place) in open_ for own in group)):
                            group.append(c)
                open_ -= {_pair(c, own, place) for c in group for own in group}
                groups.append(sorted(group, key=place.__getitem__))
    groups.sort(key=lambda group: [place[thing] for thing in group])
    names = [_ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(len(groups))]
    return [
        "".join(name for name, group in zip(names, groups, strict=True) if thing in group)
        for thing in range(len(apart))
    ]


def _pair(a: int, b: int, place: dict[int, int]) -> tuple[int, int]:
    """Two things, the better placed first."""
    return (a, b) if place[a] <= place[b] else (b, a)
