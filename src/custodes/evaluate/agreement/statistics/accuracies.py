"""How often a metric chooses as people do: over comparisons of outputs, over pairs of systems."""

from __future__ import annotations

import numpy as np

from custodes.evaluate.agreement.statistic import Sample, Statistic, Swaps
from custodes.evaluate.comparison import Comparison
from custodes.stats.agreement import accuracy
from custodes.stats.arrays import Floats
from custodes.stats.resampling import permutation
from custodes.stats.resampling.resample import SHARE


def guessing(comparison: Comparison) -> Floats:
    """(metrics,): the share of equal choices if a metric's had nothing to do with people's, at the tie rates of both.

    With people's tie rate t and the metric's u over all comparisons: t u + (1 - t)(1 - u) / 2.
    """
    rated = comparison.rated
    n = rated.sum(axis=(1, 2))
    people, metric = (
        (rated & (signs == 0)).sum(axis=(1, 2)) / np.where(n, n, np.nan)
        for signs in (comparison.human_signs, comparison.metric_signs)
    )
    return np.asarray(people * metric + (1 - people) * (1 - metric) / 2)


def _sample_accuracy(sample: Sample) -> Floats:
    own = sample.comparison
    return accuracy.sample_accuracy(own.human_signs, own.metric_signs, units=own.design.units, weights=sample.times)


def _swap_choices(sample: Sample, swaps: Swaps) -> Floats:
    own = sample.comparison
    right = own.rated & (own.human_signs == own.metric_signs)
    over, under = right.sum(axis=1).astype(np.float64), own.rated.sum(axis=1).astype(np.float64)
    return permutation.swap_mean(over, under, units=own.design.units, **vars(swaps))


def _system_accuracy(sample: Sample) -> Floats:
    own = sample.comparison
    return accuracy.system_accuracy(own.human_signs, own.metric_signs, units=own.design.units, weights=sample.times)


def _population_margins(sample: Sample) -> Floats:
    return accuracy.pairwise_accuracy(*sample.population_wins)


def _population_pairwise(sample: Sample) -> Floats:
    return accuracy.pairwise_accuracy(*sample.population_scores)


def _pairwise_accuracy(sample: Sample) -> Floats:
    return accuracy.pairwise_accuracy(*sample.system_scores)


def _swap_pairwise(sample: Sample, swaps: Swaps) -> Floats:
    own = sample.comparison
    return permutation.swap_pairwise_accuracy(
        own.human, own.metric_scores, units=own.design.units, item_weights=own.design.weights, **vars(swaps)
    )


ACCURACIES = (
    Statistic(
        name="sample_accuracy",
        label="Sample accuracy",
        doc="share of comparisons with the same sign (Favi-Score paper, Definition 11)",
        level="comparison",
        compute=_sample_accuracy,
        bounds=SHARE,
        chance=guessing,
        swap=_swap_choices,
        essential=True,
    ),
    Statistic(
        name="system_accuracy",
        label="System accuracy (signs of margins)",
        doc="share of pairs of systems whose margins (wins − losses) have the same sign (Definition 10)",
        level="system",
        compute=_system_accuracy,
        bounds=SHARE,
        population=_population_margins,
        chance=0.5,
    ),
    Statistic(
        name="pairwise_accuracy",
        label="Pairwise accuracy of system means",
        doc="share of pairs of systems that system means order alike (Kocmi et al. 2021)",
        level="system",
        compute=_pairwise_accuracy,
        bounds=SHARE,
        population=_population_pairwise,
        chance=0.5,
        swap=_swap_pairwise,
        essential=True,
    ),
)
