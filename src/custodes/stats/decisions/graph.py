"""The ranking graph: significance is not transitive, so condense its cycles first, then drop implied edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import require


def condensation(adjacency: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Systems that beat each other in a circle, merged: adjacency (n, n) -> component (n,), its adjacency (k, k).

    adjacency[a, b] says that a beats b. Components are the strongly connected ones, numbered in topological order
    (a winner before its losers; by layer, then by smallest member), so equal graphs give equal numbers.

    >>> beats = np.zeros((4, 4), dtype=bool)
    >>> beats[[0, 1, 2, 0], [1, 2, 0, 3]] = True
    >>> component, between = condensation(beats)
    >>> component.tolist(), between.tolist()
    ([0, 0, 0, 1], [[False, True], [False, False]])
    """
    reach = _closure(adjacency)
    mutual = (reach & reach.T) | np.eye(len(adjacency), dtype=bool)
    # each row is one component, backwards: by smallest member first, as the order of components in a layer
    members = np.unique(mutual, axis=0)[::-1]
    between = _product(_product(members, adjacency), members.T) & ~np.eye(len(members), dtype=bool)
    order = np.argsort(layers(between), kind="stable")
    return members[order].argmax(axis=0), between[np.ix_(order, order)]


def transitive_reduction(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The fewest edges that imply the same order: adjacency (n, n) of a graph without cycles -> (n, n).

    >>> chain = np.triu(np.ones((3, 3), dtype=bool), 1)
    >>> np.argwhere(transitive_reduction(chain)).tolist()
    [[0, 1], [1, 2]]

    Source: Aho, Garey and Ullman 1972.
    """
    reach = _closure(adjacency)
    require(not reach.diagonal().any(), "transitive reduction of a graph with a cycle")
    return adjacency & ~_product(adjacency, reach)


def layers(component_adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many edges the longest path to each component has: adjacency (k, k) without cycles -> (k,), winners at 0.

    >>> layers(np.triu(np.ones((3, 3), dtype=bool), 1)).tolist()
    [0, 1, 2]
    """
    layer = np.zeros(len(component_adjacency), dtype=np.intp)
    while layer.max(initial=0) <= len(component_adjacency):
        below = np.where(component_adjacency, layer[:, np.newaxis] + 1, 0).max(axis=0, initial=0)
        if (below == layer).all():
            return layer
        layer = below
    raise ValueError("layers of a graph with a cycle")


def _closure(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """reach[a, b]: whether a path of one edge or more leads from a to b, by repeated squaring."""
    reach = adjacency
    while True:
        longer = reach | _product(reach, reach)
        if (longer == reach).all():
            return reach
        reach = longer


def _product(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The Boolean matrix product; through float32, because BLAS knows no Boolean."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0)
