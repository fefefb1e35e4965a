"""Communities of raters, with modularity and stability. Raters are more similar within communities than between them.

Several functions share these arrays. `similarity` (n, n) is symmetric and not negative; its diagonal is ignored, and
NaN or 0 means that there is no edge. `labels` (n,) is the community of each node.
"""

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
    edge_weights = _weights(similarity)
    labels = np.arange(len(edge_weights))
    has_edge = edge_weights.any(axis=0) | edge_weights.any(axis=1)
    if has_edge.any():  # nodes without edges are left out: moving them does not change modularity
        labels[has_edge] = _search(
            _affinity(edge_weights[np.ix_(has_edge, has_edge)]), np.random.default_rng(seed)
        ) + len(labels)
    _, first_node_of_community, community_of_node = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first_node_of_community.argsort().argsort()[community_of_node])


def modularity(similarity: NDArray[Any], labels: NDArray[np.integer[Any]]) -> float:
    """Modularity: the proportion of weight within communities, minus its expectation for random edges; NaN without
    edges.

    >>> blocks = np.kron(np.eye(2), np.ones((2, 2)))
    >>> modularity(blocks, np.array([0, 0, 1, 1]))
    0.5

    Source: Newman and Girvan 2004, with weights (Newman 2004).
    """
    edge_weights = _weights(similarity)
    total_weight, degree_of_node = edge_weights.sum() or np.nan, edge_weights.sum(axis=0)
    return float(
        (edge_weights - np.outer(degree_of_node, degree_of_node) / total_weight)[_is_same_community(labels)].sum()
        / total_weight
    )


def stability(similarities: NDArray[Any], labels: NDArray[np.integer[Any]], *, seed: int) -> tuple[Floats, Floats]:
    """Stability of communities under resampling, from similarities (B, n, n) in resamples and labels (n,) of the data.

    Returns the stability of each node (n,) and the adjusted Rand index of each resample (B,). The companions of a node
    are the other nodes of its community. The stability of a node is the proportion of its companions in `labels` that
    are also its companions in a resample, averaged over resamples. For a node without companions in `labels`, the
    stability is the proportion of resamples in which the node has no companions. The stability is NaN without
    resamples. The seed of each resample is derived from `seed` and the index of the resample.

    >>> blocks = np.kron(np.eye(2), np.ones((2, 2))) + 0.1
    >>> node_stability, rand = stability(blocks[np.newaxis], np.array([0, 0, 1, 1]), seed=0)
    >>> node_stability.tolist(), rand.tolist()
    ([1.0, 1.0, 1.0, 1.0], [1.0])

    Source: Hennig 2007 for the stability of clusters; Hubert and Arabie 1985 for the index.
    """
    n_resamples, n_nodes = len(similarities), len(labels)
    is_same_reference_community = _is_same_community(labels)
    n_companions_of_node = is_same_reference_community.sum(axis=1) - 1  # without the node itself
    stability_sum_of_node, rand_index_of_resample = np.zeros(n_nodes), np.empty(n_resamples)
    for resample_index, resample_seed in enumerate(np.random.SeedSequence(seed).generate_state(n_resamples)):
        is_same_community = _is_same_community(communities(similarities[resample_index], seed=int(resample_seed)))
        n_shared_companions = (is_same_community & is_same_reference_community).sum(axis=1) - 1
        stability_sum_of_node += np.where(
            n_companions_of_node > 0,
            n_shared_companions / np.maximum(n_companions_of_node, 1),
            is_same_community.sum(axis=1) == 1,
        )
        rand_index_of_resample[resample_index] = _adjusted_rand(is_same_reference_community, is_same_community)
    return (stability_sum_of_node / n_resamples if n_resamples else np.full(n_nodes, np.nan)), rand_index_of_resample


def _weights(similarity: NDArray[Any]) -> Floats:
    """Edge weights (n, n); 0 means that there is no edge."""
    edge_weights = np.where(np.isnan(similarity) | np.eye(len(similarity), dtype=bool), 0.0, similarity)
    return np.maximum(edge_weights, 0.0)


def _affinity(edge_weights: Floats) -> Floats:
    """Half the contribution to modularity (n, n) of each pair of nodes in one community, in multiples of 1 / `_UNIT`.

    The matrix is exactly symmetric, with 0 on the diagonal.
    """
    edge_weight_shares = edge_weights / edge_weights.sum()
    degree_of_node = edge_weight_shares.sum(axis=0)
    affinity = np.rint(
        ((edge_weight_shares + edge_weight_shares.T) / 2 - np.outer(degree_of_node, degree_of_node)) * _UNIT
    )
    return np.where(np.eye(len(edge_weights), dtype=bool), 0.0, affinity)


def _search(affinity: Floats, rng: np.random.Generator) -> Labels:
    """Best labels of several runs of Louvain's method. The first run starts from single nodes, each further run from
    the best labels so far with a random part reassigned."""
    n_nodes = len(affinity)
    best_labels = _louvain(affinity, np.arange(n_nodes), rng)
    best_total_affinity = (affinity * _is_same_community(best_labels)).sum()
    for _ in range(_RETRIES):
        is_reassigned_node = rng.random(n_nodes) < rng.random()
        start_labels = np.where(is_reassigned_node, rng.integers(best_labels.max() + 2, size=n_nodes), best_labels)
        labels = _louvain(affinity, start_labels, rng)
        if (total_affinity := (affinity * _is_same_community(labels)).sum()) > best_total_affinity + _TOLERANCE:
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
    labels, nodes = np.unique(labels, return_inverse=True)[1], np.arange(len(labels))
    affinity_to_community = _sum_rows(affinity, labels)  # (k, n): affinity of each node to each community
    empty_community_affinity = np.zeros((1, len(labels)))  # an empty community, to which a node can be moved alone
    while True:
        affinity_to_community = np.concatenate([affinity_to_community, empty_community_affinity])
        nodes_with_gain = np.flatnonzero(
            affinity_to_community.max(axis=0) - affinity_to_community[labels, nodes] > _TOLERANCE
        )
        if not nodes_with_gain.size:
            return labels
        for node in rng.permutation(nodes_with_gain).tolist():
            current_community, node_affinities = labels[node], affinity_to_community[:, node]
            best_community = node_affinities.argmax()
            if node_affinities[best_community] - node_affinities[current_community] > _TOLERANCE:
                affinity_to_community[current_community] -= affinity[node]
                affinity_to_community[best_community] += affinity[node]
                labels[node] = best_community
        is_nonempty_community = np.bincount(labels, minlength=len(affinity_to_community)) > 0
        affinity_to_community, labels = (
            affinity_to_community[is_nonempty_community],
            (np.cumsum(is_nonempty_community) - 1)[labels],
        )


def _sum_rows(values: Floats, labels: Labels) -> Floats:
    """Sums of the rows of each community: values (n, m), labels (n,) from 0 to k - 1 -> (k, m)."""
    community_sizes = np.bincount(labels)
    # not a matrix product: BLAS threads are slower for such small matrices
    return np.asarray(
        np.add.reduceat(values[labels.argsort(kind="stable")], community_sizes.cumsum() - community_sizes, axis=0)
    )


def _is_same_community(labels: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    return np.asarray(labels[:, np.newaxis] == labels)


def _adjusted_rand(is_same_in_first: NDArray[np.bool_], is_same_in_second: NDArray[np.bool_]) -> float:
    """Adjusted Rand index of two partitions; 1 for equal partitions.

    A partition is a matrix (n, n) that marks the pairs of nodes in the same community.
    """
    if (is_same_in_first == is_same_in_second).all():
        return 1.0
    # counts of ordered pairs; a node does not pair with itself
    n_same_in_both, n_same_in_neither = (
        int((is_same_in_first & is_same_in_second).sum()) - len(is_same_in_first),
        int((~is_same_in_first & ~is_same_in_second).sum()),
    )
    n_same_only_in_first, n_same_only_in_second = (
        int((is_same_in_first & ~is_same_in_second).sum()),
        int((is_same_in_second & ~is_same_in_first).sum()),
    )
    rand_numerator = 2 * (n_same_in_both * n_same_in_neither - n_same_only_in_first * n_same_only_in_second)
    rand_denominator = (n_same_in_both + n_same_only_in_first) * (n_same_only_in_first + n_same_in_neither) + (
        n_same_in_both + n_same_only_in_second
    ) * (n_same_only_in_second + n_same_in_neither)
    return rand_numerator / rand_denominator
