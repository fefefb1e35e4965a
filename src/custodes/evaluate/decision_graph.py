"""Decisions between pairs of systems as displayed in tables, and the ranking graph of these decisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import label
from custodes.data.notes import Note, noted
from custodes.data.outcome_counts import OutcomeCounts
from custodes.errors import listed
from custodes.evaluate.comparable import label_of
from custodes.stats import graphs
from custodes.stats.arrays import Floats

DECISION = {1: "+", 0: "=", -1: "-"}
"""Symbols of the decisions: the first system is better, no difference, the second is better."""

PAIR = (label("system_a", "a system", "System A"), label("system_b", "another system", "System B"))
"""The columns that name a pair of systems."""

OUTCOMES = ("win", "tie", "loss")

CELLS = tuple(f"{first}_{second}" for first in OUTCOMES for second in OUTCOMES)
"""The nine columns of the outcome table of a pair, human outcome by metric outcome."""


def written(decided: NDArray[Any]) -> list[str | None]:
    """Decisions 1, 0 and -1 as a column of '+', '=' and '-'; None for NaN."""
    return [DECISION.get(sign) for sign in decided.ravel().tolist()]


def crossed(
    system_a: Sequence[str], system_b: Sequence[str], first: NDArray[Any], second: NDArray[Any]
) -> tuple[list[str], Floats]:
    """The sorted systems of all pairs, and a matrix of the values of pairs, (..., systems, systems).

    `first` (..., pairs) are values for the first system of a pair, `second` for the second system; NaN
    without a comparison.

    >>> crossed(["A"], ["B"], np.array([2]), np.array([-2]))[1].tolist()
    [[nan, 2.0], [-2.0, nan]]
    """
    systems, places = np.unique([system_a, system_b], return_inverse=True)
    a, b = places.reshape(2, -1)
    square = np.full((*first.shape[:-1], len(systems), len(systems)), np.nan)
    square[..., a, b], square[..., b, a] = first, second
    return systems.tolist(), square


def ranking_graph(
    systems: Sequence[str], beats: NDArray[np.bool_]
) -> tuple[list[str], NDArray[np.bool_], NDArray[np.bool_], list[tuple[int, int]]]:
    """The graph of decided wins between systems: names, members, order and edges of its nodes.

    Systems that win against each other in a cycle share a node. Returns the names (nodes) joined by ' ~ ', the members
    (nodes, systems), the matrix of wins (nodes, nodes), and winner and loser of each edge after transitive
    reduction.
    """
    component, between = graphs.condensation(beats)
    members = component == np.arange(len(between))[:, None]
    edges = [(int(a), int(b)) for a, b in np.argwhere(graphs.transitive_reduction(between))]
    return [" ~ ".join(compress(systems, node)) for node in members], members, between, edges


def ranking_edges(counts: OutcomeCounts, decided: NDArray[Any]) -> tuple[list[tuple[str, str]], bool]:
    """Winner and loser of each edge of the ranking graph, and whether wins form a cycle.

    `decided` (pairs,) is 1, 0 or -1; NaN without a decision.
    """
    systems, signs = crossed(counts.system_a, counts.system_b, decided, -decided)
    names, _, _, edges = ranking_graph(systems, signs == 1)
    return [(names[a], names[b]) for a, b in edges], len(names) < len(systems)


def cycle_notes(aspect: str, cyclic: Sequence[str]) -> list[Note]:
    """Note on the raters whose wins form a cycle; empty without cycles."""
    message = f"significant wins form a cycle{label_of(aspect)}, shown as one node, for: {listed(cyclic)}"
    return noted(("cycle", len(cyclic), message), aspect=aspect)
