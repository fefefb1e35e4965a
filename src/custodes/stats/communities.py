"""Communities of raters. Raters are more similar within communities than between communities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats

Labels = NDArray[np.intp]

# Gains are integer multiples of 2**-50 of modularity, so sums of them are exact in any order: every accepted move
# increases modularity, and the search cannot cycle.
_UNIT = 2.0**50
_TOLERANCE = 2.0**10  # smaller gains (about 1e-12 of modularity) are ignored
_RETRIES = 20  # enough to find the optimum of nearly every graph of up to 8 nodes


def communities(similarity: NDArray[Any], *, seed: int) -> Labels:
    """Communities of a weighted graph by Louvain's method: similarity (n, n) -> labels (n,).

    `similarity` is symmetric and not negative. The diagonal of `similarity` is ignored, and NaN or 0 means that there
    is no edge.

    The method runs several times, and the partition with the highest modularity is returned. The first run starts from
    single nodes. Each further run starts from the best partition so far, with a random part of its nodes reassigned. A
    run can also move a node to a new community. Communities are numbered by their smallest member. A node without edges
    is a community of one node. The same seed gives the same labels.

    >>> blocks = np.kron(np.eye(2), np.ones((2, 2))) + 0.1
    >>> communities(blocks, seed=0).tolist()
    [0, 0, 1, 1]

    Source: Blondel et al. 2008; the glass ceiling paper, appendix B.2. Lourenço, Martin and Stützle 2003 for the runs
    (iterated local search).
    """
    edge_weights = np.fmax(np.where(np.eye(len(similarity), dtype=bool), 0.0, similarity), 0.0)
    labels = np.arange(len(edge_weights))
    has_edge = edge_weights.any(axis=0) | edge_weights.any(axis=1)
    if has_edge.any():  # nodes without edges are left out: moving them does not change modularity
        labels[has_edge] = _search(
            _affinity(edge_weights[np.ix_(has_edge, has_edge)]), np.random.default_rng(seed)
        ) + len(labels)
    _, first_node_of_community, community_of_node = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first_node_of_community.argsort().argsort()[community_of_node])


def _affinity(edge_weights: Floats) -> Floats:
    """Half the contribution (n, n) of each pair of nodes to modularity if both nodes are in one community.

    The unit is 1 / `_UNIT`. The matrix is exactly symmetric, with 0 on the diagonal.
    """
    edge_weight_shares = edge_weights / edge_weights.sum()
    degree_of_node = edge_weight_shares.sum(axis=0)
    affinity = np.rint(
        ((edge_weight_shares + edge_weight_shares.T) / 2 - np.outer(degree_of_node, degree_of_node)) * _UNIT
    )
    return np.where(np.eye(len(edge_weights), dtype=bool), 0.0, affinity)


def _search(affinity: Floats, rng: np.random.Generator) -> Labels:
    """Best labels of several runs of Louvain's method. The first run starts from single nodes. Each further run starts
    from the best labels so far, with a random part of the labels reassigned."""
    n_nodes = len(affinity)
    best_labels = _louvain(affinity, np.arange(n_nodes), rng)
    best_total_affinity = (affinity * np.equal.outer(best_labels, best_labels)).sum()
    for _ in range(_RETRIES):
        is_reassigned_node = rng.random(n_nodes) < rng.random()
        start_labels = np.where(is_reassigned_node, rng.integers(best_labels.max() + 2, size=n_nodes), best_labels)
        labels = _louvain(affinity, start_labels, rng)
        if (total_affinity := (affinity * np.equal.outer(labels, labels)).sum()) > best_total_affinity + _TOLERANCE:
            best_labels, best_total_affinity = labels, total_affinity
    return best_labels


def _louvain(affinity: Floats, labels: Labels, rng: np.random.Generator) -> Labels:
    """Improve labels (n,): move nodes, then merge each community into one node and repeat."""
    labels = _move_nodes(affinity, labels, rng)
    community_affinity = _sum_rows(_sum_rows(affinity, labels).T, labels)
    if len(community_affinity) == len(labels):
        return labels
    np.fill_diagonal(community_affinity, 0.0)
    return _louvain(community_affinity, np.arange(len(community_affinity)), rng)[labels]


def _move_nodes(affinity: Floats, labels: Labels, rng: np.random.Generator) -> Labels:
    """Labels 0..k-1 after moving single nodes, in random order, to the community with the largest gain until no move
    has a gain."""
    while True:
        labels = np.unique(labels, return_inverse=True)[1]
        # A node can also be moved to an empty community, which has the last row.
        affinity_to_community = np.pad(_sum_rows(affinity, labels), ((0, 1), (0, 0)))
        own_affinity = np.take_along_axis(affinity_to_community, labels[np.newaxis], axis=0)[0]
        nodes_with_gain = np.flatnonzero(affinity_to_community.max(axis=0) - own_affinity > _TOLERANCE)
        if not nodes_with_gain.size:
            return labels
        for node in rng.permutation(nodes_with_gain).tolist():
            node_affinity_by_community = np.bincount(labels, affinity[node], minlength=len(affinity_to_community))
            best_community = node_affinity_by_community.argmax()
            if node_affinity_by_community[best_community] - node_affinity_by_community[labels[node]] > _TOLERANCE:
                labels[node] = best_community


def _sum_rows(values: Floats, labels: Labels) -> Floats:
    """Sums of the rows of each community: values (n, m), labels (n,) from 0 to k - 1 -> (k, m)."""
    community_sizes = np.bincount(labels)
    # not a matrix product: BLAS threads are slower for such small matrices
    return np.asarray(
        np.add.reduceat(values[labels.argsort(kind="stable")], community_sizes.cumsum() - community_sizes, axis=0)
    )
