"""Decisions on pairs of systems, as displayed in tables, and the ranking graph of these decisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import label
from custodes.stats import graphs
from custodes.stats.arrays import Floats

DECISION = {1: "+", 0: "=", -1: "-"}
"""Symbols of decisions: the first system is better, no significant difference, the second system is better."""

PAIR = (label("system_a", "a system", "System A"), label("system_b", "another system", "System B"))
"""The columns that name a pair of systems."""

OUTCOMES = ("win", "tie", "loss")

CELLS = tuple(f"{first}_{second}" for first in OUTCOMES for second in OUTCOMES)
"""Names of the nine combinations of human outcome and metric outcome for a pair, in this order."""


def format_decisions(decisions: NDArray[Any]) -> list[str | None]:
    """Return decisions 1, 0 and -1 as a list of '+', '=' and '-'; NaN becomes None."""
    return [DECISION.get(decision) for decision in decisions.ravel().tolist()]


def pair_matrix(
    system_a: Sequence[str], system_b: Sequence[str], first_values: NDArray[Any], second_values: NDArray[Any]
) -> tuple[list[str], Floats]:
    """Return the sorted systems of all pairs, and the values of pairs as a matrix (..., systems, systems).

    `first_values` and `second_values` (..., pairs) are the values for the first and for the second system of each pair.
    A pair without a comparison is NaN in the matrix.

    >>> pair_matrix(["A"], ["B"], np.array([2]), np.array([-2]))[1].tolist()
    [[nan, 2.0], [-2.0, nan]]
    """
    systems, system_indices_of_sides = np.unique([system_a, system_b], return_inverse=True)
    first_positions, second_positions = system_indices_of_sides.reshape(2, -1)
    value_matrix = np.full((*first_values.shape[:-1], len(systems), len(systems)), np.nan)
    value_matrix[..., first_positions, second_positions], value_matrix[..., second_positions, first_positions] = (
        first_values,
        second_values,
    )
    return systems.tolist(), value_matrix


def ranking_graph(
    systems: Sequence[str], beats: NDArray[np.bool_]
) -> tuple[list[str], NDArray[np.bool_], NDArray[np.bool_], list[tuple[int, int]]]:
    """Return the nodes (names, members and wins) and the edges of the graph of significant wins.

    Systems that win against each other in a cycle share a node. The name of a node joins the names of its systems by '
    ~ '. The members are a matrix (nodes, systems), and the wins a matrix (nodes, nodes). Each edge is a pair of winner
    and loser. A win that follows from other wins has no edge (transitive reduction).
    """
    component_of_system, node_beats = graphs.condensation(beats)
    is_system_in_node = component_of_system == np.arange(len(node_beats))[:, None]
    return (
        [" ~ ".join(compress(systems, is_in_node)) for is_in_node in is_system_in_node],
        is_system_in_node,
        node_beats,
        [
            (int(winner_node), int(loser_node))
            for winner_node, loser_node in np.argwhere(graphs.transitive_reduction(node_beats))
        ],
    )
