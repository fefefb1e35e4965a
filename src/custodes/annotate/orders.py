"""The random order of the items of every pair, drawn before the first answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Ints
from custodes.stats.stopping.allocation import annotation_order

if TYPE_CHECKING:
    from custodes.annotate.material import Material, Pair

ABSENT, NOTHING = -1, -2
"""Of an output: there is none, and there is nothing to see."""


def clusters_of(clusters: Sequence[str]) -> Ints:
    """A number for the cluster of each item; an item without one stands for itself.

    >>> clusters_of(["d1", "", "d1"]).tolist()
    [0, 1, 0]
    """
    names = [("cluster", own) if own else ("item", place) for place, own in enumerate(clusters)]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([known[name] for name in names], dtype=np.int64)


def askable(material: Material, pairs: Sequence[Pair]) -> tuple[NDArray[np.bool_], int, int]:
    """(pairs, items): where people can be asked; how many comparisons are of the same output twice, and how many of
    outputs with nothing to see."""
    rows = {system: row for row, system in enumerate(material.systems)}
    columns = {item.label: column for column, item in enumerate(material.items)}
    seen = np.full((len(rows), len(columns)), ABSENT, dtype=np.int64)  # a number for all that a person would see alike
    known: dict[object, int] = {}
    for (item, system), output in material.outputs.items():
        sight = (" ".join(output.text.split()), output.images)
        seen[rows[system], columns[item]] = NOTHING if output.is_empty else known.setdefault(sight, len(known))
    first = seen[[rows[str(a)] for a, _ in pairs]]
    second = seen[[rows[str(a) if b is None else b] for a, b in pairs]]
    is_rating = np.array([b is None for _, b in pairs], dtype=bool)[:, np.newaxis]
    there = (first != ABSENT) & (second != ABSENT)
    empty = there & (first == NOTHING) & (second == NOTHING)
    same = there & ~empty & (first == second) & ~is_rating
    return there & ~empty & ~same, int(same.sum()), int(empty.sum())


def orders_of(available: NDArray[np.bool_], clusters: Ints, seed: int) -> list[list[int]]:
    """Items of each pair in a random order, only those that can be asked; drawn as `live` draws them.

    >>> sorted(orders_of(np.array([[True, False, True]]), np.arange(3), 0)[0])
    [0, 2]
    """
    drawn = annotation_order(available, clusters, np.random.default_rng(seed))
    return [own[:n].tolist() for own, n in zip(drawn, available.sum(axis=1), strict=True)]


def order_of_later(available: NDArray[np.bool_], clusters: Ints, seed: int, *names: str) -> list[int]:
    """The order of a pair, or of its items, that came later: by a seed of its own, so that all before it stays."""
    words = hashlib.sha256("\0".join(names).encode()).digest()
    own = np.random.default_rng([seed, *np.frombuffer(words, dtype=np.uint32).tolist()])
    drawn = annotation_order(available[np.newaxis], clusters, own)
    return [int(place) for place in drawn[0, : int(available.sum())]]
