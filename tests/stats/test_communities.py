from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.communities import communities

seeds = st.integers(0, 2**32 - 1)


def similarity_of(rng: np.random.Generator, n: int, *, missing: float = 0.0) -> np.ndarray:
    upper = np.triu(np.where(rng.random((n, n)) < missing, np.nan, rng.random((n, n))), 1)
    return upper + upper.T + np.eye(n)


def planted(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return similarities near .8 within a community and near .3 across."""
    noise = rng.normal(scale=0.02, size=(len(labels), len(labels)))
    return np.where(labels[:, np.newaxis] == labels, 0.8, 0.3) + (noise + noise.T) / 2


def graph_of(similarity: np.ndarray) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(similarity)))
    for a in range(len(similarity)):
        for b in range(a + 1, len(similarity)):
            if similarity[a, b] > 0:
                graph.add_edge(a, b, weight=float(similarity[a, b]))
    return graph


def modularity(similarity: np.ndarray, labels: np.ndarray) -> float:
    return float(nx.community.modularity(graph_of(similarity), partition(labels), weight="weight"))


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


def every_partition(n: int) -> np.ndarray:
    """Return the labels of all partitions (Bell number, n), with communities numbered by first occurrence."""
    partitions = [[0]]
    for _ in range(n - 1):
        partitions = [[*labels, label] for labels in partitions for label in range(max(labels) + 2)]
    return np.array(partitions)


def highest_modularity(similarity: np.ndarray) -> float:
    """Return the highest modularity over all partitions."""
    weights = np.nan_to_num(similarity) * (1 - np.eye(len(similarity)))
    degree, labels = weights.sum(axis=0), every_partition(len(similarity))
    excess = (weights - np.outer(degree, degree) / weights.sum()) / weights.sum()
    together = labels[:, :, np.newaxis] == labels[:, np.newaxis, :]
    return float((together * excess).sum(axis=(1, 2)).max())


# no Hypothesis: a heuristic may miss the optimum of a rare graph
@pytest.mark.parametrize("seed", range(8))
def test_no_partition_of_few_nodes_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = similarity_of(rng, 3 + seed % 6, missing=0.3 * (seed % 3))
    modularity_found = modularity(similarity, communities(similarity, seed=seed))
    assert modularity_found == pytest.approx(highest_modularity(similarity), abs=1e-9)


@pytest.mark.parametrize(("n", "missing"), [(15, 0.5), (40, 0), (60, 0.8)])
def test_networkx_finds_nothing_better(n: int, missing: float) -> None:
    similarity = similarity_of(np.random.default_rng(n), n, missing=missing)
    value = modularity(similarity, communities(similarity, seed=0))
    graph = graph_of(similarity)
    others = [nx.community.louvain_communities(graph, seed=seed) for seed in range(3)]
    assert value >= max(nx.community.modularity(graph, labelling) for labelling in others) - 1e-9


@given(seed=seeds)
@settings(max_examples=12)
def test_planted_communities_are_found_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1], [8, 5]))
    labels = labels if labels[0] == 0 else 1 - labels
    assert np.array_equal(communities(planted(labels, rng), seed=seed), labels)
    order = rng.permutation(len(labels))
    shuffled = communities(planted(labels, rng)[np.ix_(order, order)], seed=seed)
    assert partition(shuffled) == partition(labels[order])


def test_nothing_alike_is_nothing_together() -> None:
    for empty in (np.zeros((3, 3)), np.full((3, 3), np.nan), np.eye(3)):
        assert communities(empty, seed=0).tolist() == [0, 1, 2]
    assert communities(np.zeros((0, 0)), seed=0).tolist() == []
    assert communities(np.ones((4, 4)), seed=0).tolist() == [0, 0, 0, 0]
    alone = np.ones((4, 4))
    alone[1], alone[:, 1] = np.nan, np.nan
    assert communities(alone, seed=0).tolist() == [0, 1, 0, 0]


@given(seed=seeds)
@settings(max_examples=12)
def test_a_node_without_edges_changes_nothing_and_is_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    similarity, linked = similarity_of(rng, n), rng.random(n) < 0.7
    similarity[~linked], similarity[:, ~linked] = rng.choice([0.0, np.nan]), np.nan
    labels = communities(similarity, seed=seed)
    assert all((labels == label).sum() == 1 for label in labels[~linked])
    alone = communities(similarity[np.ix_(linked, linked)], seed=seed)
    assert partition(labels[linked]) == partition(alone)


def test_rounding_below_zero_is_no_edge() -> None:
    assert communities(np.full((2, 2), -1e-17), seed=0).tolist() == [0, 1]
