"""Pairwise accuracy of two kinds: over pairs of systems, from p-values (soft pairwise accuracy), and over pairs of
outputs of one item, with calibrated ties of the metric. Pairwise accuracy of system scores is
`correlation.ConcordanceCounts.accuracy`.

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

from custodes.stats.arrays import CHUNK, EXACT_SINGLE, Bools, Floats, Ints, chunks, make_read_only
from custodes.stats.bootstrap import group_by_outputs, unit_sums, weighted_sums
from custodes.stats.ratios import ratio

_CACHE = 16  # divisor of the size of temporary arrays, so that they fit the cache
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

    p is a one-sided p-value. The null hypothesis is that both systems of the pair are equal. The alternative is that
    the first system (in the given order) is better. Row 0 of `weights` is the data. In row 0, p is from the paired
    permutation test: the proportion of sign flips (K, units) with a difference of at least the observed one. A flip
    swaps the two systems of a pair in all items of some units. The flips are the same for the annotators and all
    metrics. In the other rows, p is the normal p-value of the mean difference divided by its standard error. The
    variance is clustered by unit and multiplied by G / (G - 1) for G units. The normal p-value estimates the same
    quantity as the p-value of the permutation test, without permutations in every resample. A pair without common items
    is left out, and so is a pair with a single unit in a resample. The result is NaN if no pair remains.

    >>> human, metric = np.array([[2.0, 1], [3, 1]]), np.array([[[0.2, 0.1], [0.1, 0.2]]])
    >>> flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    >>> spa(human, metric, units=np.arange(2), weights=np.ones((1, 2)), flips=flips).tolist()
    [[0.5]]

    Source: Thompson, Mathur, Deutsch and Khayrallah 2024; "at least" as in the authors' code.
    """
    system_pairs = np.stack(np.triu_indices(human.shape[1], k=1))
    p_value_distance_sums, n_compared_pairs = np.zeros((2, len(weights), len(metrics)))
    longest_axis_length = max(len(weights), len(flips), len(human))
    pair_item_weights = 1.0 if item_weights is None else item_weights
    for group_metric_indices, rated_output_indices in group_by_outputs(human, metrics):
        is_rated_by_both = np.zeros(human.shape, dtype=bool)
        is_rated_by_both.flat[rated_output_indices] = True
        for pair_slice in chunks(system_pairs.shape[1], longest_axis_length):
            first_systems, second_systems = system_pairs[:, pair_slice]
            has_both_systems = is_rated_by_both[:, first_systems] & is_rated_by_both[:, second_systems]
            weight_sums_by_unit = unit_sums(
                has_both_systems.T * pair_item_weights, units=units, n_units=weights.shape[1]
            )
            n_clusters = weighted_sums(weights, weight_sums_by_unit > 0)
            # Whether a p-value is defined does not depend on the scores. In the data, one unit is enough.
            is_undefined_pair = n_clusters <= 1
            is_undefined_pair[0] = n_clusters[0] == 0
            n_compared_pairs[:, group_metric_indices] += (~is_undefined_pair).sum(axis=1, keepdims=True)
            compute_p_values = partial(
                _p_values,
                is_rated_by_both=is_rated_by_both,
                has_both_systems=has_both_systems,
                system_pairs=system_pairs[:, pair_slice],
                item_weights=pair_item_weights,
                units=units,
                weights=weights,
                weight_sums_by_unit=weight_sums_by_unit,
                weight_sums=weighted_sums(weights, weight_sums_by_unit)[:, np.newaxis],
                weight_square_sums=weighted_sums(weights, weight_sums_by_unit * weight_sums_by_unit)[:, np.newaxis],
                variance_factors=(n_clusters / np.maximum(n_clusters - 1, 1))[:, np.newaxis],
                flips=flips,
            )
            human_p_values = compute_p_values(human[np.newaxis])
            for chunk_metric_indices in (
                group_metric_indices[metric_slice]
                for metric_slice in chunks(
                    len(group_metric_indices), _CACHE * human_p_values.shape[2] * longest_axis_length
                )
            ):
                p_value_distances = compute_p_values(metrics[chunk_metric_indices])
                p_value_distances -= human_p_values
                np.abs(p_value_distances, out=p_value_distances)
                np.copyto(p_value_distances, 0.0, where=is_undefined_pair[:, np.newaxis])
                p_value_distance_sums[:, chunk_metric_indices] += p_value_distances.sum(axis=-1)
    return np.asarray(1 - ratio(p_value_distance_sums, n_compared_pairs))


def _p_values(
    scores: Floats,
    *,
    is_rated_by_both: Bools,
    has_both_systems: Bools,
    system_pairs: Ints,
    item_weights: Floats | float,
    units: Ints,
    weights: Floats,
    weight_sums_by_unit: Floats,
    weight_sums: Floats,
    weight_square_sums: Floats,
    variance_factors: Floats,
    flips: NDArray[np.int8],
) -> Floats:
    """One-sided p-values (B, raters, pairs) of the differences of scores (raters, items, systems) between two systems.

    A difference counts as 0 if the item has no score of one of the two systems, or if the difference is rounding error.
    `has_both_systems` (items, pairs) marks the items with both systems, and `weight_sums_by_unit` (pairs, units) are
    the weights of these items in each unit. In the resamples, `weight_sums` and `weight_square_sums` (B, 1, pairs) are
    the sums of these weights and of their squares. `variance_factors` (B, 1, pairs) are G / (G - 1) for G units.
    """
    from scipy.special import ndtr

    n_units, (first_systems, second_systems) = weights.shape[1], system_pairs
    scores = np.where(is_rated_by_both, scores, 0.0)
    differences = np.where(has_both_systems, scores[..., first_systems] - scores[..., second_systems], 0.0)
    differences[np.abs(differences) <= _SAME * np.abs(scores).max(axis=(-1, -2), keepdims=True)] = 0.0
    differences_by_pair = differences.swapaxes(-1, -2) * item_weights
    difference_sums_by_unit = unit_sums(differences_by_pair, units=units, n_units=n_units)
    difference_sums, variance_of_sum = (
        weighted_sums(weights, difference_sums_by_unit),
        weighted_sums(weights, difference_sums_by_unit * difference_sums_by_unit),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_difference = difference_sums / weight_sums
        if (weight_sums_by_unit == weight_sums_by_unit[0, 0]).all():  # units with equal weights need no further sums
            mean_difference *= weight_sums_by_unit[0, 0]
            mean_difference *= difference_sums
            variance_of_sum -= mean_difference
        else:
            variance_of_sum -= (
                2 * mean_difference * weighted_sums(weights, weight_sums_by_unit * difference_sums_by_unit)
                - mean_difference**2 * weight_square_sums
            )
    # Values that vary by no more than rounding error count as constant; this is checked only for few candidates.
    absolute_sums_by_unit = unit_sums(np.abs(differences_by_pair), units=units, n_units=n_units)
    is_variance_near_rounding = variance_of_sum <= _SAME * weights.max() * (
        absolute_sums_by_unit * absolute_sums_by_unit
    ).sum(axis=-1)
    is_doubtful_pair = is_variance_near_rounding.any(axis=0)
    doubtful_absolute_sums = absolute_sums_by_unit[is_doubtful_pair]
    is_constant_pair = variance_of_sum[:, is_doubtful_pair] <= _SAME * weighted_sums(
        weights, doubtful_absolute_sums * doubtful_absolute_sums
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        variance_of_sum *= variance_factors
        p_values = np.divide(difference_sums, np.sqrt(variance_of_sum, out=variance_of_sum), out=variance_of_sum)
        ndtr(np.negative(p_values, out=p_values), out=p_values)
    if is_constant_pair.any():  # without variation, p is 0 for a positive difference, otherwise 1
        p_values[:, is_doubtful_pair] = np.where(
            is_constant_pair,
            difference_sums[:, is_doubtful_pair] <= _SAME * weighted_sums(weights, doubtful_absolute_sums),
            p_values[:, is_doubtful_pair],
        )
    smallest_extreme_sum = difference_sums[0] - _SAME * (absolute_sums_by_unit @ weights[0]).reshape(
        difference_sums_by_unit.shape[:-1]
    )
    is_flip_as_extreme = weighted_sums(flips, difference_sums_by_unit * weights[0]) >= smallest_extreme_sum
    p_values[0] = is_flip_as_extreme.mean(axis=0)
    return p_values


_SEGMENTS = 128  # number of thresholds in a block: small, so that whole blocks can be excluded


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

    The annotators tie on a pair of outputs if their scores differ by at most `human_tie`. Such a pair is correct if the
    metric's scores differ by at most epsilon. Otherwise the pair is correct if the metric prefers the same output as
    the annotators by more than epsilon. Accuracy is the proportion of correct pairs of an item, averaged over the items
    with a pair. Epsilon is a difference of metric scores that is fitted in every resample: the smallest value that
    maximises accuracy, chosen from 0 and the observed absolute differences. Two differences count as equal if they
    agree to 1e-12 of the larger score of their pair. For example, .9983 - .9951 and .9951 - .9919 are different
    floating-point numbers but count as equal. Accuracy and epsilon are NaN without pairs.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> accuracy, epsilon = acc_eq(human, metric, human_tie=0, units=np.zeros(1, dtype=int), weights=np.ones((1, 1)))
    >>> accuracy.tolist(), epsilon.round(3).tolist()
    ([[1.0]], [[0.1]])

    Source: Deutsch, Foster and Freitag 2023 ("Ties Matter"): acc_eq with tie calibration, grouped by item.
    """
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    first_systems, second_systems = np.triu_indices(human.shape[1], k=1)
    human_differences = human[:, first_systems] - human[:, second_systems]
    events_of_metric = [
        Events(
            np.where(np.abs(human_differences) <= human_tie, 0.0, np.sign(human_differences)),  # NaN stays NaN
            metric_scores[:, first_systems] - metric_scores[:, second_systems],
            slack=_SAME * np.fmax(np.abs(metric_scores[:, first_systems]), np.abs(metric_scores[:, second_systems])),
            units=units,
            n_units=weights.shape[1],
            item_weights=item_weights,
        )
        for metric_scores in metrics
    ]
    weights_by_unit = np.ascontiguousarray(weights.T)
    accuracy, epsilon = np.full((2, len(weights), len(metrics)), np.nan)
    for metric_index, metric_events in enumerate(events_of_metric):
        accuracy[:, metric_index], epsilon[:, metric_index] = metric_events.best(
            weights_by_unit, *weighted_sums(weights, np.stack([metric_events.total, metric_events.at_zero])).T
        )
    return accuracy, epsilon


class Events:
    """Changes in the number of correct pairs of one metric as epsilon grows.

    When epsilon reaches the metric's difference of a pair, a pair on which annotators tie becomes correct, and a
    concordant pair becomes wrong. So only some values of epsilon can maximise accuracy. The candidates are 0 and the
    metric's differences of some human ties: those for which the next larger difference belongs to a concordant pair or
    does not exist. Between two neighbouring candidates (a segment), the number of correct pairs first falls and then
    rises.
    """

    def __init__(
        self,
        human_signs: Floats,
        metric_differences: Floats,
        *,
        slack: Floats,
        units: Ints,
        n_units: int,
        item_weights: Floats,
    ) -> None:
        """Find the events from the human order, the metric's differences of pairs of outputs, and the rounding error
        of these differences, (items, pairs) each."""
        is_rated_pair = ~np.isnan(human_signs) & ~np.isnan(metric_differences)
        n_pairs_of_item = is_rated_pair.sum(axis=1)
        item_weight_if_rated = np.where(n_pairs_of_item > 0, item_weights, 0.0)
        self.total = np.bincount(
            units, item_weight_if_rated, minlength=n_units
        )  # (units,): summed weights of the items
        absolute_differences, is_human_tie = (
            np.where(np.abs(metric_differences) <= slack, 0.0, np.abs(metric_differences)),
            human_signs == 0,
        )
        is_concordant_pair = (human_signs * metric_differences > 0) & (absolute_differences > 0)
        event_item_indices, event_pair_indices = np.nonzero(
            is_rated_pair & (is_human_tie | is_concordant_pair) & (item_weight_if_rated > 0)[:, np.newaxis]
        )
        event_weights, event_units = (
            values_of_item[event_item_indices]
            for values_of_item in (item_weight_if_rated / np.maximum(n_pairs_of_item, 1), units)
        )
        event_differences, event_slack = (
            values_of_pair[event_item_indices, event_pair_indices] for values_of_pair in (absolute_differences, slack)
        )
        is_gain_event = is_human_tie[event_item_indices, event_pair_indices]
        # correct at epsilon 0: common ties, and concordant pairs
        is_correct_at_zero = (event_differences == 0) | ~is_gain_event
        self.at_zero = np.bincount(
            event_units[is_correct_at_zero], event_weights[is_correct_at_zero], minlength=n_units
        )
        sorted_event_indices = np.argsort(event_differences)[np.count_nonzero(event_differences == 0) :]
        self.delta = _merge_near_equal(event_differences[sorted_event_indices], event_slack[sorted_event_indices])
        self.share, self.unit = (values[sorted_event_indices] for values in (event_weights, event_units))
        self.gain = is_gain_event[sorted_event_indices]
        self.segment = self._segments()
        make_read_only(self)

    def best(
        self, weights_by_unit: NDArray[Any], weighted_total: Floats, weighted_correct_at_zero: Floats
    ) -> tuple[Floats, Floats]:
        """Largest accuracy, and the smallest epsilon with this accuracy, in every resample: (B,) each.

        `weights_by_unit` (units, B) are the weights. `weighted_total` and `weighted_correct_at_zero` (B,) are
        the sums of `total` and `at_zero` of the units in every resample.
        """
        # If all items have equally many pairs, gains are whole numbers and sums of them are exact.
        has_whole_gains = self.share.size > 0 and bool((self.share == self.share[0]).all())
        gain_unit = self.share[0] if has_whole_gains else 1.0
        n_resamples = weights_by_unit.shape[1]
        # With these sums, single precision is exact and takes a third of the time.
        is_exact_in_single = (
            has_whole_gains
            and weights_by_unit.dtype == np.uint8
            and len(self.share) * int(weights_by_unit.max()) < EXACT_SINGLE
        )
        float_type: Any = np.float32 if is_exact_in_single else np.float64
        event_gains = np.where(self.gain, self.share, -self.share) / gain_unit
        gain_tolerance = _SAME * weighted_total / gain_unit
        best_gain, gain_so_far = np.zeros((2, n_resamples))
        best_segment = np.zeros(n_resamples, dtype=np.intp)
        for segment_slice in chunks(self.segment.max(initial=0), max(n_resamples, CHUNK // _SEGMENTS)):
            n_segments = segment_slice.stop - segment_slice.start
            first_event_index, end_event_index = np.searchsorted(
                self.segment, [segment_slice.start + 1, segment_slice.stop + 1]
            )
            present_units, unit_positions = np.unique(self.unit[first_event_index:end_event_index], return_inverse=True)
            resample_weights = weights_by_unit[present_units].astype(float_type)
            block_gains = event_gains[first_event_index:end_event_index]
            net_and_positive_gains = [
                np.bincount(unit_positions, gains) for gains in (block_gains, np.maximum(block_gains, 0.0))
            ]
            gain_at_end, largest_possible_gain = (
                np.stack(net_and_positive_gains).astype(float_type) @ resample_weights + gain_so_far
            )
            if (
                largest_possible_gain > best_gain + gain_tolerance
            ).any():  # otherwise, no threshold of this block is the best one in any resample
                cell_of_event = (self.segment[first_event_index:end_event_index] - segment_slice.start - 1) * len(
                    present_units
                ) + unit_positions
                gain_by_cell = np.bincount(cell_of_event, block_gains, minlength=n_segments * len(present_units))
                cumulative_gain_by_segment = np.cumsum(
                    gain_by_cell.reshape(n_segments, -1), axis=0, dtype=float_type
                ) @ resample_weights + gain_so_far.astype(float_type)
                chunk_best_gain = cumulative_gain_by_segment.max(axis=0)
                first_best_segment_offset = np.argmax(
                    cumulative_gain_by_segment >= chunk_best_gain - gain_tolerance, axis=0
                )  # the first one has the smallest epsilon
                has_new_best_gain = chunk_best_gain > best_gain + gain_tolerance
                best_segment, best_gain = (
                    np.where(has_new_best_gain, segment_slice.start + 1 + first_best_segment_offset, best_segment),
                    np.where(has_new_best_gain, chunk_best_gain, best_gain),
                )
            gain_so_far = gain_at_end
        accuracy = np.minimum(
            ratio(weighted_correct_at_zero + best_gain * gain_unit, weighted_total), 1.0
        )  # rounding error
        return accuracy, np.where(np.isnan(accuracy), np.nan, self._epsilon(best_segment, weights_by_unit))

    def _segments(self) -> NDArray[np.intp]:
        """Segment of each event, numbered from 1. Segment 0 is epsilon 0 and has no events."""
        if len(self.delta) == 0:
            return np.zeros(0, dtype=np.intp)
        first_event_of_value = np.flatnonzero(np.concatenate([[True], self.delta[1:] != self.delta[:-1]]))
        has_human_tie, has_concordant_pair = (
            np.logical_or.reduceat(is_event_of_kind, first_event_of_value)
            for is_event_of_kind in (self.gain, ~self.gain)
        )
        segment_of_value = np.cumsum(np.append(True, has_human_tie[:-1] & has_concordant_pair[1:]))
        return np.repeat(segment_of_value, np.diff(np.append(first_event_of_value, len(self.delta))))

    def _epsilon(self, best_segment: Ints, weights_by_unit: NDArray[Any]) -> Floats:
        """Epsilon in each resample: the largest difference among the human ties of the chosen segment that occur in the
        resample, or 0 for segment 0."""
        tie_event_indices = np.flatnonzero(self.gain)
        tie_differences, tie_units = (
            np.append(0.0, self.delta[tie_event_indices]),
            np.append(0, self.unit[tie_event_indices]),
        )
        tie_index_of_resample = np.searchsorted(self.segment[tie_event_indices], best_segment, side="right")
        while np.any(
            is_absent_tie := (tie_index_of_resample > 0)
            & (weights_by_unit[tie_units[tie_index_of_resample], np.arange(len(tie_index_of_resample))] == 0)
        ):
            tie_index_of_resample = tie_index_of_resample - is_absent_tie
        return tie_differences[tie_index_of_resample]


def _merge_near_equal(ordered_values: Floats, slack: Floats) -> Floats:
    """Ascending values with near-equal values merged. Neighbours that differ by at most the `slack` of one of them
    belong to one group, and each value is replaced by the largest value of its group."""
    last_indices_of_runs = (
        np.flatnonzero(np.append(np.diff(ordered_values) > np.maximum(slack[:-1], slack[1:]), True))
        if len(ordered_values)
        else np.zeros(0, dtype=np.intp)
    )
    return np.repeat(ordered_values[last_indices_of_runs], np.diff(np.append(-1, last_indices_of_runs)))
