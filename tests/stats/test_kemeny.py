from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.kemeny import kemeny


def votes(low, high, most=6):
    return st.integers(low, high).flatmap(lambda n: hnp.arrays(np.int64, (n, n), elements=st.integers(0, most)))


def cost_of(preference, order):
    return sum(preference[b, a] for i, a in enumerate(order) for b in order[i + 1 :])


@given(votes(1, 5, most=3))
def test_kemeny_is_the_first_of_all_best_permutations(preference):
    n = len(preference)
    order, cost, exact = kemeny(preference)
    costs = {p: cost_of(preference, p) for p in permutations(range(n))}
    best = min(costs.values())
    assert exact
    assert cost == best
    off = preference - np.diag(preference.diagonal())
    place = np.argsort(np.argsort(off.sum(0) - off.sum(1), kind="stable"))
    first = min((p for p in costs if costs[p] == best), key=lambda p: [place[a] for a in p])
    assert tuple(order.tolist()) == first


@given(votes(6, 9, most=40))
def test_decomposition_costs_what_plain_programming_costs(preference):
    n = len(preference)

    @cache
    def best(remaining):
        return min(
            (sum(preference[b, a] for b in remaining if b != a) + best(remaining - {a}) for a in remaining), default=0
        )

    order, cost, exact = kemeny(preference)
    assert exact
    assert sorted(order) == list(range(n))
    assert cost == best(frozenset(range(n))) == cost_of(preference, order.tolist())


def test_largest_exact_circle():
    # a cycle of sixteen: each beats the next by 1 vote, without other votes; the best order breaks one edge
    circle = np.roll(np.eye(16), 1, axis=1)
    order, cost, exact = kemeny(circle)
    assert exact
    assert cost == 1
    assert order.tolist() == list(range(16))


@pytest.mark.parametrize("most", [10**6, 4])
@pytest.mark.parametrize("seed", range(2))
def test_beyond_the_limit_the_best_single_move_until_none_helps(seed, most):
    preference = np.random.default_rng(seed).integers(0, most, (20, 20))

    def moves(order):
        for source in range(20):
            for target in range(20):
                candidate = np.insert(np.delete(order, source), target, order[source])
                yield np.tril(preference[np.ix_(candidate, candidate)], -1).sum(), candidate

    # by brute force from the Borda order: the best of all moves of one system, repeated
    off = preference - np.diag(preference.diagonal())
    order = np.argsort(off.sum(0) - off.sum(1), kind="stable")
    before, cost = np.inf, cost_of(preference, order.tolist())
    while cost < before:
        before = cost
        cost, order = min(moves(order), key=lambda move: move[0])

    result = kemeny(preference)
    assert not result.exact
    assert result.cost == cost == cost_of(preference, result.order.tolist())
    assert (result.order == order).all()


def test_one_large_circle_does_not_hide_the_rest():
    # systems 0..19 at random, 20 loses to all of them, 21 beats all
    preference = np.zeros((22, 22))
    preference[:20, :20] = np.random.default_rng(0).integers(0, 30, (20, 20))
    preference[:21, 20] = preference[21, :] = 40
    order, _, exact = kemeny(preference)
    assert (order[0], order[-1]) == (21, 20)
    assert not exact
    assert (order[1:-1] == kemeny(preference[:20, :20]).order).all()
