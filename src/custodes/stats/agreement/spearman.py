"""Spearman's correlation over all outputs, exact in every resample: the mid-ranks are those of the resample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement.levels import Levels, Rows, room, running, some_resamples
from custodes.stats.arrays import Floats, Ints
from custodes.stats.ratios import ratio

_CONSTANT = 1e-12  # a variance below this share of the largest is rounding, not variance


def resampled(human: Floats, metrics: Floats, share: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Correlate mid-ranks in every resample: human (outputs,), metrics (metrics, outputs) without NaN -> (B, metrics).

    share and units (outputs,), weights (B, units). NaN where either side is constant in the resample. A resample takes
    steps in proportion to outputs: their order is that of the data.

    >>> human, metrics = np.array([1.0, 2, 3, 4]), np.array([[1.0, 30, 2, 40]])
    >>> resampled(human, metrics, np.ones(4), units=np.array([0, 0, 1, 1]), weights=np.ones((1, 2))).round(3).tolist()
    [[0.8]]

    Source: Spearman 1904; Kendall 1945 for ties.
    """
    people, others = Levels(human), [Levels(own) for own in metrics]
    result = np.empty((len(weights), len(metrics)))
    for some in some_resamples(len(weights), len(human)):
        drawn = np.ascontiguousarray(weights[some].T, dtype=np.float64)  # (units, B)
        times = Rows(drawn[units] * share[:, np.newaxis])  # (outputs, B)
        total = times.outputs.sum(axis=0)
        upto, of_people = room(len(human), len(total)), room(len(human), len(total))
        size = people.by_level(times, people.of_tied(times.outputs[people.tied]), of_people)
        ranks = np.subtract(2 * running(size.copy()), size + total)
        least = _CONSTANT * total**3
        spread = np.einsum("slb,slb,slb->b", ranks, size, ranks)
        spread = np.where(spread > least, spread, np.nan)
        weighed = Rows(times.outputs * ranks.reshape(-1, len(total))[people.level])  # adds up to 0
        own = np.einsum("ob,ob->b", weighed.outputs, times.outputs)
        for m, metric in enumerate(others):
            # Twice the centred mid-ranks of levels are 2 upto - size - total, with squares of (N^3 - cubes) / 3.
            own_times, own_people = times.outputs[metric.tied], weighed.outputs[metric.tied]
            tied, met = metric.of_tied(own_times), metric.of_tied(own_people)
            reached = running(metric.by_level(times, tied, upto))
            products = 2 * np.einsum("slb,slb->b", metric.by_level(weighed, met, of_people), reached) - own
            products += np.einsum("ob,ob->b", own_people, own_times) - np.einsum("lb,lb->b", met, tied)
            variance = (total**3 - metric.powers(drawn, tied, share=share, units=units, power=3)) / 3
            variance = np.where(variance > least, variance, np.nan)
            result[some, m] = ratio(products, np.sqrt(variance * spread))
    return result.clip(-1.0, 1.0)
