"""One ranking out of many: Kemeny's ranking of least disagreement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import require
from custodes.stats.graphs import condensation

_EXACT_LIMIT = 16  # systems in one circle of majorities: 2**16 subsets times 16 systems in 8 MB


class Kemeny(NamedTuple):
    """Systems from best to worst, the votes against that order, and whether no order has fewer."""

    order: NDArray[np.intp]
    cost: float
    exact: bool


def kemeny(preference: NDArray[Any]) -> Kemeny:
    """The ranking that contradicts the fewest votes: preference (systems, systems) -> order, cost, exact.

    preference[a, b] is the (weighted) number of votes that rank a above b; the diagonal does not count. Systems are
    split into the circles of the majority graph, each circle of up to 16 systems is solved exactly, a larger one by
    local search (`exact` is then False). Among equally good rankings the one that puts the better Borda score, then
    the smaller index, first.

    >>> order, cost, exact = kemeny(np.array([[0, 2, 3], [1, 0, 2], [0, 1, 0]]))
    >>> order.tolist(), cost, exact
    ([0, 1, 2], 2.0, True)

    Source: Kemeny 1959; Truchon 1998 (extended Condorcet criterion); Held and Karp 1962 (programming over subsets).
    """
    votes = np.array(preference, dtype=np.float64)
    require(np.isfinite(votes).all(), "votes must be finite")
    np.fill_diagonal(votes, 0.0)
    # Every order pays at least the smaller side of each pair. Between circles an order along the majority graph pays
    # just that, so only the order within circles is open.
    component, _ = condensation(votes > votes.T)
    circles = [np.flatnonzero(component == k) for k in range(component.max() + 1)]
    # Of all orders best in every circle and along the majorities between them, the first by Borda, then index.
    n = len(votes)
    preferred = np.argsort(np.argsort(votes.sum(axis=0) - votes.sum(axis=1), kind="stable"))
    beats = (votes > votes.T) & (component[:, np.newaxis] != component)
    may_follow = [
        (members, (_subsets if len(members) <= _EXACT_LIMIT else _local_search)(votes[np.ix_(members, members)]))
        for members in circles
        if len(members) > 1
    ]
    order, placed, above = np.empty(n, dtype=np.intp), np.zeros(n, dtype=bool), beats.sum(axis=0)
    for position in range(n):
        free = ~placed & (above == 0)
        for members, follows in may_follow:
            free[members] &= follows(placed[members])
        order[position] = np.where(free, preferred, n).argmin()
        placed[order[position]] = True
        above -= beats[order[position]]
    exact = all(len(members) <= _EXACT_LIMIT for members in circles)
    return Kemeny(order, float(np.tril(votes[np.ix_(order, order)]).sum()), exact)


_MayFollow = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""Which systems of a circle may come next in a best order, given which of them are placed: (k,) -> (k,)."""


def _subsets(votes: NDArray[np.float64]) -> _MayFollow:
    """Exact: the cost of the best order of the systems not yet placed, for every subset (2**k) of placed ones."""
    k = len(votes)
    bit = 1 << np.arange(k)
    subset = np.arange(1 << k)
    placed = (subset[:, np.newaxis] & bit) != 0
    against = (~placed).astype(np.float64) @ votes  # [subset, v]: votes for an unplaced system over v, if v comes next
    best = np.zeros(1 << k)
    size = placed.sum(axis=1)
    for filled in range(k - 1, -1, -1):
        here = subset[size == filled]
        best[here] = np.where(placed[here], np.inf, against[here] + best[here[:, np.newaxis] | bit]).min(axis=1)

    def may_follow(done: NDArray[np.bool_]) -> NDArray[np.bool_]:
        here = int(done @ bit)
        through = against[here] + best[here | bit]
        return np.asarray(~done & (through <= best[here] + 1e-9 * (1 + best[here])))

    return may_follow


def _local_search(votes: NDArray[np.float64]) -> _MayFollow:
    """Heuristic: from the Borda order, move single systems while that helps; the order found is then the only one."""
    order = np.argsort(votes.sum(axis=0) - votes.sum(axis=1), kind="stable")
    n = len(order)
    while True:
        gain = (votes - votes.T)[np.ix_(order, order)]  # [i, j]: votes lost when i and j swap sides
        total = np.concatenate([np.zeros((n, 1)), np.cumsum(gain, axis=1)], axis=1)
        # [i, j]: extra cost when the system at i is taken out and put in at place j, past i + 1 .. j or j .. i - 1
        position = np.arange(n)
        change = (
            np.where(position > position[:, np.newaxis], total[:, 1:], total[:, :-1])
            - total[position, position][:, np.newaxis]
        )
        source, target = np.unravel_index(change.argmin(), change.shape)
        if change[source, target] >= -1e-9 * (1 + np.abs(votes).sum()):
            break
        order = np.insert(np.delete(order, source), target, order[source])

    def may_follow(done: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.isin(np.arange(n), order[done.sum() : done.sum() + 1])

    return may_follow
