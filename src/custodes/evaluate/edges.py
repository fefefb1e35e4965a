"""Decisions between pairs of systems, as a table writes them, and the ranking graph that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.errors import listed
from custodes.evaluate.comparison import label_of
from custodes.evaluate.tables import label
from custodes.stats.decisions import graph

DECISION = {1: "+", 0: "=", -1: "-"}
"""How a decision is written: the first system is better, neither, the second."""

PAIR = (label("system_a", "a system", "System A"), label("system_b", "another one", "System B"))
"""The columns that name a pair of systems."""


def written(decided: NDArray[Any]) -> list[str | None]:
    """Decisions 1, 0 and -1 as a column of '+', '=' and '-'; None for NaN."""
    return [DECISION.get(sign) for sign in decided.ravel().tolist()]


def systems_of(counts: PairCounts) -> tuple[str, ...]:
    """The systems of all pairs, sorted."""
    return tuple(sorted({*counts.system_a, *counts.system_b}))


def ranking_edges(counts: PairCounts, decided: NDArray[np.generic]) -> tuple[list[tuple[str, str]], bool]:
    """Winner and loser of each edge after transitive reduction, and whether wins form a circle.

    `decided` (pairs,) is 1, 0 or -1; NaN is no decision. Systems in a circle are condensed and share a label joined by
    ' ~ '.
    """
    systems = systems_of(counts)
    position = {name: i for i, name in enumerate(systems)}
    first = np.array([position[name] for name in counts.system_a])
    second = np.array([position[name] for name in counts.system_b])
    beats = np.zeros((len(systems),) * 2, dtype=bool)
    beats[first[decided == 1], second[decided == 1]] = True
    beats[second[decided == -1], first[decided == -1]] = True
    component, _ = graph.condensation(beats)
    members = [
        " ~ ".join(name for name, c in zip(systems, component, strict=True) if c == k)
        for k in range(int(component.max()) + 1)
    ]
    return [(members[a], members[b]) for a, b in graph.reduced_edges(beats)], len(members) < len(systems)


def cycle_notes(aspect: str, cyclic: Sequence[str]) -> list[Note]:
    """What a reader must know where wins form circles (for these raters); nothing where none does."""
    if not cyclic:
        return []
    message = f"significant wins form a circle{label_of(aspect)}, shown as one node, for: {listed(cyclic)}"
    return [Note(rule="cycle", message=message, count=len(cyclic), aspect=aspect)]
