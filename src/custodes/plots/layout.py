"""Layout of a ranking graph: layers, then barycentres (Sugiyama, Tagawa and Toda 1981)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats import graphs

SWEEPS = 12
BEND_WIDTH = 0.4
"""Width of an edge that passes through a layer, relative to the width of a node."""


class Layout(NamedTuple):
    """Positions `x` and layers `layer` of the nodes, and for each edge the points of its line from winner to loser."""

    x: NDArray[np.float64]
    layer: NDArray[np.intp]
    lines: tuple[tuple[tuple[float, int], ...], ...]


def layered_layout(adjacency: NDArray[np.bool_], edges: Sequence[tuple[int, int]]) -> Layout:
    """Layout with winners above losers. A node without wins and losses is in the middle layer, since it has no rank.

    >>> layered_layout(np.triu(np.ones((3, 3), dtype=bool), 1), [(0, 1), (1, 2)]).layer.tolist()
    [0, 1, 2]
    """
    n_nodes = len(adjacency)
    # The mean of the highest and the lowest possible layer of each node. With these layers every edge points down.
    highest_layer_of_node, layer_of_node_from_bottom = graphs.layers(adjacency), graphs.layers(adjacency.T)
    layer_of_node = (highest_layer_of_node + highest_layer_of_node.max(initial=0) - layer_of_node_from_bottom) // 2
    layer_of_node_or_bend: list[int] = layer_of_node.tolist()
    node_chains = []
    for winner, loser in edges:
        bend_layers = range(layer_of_node_or_bend[winner] + 1, layer_of_node_or_bend[loser])
        n_nodes_and_bends = len(layer_of_node_or_bend)
        node_chains.append([winner, *range(n_nodes_and_bends, n_nodes_and_bends + len(bend_layers)), loser])
        layer_of_node_or_bend += bend_layers
    nodes_of_layer = [
        [node for node, node_layer in enumerate(layer_of_node_or_bend) if node_layer == layer_index]
        for layer_index in range(max(layer_of_node_or_bend, default=-1) + 1)
    ]
    lower_neighbours_of_node, upper_neighbours_of_node = (
        defaultdict[int, list[int]](list),
        defaultdict[int, list[int]](list),
    )
    for node_chain in node_chains:
        for upper_node, lower_node in pairwise(node_chain):
            lower_neighbours_of_node[upper_node].append(lower_node)
            upper_neighbours_of_node[lower_node].append(upper_node)
    x_of_node: dict[int, float] = {}
    for layer_nodes in nodes_of_layer:
        x_of_node |= _centred_positions(layer_nodes, n_nodes)
    for sweep_index in range(SWEEPS):
        is_downward = sweep_index % 2 == 0
        neighbours_of_node = upper_neighbours_of_node if is_downward else lower_neighbours_of_node
        for layer_nodes in nodes_of_layer if is_downward else reversed(nodes_of_layer):
            # A node without neighbours keeps its position.
            layer_nodes.sort(
                key=lambda node: np.mean([x_of_node[neighbour] for neighbour in neighbours_of_node[node] or [node]])
            )
            x_of_node |= _centred_positions(layer_nodes, n_nodes)
    return Layout(
        x=np.array([x_of_node[node] for node in range(n_nodes)], dtype=np.float64),
        layer=layer_of_node,
        lines=tuple(
            tuple((x_of_node[node], layer_of_node_or_bend[node]) for node in node_chain) for node_chain in node_chains
        ),
    )


def _centred_positions(layer_nodes: Sequence[int], n_nodes: int) -> dict[int, float]:
    """The horizontal positions of the nodes of a layer, centred on 0. Nodes whose number is `n_nodes` or higher stand
    for bends of edges."""
    node_widths = np.array([1.0 if node < n_nodes else BEND_WIDTH for node in layer_nodes])
    node_centres = np.cumsum(node_widths) - node_widths / 2 - node_widths.sum() / 2
    return dict(zip(layer_nodes, node_centres.tolist(), strict=True))
