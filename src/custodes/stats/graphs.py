"""Graphs of significant differences: cycles, condensation, transitive reduction, layers and group letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def condensation(adjacency: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Strongly connected components of a graph, and the graph of these components.

    adjacency (n, n) -> component of each node (n,), adjacency of components (k, k). `adjacency[a, b]` is True if a wins
    against b. Components are numbered in topological order, winners before losers: first by layer, then by smallest
    member. So equal graphs get equal numbers.

    >>> beats = np.zeros((4, 4), dtype=bool)
    >>> beats[[0, 1, 2, 0], [1, 2, 0, 3]] = True
    >>> component, between = condensation(beats)
    >>> component.tolist(), between.tolist()
    ([0, 0, 0, 1], [[False, True], [False, False]])
    """
    reach = closure(adjacency)
    mutual = (reach & reach.T) | np.eye(len(adjacency), dtype=bool)
    # Each row is one component. Rows are reversed, so that the component with the smallest member comes first.
    members = np.unique(mutual, axis=0)[::-1]
    between = _product(_product(members, adjacency), members.T) & ~np.eye(len(members), dtype=bool)
    order = np.argsort(layers(between), kind="stable")
    return members[order].argmax(axis=0), between[np.ix_(order, order)]


def transitive_reduction(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Smallest set of edges of an acyclic graph with the same reachability as all edges: adjacency (n, n) -> (n, n).

    >>> chain = np.triu(np.ones((3, 3), dtype=bool), 1)
    >>> np.argwhere(transitive_reduction(chain)).tolist()
    [[0, 1], [1, 2]]

    Source: Aho, Garey and Ullman 1972.
    """
    reach = closure(adjacency)
    return adjacency & ~_product(adjacency, reach)


def layers(component_adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Layer of each component: acyclic adjacency (k, k) -> (k,).

    The layer is the length of the longest path that ends at the component. Components without a loss have layer 0.

    >>> layers(np.triu(np.ones((3, 3), dtype=bool), 1)).tolist()
    [0, 1, 2]
    """
    layer = np.zeros(len(component_adjacency), dtype=np.intp)
    while True:
        below = np.where(component_adjacency, layer[:, np.newaxis] + 1, 0).max(axis=0, initial=0)
        if (below == layer).all():
            return layer
        layer = below


def clearest_cycles(edge: Floats) -> list[list[int]]:
    """For each strongly connected component of two or more nodes, the cycle whose weakest edge is strongest.

    Parameters
    ----------
    edge : array of shape (n, n)
        `edge[a, b]` is the positive strength of the edge from a to b, or 0 without such an edge.

    Returns
    -------
    list of list of int
        The nodes of each cycle in order, from the node with the smallest index. Cycles of larger components come first.

    Examples
    --------
    >>> edge = np.zeros((4, 4))
    >>> edge[[0, 1, 2, 0, 3], [1, 2, 0, 3, 2]] = [0.9, 0.8, 0.7, 0.6, 0.9]
    >>> clearest_cycles(edge)
    [[0, 1, 2]]
    """
    from scipy.sparse.csgraph import breadth_first_order

    parts = [np.flatnonzero(label) for label in _strong_parts(edge > 0)]
    cycles = []
    for part in sorted(parts, key=lambda part: (-len(part), part[0])):
        within = edge[np.ix_(part, part)]
        levels = np.unique(within[within > 0])
        low, high = 0, len(levels) - 1  # the highest level at which a cycle remains
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(_strong_parts(within >= levels[middle])) else (low, middle - 1)
        strong = within >= levels[low]
        for start, end in np.argwhere(within == levels[low]):
            order, before = breadth_first_order(strong, end, directed=True, return_predecessors=True)
            if start in order:
                cycle = [int(start)]
                while cycle[-1] != end:
                    cycle.append(int(before[cycle[-1]]))
                cycle = [int(part[node]) for node in reversed(cycle)]
                first = cycle.index(min(cycle))
                cycles.append(cycle[first:] + cycle[:first])
                break
    return cycles


def _strong_parts(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Strongly connected components with at least two nodes, as masks (components, n)."""
    from scipy.sparse.csgraph import connected_components

    label = connected_components(adjacency.astype(np.int8), directed=True, connection="strong")[1]
    repeated = np.flatnonzero(np.bincount(label) > 1)
    return np.asarray(label == repeated[:, np.newaxis])


def letters(different: Bools, order: Sequence[int]) -> list[str]:
    """Group letters of each node: two nodes share a letter if and only if they do not differ significantly.

    `different` (n, n) is symmetric and marks pairs that differ significantly. `order` lists the nodes from the best
    node, which gets the first letters. The letters after z are a1, b1 and so on. Every letter is given to as many nodes
    as possible. The number of letters is small, but not always minimal.

    >>> apart = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letters(apart, [0, 1, 2])
    ['a', 'ab', 'b']

    Source: Piepho 2004 for the display; Gramm et al. 2007, who cover the pairs without significant difference by
    cliques.
    """
    ranked = np.asarray(order, dtype=np.intp)
    matrix = ~np.asarray(different, dtype=bool)[np.ix_(ranked, ranked)]
    np.fill_diagonal(matrix, True)
    open_ = matrix.copy()
    groups: list[list[int]] = []
    for a in range(len(ranked)):
        while (rest := np.flatnonzero(open_[a, a:]) + a).size:
            # The group has a single node only if this node shares no letter.
            groups.append(_clique(matrix, open_, a, rest[1] if rest[0] == a and len(rest) > 1 else rest[0]))
            open_[np.ix_(groups[-1], groups[-1])] = False
    groups.sort()
    words = [""] * len(different)
    for i, group in enumerate(groups):
        name = _ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "")
        for thing in group:
            words[ranked[thing]] += name
    return words


def _clique(near: Bools, open_: Bools, a: int, b: int) -> list[int]:
    """Maximal clique that contains nodes a and b. Nodes that cover an uncovered pair are added first, then further
    nodes."""
    inside = [a, b]
    fits, brings = near[a] & near[b], open_[a] | open_[b]
    for new in (True, False):
        for node in np.flatnonzero(fits).tolist():
            if fits[node] and node not in inside and (brings[node] or not new):
                inside.append(node)
                fits = fits & near[node]
                brings = brings | open_[node]
    return sorted(set(inside))


def closure(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reachability by repeated squaring: element [..., a, b] is whether a path of at least one edge leads from a to
    b."""
    reach = adjacency
    while True:
        longer = reach | _product(reach, reach)
        if (longer == reach).all():
            return reach
        reach = longer


def _product(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Boolean matrix product, computed in float32 because BLAS has no Boolean type."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0)
