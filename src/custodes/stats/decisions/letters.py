"""Letters for groups of things that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    matrix = ~np.asarray(apart, dtype=bool)[np.ix_(ranked, ranked)]
    np.fill_diagonal(matrix, True)
    near = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(matrix, axis=1, bitorder="little")]
    open_, n = near.copy(), len(ranked)
    groups: list[list[int]] = []
    for a in range(n):
        while rest := open_[a] >> a:
            # alone only where nobody shares
            filled = _filled(near, open_, a, a + _lowest(rest - 1 if rest & 1 and rest > 1 else rest))
            groups.append([i for i in range(n) if filled >> i & 1])
            for i in groups[-1]:
                open_[i] &= ~filled
    groups.sort()
    words = [""] * len(apart)
    for i, group in enumerate(groups):
        name = _ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "")
        for thing in group:
            words[ranked[thing]] += name
    return words


def _filled(near: list[int], open_: list[int], a: int, b: int) -> int:
    """Two that share a letter and all who can join: first who brings a pair that is still open, then anybody.

    Sets of things are the bits of whole numbers, which are many times faster than small arrays.
    """
    inside = 1 << a | 1 << b
    fits, brings = near[a] & near[b], open_[a] | open_[b]
    for new in (True, False):
        at = 0
        while may := (fits & ~inside & brings if new else fits & ~inside) >> at:
            at += _lowest(may)
            inside |= 1 << at
            fits &= near[at]
            brings |= open_[at]
            at += 1
    return inside


def _lowest(bits: int) -> int:
    """The place of the first bit."""
    return (bits & -bits).bit_length() - 1
