"""Allocation of annotations: orders, budgets and counts along an order, against plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.stopping.allocation import (
    annotation_kinds,
    annotation_order,
    count_kinds,
    divide_evenly,
    grant_requests,
    tables,
)


def test_counting_along_an_order_is_counting() -> None:
    rng = np.random.default_rng(4)
    human = rng.choice(np.array([1, 0, -1, -128], dtype=np.int8), size=(5, 40))
    metric = rng.choice(np.array([1, 0, -1, -128], dtype=np.int8), size=(5, 40))
    order = annotation_order(human != -128, np.arange(40), rng)
    kinds = np.take_along_axis(annotation_kinds(human, metric), order, axis=1)
    start, stop = np.array([0, 3, 5, 9, 2]), np.array([7, 3, 20, 12, 9])
    counts = count_kinds(kinds, start, stop)
    total = np.stack([(metric == kind).sum(axis=1) for kind in (1, 0, -1)], axis=1)
    paired, metric_only, human_only = tables(counts, total)
    for pair in range(5):
        chosen = order[pair, start[pair] : stop[pair]]
        for i, h in enumerate((1, 0, -1)):
            same_label = human[pair, chosen] == h
            assert human_only[pair, i] == (same_label & (metric[pair, chosen] == -128)).sum()
            for j, m in enumerate((1, 0, -1)):
                assert paired[pair, i, j] == (same_label & (metric[pair, chosen] == m)).sum()
        assert (metric_only[pair] == total[pair] - paired[pair].sum(axis=0)).all()


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_short_budget_is_shared_in_order(requests: list[list[int]], budget: int) -> None:
    granted_counts = grant_requests(np.array(requests), np.full(len(requests), budget))
    for requested, result in zip(requests, granted_counts.tolist(), strict=True):
        requesting = [k for k in range(3) if requested[k]]
        if sum(requested) <= budget:
            assert result == requested
            continue
        share, rest = divmod(budget, len(requesting))
        expected = [0, 0, 0]
        for place, k in enumerate(requesting):
            expected[k] = min(requested[k], share + 1 if place < rest else share)
        assert result == expected


def test_kinds_are_people_by_metric() -> None:
    signs = np.array([1, 0, -1, -128], dtype=np.int8)
    human, metric = np.repeat(signs, 4), np.tile(signs, 4)
    assert annotation_kinds(human, metric).tolist() == [*range(12), 12, 12, 12, 12]


def test_every_order_of_what_is_available_is_as_likely() -> None:
    available = np.tile([True, False, True, True], (24_000, 1))
    order = annotation_order(available, np.arange(4), np.random.default_rng(0))
    assert (order[:, 3] == 1).all()
    _, times = np.unique(order, axis=0, return_counts=True)
    # six orders: 4000 each, sd 58
    assert len(times) == 6
    assert np.abs(times - 4000).max() < 300


def test_documents_take_turns() -> None:
    rng = np.random.default_rng(0)
    units = rng.permutation(np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6]))
    available = rng.random((50, len(units))) < 0.8
    for available_items, order in zip(available, annotation_order(available, units, rng), strict=True):
        units_in_order = units[order[: available_items.sum()]]
        assert available_items[order[: available_items.sum()]].all()
        budget = np.bincount(units[available_items], minlength=6)
        granted_counts = np.zeros(6, dtype=int)
        for document in units_in_order:
            granted_counts[document] += 1
            # No pair with items left has had fewer turns.
            assert (granted_counts[granted_counts < budget] >= granted_counts[document] - 1).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_evenly_spends_all_and_levels(available: list[int], total: int) -> None:
    n = divide_evenly(np.array(total), np.array(available))
    assert n.sum() == min(total, sum(available))
    assert (n <= available).all()
    if (free := n[n < available]).size:
        assert n.max() <= free.min() + 1
