"""Accuracy: how often a metric prefers what people prefer, over outputs, over systems, with ties, softly.

Common arrays: human (items, systems), metrics (metrics, items, systems), NaN = not rated; signs (pairs, items) int8 in
{1, 0, -1, ABSENT}; units (items,) says which resampling unit an item belongs to; weights (B, units) how often each unit
is present; item_weights (items,) what an item counts. Only outputs rated by both the person and the metric count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.agreement.ranks import compared
from custodes.stats.agreement.system_scores import compared_pairs
from custodes.stats.arrays import CHUNK, Bools, Floats, Ints, Signs, chunks
from custodes.stats.ratios import ratio
from custodes.stats.resampling.resample import same_outputs, unit_sums, weighted_sums

_EXACT = 2**24  # single precision holds whole numbers up to here
_CACHE = 4  # temporary arrays so much smaller than elsewhere stay in the cache
_SEGMENTS = 128  # thresholds at a time: few enough that those that cannot be the best are left out, and units are few
_SAME = 1e-12  # relative: the same number computed in another way


def sample_accuracy(
    signs_human: Signs,
    signs_metrics: Signs,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> Floats:
    """Share of comparisons on which metric and person agree: (pairs, items), (metrics, pairs, items) -> (B, metrics).

    Comparisons that either side lacks are left out; NaN where none is left.

    >>> human, metric = np.array([[1, 0, -1]], dtype=np.int8), np.array([[[1, 1, -1]]], dtype=np.int8)
    >>> sample_accuracy(human, metric, units=np.arange(3), weights=np.ones((1, 3))).round(3).tolist()
    [[0.667]]

    Source: von Däniken et al. 2024 (Favi-Score): the trace of the confusion matrix over its sum.
    """
    both = (signs_human != ABSENT) & (signs_metrics != ABSENT)
    counts = _weighed(np.stack([((signs_human == signs_metrics) & both).sum(axis=1), both.sum(axis=1)]), item_weights)
    sums = weighted_sums(weights, unit_sums(counts, units=units, n_units=weights.shape[1]))
    return ratio(sums[:, 0], sums[:, 1])


def margins(signs: Signs, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None) -> Floats:
    """Wins minus losses in every resample: signs (..., items) -> (B, ...).

    >>> margins(np.array([1, 1, -1, ABSENT], dtype=np.int8), units=np.arange(4), weights=np.ones((1, 4))).tolist()
    [1.0]
    """
    present = np.where(signs == ABSENT, np.int8(0), signs)
    return weighted_sums(weights, unit_sums(_weighed(present, item_weights), units=units, n_units=weights.shape[1]))


def system_accuracy(
    signs_human: Signs,
    signs_metrics: Signs,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> Floats:
    """Share of system pairs whose margins have the same sign, 0 being a value of its own -> (B, metrics).

    Margins are over the items where both preferences exist; a pair without any in the resample is left out, NaN where
    no pair is left.

    >>> human, metric = np.array([[1, 1], [0, -1]], dtype=np.int8), np.array([[[1, 0], [1, 0]]], dtype=np.int8)
    >>> system_accuracy(human, metric, units=np.arange(2), weights=np.ones((1, 2))).tolist()
    [[0.5]]

    Source: von Däniken et al. 2024 (Favi-Score), Definition 10 and Equation 7.
    """
    n_metrics, n_pairs, n_items = signs_metrics.shape
    agree, n = np.zeros((2, len(weights), n_metrics), dtype=np.int64)
    size = max(len(weights), n_items)

    def of(signs: Signs) -> Floats:
        return margins(signs, units=units, weights=weights, item_weights=item_weights)

    for part in chunks(n_pairs, size):
        people = signs_human[part]
        for rows, both in _same_masks(people != ABSENT, signs_metrics[:, part] != ABSENT):
            counted = of(both.astype(np.int8)) > 0
            of_people = np.sign(of(np.where(both, people, np.int8(0)))).astype(np.int8)
            for some in (rows[own] for own in chunks(len(rows), _CACHE * len(people) * size)):
                of_metric = of(np.where(both, signs_metrics[some, part], np.int8(0)))
                alike = compared(of_metric, np.zeros(1)) == of_people[:, np.newaxis]
                agree[:, some] += (alike & counted[:, np.newaxis]).sum(axis=-1)
            n[:, rows] += counted.sum(axis=-1)[:, np.newaxis]
    return ratio(agree, n)


def _same_masks(human: Bools, metrics: Bools) -> Iterator[tuple[Ints, Bools]]:
    """Metrics (metrics, pairs, items) that share with people (pairs, items) the same: their places, and what."""
    groups: dict[bytes, list[int]] = {}
    for m, own in enumerate(metrics):
        groups.setdefault(np.packbits(human & own).tobytes(), []).append(m)
    for rows in groups.values():
        yield np.array(rows), human & metrics[rows[0]]


def net_wins(
    signs_human: Signs, signs_metrics: Signs, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Wins minus losses of each system, per comparison, by the person and by each metric, in every resample.

    signs (pairs, items) and (metrics, pairs, items), pairs in the order of `np.triu_indices`, over the comparisons that
    both have -> (B, metrics, systems) each; NaN where a system has none.

    >>> human, metric = np.array([[1, 1], [1, 0], [1, 1]], dtype=np.int8), np.ones((1, 3, 2), dtype=np.int8)
    >>> [own.tolist() for own in net_wins(human, metric, units=np.arange(2), weights=np.ones((1, 2)))]
    [[[[0.75, 0.0, -0.75]]], [[[1.0, 0.0, -1.0]]]]
    """
    n_metrics, n_pairs, n_items = signs_metrics.shape
    first, second = np.triu_indices((1 + math.isqrt(1 + 8 * n_pairs)) // 2, 1)
    side = np.zeros((second[-1] + 1, n_pairs), dtype=np.float32)
    side[first, np.arange(n_pairs)], side[second, np.arange(n_pairs)] = 1, -1
    net = np.empty((2, len(weights), n_metrics, len(side)))

    def drawn(sums: NDArray[Any]) -> Floats:
        """(..., systems, items) -> (B, ..., systems)."""
        per_unit = unit_sums(_weighed(sums, item_weights), units=units, n_units=weights.shape[1])
        return weighted_sums(weights, per_unit)

    def of_systems(sides: NDArray[Any], signs: Signs, both: Bools) -> NDArray[np.float32]:
        """(..., pairs, items) -> (..., systems, items), some items at a time: as numbers all signs may not fit."""
        made = np.empty((*signs.shape[:-2], len(sides), n_items), dtype=np.float32)
        for part in chunks(n_items, signs[..., 0].size):
            np.matmul(sides, np.where(both[:, part], signs[..., part], 0).astype(np.float32), out=made[..., part])
        return made

    for rows, both in _same_masks(signs_human != ABSENT, signs_metrics != ABSENT):
        n = drawn(of_systems(np.abs(side), both.view(np.int8), both))
        net[0][:, rows] = ratio(drawn(of_systems(side, signs_human, both)), n)[:, np.newaxis]
        for some in (rows[own] for own in chunks(len(rows), both.size)):
            net[1][:, some] = ratio(drawn(of_systems(side, signs_metrics[some], both)), n[:, np.newaxis])
    return net[0], net[1]


def pairwise_accuracy(means_human: Floats, means_metrics: Floats, *, pairs: Bools) -> Floats:
    """Share of system pairs that both means order alike: two (B, metrics, systems) -> (B, metrics).

    `pairs` (metrics, systems, systems): which pairs of systems can be compared. An exact tie agrees only with a tie.
    Pairs with a NaN are left out, NaN where no pair is left.

    >>> pairs = np.ones((1, 3, 3), dtype=bool)
    >>> pairwise_accuracy(np.array([[[1.0, 2, 3]]]), np.array([[[1.0, 3, 2]]]), pairs=pairs).round(3).tolist()
    [[0.667]]

    Source: Kocmi et al. 2021 ("To Ship or Not to Ship"), Accuracy.
    """
    agree, n = np.zeros((2, *means_metrics.shape[:2]), dtype=np.int64)
    for human, metric, counted in compared_pairs(means_human, means_metrics, pairs):
        agree += ((human == metric) & counted).sum(axis=0)
        n += np.broadcast_to(counted, metric.shape).sum(axis=0)
    return ratio(agree, n)


def acc_eq(
    human: Floats,
    metrics: Floats,
    *,
    human_tie: float,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Pairwise accuracy within items with calibrated metric ties -> accuracy and epsilon, each (B, metrics).

    A pair of outputs is right when people tie (differ by at most `human_tie`) and the metric differs by at most
    epsilon, or when both prefer the same output and the metric differs by more. Accuracy is the
    share right of an item's pairs, averaged over the items with a pair. Epsilon, in the metric's units, is the
    smallest value that maximises it, fitted anew in every resample: 0 or an absolute difference that occurs.
    Differences that agree to 1e-12 of the metric's largest score are one. NaN where there is no pair.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> accuracy, epsilon = acc_eq(human, metric, human_tie=0, units=np.zeros(1, dtype=int), weights=np.ones((1, 1)))
    >>> accuracy.tolist(), epsilon.round(3).tolist()
    ([[1.0]], [[0.1]])

    Source: Deutsch, Foster and Freitag 2023 ("Ties Matter"): acc_eq with tie calibration, grouped by item.
    """
    item_weights = np.ones(len(human)) if item_weights is None else item_weights
    times = np.ascontiguousarray(weights.T)
    order = _human_order(human, human_tie)
    accuracy, epsilon = np.full((2, len(weights), len(metrics)), np.nan)
    for m, metric in enumerate(metrics):
        apart, slack = _metric_differences(metric)
        events = _Events(order, apart, slack=slack, units=units, n_units=weights.shape[1], item_weights=item_weights)
        accuracy[:, m], epsilon[:, m] = events.best(times)
    return accuracy, epsilon


def item_accuracy(human: Floats, metrics: Floats, *, human_tie: float, epsilon: Floats) -> Floats:
    """Share right of each item's pairs of outputs under given epsilons (metrics,), see `acc_eq` -> (metrics, items).

    NaN where an item has no pair or epsilon is NaN.

    >>> human, metric = np.array([[1.0, 1.0, 3.0]]), np.array([[[0.2, 0.3, 0.9]]])
    >>> item_accuracy(human, metric, human_tie=0, epsilon=np.array([0.0])).round(3).tolist()
    [[0.667]]

    Source: Deutsch, Foster and Freitag 2023 ("Ties Matter").
    """
    order = _human_order(human, human_tie)
    result = np.empty((len(metrics), len(human)))
    for m, metric in enumerate(metrics):
        apart, slack = _metric_differences(metric)
        rated = ~np.isnan(order) & ~np.isnan(apart)
        metric_order = np.where(np.abs(apart) <= epsilon[m] + slack, 0.0, np.sign(apart))
        share = ratio(((metric_order == order) & rated).sum(axis=1), rated.sum(axis=1))
        result[m] = np.where(np.isnan(epsilon[m]), np.nan, share)
    return result


def spa(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    flips: NDArray[np.int8],
    item_weights: Floats | None = None,
) -> Floats:
    """Soft pairwise accuracy, 1 - mean over system pairs of |p(human) - p(metric)| -> (B, metrics).

    p is the one-sided p-value that the first system of the pair (in the order given) is better. Row 0 of the weights,
    the data as they are, takes the paired permutation test: the share of the flips (K, units) of +1 and -1, the same
    for the person and all metrics, whose difference is at least the observed one; a flip swaps both systems in a whole
    unit. The other rows take the normal p-value of the mean difference over its standard error clustered by unit, with
    G/(G-1), which is the same quantity without permutations inside resamples. A pair without common items, or with a
    single unit in a resample, is left out; NaN where no pair is left.

    >>> human, metric = np.array([[2.0, 1], [3, 1]]), np.array([[[0.2, 0.1], [0.1, 0.2]]])
    >>> flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    >>> spa(human, metric, units=np.arange(2), weights=np.ones((1, 2)), flips=flips).tolist()
    [[0.5]]

    Source: Thompson, Mathur, Deutsch and Khayrallah 2024; "at least" as in the authors' code.
    """
    pairs = np.stack(np.triu_indices(human.shape[1], k=1))
    lost, n = np.zeros((2, len(weights), len(metrics)))
    longest = max(len(weights), len(flips), len(human))
    for rows, rated in same_outputs(human, metrics):
        both = np.zeros(human.shape, dtype=bool)
        both.flat[rated] = True
        for part in chunks(pairs.shape[1], longest):
            a, b = pairs[:, part]
            shared = (both[:, a] & both[:, b]).T
            counted = _weighed(shared, item_weights)
            people = _p_values(
                _weighed(_differences(human, both, a, b), item_weights),
                counted,
                units=units,
                weights=weights,
                flips=flips,
            )
            for some in (rows[own] for own in chunks(len(rows), _CACHE * len(a) * longest)):
                of_metrics = _weighed(_differences(metrics[some], both, a, b), item_weights)
                p = _p_values(of_metrics, counted, units=units, weights=weights, flips=flips)
                p -= people[:, np.newaxis]
                np.abs(p, out=p)
                defined = ~np.isnan(p)
                lost[:, some] += p.sum(axis=-1, where=defined)
                n[:, some] += defined.sum(axis=-1)
    return 1 - ratio(lost, n)


def _differences(scores: Floats, both: Bools, a: Ints, b: Ints) -> Floats:
    """System a minus b, 0 where not shared or mere rounding: (..., items, systems) -> (..., pairs, items)."""
    scores = np.where(both, scores, 0.0)
    largest = np.abs(scores).max(axis=(-1, -2), keepdims=True)
    apart = np.where(both[:, a] & both[:, b], scores[..., a] - scores[..., b], 0.0)
    return np.where(np.abs(apart) <= _SAME * largest, 0.0, apart).swapaxes(-1, -2)


def _weighed(values: NDArray[Any], item_weights: Floats | None) -> NDArray[Any]:
    """(..., items) times what each item counts."""
    return values if item_weights is None else values * item_weights


def _p_values(
    differences: Floats, shared: NDArray[Any], *, units: Ints, weights: Floats, flips: NDArray[np.int8]
) -> Floats:
    """One-sided p-values (B, ..., pairs) of differences (..., pairs, items); shared items count (pairs, items)."""
    from scipy.special import ndtr

    n_units = weights.shape[1]
    d = unit_sums(differences, units=units, n_units=n_units)
    n = unit_sums(shared, units=units, n_units=n_units)
    extra = (slice(None), *(np.newaxis,) * (d.ndim - 2))  # aligns (B, pairs) with (B, ..., pairs)
    total, spread = weighted_sums(weights, d), weighted_sums(weights, d * d)
    if n.size and (n == n.flat[0]).all() and n.flat[0] > 0:  # every unit is the same for every pair
        clusters = weights.sum(axis=1)[extra][..., np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread -= total * total / clusters
    else:
        clusters = weighted_sums(weights, n > 0)[extra]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / weighted_sums(weights, n)[extra]
            spread -= 2 * mean * weighted_sums(weights, n * d) - mean**2 * weighted_sums(weights, n * n)[extra]
    # What varies no more than rounding of the items in it does not vary; few do, so that is looked up for them alone.
    size = unit_sums(np.abs(differences), units=units, n_units=n_units)
    rough = spread <= _SAME * weights.max() * (size * size).sum(axis=-1)
    doubtful = rough.any(axis=0)
    own = size[doubtful]
    still = spread[:, doubtful] <= _SAME * weighted_sums(weights, own * own)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.asarray(ndtr(-total / np.sqrt(spread * (clusters / (clusters - 1)))))
    if still.any():  # no flip of a positive difference reaches it, every flip of none does
        p[:, doubtful] = np.where(still, total[:, doubtful] <= _SAME * weighted_sums(weights, own), p[:, doubtful])
    np.copyto(p, np.nan, where=clusters <= 1)
    observed = total[0] - _SAME * (size @ weights[0]).reshape(d.shape[:-1])
    reached = weighted_sums(flips, d * weights[0]) >= observed
    p[0] = np.where(clusters[0] > 0, np.count_nonzero(reached, axis=0) / len(flips), np.nan)
    return p


class _Events:
    """What happens to one metric's right pairs as epsilon grows: ties become right, concordant pairs become wrong.

    Only some thresholds can be best: 0, and each difference with a human tie that is followed by one with a concordant
    pair (or by none). Between two of them, a segment, the right pairs first fall and then rise.
    """

    def __init__(
        self, order: Floats, apart: Floats, *, slack: float, units: Ints, n_units: int, item_weights: Floats
    ) -> None:
        """From the human order and the metric's differences, both (items, pairs)."""
        rated = ~np.isnan(order) & ~np.isnan(apart)
        pairs = rated.sum(axis=1)
        counted = np.where(pairs > 0, item_weights, 0.0)
        self.total = np.bincount(units, counted, minlength=n_units)  # (units,) what the items count
        size, tie = np.where(np.abs(apart) <= slack, 0.0, np.abs(apart)), order == 0
        concordant = (order * apart > 0) & (size > 0)
        item, pair = np.nonzero(rated & (tie | concordant) & (counted > 0)[:, np.newaxis])
        share, unit = (counted / np.maximum(pairs, 1))[item], units[item]
        delta, gain = _merged(size[item, pair], slack), tie[item, pair]
        after = delta > 0
        at_zero = ~after | ~gain  # right at epsilon 0: ties of both, and concordant pairs
        self.at_zero = np.bincount(unit[at_zero], share[at_zero], minlength=n_units)
        by_size = np.flatnonzero(after)[np.argsort(delta[after], kind="stable")]
        self.share, self.unit, self.delta, self.gain = share[by_size], unit[by_size], delta[by_size], gain[by_size]
        self.segment = self._segments()

    def best(self, times: NDArray[Any]) -> tuple[Floats, Floats]:
        """The largest accuracy and its smallest epsilon in every resample, each (B,), from (units, B)."""
        # counts, in single precision and exact, where all items have as many pairs
        each = self.share[0] if len(self.share) else 1.0
        whole = bool(np.all(self.share == each)) and float(times.max(initial=0)) * len(self.share) < _EXACT
        kind: Any = np.float32 if whole else np.float64
        n_units, n_draws = times.shape
        steps = np.where(self.gain, 1.0, -1.0) * (1.0 if whole else self.share)
        weighed = _drawn_sums(times, self.total)
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
            if (most > gained + slack).any():  # else no threshold of this part is the best of any resample
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
        right = _drawn_sums(times, self.at_zero) + gained * (each if whole else 1.0)
        accuracy = np.minimum(ratio(right, weighed), 1.0)  # rounding
        return accuracy, np.where(np.isnan(accuracy), np.nan, self._epsilon(chosen, times))

    def _segments(self) -> NDArray[np.intp]:
        """Number the segments from 1 by event; segment 0, epsilon 0, has no events."""
        if len(self.delta) == 0:
            return np.zeros(0, dtype=np.intp)
        first = np.flatnonzero(np.concatenate([[True], self.delta[1:] != self.delta[:-1]]))
        tied, concordant = (np.logical_or.reduceat(own, first) for own in (self.gain, ~self.gain))
        opens = np.concatenate([[True], tied[:-1] & concordant[1:]])
        return np.repeat(np.cumsum(opens), np.diff(np.append(first, len(self.delta))))

    def _epsilon(self, chosen: Ints, times: NDArray[Any]) -> Floats:
        """The largest human tie of the chosen segment that is present in the resample; 0 for segment 0."""
        ties = np.flatnonzero(self.gain)
        delta, unit = np.append(0.0, self.delta[ties]), np.append(0, self.unit[ties])
        at = np.where(chosen == 0, 0, np.searchsorted(self.segment[ties], chosen, side="right"))
        while np.any(absent := (at > 0) & (times[unit[at], np.arange(len(at))] == 0)):
            at = at - absent
        return delta[at]


def _places(unit: Ints, n_units: int) -> tuple[Ints, Ints]:
    """Which units there are, and the place of each of some in them; all units where nearly all are there."""
    if n_units <= len(unit):
        return np.arange(n_units), unit
    present, row = np.unique(unit, return_inverse=True)
    return present, row


def _drawn_sums(times: NDArray[Any], per_unit: NDArray[Any]) -> Floats:
    """Sum over units in every resample: (units, B), (units,) -> (B,)."""
    return weighted_sums(times.T, per_unit)


def _human_order(human: Floats, tie: float) -> Floats:
    """Which output of each pair within an item people prefer, 1, 0 or -1: (items, systems) -> (items, pairs)."""
    first, second = np.triu_indices(human.shape[1], k=1)
    apart = human[:, first] - human[:, second]
    return np.where(np.abs(apart) <= tie, 0.0, np.sign(apart))  # NaN stays NaN


def _metric_differences(metric: Floats) -> tuple[Floats, float]:
    """Differences of one metric (items, systems) within items (items, pairs), and what in them is only rounding."""
    first, second = np.triu_indices(metric.shape[1], k=1)
    return metric[:, first] - metric[:, second], _SAME * float(np.abs(metric[~np.isnan(metric)]).max(initial=0.0))


def _merged(values: Floats, slack: float) -> Floats:
    """Give values that lie within the slack of their neighbour the largest value of their group."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    last = np.flatnonzero(np.append(np.diff(ordered) > slack, True)) if len(values) else np.zeros(0, dtype=np.intp)
    merged = np.empty_like(values)
    merged[order] = np.repeat(ordered[last], np.diff(np.append(-1, last)))
    return merged
