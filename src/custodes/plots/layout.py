"""Layout of a ranking graph: layers, then barycentres (Sugiyama, Tagawa and Toda 1981)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from custodes.stats import graphs

SWEEPS = 12
BEND_WIDTH = 0.4
"""Width of an edge that passes through a layer, relative to the width of a node."""


@dataclass(frozen=True, kw_only=True)
class Layout:
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
    graph_node_layers = _middle_layers(adjacency)
    layer_of_node_or_bend = list(graph_node_layers)
    node_chains = []
    for winner, loser in edges:
        bend_nodes = range(
            len(layer_of_node_or_bend),
            len(layer_of_node_or_bend) + int(graph_node_layers[loser] - graph_node_layers[winner]) - 1,
        )
        layer_of_node_or_bend += range(int(graph_node_layers[winner]) + 1, int(graph_node_layers[loser]))
        node_chains.append([winner, *bend_nodes, loser])
    nodes_of_layer = [
        [node for node, node_layer in enumerate(layer_of_node_or_bend) if node_layer == layer_index]
        for layer_index in range(max(layer_of_node_or_bend, default=-1) + 1)
    ]
    upper_neighbours_of_node: dict[int, list[int]] = {node: [] for node in range(len(layer_of_node_or_bend))}
    lower_neighbours_of_node: dict[int, list[int]] = {node: [] for node in range(len(layer_of_node_or_bend))}
    for node_chain in node_chains:
        for upper_node, lower_node in pairwise(node_chain):
            lower_neighbours_of_node[upper_node].append(lower_node)
            upper_neighbours_of_node[lower_node].append(upper_node)
    x_of_node = _spread(nodes_of_layer, n_nodes)
    for sweep_index in range(SWEEPS):
        is_downward = sweep_index % 2 == 0
        neighbours_of_node = upper_neighbours_of_node if is_downward else lower_neighbours_of_node
        for layer_index in range(len(nodes_of_layer)) if is_downward else reversed(range(len(nodes_of_layer))):
            nodes_of_layer[layer_index].sort(
                key=lambda node: _centre(x_of_node, neighbours_of_node[node], x_of_node[node])
            )
            x_of_node |= _spread(nodes_of_layer[layer_index : layer_index + 1], n_nodes)
    return Layout(
        x=np.array([x_of_node[node] for node in range(n_nodes)], dtype=np.float64),
        layer=graph_node_layers,
        lines=tuple(
            tuple((x_of_node[node], int(layer_of_node_or_bend[node])) for node in node_chain)
            for node_chain in node_chains
        ),
    )


def _middle_layers(adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The mean of the highest and the lowest possible layer of each node. With these layers every edge points down."""
    highest_layers = graphs.layers(adjacency)
    layers_from_bottom = graphs.layers(adjacency.T)
    return np.asarray((highest_layers + highest_layers.max(initial=0) - layers_from_bottom) // 2, dtype=np.intp)


def _centre(x_of_node: dict[int, float], neighbours: Sequence[int], current_x: float) -> float:
    return float(np.mean([x_of_node[node] for node in neighbours])) if neighbours else current_x


def _spread(nodes_of_layers: Sequence[Sequence[int]], n_nodes: int) -> dict[int, float]:
    """The horizontal positions of the nodes of each layer. The positions of a layer are centred on 0."""
    x_of_node: dict[int, float] = {}
    for layer_nodes in nodes_of_layers:
        node_widths = np.array([1.0 if node < n_nodes else BEND_WIDTH for node in layer_nodes])
        node_centres = np.cumsum(node_widths) - node_widths / 2 - node_widths.sum() / 2
        x_of_node |= {node: float(node_centre) for node, node_centre in zip(layer_nodes, node_centres, strict=True)}
    return x_of_node
