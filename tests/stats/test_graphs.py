from __future__ import annotations

import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.graphs import clearest_cycles, condensation, layers, letters, transitive_reduction


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
    numbers = {frozenset(np.flatnonzero(component == k).tolist()): k for k in range(len(between))}
    members = {node: frozenset(data["members"]) for node, data in expected.nodes(data=True)}
    assert set(numbers) == set(members.values())
    edges = {(numbers[members[a]], numbers[members[b]]) for a, b in expected.edges}
    assert edges == set(map(tuple, np.argwhere(between).tolist()))
    # numbered in topological order
    assert all(a < b for a, b in edges)


@given(acyclic())
def test_transitive_reduction_is_that_of_networkx(adjacency):
    expected = nx.transitive_reduction(as_networkx(adjacency))
    assert set(map(tuple, np.argwhere(transitive_reduction(adjacency)).tolist())) == set(expected.edges)


@given(acyclic())
def test_layers_are_longest_paths(adjacency):
    graph = as_networkx(adjacency)
    expected = [nx.dag_longest_path_length(graph.subgraph(nx.ancestors(graph, v) | {v})) for v in graph]
    assert layers(adjacency).tolist() == expected


def test_a_cycle_is_one_place():
    # by hand: 3 beats the cycle 0 > 1 > 2 > 0, which beats 4; 5 is isolated
    beats = np.zeros((6, 6), dtype=bool)
    for a, b in [(0, 1), (1, 2), (2, 0), (3, 0), (1, 4), (3, 4)]:
        beats[a, b] = True
    component, _ = condensation(beats)
    assert component.tolist() == [2, 2, 2, 0, 3, 1]
    assert reduced_edges(beats) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("seed", range(10))
def test_two_share_a_letter_exactly_where_they_are_not_told_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    different = np.triu(rng.random((n, n)) < rng.random(), 1)
    different |= different.T
    order = rng.permutation(n).tolist()
    words = [set(re.findall(r"[a-z]\d*", word_letters)) for word_letters in letters(different, order)]
    for a in range(n):
        for b in range(n):
            assert words[a].isdisjoint(words[b]) == bool(different[a, b])
    assert "a" in words[order[0]]
    # no letter is a subset of another one
    things_by_letter = {
        name: {node for node, word_letters in enumerate(words) if name in word_letters} for name in set().union(*words)
    }
    assert not any(first < second for first in things_by_letter.values() for second in things_by_letter.values())


def test_who_has_no_place_has_no_letter() -> None:
    different = np.zeros((3, 3), dtype=bool)
    different[0, 2] = different[2, 0] = True
    assert letters(different, [2, 0]) == ["b", "", "a"]
    assert letters(different, []) == ["", "", ""]


def test_many_groups_have_many_names() -> None:
    different = ~np.eye(30, dtype=bool)
    words = letters(different, list(range(30)))
    assert words[25:28] == ["z", "a1", "b1"]


@given(graphs, st.randoms(use_true_random=False))
def test_a_cycle_of_each_part_has_the_strongest_weakest_edge(adjacency, random):
    np.fill_diagonal(adjacency, False)
    edge = np.where(adjacency, np.array([[random.randint(1, 5) for _ in row] for row in adjacency]), 0)
    graph = nx.DiGraph([(int(a), int(b)) for a, b in np.argwhere(edge)])
    parts = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    cycles = clearest_cycles(edge)
    assert len(cycles) == len(parts)
    parts.sort(key=lambda part: (-len(part), min(part)))  # larger components first
    for cycle, part in zip(cycles, parts, strict=True):
        assert {*cycle} <= part
        assert cycle[0] == min(cycle)
        weakest = min(edge[a, b] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
        strong = nx.DiGraph([(a, b) for a, b in graph.subgraph(part).edges if edge[a, b] > weakest])
        assert weakest > 0
        assert nx.is_directed_acyclic_graph(strong)  # Without the weaker edges no cycle remains.
