"""Allocation of annotations: a random order of items for every pair, and rounds that stay within a budget."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Ints, table_sums
from custodes.stats.correction.estimator import Counts

KINDS = 12
"""Number of kinds of annotations: three human preferences times four metric preferences (win, tie, loss or none)."""


def annotation_order(
    is_available_item: NDArray[np.bool_], units: NDArray[np.integer[Any]], rng: np.random.Generator
) -> Ints:
    """Return a random order (pairs, items) of the items of every pair; items that are not available come last.

    `units` (items,) is the cluster of each item. In the order, one item of every cluster precedes the second item of
    any cluster, because several annotations of one document contain less information. Each pair has a different order,
    because a common order would correlate the errors of pairs and make results measurably worse.

    >>> order = annotation_order(np.array([[True, False, True]]), np.arange(3), np.random.default_rng(0))
    >>> sorted(order[0, :2].tolist()), int(order[0, 2])
    ([0, 2], 1)
    """
    random_keys = np.where(is_available_item, rng.random(is_available_item.shape), 2.0)
    random_item_order = np.argsort(random_keys, axis=1, kind="stable")
    item_order_by_cluster = np.take_along_axis(
        random_item_order, np.argsort(units[random_item_order], axis=1, kind="stable"), axis=1
    )
    positions = np.arange(is_available_item.shape[1])
    cluster_start_of_position = np.where(np.diff(units[item_order_by_cluster], axis=1, prepend=-1) != 0, positions, 0)
    rank_in_cluster_of_item = np.empty(is_available_item.shape)
    np.put_along_axis(
        rank_in_cluster_of_item,
        item_order_by_cluster,
        positions - np.maximum.accumulate(cluster_start_of_position, axis=1),
        axis=1,
    )
    return np.asarray(
        np.argsort(np.where(is_available_item, rank_in_cluster_of_item + random_keys, np.inf), axis=1, kind="stable"),
        dtype=np.int64,
    )


def grant_requests(n_requested: Ints, remaining_budget: NDArray[Any]) -> Ints:
    """Return the number (..., pairs) of requested annotations that `remaining_budget` (...) allows.

    If the budget is large enough, all requested annotations are granted. Otherwise the budget is divided equally among
    the pairs with a request. If the budget cannot be divided exactly, the first pairs with a request get one more
    annotation. No pair gets more than it requested.

    >>> grant_requests(np.array([[5, 0, 5], [5, 5, 5]]), np.array([20, 7])).tolist()
    [[5, 0, 5], [3, 2, 2]]
    """
    has_request = n_requested > 0
    n_requesting_pairs = has_request.sum(axis=-1, keepdims=True)
    n_remaining_annotations = np.asarray(remaining_budget)[..., np.newaxis]
    n_per_pair, n_extra = np.divmod(n_remaining_annotations, np.maximum(n_requesting_pairs, 1))
    n_granted_if_limited = np.minimum(
        n_requested, np.where(has_request, n_per_pair + ((np.cumsum(has_request, axis=-1) - 1) < n_extra), 0)
    )
    return np.asarray(
        np.where(n_requested.sum(axis=-1, keepdims=True) <= n_remaining_annotations, n_requested, n_granted_if_limited)
    )


def divide_evenly(n_total: NDArray[Any], n_available: Ints) -> Ints:
    """Divide `n_total` (...) annotations among pairs (..., pairs) as equally as the `n_available` numbers allow.

    >>> divide_evenly(np.array([9, 100]), np.array([[1, 5, 5], [1, 5, 5]])).tolist()
    [[1, 4, 4], [1, 5, 5]]
    """
    n_assigned = np.zeros(n_available.shape, dtype=np.int64)
    while True:
        has_available_annotations = n_available > n_assigned
        n_unassigned = (np.asarray(n_total) - n_assigned.sum(axis=-1))[..., np.newaxis]
        n_per_pair = n_unassigned // np.maximum(has_available_annotations.sum(axis=-1, keepdims=True), 1)
        if not (has_available_annotations & (n_per_pair > 0)).any():
            return np.asarray(
                n_assigned
                + (has_available_annotations & (np.cumsum(has_available_annotations, axis=-1) <= n_unassigned))
            )
        n_assigned += np.where(has_available_annotations, np.minimum(n_available - n_assigned, n_per_pair), 0)


def annotation_kinds(human_signs: NDArray[np.int8], metric_signs: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the kind (...) of each annotation: 0 to 11, or 12 if there is no human preference.

    >>> annotation_kinds(np.array([1, 0, -128], dtype=np.int8), np.array([-1, -128, 1], dtype=np.int8)).tolist()
    [2, 7, 12]
    """
    # preferences 1, 0, -1 become codes 0, 1, 2; an absent preference becomes 3
    human_codes, metric_codes = (
        np.where(np.abs(preference_signs.astype(np.int16)) <= 1, 1 - preference_signs.astype(np.int16), 3)
        for preference_signs in (human_signs, metric_signs)
    )
    return np.asarray(np.where(human_codes < 3, 4 * human_codes + metric_codes, KINDS), dtype=np.int8)


def count_kinds(kinds: NDArray[np.int8], start: Ints, stop: Ints) -> Ints:
    """Return the number (..., 12) of annotations of each kind between the positions `start` and `stop` (...).

    `kinds` (..., items) are in the order of annotation.

    >>> count_kinds(np.array([0, 0, 5]), np.array(1), np.array(3)).nonzero()[0].tolist()
    [0, 5]
    """
    largest_range = int((stop - start).max(initial=0))
    annotation_positions = start[..., np.newaxis] + np.arange(largest_range)
    kinds_in_range = np.take_along_axis(kinds, np.minimum(annotation_positions, kinds.shape[-1] - 1), axis=-1)
    kinds_in_range = np.where(annotation_positions < stop[..., np.newaxis], kinds_in_range, KINDS)
    table_shape = kinds_in_range.shape[:-1]
    table_of_annotation = np.repeat(np.arange(math.prod(table_shape)), largest_range)
    kind_counts = table_sums(table_of_annotation, kinds_in_range.ravel(), shape=(math.prod(table_shape), KINDS + 1))
    return np.asarray(kind_counts[:, :KINDS].reshape(*table_shape, KINDS))


def outcome_of(signs: NDArray[np.int8]) -> Ints:
    """Return the numbers of wins, ties and losses (..., 3) among signs (..., items)."""
    return np.stack([(signs == sign).sum(axis=-1) for sign in (1, 0, -1)], axis=-1)


def tables(kind_counts: Ints, metric_outcome_counts: Ints) -> Counts:
    """Return the counts that an estimator needs after some items are annotated.

    `kind_counts` (..., 12) are the numbers of annotations of each kind, `metric_outcome_counts` (..., 3) the metric's
    outcomes over all items.

    >>> result = tables(np.eye(12, dtype=np.int64)[5], np.array([4, 3, 2]))
    >>> result.paired.tolist(), result.metric_only.tolist(), result.human_only.tolist()
    ([[0, 0, 0], [0, 1, 0], [0, 0, 0]], [4, 2, 2], [0, 0, 0])
    """
    count_table = kind_counts.reshape(*kind_counts.shape[:-1], 3, 4)
    return Counts(count_table[..., :3], metric_outcome_counts - count_table[..., :3].sum(axis=-2), count_table[..., 3])


def iterate_positions(values: array[int], value: int, begin: int, end: int) -> Iterator[int]:
    """Iterate over the positions of a non-negative value in `values[begin:end]`, in ascending order. `values` has one
    byte per value, because bytes are searched fastest.

    >>> list(iterate_positions(array("b", [2, -1, 2, 2]), 2, 0, 3))
    [0, 2]
    """
    value_bytes = values[begin:end].tobytes()
    position = value_bytes.find(value)
    while position >= 0:
        yield begin + position
        position = value_bytes.find(value, position + 1)
