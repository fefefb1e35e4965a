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
    is_reachable = closure(adjacency)
    is_mutual = (is_reachable & is_reachable.T) | np.eye(len(adjacency), dtype=bool)
    # Each row is one component: that of its smallest member.
    member_masks = is_mutual[is_mutual.argmax(axis=1) == np.arange(len(is_mutual))]
    component_edges = _product(_product(member_masks, adjacency), member_masks.T) & ~np.eye(
        len(member_masks), dtype=bool
    )
    order = np.argsort(layers(component_edges), kind="stable")
    return member_masks[order].argmax(axis=0), component_edges[np.ix_(order, order)]


def transitive_reduction(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Smallest set of edges of an acyclic graph with the same reachability as all edges: adjacency (n, n) -> (n, n).

    >>> chain = np.triu(np.ones((3, 3), dtype=bool), 1)
    >>> np.argwhere(transitive_reduction(chain)).tolist()
    [[0, 1], [1, 2]]

    Source: Aho, Garey and Ullman 1972.
    """
    is_reachable = closure(adjacency)
    return adjacency & ~_product(adjacency, is_reachable)


def layers(component_adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Layer of each component: acyclic adjacency (k, k) -> (k,).

    The layer is the length of the longest path that ends at the component. Components without a loss have layer 0.

    >>> layers(np.triu(np.ones((3, 3), dtype=bool), 1)).tolist()
    [0, 1, 2]
    """
    layer = np.zeros(len(component_adjacency), dtype=np.intp)
    while True:
        next_layer = np.where(component_adjacency, layer[:, np.newaxis] + 1, 0).max(axis=0, initial=0)
        if (next_layer == layer).all():
            return layer
        layer = next_layer


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

    components = [np.flatnonzero(label) for label in _strong_parts(edge > 0)]
    cycles = []
    for members in sorted(components, key=lambda members: (-len(members), members[0])):
        inner_edges = edge[np.ix_(members, members)]
        thresholds = np.unique(inner_edges[inner_edges > 0])
        low_index, high_index = 0, len(thresholds) - 1  # the highest level at which a cycle remains
        while low_index < high_index:
            middle_index = (low_index + high_index + 1) // 2
            low_index, high_index = (
                (middle_index, high_index)
                if len(_strong_parts(inner_edges >= thresholds[middle_index]))
                else (low_index, middle_index - 1)
            )
        is_strong_edge = inner_edges >= thresholds[low_index]
        for source, target in np.argwhere(inner_edges == thresholds[low_index]):
            order, predecessors = breadth_first_order(is_strong_edge, target, directed=True, return_predecessors=True)
            if source in order:
                cycle = [int(source)]
                while cycle[-1] != target:
                    cycle.append(int(predecessors[cycle[-1]]))
                cycle = [int(members[node]) for node in reversed(cycle)]
                first_index = cycle.index(min(cycle))
                cycles.append(cycle[first_index:] + cycle[:first_index])
                break
    return cycles


def _strong_parts(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Strongly connected components with at least two nodes, as masks (components, n)."""
    from scipy.sparse.csgraph import connected_components

    label_of_node = connected_components(adjacency.astype(np.int8), directed=True, connection="strong")[1]
    repeated_labels = np.flatnonzero(np.bincount(label_of_node) > 1)
    return np.asarray(label_of_node == repeated_labels[:, np.newaxis])


def letters(different: Bools, order: Sequence[int]) -> list[str]:
    """Group letters of each node: two nodes share a letter if and only if they do not differ significantly.

    `different` (n, n) is symmetric and marks pairs that differ significantly. `order` lists the nodes from the best
    node, which gets the first letters. The letters after z are a1, b1 and so on. Every letter is given to as many nodes
    as possible. The number of letters is small, but not always minimal.

    >>> different = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letters(different, [0, 1, 2])
    ['a', 'ab', 'b']

    Source: Piepho 2004 for the display; Gramm et al. 2007, who cover the pairs without significant difference by
    cliques.
    """
    ranked_nodes = np.asarray(order, dtype=np.intp)
    is_not_different = ~np.asarray(different, dtype=bool)[np.ix_(ranked_nodes, ranked_nodes)]
    np.fill_diagonal(is_not_different, True)
    is_uncovered = is_not_different.copy()
    groups: list[list[int]] = []
    for a in range(len(ranked_nodes)):
        while (uncovered_nodes := np.flatnonzero(is_uncovered[a, a:]) + a).size:
            # The group has a single node only if this node shares no letter.
            groups.append(
                _clique(
                    is_not_different,
                    is_uncovered,
                    a,
                    uncovered_nodes[1] if uncovered_nodes[0] == a and len(uncovered_nodes) > 1 else uncovered_nodes[0],
                )
            )
            is_uncovered[np.ix_(groups[-1], groups[-1])] = False
    groups.sort()
    letters_of_node = [""] * len(different)
    for i, group in enumerate(groups):
        letter_code = _ALPHABET[i % 26] + (str(i // 26) if i >= 26 else "")
        for rank in group:
            letters_of_node[ranked_nodes[rank]] += letter_code
    return letters_of_node


def _clique(is_near: Bools, is_uncovered: Bools, a: int, b: int) -> list[int]:
    """Maximal clique that contains nodes a and b. Nodes that cover an uncovered pair are added first, then further
    nodes."""
    clique = [a, b]
    is_adjacent, has_uncovered = is_near[a] & is_near[b], is_uncovered[a] | is_uncovered[b]
    for is_covering_pass in (True, False):
        for node in np.flatnonzero(is_adjacent).tolist():
            if is_adjacent[node] and node not in clique and (has_uncovered[node] or not is_covering_pass):
                clique.append(node)
                is_adjacent = is_adjacent & is_near[node]
                has_uncovered = has_uncovered | is_uncovered[node]
    return sorted(set(clique))


def closure(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reachability by repeated squaring: element [..., a, b] is whether a path of at least one edge leads from a to
    b."""
    is_reachable = adjacency
    while True:
        is_reachable_in_more = is_reachable | _product(is_reachable, is_reachable)
        if (is_reachable_in_more == is_reachable).all():
            return is_reachable
        is_reachable = is_reachable_in_more


def _product(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Boolean matrix product, computed in float32 because BLAS has no Boolean type."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0)
