"""Letters for groups of things that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
    ranked = np.asarray(order, dtype=np.intp)
    near = ~np.asarray(apart, dtype=bool)[np.ix_(ranked, ranked)]
    np.fill_diagonal(near, True)
    open_, n = near.copy(), len(ranked)
    groups: list[NDArray[np.intp]] = []
    for a in range(n):
        for b in [*range(a + 1, n), a]:  # alone only where nobody shares
            if open_[a, b]:
                groups.append(_filled(near, open_, a, b))
                open_[np.ix_(groups[-1], groups[-1])] = False
    groups.sort(key=lambda group: group.tolist())
    words = [""] * len(apart)
    for i, group in enumerate(groups):
        name = _ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "")
        for thing in ranked[group].tolist():
            words[thing] += name
    return words


def _filled(near: Bools, open_: Bools, a: int, b: int) -> NDArray[np.intp]:
    """Two that share a letter and all who can join: first who brings a pair that is still open, then anybody."""
    inside = np.zeros(len(near), dtype=bool)
    inside[[a, b]] = True
    fits, brings = near[a] & near[b], open_[a] | open_[b]
    for new in (True, False):
        at = 0
        while True:
            may = fits & ~inside
            if new:
                may &= brings
            found = np.flatnonzero(may[at:])
            if not len(found):
                break
            at += int(found[0])
            inside[at] = True
            fits &= near[at]
            brings |= open_[at]
            at += 1
    return np.flatnonzero(inside)
