"""Pairwise accuracy: over pairs of systems, from p-values (soft pairwise accuracy), and within items, with calibrated
ties of the metric. Pairwise accuracy of system scores is `correlation.ConcordanceCounts.accuracy`.

Several functions share these arrays. `human` (items, systems) and `metrics` (metrics, items, systems) are ratings, NaN
if not rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights
of the units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the
metric rated it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import group_by_outputs, unit_sums, weighted_sums
from custodes.stats.ratios import ratio

_CACHE = 4  # divisor of the size of temporary arrays, so that they fit the cache
_SAME = 1e-12  # relative rounding error


def spa(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    flips: NDArray[np.int8],
    item_weights: Floats | None = None,
) -> Floats:
    """Soft pairwise accuracy (B, metrics): 1 - the mean over system pairs of |p(human) - p(metric)|.

    `human` (items, systems) and `metrics` (metrics, items, systems) are scores.

    p is a one-sided p-value: it tests equality against the alternative that the first system of the pair (in the given
    order) is better. Row 0 of `weights` is the data. In this row, p is from the paired permutation test: the proportion
    of sign flips (K, units) with a difference of at least the observed one. A flip swaps the two systems of a pair in
    some units, in all items of such a unit. The flips are the same for the annotators and all metrics. In the other
    rows, p is the normal p-value of the mean difference divided by its standard error. The variance is clustered by
    unit and multiplied by G / (G - 1) for G units. This p-value estimates the same quantity as the permutation test,
    but needs no permutations within resamples. A pair without common items is left out, and so is a pair with a single
    unit in a resample. The result is NaN if no pair remains.

    >>> human, metric = np.array([[2.0, 1], [3, 1]]), np.array([[[0.2, 0.1], [0.1, 0.2]]])
    >>> flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    >>> spa(human, metric, units=np.arange(2), weights=np.ones((1, 2)), flips=flips).tolist()
    [[0.5]]

    Source: Thompson, Mathur, Deutsch and Khayrallah 2024; "at least" as in the authors' code.
    """
    first_systems, second_systems = np.triu_indices(human.shape[1], k=1)
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    p_value_distance_sums, n_compared_pairs = np.zeros((2, len(weights), len(metrics)))
    longest_axis_length = max(len(weights), len(flips), len(human))
    for group_metric_indices, rated_output_indices in group_by_outputs(human, metrics):
        is_rated_by_human_and_metric = np.zeros(human.shape, dtype=bool)
        is_rated_by_human_and_metric.flat[rated_output_indices] = True
        for pair_slice in chunks(len(first_systems), longest_axis_length):
            p_values_of_scores = partial(
                _p_values,
                is_rated_by_human_and_metric=is_rated_by_human_and_metric,
                first_systems=first_systems[pair_slice],
                second_systems=second_systems[pair_slice],
                units=units,
                weights=weights,
                flips=flips,
                item_weights=item_weights,
            )
            human_p_values = p_values_of_scores(human)[:, np.newaxis]
            n_pairs = pair_slice.stop - pair_slice.start
            for metric_slice in chunks(len(group_metric_indices), _CACHE * n_pairs * longest_axis_length):
                metric_indices = group_metric_indices[metric_slice]
                p_value_distances = np.abs(p_values_of_scores(metrics[metric_indices]) - human_p_values)
                p_value_distance_sums[:, metric_indices] += np.nansum(p_value_distances, axis=-1)
                n_compared_pairs[:, metric_indices] += np.count_nonzero(~np.isnan(p_value_distances), axis=-1)
    return np.asarray(1 - ratio(p_value_distance_sums, n_compared_pairs))


def _p_values(
    scores: Floats,
    *,
    is_rated_by_human_and_metric: Bools,
    first_systems: Ints,
    second_systems: Ints,
    units: Ints,
    weights: Floats,
    flips: NDArray[np.int8],
    item_weights: Floats,
) -> Floats:
    """One-sided p-values (B, ..., pairs) of the differences between the scores (..., items, systems) of the first and
    the second system of each pair, on the items that have both systems."""
    from scipy.special import ndtr

    has_both_systems = is_rated_by_human_and_metric[:, first_systems] & is_rated_by_human_and_metric[:, second_systems]
    item_weights_by_pair = (has_both_systems * item_weights[:, np.newaxis]).T
    scores = np.where(is_rated_by_human_and_metric, scores, 0.0)
    rounding_error = _SAME * np.abs(scores).max(axis=(-1, -2), keepdims=True)
    score_differences = scores[..., first_systems] - scores[..., second_systems]
    is_different = has_both_systems & (np.abs(score_differences) > rounding_error)
    differences_by_pair = np.where(is_different, score_differences, 0.0).swapaxes(-1, -2) * item_weights
    difference_sums_by_unit, absolute_sums_by_unit, weight_sums_by_unit = (
        unit_sums(values, units=units, n_units=weights.shape[1])
        for values in (differences_by_pair, np.abs(differences_by_pair), item_weights_by_pair)
    )
    # aligns (B, pairs) with (B, ..., pairs)
    alignment_index = (slice(None), *(np.newaxis,) * (difference_sums_by_unit.ndim - 2))
    difference_sums = weighted_sums(weights, difference_sums_by_unit)
    n_clusters = weighted_sums(weights, weight_sums_by_unit > 0)[alignment_index]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_difference = difference_sums / weighted_sums(weights, weight_sums_by_unit)[alignment_index]
        variance = (
            weighted_sums(weights, difference_sums_by_unit**2)
            - 2 * mean_difference * weighted_sums(weights, weight_sums_by_unit * difference_sums_by_unit)
            + mean_difference**2 * weighted_sums(weights, weight_sums_by_unit**2)[alignment_index]
        )
        p_values = ndtr(-difference_sums / np.sqrt(variance * (n_clusters / (n_clusters - 1))))
    # Values that vary by no more than rounding error count as constant: p is 0 for a positive difference, otherwise 1.
    p_values = np.where(
        variance <= _SAME * weighted_sums(weights, absolute_sums_by_unit**2),
        difference_sums <= _SAME * weighted_sums(weights, absolute_sums_by_unit),
        p_values,
    )
    np.copyto(p_values, np.nan, where=n_clusters <= 1)
    smallest_extreme_sum = difference_sums[0] - _SAME * (absolute_sums_by_unit @ weights[0]).reshape(
        difference_sums_by_unit.shape[:-1]
    )
    is_flip_as_extreme = weighted_sums(flips, difference_sums_by_unit * weights[0]) >= smallest_extreme_sum
    # count_nonzero with an axis is several times slower.
    n_extreme_flips = np.add.reduce(is_flip_as_extreme.view(np.uint8), axis=0, dtype=np.uint32)
    p_values[0] = np.where(n_clusters[0] > 0, n_extreme_flips / len(flips), np.nan)
    return p_values


def acc_eq(
    human: Floats,
    metrics: Floats,
    *,
    human_tie: float,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Pairwise accuracy within items with calibrated metric ties: accuracy and epsilon, (B, metrics) each.

    If the annotators tie on a pair of outputs (their scores differ by at most `human_tie`), the pair is correct if the
    metric's scores differ by at most epsilon. Otherwise the pair is correct if the metric prefers the same output as
    the annotators by more than epsilon. Accuracy is the proportion of correct pairs of an item, averaged over the items
    with a pair. Epsilon is a difference of metric scores that is fitted in every resample: the smallest value that
    maximises accuracy, chosen from 0 and the observed absolute differences. Differences that agree to 1e-12 of the
    larger score of their pair count as equal. For example, .9983 - .9951 and .9951 - .9919 are different floating-point
    numbers but count as equal. Accuracy and epsilon are NaN without pairs.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> accuracy, epsilon = acc_eq(human, metric, human_tie=0, units=np.zeros(1, dtype=int), weights=np.ones((1, 1)))
    >>> accuracy.tolist(), epsilon.round(3).tolist()
    ([[1.0]], [[0.1]])

    Source: Deutsch, Foster and Freitag 2023 ("Ties Matter"): acc_eq with tie calibration, grouped by item.
    """
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    first_systems, second_systems = np.triu_indices(human.shape[1], k=1)
    human_differences = human[:, first_systems] - human[:, second_systems]
    human_signs = np.where(np.abs(human_differences) <= human_tie, 0.0, np.sign(human_differences))  # NaN stays NaN
    accuracy, epsilon = np.full((2, len(weights), len(metrics)), np.nan)
    for metric_index, metric_scores in enumerate(metrics):
        first_scores, second_scores = metric_scores[:, first_systems], metric_scores[:, second_systems]
        accuracy[:, metric_index], epsilon[:, metric_index] = _calibrated_accuracy(
            human_signs,
            first_scores - second_scores,
            _SAME * np.fmax(np.abs(first_scores), np.abs(second_scores)),
            units=units,
            weights=weights,
            item_weights=item_weights,
        )
    return accuracy, epsilon


def _calibrated_accuracy(
    human_signs: Floats,
    metric_differences: Floats,
    slack: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats,
) -> tuple[Floats, Floats]:
    """Largest accuracy of one metric, and the smallest epsilon with this accuracy, in every resample: (B,) each.

    The first arguments are the human order, the metric's differences of pairs of outputs, and the rounding error of
    these differences, (items, pairs) each.

    When epsilon reaches the difference of a pair (an event), a human tie becomes correct and a concordant pair becomes
    wrong. So only some values of epsilon can maximise accuracy. The candidates are 0 and the difference of each human
    tie whose next larger difference belongs to a concordant pair or does not exist. The events after one candidate, up
    to and including the next, form a segment.
    """
    from scipy.sparse import csr_array

    is_rated_pair = ~np.isnan(human_signs) & ~np.isnan(metric_differences)
    n_pairs_of_item = is_rated_pair.sum(axis=1)
    item_weight_if_rated = np.where(n_pairs_of_item > 0, item_weights, 0.0)
    absolute_differences = np.where(np.abs(metric_differences) <= slack, 0.0, np.abs(metric_differences))
    is_human_tie = human_signs == 0
    is_concordant_pair = (human_signs * metric_differences > 0) & (absolute_differences > 0)
    event_items, event_pairs = np.nonzero(
        is_rated_pair & (is_human_tie | is_concordant_pair) & (item_weight_if_rated > 0)[:, np.newaxis]
    )
    event_order = np.argsort(absolute_differences[event_items, event_pairs])
    event_items, event_pairs = event_items[event_order], event_pairs[event_order]
    event_units, is_tie_event = units[event_items], is_human_tie[event_items, event_pairs]
    event_shares = (item_weight_if_rated / np.maximum(n_pairs_of_item, 1))[event_items]
    event_differences = absolute_differences[event_items, event_pairs]
    # Events at epsilon 0 belong to segment 0.
    later_events = slice(np.count_nonzero(event_differences == 0), None)
    event_differences[later_events] = _merge_near_equal(
        event_differences[later_events], slack[event_items, event_pairs][later_events]
    )
    event_segments = np.zeros(len(event_items), dtype=np.intp)
    event_segments[later_events] = _segments(event_differences[later_events], is_tie_event[later_events])
    # Concordant pairs are correct from segment 0 on, until their event.
    concordant_shares, concordant_units = event_shares[~is_tie_event], event_units[~is_tie_event]
    gains_of_segment_and_unit = csr_array(
        (
            np.append(np.where(is_tie_event, event_shares, -event_shares), concordant_shares),
            (
                np.append(event_segments, np.zeros(len(concordant_units), dtype=np.intp)),
                np.append(event_units, concordant_units),
            ),
        ),
        shape=(1 + int(event_segments.max(initial=0)), weights.shape[1]),
    )
    total_weight = weighted_sums(weights, np.bincount(units, item_weight_if_rated, minlength=weights.shape[1]))
    largest_n_correct, best_segment = np.empty(len(weights)), np.empty(len(weights), dtype=np.intp)
    for resample_slice in chunks(len(weights), 2 * _CACHE * gains_of_segment_and_unit.shape[0]):
        n_correct = np.cumsum(gains_of_segment_and_unit @ weights[resample_slice].T.astype(np.float64), axis=0)
        largest_n_correct[resample_slice] = n_correct.max(axis=0)
        is_largest = n_correct >= largest_n_correct[resample_slice] - _SAME * total_weight[resample_slice]
        best_segment[resample_slice] = np.argmax(is_largest, axis=0)  # the first one has the smallest epsilon
    accuracy = ratio(largest_n_correct, total_weight)
    accuracy[accuracy > 1 - _SAME] = 1.0  # rounding error
    # Epsilon is the largest human tie of the best segment that is present in the resample, or 0 for segment 0.
    is_later_tie = is_tie_event & (event_differences > 0)
    tie_differences, tie_units = (
        np.append(0.0, event_differences[is_later_tie]),
        np.append(0, event_units[is_later_tie]),
    )
    tie_of_resample = np.searchsorted(event_segments[is_later_tie], best_segment, side="right")
    tie_of_resample[best_segment == 0] = 0
    resample_indices = np.arange(len(weights))
    while np.any(is_absent := (tie_of_resample > 0) & (weights[resample_indices, tie_units[tie_of_resample]] == 0)):
        tie_of_resample = tie_of_resample - is_absent
    return accuracy, np.where(np.isnan(accuracy), np.nan, tie_differences[tie_of_resample])


def _segments(event_differences: Floats, is_tie_event: Bools) -> NDArray[np.intp]:
    """Segment of each event after epsilon 0, numbered from 1."""
    if len(event_differences) == 0:
        return np.zeros(0, dtype=np.intp)
    first_event_of_value = np.flatnonzero(np.append(True, np.diff(event_differences) > 0))
    has_human_tie, has_concordant_pair = (
        np.logical_or.reduceat(is_event_of_kind, first_event_of_value)
        for is_event_of_kind in (is_tie_event, ~is_tie_event)
    )
    is_segment_start = np.append(True, has_human_tie[:-1] & has_concordant_pair[1:])
    return np.repeat(np.cumsum(is_segment_start), np.diff(np.append(first_event_of_value, len(event_differences))))


def _merge_near_equal(ordered_values: Floats, slack: Floats) -> Floats:
    """Ascending values with near-equal values merged. Neighbours that differ by at most the `slack` of one of them
    belong to one group, and each value is replaced by the largest value of its group."""
    last_index_of_run = (
        np.flatnonzero(np.append(np.diff(ordered_values) > np.maximum(slack[:-1], slack[1:]), True))
        if len(ordered_values)
        else np.zeros(0, dtype=np.intp)
    )
    return np.repeat(ordered_values[last_index_of_run], np.diff(np.append(-1, last_index_of_run)))
