"""Pairwise accuracy within items, with calibrated ties of the metric.

Several functions share these arrays. `human` (items, systems) and `metrics` (metrics, items, systems) are ratings, NaN
if not rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights
of the units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the
metric rated it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import CHUNK, Floats, Ints, chunks, make_read_only
from custodes.stats.bootstrap import weighted_sums
from custodes.stats.ratios import ratio

_EXACT = 2**24  # maximum integer that is exact in single precision
_SEGMENTS = 128  # number of thresholds at a time: few, so that whole blocks can be excluded
_SAME = 1e-12  # rounding error relative to the larger score of a pair


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
    metric_events = events(
        human, metrics, human_tie=human_tie, units=units, n_units=weights.shape[1], item_weights=item_weights
    )
    return accuracy_and_epsilon(metric_events, weights)


def events(
    human: Floats,
    metrics: Floats,
    *,
    human_tie: float,
    units: Ints,
    n_units: int,
    item_weights: Floats | None,
) -> list[Events]:
    """Events of each metric: the part of `acc_eq` that does not depend on the resamples.

    The same events can be used with several sets of resamples.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> all_events = events(human, metric, human_tie=0, units=np.zeros(1, dtype=int), n_units=1, item_weights=None)
    >>> all_events[0].delta.round(3).tolist(), all_events[0].gain.tolist()  # a human tie, and two human preferences
    ([0.1, 0.6, 0.7], [True, False, False])
    """
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    first_system, second_system = np.triu_indices(human.shape[1], k=1)
    difference = human[:, first_system] - human[:, second_system]
    return [
        Events(
            np.where(np.abs(difference) <= human_tie, 0.0, np.sign(difference)),  # NaN stays NaN
            metric[:, first_system] - metric[:, second_system],
            slack=_SAME * np.fmax(np.abs(metric[:, first_system]), np.abs(metric[:, second_system])),
            units=units,
            n_units=n_units,
            item_weights=item_weights,
        )
        for metric in metrics
    ]


def accuracy_and_epsilon(metrics: Sequence[Events], weights: NDArray[Any]) -> tuple[Floats, Floats]:
    """Accuracy and epsilon of `acc_eq` from the events of metrics, (B, metrics) each.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> all_events = events(human, metric, human_tie=0, units=np.zeros(1, dtype=int), n_units=1, item_weights=None)
    >>> accuracy_and_epsilon(all_events, np.ones((1, 1)))[0].tolist()
    [[1.0]]
    """
    weights_by_unit = np.ascontiguousarray(weights.T)
    accuracy, epsilon = np.full((2, len(weights), len(metrics)), np.nan)
    if len(metrics):
        sums = weighted_sums(weights, np.stack([[metric.total, metric.at_zero] for metric in metrics]))
        for m, metric in enumerate(metrics):
            accuracy[:, m], epsilon[:, m] = metric.best(weights_by_unit, *np.ascontiguousarray(sums[:, m].T))
    return accuracy, epsilon


class Events:
    """Changes in the number of correct pairs of one metric as epsilon grows.

    When epsilon reaches the difference of a pair, a human tie becomes correct and a concordant pair becomes wrong. So
    only some values of epsilon can maximise accuracy. These are 0 and the differences of those human ties for which the
    next larger difference belongs to a concordant pair or does not exist. Within a segment between two such values, the
    number of correct pairs first falls and then rises.
    """

    def __init__(
        self, order: Floats, differences: Floats, *, slack: Floats, units: Ints, n_units: int, item_weights: Floats
    ) -> None:
        """Find the events from the human order, the metric's differences of pairs of outputs, and the rounding error
        of these differences, (items, pairs) each."""
        is_rated = ~np.isnan(order) & ~np.isnan(differences)
        n_pairs = is_rated.sum(axis=1)
        item_weight_if_rated = np.where(n_pairs > 0, item_weights, 0.0)
        self.total = np.bincount(
            units, item_weight_if_rated, minlength=n_units
        )  # (units,): summed weights of the items
        absolute_difference, is_human_tie = np.where(np.abs(differences) <= slack, 0.0, np.abs(differences)), order == 0
        is_concordant = (order * differences > 0) & (absolute_difference > 0)
        item, pair = np.nonzero(is_rated & (is_human_tie | is_concordant) & (item_weight_if_rated > 0)[:, np.newaxis])
        pair_weight, unit = (item_weight_if_rated / np.maximum(n_pairs, 1))[item], units[item]
        event_differences, is_gain = absolute_difference[item, pair], is_human_tie[item, pair]
        is_won_at_zero = (event_differences == 0) | ~is_gain  # correct at epsilon 0: common ties, and concordant pairs
        self.at_zero = np.bincount(unit[is_won_at_zero], pair_weight[is_won_at_zero], minlength=n_units)
        size_order = np.argsort(event_differences)
        size_order = size_order[np.count_nonzero(event_differences == 0) :]
        self.delta = _merge_near_equal(event_differences[size_order], slack[item, pair][size_order])
        self.share, self.unit, self.gain = pair_weight[size_order], unit[size_order], is_gain[size_order]
        self.segment = self._segments()
        make_read_only(self)

    def best(self, weights_by_unit: NDArray[Any], weighted_total: Floats, at_zero: Floats) -> tuple[Floats, Floats]:
        """Largest accuracy, and the smallest epsilon with this accuracy, in every resample: (B,) each.

        `weights_by_unit` (units, B) are the weights. `weighted_total` and `at_zero` (B,) are the sums of
        `total` and `at_zero` of the units in every resample.
        """
        # integer counts, exact in single precision, if all items have equally many pairs
        first_share = self.share[0] if len(self.share) else 1.0
        has_equal_shares = (
            bool(np.all(self.share == first_share)) and float(weights_by_unit.max(initial=0)) * len(self.share) < _EXACT
        )
        float_type: Any = np.float32 if has_equal_shares else np.float64
        n_units, n_resamples = weights_by_unit.shape
        event_gains = np.where(self.gain, 1.0, -1.0) * (1.0 if has_equal_shares else self.share)
        tolerance = np.zeros(n_resamples) if has_equal_shares else _SAME * weighted_total
        best_gain, gain_so_far = np.zeros((2, n_resamples))
        best_segment = np.zeros(n_resamples, dtype=np.intp)
        for segment_slice in chunks(self.segment.max(initial=0), max(n_resamples, CHUNK // _SEGMENTS)):
            n_segments = segment_slice.stop - segment_slice.start
            first_event, end_event = np.searchsorted(self.segment, [segment_slice.start + 1, segment_slice.stop + 1])
            present_units, unit_index = _unit_positions(self.unit[first_event:end_event], n_units)
            resample_weights = weights_by_unit[present_units].astype(float_type)
            net_steps = np.bincount(unit_index, event_gains[first_event:end_event], minlength=len(present_units))
            positive_steps = np.bincount(
                unit_index, np.maximum(event_gains[first_event:end_event], 0.0), minlength=len(present_units)
            )
            gain_at_end, upper_bound = (
                np.stack([net_steps, positive_steps]).astype(float_type) @ resample_weights + gain_so_far
            )
            if (
                upper_bound > best_gain + tolerance
            ).any():  # else no threshold of this block is the best in any resample
                cell = (self.segment[first_event:end_event] - segment_slice.start - 1) * len(present_units) + unit_index
                change_by_cell = np.bincount(
                    cell, event_gains[first_event:end_event], minlength=n_segments * len(present_units)
                )
                cumulative_changes = np.cumsum(change_by_cell.reshape(n_segments, -1), axis=0).astype(float_type)
                n_correct = cumulative_changes @ resample_weights
                n_correct += gain_so_far.astype(float_type)
                chunk_maximum = n_correct.max(axis=0)
                first_maximum = np.argmax(
                    n_correct >= chunk_maximum - tolerance.astype(float_type), axis=0
                )  # the smallest epsilon
                is_new_best = chunk_maximum > best_gain + tolerance
                best_segment, best_gain = (
                    np.where(is_new_best, segment_slice.start + 1 + first_maximum, best_segment),
                    np.where(is_new_best, chunk_maximum, best_gain),
                )
            gain_so_far = gain_at_end.astype(np.float64)
        n_correct = at_zero + best_gain * (first_share if has_equal_shares else 1.0)
        accuracy = np.minimum(ratio(n_correct, weighted_total), 1.0)  # rounding error
        return accuracy, np.where(np.isnan(accuracy), np.nan, self._epsilon(best_segment, weights_by_unit))

    def _segments(self) -> NDArray[np.intp]:
        """Segment of each event, numbered from 1. Segment 0 is epsilon 0 and has no events."""
        if len(self.delta) == 0:
            return np.zeros(0, dtype=np.intp)
        first_of_value = np.flatnonzero(np.concatenate([[True], self.delta[1:] != self.delta[:-1]]))
        has_tie, has_concordant = (np.logical_or.reduceat(kind, first_of_value) for kind in (self.gain, ~self.gain))
        is_segment_start = np.concatenate([[True], has_tie[:-1] & has_concordant[1:]])
        return np.repeat(np.cumsum(is_segment_start), np.diff(np.append(first_of_value, len(self.delta))))

    def _epsilon(self, best_segment: Ints, weights_by_unit: NDArray[Any]) -> Floats:
        """Epsilon in each resample: the largest human tie of the chosen segment that is present in the resample, or 0
        for segment 0."""
        tie_events = np.flatnonzero(self.gain)
        delta, unit = np.append(0.0, self.delta[tie_events]), np.append(0, self.unit[tie_events])
        tie_index = np.where(
            best_segment == 0, 0, np.searchsorted(self.segment[tie_events], best_segment, side="right")
        )
        while np.any(is_absent := (tie_index > 0) & (weights_by_unit[unit[tie_index], np.arange(len(tie_index))] == 0)):
            tie_index = tie_index - is_absent
        return delta[tie_index]


def _unit_positions(unit: Ints, n_units: int) -> tuple[Ints, Ints]:
    """The units that occur, and the position of each entry among them. All units are returned if there are no more
    units than entries."""
    if n_units <= len(unit):
        return np.arange(n_units), unit
    present_units, unit_index = np.unique(unit, return_inverse=True)
    return present_units, unit_index


def _merge_near_equal(ordered_values: Floats, slack: Floats) -> Floats:
    """Ascending values with near-equal values merged: values that differ from a neighbour by at most the `slack` of
    one of them form a group, and each is replaced by the largest value of its group."""
    last_of_run = (
        np.flatnonzero(np.append(np.diff(ordered_values) > np.maximum(slack[:-1], slack[1:]), True))
        if len(ordered_values)
        else np.zeros(0, dtype=np.intp)
    )
    return np.repeat(ordered_values[last_of_run], np.diff(np.append(-1, last_of_run)))
