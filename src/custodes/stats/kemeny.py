"""Kemeny's rank aggregation: the ranking with the fewest disagreements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.graphs import condensation

_EXACT_LIMIT = 16  # systems in one majority cycle: 2**16 subsets times 16 systems in 8 MB


class Kemeny(NamedTuple):
    """A ranking by Kemeny's method.

    `order` are the systems from best to worst. `cost` is the number of votes against this order. `exact` is whether
    `cost` is proven to be minimal.
    """

    order: NDArray[np.intp]
    cost: float
    exact: bool


def kemeny(preference: NDArray[Any]) -> Kemeny:
    """Ranking with the fewest contradicting votes: preference (systems, systems) -> order, cost, exact.

    `preference[a, b]` is the (weighted) number of votes that rank a above b; the diagonal is ignored. Systems are
    divided into the strongly connected components of the majority graph. A component of up to 16 systems is solved
    exactly. A larger component is solved by local search, and `exact` is then False. Among equally good rankings, the
    one that starts with the better Borda scores is chosen. Systems with equal Borda scores are ordered by index.

    >>> order, cost, exact = kemeny(np.array([[0, 2, 3], [1, 0, 2], [0, 1, 0]]))
    >>> order.tolist(), cost, exact
    ([0, 1, 2], 2.0, True)

    Source: Kemeny 1959; Truchon 1998 (extended Condorcet criterion); Held and Karp 1962 (programming over subsets).
    """
    votes = np.array(preference, dtype=np.float64)
    np.fill_diagonal(votes, 0.0)
    # The cost of any order is at least the smaller side of each pair. Between components, an order along the majority
    # graph has exactly that cost, so only the orders within components remain.
    component_of_system, _ = condensation(votes > votes.T)
    members_of_component = [
        np.flatnonzero(component_of_system == component) for component in range(component_of_system.max() + 1)
    ]
    # Of the optimal orders within and between components, the first by Borda score (then by index) is chosen.
    n_systems = len(votes)
    borda_rank_of_system = np.argsort(np.argsort(votes.sum(axis=0) - votes.sum(axis=1), kind="stable"))
    must_precede = (votes > votes.T) & (component_of_system[:, np.newaxis] != component_of_system)
    members_and_candidate_finders = [
        (
            members,
            (_solve_over_subsets if len(members) <= _EXACT_LIMIT else _solve_by_local_search)(
                votes[np.ix_(members, members)]
            ),
        )
        for members in members_of_component
        if len(members) > 1
    ]
    system_order, is_placed_system, n_unplaced_predecessors = (
        np.empty(n_systems, dtype=np.intp),
        np.zeros(n_systems, dtype=bool),
        must_precede.sum(axis=0),
    )
    for position in range(n_systems):
        is_next_candidate = ~is_placed_system & (n_unplaced_predecessors == 0)
        for members, mark_candidates in members_and_candidate_finders:
            is_next_candidate[members] &= mark_candidates(is_placed_system[members])
        system_order[position] = np.where(is_next_candidate, borda_rank_of_system, n_systems).argmin()
        is_placed_system[system_order[position]] = True
        n_unplaced_predecessors -= must_precede[system_order[position]]
    is_exact = all(len(members) <= _EXACT_LIMIT for members in members_of_component)
    return Kemeny(system_order, float(np.tril(votes[np.ix_(system_order, system_order)]).sum()), is_exact)


_MayFollow = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""Systems of a component that may come next in an optimal order, given the systems already placed: (k,) -> (k,)."""


def _solve_over_subsets(votes: NDArray[np.float64]) -> _MayFollow:
    """Exact solution: for each of the 2**k subsets of placed systems, compute the cost of the best order of the
    remaining systems."""
    n_systems = len(votes)
    bit_of_system = 1 << np.arange(n_systems)
    subset_codes = np.arange(1 << n_systems)
    is_placed_in_subset = (subset_codes[:, np.newaxis] & bit_of_system) != 0
    # [subset, v]: votes for an unplaced system over v, if v comes next
    votes_against_if_next = (~is_placed_in_subset).astype(np.float64) @ votes
    remaining_cost_of_subset = np.zeros(1 << n_systems)
    n_placed_of_subset = is_placed_in_subset.sum(axis=1)
    for n_placed in range(n_systems - 1, -1, -1):
        codes_of_size = subset_codes[n_placed_of_subset == n_placed]
        remaining_cost_of_subset[codes_of_size] = np.where(
            is_placed_in_subset[codes_of_size],
            np.inf,
            votes_against_if_next[codes_of_size]
            + remaining_cost_of_subset[codes_of_size[:, np.newaxis] | bit_of_system],
        ).min(axis=1)

    def mark_candidates(is_system_placed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        placed_subset_code = int(is_system_placed @ bit_of_system)
        cost_if_next = (
            votes_against_if_next[placed_subset_code] + remaining_cost_of_subset[placed_subset_code | bit_of_system]
        )
        return np.asarray(
            ~is_system_placed
            & (
                cost_if_next
                <= remaining_cost_of_subset[placed_subset_code]
                + 1e-9 * (1 + remaining_cost_of_subset[placed_subset_code])
            )
        )

    return mark_candidates


def _solve_by_local_search(votes: NDArray[np.float64]) -> _MayFollow:
    """Heuristic solution: start from the Borda order and move single systems while the cost decreases. The final order
    is the only candidate."""
    system_order = np.argsort(votes.sum(axis=0) - votes.sum(axis=1), kind="stable")
    n_systems = len(system_order)
    while True:
        # [i, j]: additional cost if i and j are swapped
        swap_cost_of_pair = (votes - votes.T)[np.ix_(system_order, system_order)]
        cumulative_swap_cost = np.concatenate([np.zeros((n_systems, 1)), np.cumsum(swap_cost_of_pair, axis=1)], axis=1)
        # [i, j]: additional cost if the system at i is moved to position j, past i + 1 .. j or j .. i - 1
        positions = np.arange(n_systems)
        move_cost = (
            np.where(positions > positions[:, np.newaxis], cumulative_swap_cost[:, 1:], cumulative_swap_cost[:, :-1])
            - cumulative_swap_cost[positions, positions][:, np.newaxis]
        )
        old_position, new_position = np.unravel_index(move_cost.argmin(), move_cost.shape)
        if move_cost[old_position, new_position] >= -1e-9 * (1 + np.abs(votes).sum()):
            break
        system_order = np.insert(np.delete(system_order, old_position), new_position, system_order[old_position])

    def mark_candidates(is_system_placed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.isin(np.arange(n_systems), system_order[is_system_placed.sum() : is_system_placed.sum() + 1])

    return mark_candidates
