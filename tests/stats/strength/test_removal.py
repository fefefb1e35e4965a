"""The smallest number of comparisons whose removal changes the leader."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from custodes.stats.strength.battles import Battles, count_by_kind
from custodes.stats.strength.davidson import fit
from custodes.stats.strength.removal import Removal, smallest_removal
from custodes.stats.strength.strengths import Strengths, TieModel, strengths
from tests.stats.strength.battles import Arena, battles

ALLOWED = 3


def fitted(rows: Battles, n_systems: int, ties: TieModel = "davidson") -> Strengths:
    return strengths(rows, n_systems=n_systems, ties=ties, resamples=0, rng=np.random.default_rng(0))


def removal(rows: Battles, n_systems: int, ties: TieModel = "davidson") -> Removal | None:
    return smallest_removal(rows, fitted(rows, n_systems, ties))


def leader_of(rows: Battles, n_systems: int, ties: TieModel = "davidson") -> int:
    return int(np.nanargmax(fitted(rows, n_systems, ties).draws[0]))


def by_trial(rows: Battles, n_systems: int, leader: int, ties: TieModel) -> int:
    """Return the smallest number of removals up to `ALLOWED` by enumeration, or `ALLOWED` + 1."""
    counts = count_by_kind(rows, rows.weight)
    cells = np.argwhere(counts.outcomes > 0)
    component = np.zeros(n_systems, dtype=int)
    for number in range(1, ALLOWED + 1):
        for chosen in combinations_with_replacement(range(len(cells)), number):
            outcomes = counts.outcomes.copy()
            np.subtract.at(outcomes, tuple(cells[list(chosen)].T), 1)
            if outcomes.min() < 0:
                continue
            refit = fit(
                replace(counts, outcomes=outcomes), component=component, ties_are_half=ties == "half", penalised=False
            )
            if refit is not None and refit.coefficients[:n_systems].argmax() != leader:
                return number
    return ALLOWED + 1


@pytest.mark.parametrize("ties", ["davidson", "half"])
@pytest.mark.parametrize("seed", [0, 1, 5, 6])
def test_no_smaller_number_exists(seed: int, ties: TieModel) -> None:
    rows = Arena(4, 60, spread=0.5, order=0).draw(np.random.default_rng(seed))
    result = removal(rows, 4, ties)
    assert result is not None
    assert result.number == by_trial(rows, 4, leader_of(rows, 4, ties), ties) <= ALLOWED
    assert removal(rows.merge_equal_clusters(), 4, ties) == result


def test_the_leader_changes_within_its_component() -> None:
    rows = battles([0] * 9 + [2] * 40, [1] * 9 + [3] * 40, [1] * 5 + [-1] * 4 + [1] * 24 + [-1] * 16)
    assert removal(rows, 5) == Removal(successor=3, number=9)
    assert removal(battles([0] * 3, [1] * 3, [0] * 3), 2) is None  # ties alone


def test_without_them_the_successor_leads() -> None:
    rows = Arena(6, 500, spread=0.7).draw(np.random.default_rng(3))
    result = removal(rows, 6)
    assert result is not None
    assert leader_of(rows, 6) != result.successor
    assert 0 < result.number < 250


@pytest.mark.parametrize(("wins", "losses"), [(53, 47), (30, 10), (95, 5), (400, 20)])
def test_the_second_of_two_systems_leads_if_fewer_wins_than_losses_remain(wins: int, losses: int) -> None:
    rows = battles([0] * (wins + losses), [1] * (wins + losses), [1] * wins + [-1] * losses)
    assert removal(rows, 2) == Removal(successor=1, number=wins - losses + 1)


def test_removals_that_disconnect_the_systems_are_not_used() -> None:
    rows = battles([2, 2, 2, 0, 1, 2, 1], [0, 0, 0, 1, 0, 1, 0], [-1, -1, 1, 1, 0, 1, -1])
    assert removal(rows, 3) == Removal(successor=2, number=1)


def test_undefined_where_the_leader_won_everything() -> None:
    assert removal(battles([0, 0, 1], [1, 2, 2], [1, 1, 1]), 3) is None
    assert removal(battles([0, 0], [1, 1], [1, -1]), 3) == Removal(successor=1, number=1)
