"""Graphs of significant differences: cycles, condensation, transitive reduction, layers and group letters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats


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
    # Each row marks the members of one component.
    member_masks = is_mutual[is_mutual.argmax(axis=1) == np.arange(len(is_mutual))]
    component_adjacency = _product(_product(member_masks, adjacency), member_masks.T) & ~np.eye(
        len(member_masks), dtype=bool
    )
    component_order = np.argsort(layers(component_adjacency), kind="stable")
    return member_masks[component_order].argmax(axis=0), component_adjacency[np.ix_(component_order, component_order)]


def transitive_reduction(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Smallest set of edges of an acyclic graph with the same reachability as all edges: adjacency (n, n) -> (n, n).

    >>> chain = np.triu(np.ones((3, 3), dtype=bool), 1)
    >>> np.argwhere(transitive_reduction(chain)).tolist()
    [[0, 1], [1, 2]]

    Source: Aho, Garey and Ullman 1972.
    """
    return adjacency & ~_product(adjacency, closure(adjacency))


def layers(component_adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Layer of each component: acyclic adjacency (k, k) -> (k,).

    The layer is the length of the longest path that ends at the component. Components without a loss have layer 0.

    >>> layers(np.triu(np.ones((3, 3), dtype=bool), 1)).tolist()
    [0, 1, 2]
    """
    layer_of_component, is_changed = np.zeros(len(component_adjacency), dtype=np.intp), True
    while is_changed:
        new_layers = np.where(component_adjacency, layer_of_component[:, np.newaxis] + 1, 0).max(axis=0, initial=0)
        layer_of_component, is_changed = new_layers, not np.array_equal(new_layers, layer_of_component)
    return layer_of_component


def clearest_cycles(edge_strengths: Floats) -> list[list[int]]:
    """For each strongly connected component of two or more nodes, one cycle: of all cycles, the one with the strongest
    weakest edge.

    Parameters
    ----------
    edge_strengths : array of shape (n, n)
        `edge_strengths[a, b]` is the positive strength of the edge from a to b, or 0 without such an edge.

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

    cycles = []
    for members in sorted(map(np.flatnonzero, _strong_parts(edge_strengths > 0)), key=lambda x: (-len(x), x[0])):
        inner_edge_strengths = edge_strengths[np.ix_(members, members)]
        distinct_strengths = np.unique(inner_edge_strengths[inner_edge_strengths > 0])

        def has_no_cycle(strength: float, edge_strengths: Floats = inner_edge_strengths) -> bool:
            return len(_strong_parts(edge_strengths >= strength)) == 0

        weakest_strength = distinct_strengths[bisect_left(distinct_strengths, True, key=has_no_cycle) - 1]
        for source, target in np.argwhere(inner_edge_strengths == weakest_strength):
            reached_nodes, predecessor_of_node = breadth_first_order(inner_edge_strengths >= weakest_strength, target)
            if source in reached_nodes:
                cycle = [source]
                while cycle[0] != target:
                    cycle.insert(0, predecessor_of_node[cycle[0]])
                cycles.append(members[np.roll(cycle, -np.argmin(cycle))].tolist())
                break
    return cycles


def _strong_parts(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Strongly connected components with at least two nodes, as masks (components, n)."""
    from scipy.sparse.csgraph import connected_components

    label_of_node = connected_components(adjacency.astype(np.int8), connection="strong")[1]
    return np.asarray(label_of_node == np.flatnonzero(np.bincount(label_of_node) > 1)[:, np.newaxis])


def letters(is_different: Bools, order: Sequence[int]) -> list[str]:
    """Group letters of each node: two nodes share a letter if and only if they do not differ significantly.

    `is_different` (n, n) is symmetric and marks pairs that differ significantly. `order` lists the nodes from the best
    node, which gets the first letters. The letters after z are a1, b1 and so on. Every letter is given to as many nodes
    as possible. The number of letters is small, but not always minimal.

    >>> different = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letters(different, [0, 1, 2])
    ['a', 'ab', 'b']

    Source: Piepho 2004 for the display; Gramm et al. 2007, who cover the pairs without significant difference by
    cliques.
    """
    ranked_nodes = np.asarray(order, dtype=np.intp)
    is_not_different = ~is_different[np.ix_(ranked_nodes, ranked_nodes)]
    np.fill_diagonal(is_not_different, True)
    is_uncovered_pair = is_not_different.copy()
    ranks_of_group: list[list[int]] = []
    for first_rank in range(len(ranked_nodes)):
        while (uncovered_ranks := np.flatnonzero(is_uncovered_pair[first_rank, first_rank:]) + first_rank).size:
            # The group has a single node only if this node shares no letter.
            ranks_of_group.append(
                _clique(
                    is_not_different,
                    is_uncovered_pair,
                    first_rank,
                    uncovered_ranks[1]
                    if uncovered_ranks[0] == first_rank and len(uncovered_ranks) > 1
                    else uncovered_ranks[0],
                )
            )
            is_uncovered_pair[np.ix_(ranks_of_group[-1], ranks_of_group[-1])] = False
    letters_of_node = [""] * len(is_different)
    for group_index, group_ranks in enumerate(sorted(ranks_of_group)):
        for rank in group_ranks:
            letters_of_node[ranked_nodes[rank]] += ascii_lowercase[group_index % 26] + str(group_index // 26 or "")
    return letters_of_node


def _clique(is_not_different: Bools, is_uncovered_pair: Bools, first_node: int, second_node: int) -> list[int]:
    """Maximal clique that contains both nodes. Nodes that cover an uncovered pair are added first, then further
    nodes."""
    clique = [first_node, second_node]
    is_adjacent_to_clique, has_uncovered_pair = (
        is_not_different[first_node] & is_not_different[second_node],
        is_uncovered_pair[first_node] | is_uncovered_pair[second_node],
    )
    for is_covering_pass in (True, False):
        for node in np.flatnonzero(is_adjacent_to_clique).tolist():
            if (
                is_adjacent_to_clique[node]
                and node not in clique
                and (has_uncovered_pair[node] or not is_covering_pass)
            ):
                clique.append(node)
                is_adjacent_to_clique = is_adjacent_to_clique & is_not_different[node]
                has_uncovered_pair = has_uncovered_pair | is_uncovered_pair[node]
    return sorted(set(clique))


def closure(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reachability by repeated squaring: element [..., a, b] is whether a path of at least one edge leads from a to
    b."""
    is_reachable = adjacency
    for _ in range(adjacency.shape[-1].bit_length()):  # each step doubles the length of the paths
        is_reachable = is_reachable | _product(is_reachable, is_reachable)
    return is_reachable


def _product(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Boolean matrix product, computed in float32 because BLAS has no Boolean type."""
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32) > 0)
