"""Spearman's correlation over all outputs, exact in every resample: the mid-ranks are those of the resample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import levels
from custodes.stats.agreement.levels import Levels, Rows, room, running, some_resamples
from custodes.stats.arrays import Floats, Ints
from custodes.stats.ratios import ratio

_CONSTANT = 1e-12  # a variance below this share of the largest is rounding, not variance


def resampled(human: Floats, metrics: Floats, share: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Correlate mid-ranks in every resample: human (people, outputs), metrics (metrics, outputs) without NaN ->
    (people, B, metrics).

    share and units (outputs,), weights (B, units). NaN where either side is constant in the resample. A resample takes
    steps in proportion to outputs: their order is that of the data.

    >>> human, metrics = np.array([[1.0, 2, 3, 4]]), np.array([[1.0, 30, 2, 40]])
    >>> resampled(human, metrics, np.ones(4), units=np.array([0, 0, 1, 1]), weights=np.ones((1, 2))).round(3).tolist()
    [[[0.8]]]

    Source: Spearman 1904; Kendall 1945 for ties.
    """
    n = human.shape[1]
    if n > levels.MANY:
        return _one_by_one(human, metrics, share, units, weights)
    sides, others = [Levels(own) for own in human], [Levels(own) for own in metrics]
    result = np.empty((len(human), len(weights), len(metrics)))
    for some in some_resamples(len(weights)):
        drawn = np.ascontiguousarray(weights[some].T, dtype=np.float64)  # (units, B)
        times = Rows(drawn[units] * share[:, np.newaxis])  # (outputs, B)
        total = times.outputs.sum(axis=0)
        rooms = room(n, len(total)), room(n, len(total))
        people = [_Weighed(side, times, total, rooms[0]) for side in sides]
        for m, metric in enumerate(others):
            # Twice the centred mid-ranks of levels are 2 upto - size - total, with squares of (N^3 - cubes) / 3.
            own_times = metric.those_tied(times.outputs)
            tied = metric.of_tied(own_times)
            reached = running(metric.by_level(times, tied, rooms[0]))
            variance = _varying((total**3 - metric.powers(drawn, tied, share=share, units=units, power=3)) / 3, total)
            for k, own in enumerate(people):
                own_people = metric.those_tied(own.rows.outputs)
                met = metric.of_tied(own_people)
                products = 2 * np.einsum("slb,slb->b", metric.by_level(own.rows, met, rooms[1]), reached) - own.alone
                products += np.einsum("ob,ob->b", own_people, own_times) - np.einsum("lb,lb->b", met, tied)
                result[k, some, m] = ratio(products, np.sqrt(variance * own.spread))
    return result.clip(-1.0, 1.0)


class _Weighed:
    """Ranks of a person in some resamples: `rows` of outputs, ranks times how often each is there, which add up to 0;
    `alone` (B,) those times that again; `spread` (B,) the sum of squares of ranks."""

    def __init__(self, side: Levels, times: Rows, total: Floats, out: Floats) -> None:
        size = side.by_level(times, side.of_tied(side.those_tied(times.outputs)), out)
        ranks = np.subtract(2 * running(size.copy()), size + total)
        self.spread = _varying(np.einsum("slb,slb,slb->b", ranks, size, ranks), total)
        self.rows = Rows(times.outputs * ranks.reshape(-1, len(total))[side.level])
        self.alone = np.einsum("ob,ob->b", self.rows.outputs, times.outputs)


def _varying(spread: Floats, total: Floats) -> Floats:
    """NaN where ranks of so many outputs do not vary."""
    return np.where(spread > _CONSTANT * total**3, spread, np.nan)


def _one_by_one(human: Floats, metrics: Floats, share: Floats, units: Ints, weights: NDArray[Any]) -> Floats:
    """The same, a resample at a time."""
    people, others = ([np.unique(own, return_inverse=True)[1] for own in side] for side in (human, metrics))
    result = np.empty((len(people), len(weights), len(others)))
    for b, drawn in enumerate(weights):
        times = share * drawn[units]
        least = _CONSTANT * times.sum() ** 3
        of_people = [_ranks(code, times) for code in people]
        weighed = [times * own for own, _ in of_people]
        spread = np.array([own if own > least else np.nan for _, own in of_people])
        for m, code in enumerate(others):
            ranks, own = _ranks(code, times)
            products = np.array([side @ ranks for side in weighed])
            result[:, b, m] = products / np.sqrt(spread * own) if own > least else np.nan
    return result.clip(-1.0, 1.0)


def _ranks(codes: Ints, times: Floats) -> tuple[Floats, float]:
    """Twice the centred mid-ranks of all outputs, and the sum of their squares."""
    size = np.bincount(codes, times)
    upto = np.cumsum(size)
    ranks = 2 * upto - size - upto[-1]
    return ranks[codes], float(size @ ranks**2)
