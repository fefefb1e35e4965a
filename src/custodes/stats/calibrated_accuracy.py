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

from custodes.stats.arrays import CHUNK, Floats, Ints, chunks, read_only
from custodes.stats.bootstrap import weighted_sums
from custodes.stats.ratios import ratio

_EXACT = 2**24  # maximum integer that is exact in single precision
_SEGMENTS = 128  # number of thresholds at a time: few, so that whole blocks can be excluded
_SAME = 1e-12  # relative rounding error


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
    metric's largest score count as equal. For example, .9983 - .9951 and .9951 - .9919 are different floating-point
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
    return calibrated(metric_events, weights)


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
    >>> found = events(human, metric, human_tie=0, units=np.zeros(1, dtype=int), n_units=1, item_weights=None)
    >>> found[0].delta.round(3).tolist(), found[0].gain.tolist()  # a human tie, and two human preferences
    ([0.1, 0.6, 0.7], [True, False, False])
    """
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    first, second = np.triu_indices(human.shape[1], k=1)
    difference = human[:, first] - human[:, second]
    return [
        Events(
            np.where(np.abs(difference) <= human_tie, 0.0, np.sign(difference)),  # NaN stays NaN
            metric[:, first] - metric[:, second],
            slack=_SAME * float(np.fmax.reduce(np.abs(metric), axis=None, initial=0.0)),
            units=units,
            n_units=n_units,
            item_weights=item_weights,
        )
        for metric in metrics
    ]


def calibrated(metrics: Sequence[Events], weights: NDArray[Any]) -> tuple[Floats, Floats]:
    """Accuracy and epsilon of `acc_eq` from the events of metrics, (B, metrics) each.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> found = events(human, metric, human_tie=0, units=np.zeros(1, dtype=int), n_units=1, item_weights=None)
    >>> calibrated(found, np.ones((1, 1)))[0].tolist()
    [[1.0]]
    """
    times = np.ascontiguousarray(weights.T)
    accuracy, epsilon = np.full((2, len(weights), len(metrics)), np.nan)
    if len(metrics):
        sums = weighted_sums(weights, np.stack([[metric.total, metric.at_zero] for metric in metrics]))
        for m, metric in enumerate(metrics):
            accuracy[:, m], epsilon[:, m] = metric.best(times, *np.ascontiguousarray(sums[:, m].T))
    return accuracy, epsilon


class Events:
    """Changes in the number of correct pairs of one metric as epsilon grows.

    When epsilon reaches the difference of a pair, a human tie becomes correct and a concordant pair becomes wrong. So
    only some values of epsilon can maximise accuracy. One is 0. The difference of a human tie is another if the next
    larger difference belongs to a concordant pair, or if there is no larger difference. Within a segment between two
    such values, the number of correct pairs first falls and then rises.
    """

    def __init__(
        self, order: Floats, differences: Floats, *, slack: float, units: Ints, n_units: int, item_weights: Floats
    ) -> None:
        """Find the events from the human order and the metric's differences of pairs of outputs, (items, pairs)
        each."""
        rated = ~np.isnan(order) & ~np.isnan(differences)
        pairs = rated.sum(axis=1)
        counted = np.where(pairs > 0, item_weights, 0.0)
        self.total = np.bincount(units, counted, minlength=n_units)  # (units,): summed weights of the items
        size, tie = np.where(np.abs(differences) <= slack, 0.0, np.abs(differences)), order == 0
        concordant = (order * differences > 0) & (size > 0)
        item, pair = np.nonzero(rated & (tie | concordant) & (counted > 0)[:, np.newaxis])
        share, unit = (counted / np.maximum(pairs, 1))[item], units[item]
        values, gain = size[item, pair], tie[item, pair]
        at_zero = (values == 0) | ~gain  # correct at epsilon 0: common ties, and concordant pairs
        self.at_zero = np.bincount(unit[at_zero], share[at_zero], minlength=n_units)
        by_size = np.argsort(values)
        by_size = by_size[np.count_nonzero(values == 0) :]
        self.delta = _merged(values[by_size], slack)
        self.share, self.unit, self.gain = share[by_size], unit[by_size], gain[by_size]
        self.segment = self._segments()
        read_only(self)

    def best(self, times: NDArray[Any], weighed: Floats, at_zero: Floats) -> tuple[Floats, Floats]:
        """Largest accuracy, and the smallest epsilon with this accuracy, in every resample: (B,) each.

        `times` (units, B) are the weights. `weighed` and `at_zero` (B,) are the sums of `total` and `at_zero` of the
        units in every resample.
        """
        # integer counts, exact in single precision, if all items have equally many pairs
        each = self.share[0] if len(self.share) else 1.0
        whole = bool(np.all(self.share == each)) and float(times.max(initial=0)) * len(self.share) < _EXACT
        kind: Any = np.float32 if whole else np.float64
        n_units, n_draws = times.shape
        steps = np.where(self.gain, 1.0, -1.0) * (1.0 if whole else self.share)
        slack = np.zeros(n_draws) if whole else _SAME * weighed
        gained, reached = np.zeros((2, n_draws))
        chosen = np.zeros(n_draws, dtype=np.intp)
        for part in chunks(self.segment.max(initial=0), max(n_draws, CHUNK // _SEGMENTS)):
            n = part.stop - part.start
            low, high = np.searchsorted(self.segment, [part.start + 1, part.stop + 1])
            present, row = _places(self.unit[low:high], n_units)
            drawn = times[present].astype(kind)
            net = np.bincount(row, steps[low:high], minlength=len(present))
            gains = np.bincount(row, np.maximum(steps[low:high], 0.0), minlength=len(present))
            end, most = np.stack([net, gains]).astype(kind) @ drawn + reached
            if (most > gained + slack).any():  # else no threshold of this block is the best in any resample
                cell = (self.segment[low:high] - part.start - 1) * len(present) + row
                change = np.bincount(cell, steps[low:high], minlength=n * len(present))
                curve = np.cumsum(change.reshape(n, -1), axis=0).astype(kind)
                right = curve @ drawn
                right += reached.astype(kind)
                top = right.max(axis=0)
                first = np.argmax(right >= top - slack.astype(kind), axis=0)  # the smallest epsilon
                better = top > gained + slack
                chosen, gained = np.where(better, part.start + 1 + first, chosen), np.where(better, top, gained)
            reached = end.astype(np.float64)
        right = at_zero + gained * (each if whole else 1.0)
        accuracy = np.minimum(ratio(right, weighed), 1.0)  # rounding error
        return accuracy, np.where(np.isnan(accuracy), np.nan, self._epsilon(chosen, times))

    def _segments(self) -> NDArray[np.intp]:
        """Segment of each event, numbered from 1. Segment 0 is epsilon 0 and has no events."""
        if len(self.delta) == 0:
            return np.zeros(0, dtype=np.intp)
        first = np.flatnonzero(np.concatenate([[True], self.delta[1:] != self.delta[:-1]]))
        tied, concordant = (np.logical_or.reduceat(kind, first) for kind in (self.gain, ~self.gain))
        opens = np.concatenate([[True], tied[:-1] & concordant[1:]])
        return np.repeat(np.cumsum(opens), np.diff(np.append(first, len(self.delta))))

    def _epsilon(self, chosen: Ints, times: NDArray[Any]) -> Floats:
        """Epsilon in each resample: the largest human tie of the chosen segment that is present in the resample, or 0
        for segment 0."""
        ties = np.flatnonzero(self.gain)
        delta, unit = np.append(0.0, self.delta[ties]), np.append(0, self.unit[ties])
        at = np.where(chosen == 0, 0, np.searchsorted(self.segment[ties], chosen, side="right"))
        while np.any(absent := (at > 0) & (times[unit[at], np.arange(len(at))] == 0)):
            at = at - absent
        return delta[at]


def _places(unit: Ints, n_units: int) -> tuple[Ints, Ints]:
    """The units that occur, and the position of each entry among them. All units are returned if there are no more
    units than entries."""
    if n_units <= len(unit):
        return np.arange(n_units), unit
    present, row = np.unique(unit, return_inverse=True)
    return present, row


def _merged(ordered: Floats, slack: float) -> Floats:
    """Ascending values with near-equal values merged: values that differ from a neighbour by at most `slack` form a
    group, and each is replaced by the largest value of its group."""
    last = np.flatnonzero(np.append(np.diff(ordered) > slack, True)) if len(ordered) else np.zeros(0, dtype=np.intp)
    return np.repeat(ordered[last], np.diff(np.append(-1, last)))
