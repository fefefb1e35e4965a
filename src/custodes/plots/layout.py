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
    n = len(adjacency)
    layer = _middle_layers(adjacency)
    layer_of_node = list(layer)
    chains = []
    for winner, loser in edges:
        bend_nodes = range(len(layer_of_node), len(layer_of_node) + int(layer[loser] - layer[winner]) - 1)
        layer_of_node += range(int(layer[winner]) + 1, int(layer[loser]))
        chains.append([winner, *bend_nodes, loser])
    nodes_of_layer = [
        [node for node, node_layer in enumerate(layer_of_node) if node_layer == k]
        for k in range(max(layer_of_node, default=-1) + 1)
    ]
    upper_neighbours: dict[int, list[int]] = {node: [] for node in range(len(layer_of_node))}
    lower_neighbours: dict[int, list[int]] = {node: [] for node in range(len(layer_of_node))}
    for chain in chains:
        for upper, lower in pairwise(chain):
            lower_neighbours[upper].append(lower)
            upper_neighbours[lower].append(upper)
    x = _spread(nodes_of_layer, n)
    for sweep in range(SWEEPS):
        is_downward = sweep % 2 == 0
        neighbours = upper_neighbours if is_downward else lower_neighbours
        for k in range(len(nodes_of_layer)) if is_downward else reversed(range(len(nodes_of_layer))):
            nodes_of_layer[k].sort(key=lambda node: _centre(x, neighbours[node], x[node]))
            x |= _spread(nodes_of_layer[k : k + 1], n)
    return Layout(
        x=np.array([x[node] for node in range(n)], dtype=np.float64),
        layer=layer,
        lines=tuple(tuple((x[node], int(layer_of_node[node])) for node in chain) for chain in chains),
    )


def _middle_layers(adjacency: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The mean of the highest and the lowest possible layer of each node. With these layers every edge points down."""
    top = graphs.layers(adjacency)
    bottom = graphs.layers(adjacency.T)
    return np.asarray((top + top.max(initial=0) - bottom) // 2, dtype=np.intp)


def _centre(x: dict[int, float], neighbours: Sequence[int], position: float) -> float:
    return float(np.mean([x[node] for node in neighbours])) if neighbours else position


def _spread(layers: Sequence[Sequence[int]], n: int) -> dict[int, float]:
    """The horizontal positions of the nodes of each layer. The positions of a layer are centred on 0."""
    x: dict[int, float] = {}
    for layer_nodes in layers:
        widths = np.array([1.0 if node < n else BEND_WIDTH for node in layer_nodes])
        middles = np.cumsum(widths) - widths / 2 - widths.sum() / 2
        x |= {node: float(middle) for node, middle in zip(layer_nodes, middles, strict=True)}
    return x
