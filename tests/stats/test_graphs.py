"""The ranking graph against networkx, on random graphs with and without cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.graphs import condensation, layers, transitive_reduction


def square(n):
    # sparse enough for several components, cycles and self-loops included
    return hnp.arrays(np.int8, (n, n), elements=st.integers(0, 3)).map(lambda a: a == 3)


graphs = st.integers(1, 9).flatmap(square)


@st.composite
def acyclic(draw):
    upper = np.triu(draw(graphs) | draw(st.booleans()), 1)
    order = np.array(draw(st.permutations(range(len(upper)))), dtype=int)
    return upper[np.ix_(order, order)]


def reduced_edges(adjacency):
    _, between = condensation(adjacency)
    return list(map(tuple, np.argwhere(transitive_reduction(between)).tolist()))


def as_networkx(adjacency):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(adjacency)))
    graph.add_edges_from(map(tuple, np.argwhere(adjacency).tolist()))
    return graph


@given(graphs)
def test_condensation_is_that_of_networkx(adjacency):
    component, between = condensation(adjacency)
    expected = nx.condensation(as_networkx(adjacency))
    ours = {frozenset(np.flatnonzero(component == k).tolist()): k for k in range(len(between))}
    members = {node: frozenset(data["members"]) for node, data in expected.nodes(data=True)}
    assert set(ours) == set(members.values())
    edges = {(ours[members[a]], ours[members[b]]) for a, b in expected.edges}
    assert edges == set(map(tuple, np.argwhere(between).tolist()))
    # numbered in topological order
    assert all(a < b for a, b in edges)


@given(acyclic())
def test_transitive_reduction_is_that_of_networkx(adjacency):
    expected = nx.transitive_reduction(as_networkx(adjacency))
    assert set(map(tuple, np.argwhere(transitive_reduction(adjacency)).tolist())) == set(expected.edges)


@given(graphs)
def test_reduced_edges_condense_then_reduce(adjacency):
    component, between = condensation(adjacency)
    edges = reduced_edges(adjacency)
    expected = nx.transitive_reduction(as_networkx(between))
    assert sorted(edges) == sorted(expected.edges)
    # nothing that was implied is lost: a beats b by some path before, if and only if it does so after
    before = nx.transitive_closure(as_networkx(adjacency), reflexive=True)
    after = nx.transitive_closure(as_networkx(between), reflexive=True)
    n = len(adjacency)
    for a in range(n):
        for b in range(n):
            assert before.has_edge(a, b) == after.has_edge(component[a], component[b])


@given(acyclic())
def test_layers_are_longest_paths(adjacency):
    graph = as_networkx(adjacency)
    expected = [nx.dag_longest_path_length(graph.subgraph(nx.ancestors(graph, v) | {v})) for v in graph]
    assert layers(adjacency).tolist() == expected


@given(graphs)
def test_reversed_graph_has_the_reversed_edges(adjacency):
    component, _ = condensation(adjacency)
    mirrored, _ = condensation(adjacency.T)
    forward = {
        (frozenset(np.flatnonzero(component == a)), frozenset(np.flatnonzero(component == b)))
        for a, b in reduced_edges(adjacency)
    }
    backward = {
        (frozenset(np.flatnonzero(mirrored == b)), frozenset(np.flatnonzero(mirrored == a)))
        for a, b in reduced_edges(adjacency.T)
    }
    assert forward == backward


def test_a_cycle_is_one_place():
    # by hand: 3 beats the circle 0 > 1 > 2 > 0, which beats 4; 5 stands alone
    beats = np.zeros((6, 6), dtype=bool)
    for a, b in [(0, 1), (1, 2), (2, 0), (3, 0), (1, 4), (3, 4)]:
        beats[a, b] = True
    component, _ = condensation(beats)
    assert component.tolist() == [2, 2, 2, 0, 3, 1]
    assert reduced_edges(beats) == [(0, 2), (2, 3)]


def test_cycles_are_refused_where_there_can_be_none():
    cycle = np.array([[False, True], [True, False]])
    with pytest.raises(ValueError, match="cycle"):
        transitive_reduction(cycle)
    with pytest.raises(ValueError, match="cycle"):
        layers(cycle)
