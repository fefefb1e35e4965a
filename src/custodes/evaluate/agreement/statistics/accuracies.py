"""Proportion of equal preferences of metric and annotators, over comparisons of outputs and over pairs of systems."""

from __future__ import annotations

from functools import partial

import numpy as np

from custodes.evaluate.agreement.statistic import Sample, Statistic, output_statistic
from custodes.stats import accuracy
from custodes.stats.arrays import Floats
from custodes.stats.correlation import pair_counts
from custodes.stats.intervals import SHARE
from custodes.stats.population import population_values
from custodes.stats.ratios import ratio


def chance_accuracy(sample: Sample) -> Floats:
    """The expected sample accuracy of independent preferences with the same tie rates, (1 + B, metrics).

    If t is the human tie rate and u the tie rate of the metric, the value is t u + (1 - t)(1 - u) / 2.
    """
    total_weights, _, *tie_weights_of_raters = sample.preference_totals
    human_tie_rate, metric_tie_rate = (ratio(tie_weights, total_weights) for tie_weights in tie_weights_of_raters)
    return np.asarray(human_tie_rate * metric_tie_rate + (1 - human_tie_rate) * (1 - metric_tie_rate) / 2)


def _population_accuracy(sample: Sample) -> Floats:
    comparison = sample.comparison
    compared_pair_masks = np.zeros(
        (len(comparison.metrics), len(comparison.systems), len(comparison.systems)), dtype=np.bool_
    )
    for metric_index, is_compared_pair in enumerate(compared_pair_masks):
        is_compared_pair[*comparison.design.pairs[comparison.shared(metric_index).pair].T] = True
    _, system_net_wins_by_human, system_net_wins_by_metric = sample.margins
    return pair_counts(
        *population_values(
            system_net_wins_by_human, system_net_wins_by_metric, n_units=comparison.design.n_effective_units
        ),
        pairs=compared_pair_masks,
    ).accuracy


ACCURACIES = (
    Statistic(
        name="sample_accuracy",
        label="Sample accuracy",
        doc="proportion of comparisons in which annotators and metric have the same preference "
        "(Favi-Score paper, Definition 11)",
        compute=lambda sample: ratio(sample.preference_totals[1], sample.preference_totals[0]),
        bounds=SHARE,
        chance=chance_accuracy,
        compared=True,
        essential=True,
    ),
    Statistic(
        name="system_accuracy",
        label="System accuracy (signs of margins)",
        doc=(
            "proportion of pairs of systems for which the human and the metric margin (wins − losses) "
            "have the same sign (Definition 10)"
        ),
        compute=lambda sample: sample.margins.accuracy,
        bounds=SHARE,
        population=_population_accuracy,
        chance=0.5,
        smooth=False,
    ),
    Statistic(
        name="pairwise_accuracy",
        label="Pairwise accuracy of system means",
        doc="proportion of pairs of systems that the mean human score and the mean metric score order in the same way "
        "(Kocmi et al. 2021)",
        compute=lambda sample: sample.system_counts.accuracy,
        bounds=SHARE,
        population=lambda sample: sample.population_counts.accuracy,
        chance=0.5,
        smooth=False,
        compared=True,
        essential=True,
    ),
)


def _acc_eq(sample: Sample) -> Floats:
    comparison, design = sample.comparison, sample.comparison.design
    return accuracy.acc_eq(
        comparison.human,
        comparison.metric_scores,
        human_tie=comparison.human_tie,
        units=design.units,
        weights=sample.times,
        item_weights=design.weights,
    )[0]


ACC_EQ = Statistic(
    name="acc_eq",
    label="Pairwise accuracy with ties (acc_eq)",
    doc="accuracy within items, averaged over items, with a calibrated tie threshold of the metric "
    "(Deutsch et al. 2023)",
    compute=output_statistic(_acc_eq),
    compared=True,
    bounds=SHARE,
    essential=True,
)


LEVEL_DRAWS = 50
"""Number of random draws of the annotators' severity for the intervals of soft pairwise accuracy."""


def _spa(sample: Sample) -> Floats:
    comparison, design = sample.comparison, sample.comparison.design
    compute_spa = partial(
        accuracy.spa, metrics=comparison.metric_scores, units=design.units, item_weights=design.weights
    )
    if sample.level_errors is None:
        return compute_spa(comparison.unrounded_human, weights=sample.times, flips=sample.flips)
    spa_draws = np.empty((len(sample.times), len(comparison.metrics)))
    spa_draws[:1] = compute_spa(comparison.unrounded_human, weights=sample.times[:1], flips=sample.flips)
    # Resamples share a few draws of the levels, because each draw needs a separate computation.
    for first_resample in range(1, min(1 + LEVEL_DRAWS, len(spa_draws))):
        resample_rows = [0, *range(first_resample, len(spa_draws), LEVEL_DRAWS)]
        spa_draws[resample_rows[1:]] = compute_spa(
            comparison.unrounded_human - np.tensordot(sample.level_errors[first_resample - 1], sample.level_weights, 1),
            weights=sample.times[resample_rows],
            flips=sample.flips[:1],
        )[1:]
    return spa_draws


SPA = Statistic(
    name="spa",
    label="Soft pairwise accuracy",
    doc="soft pairwise accuracy (Thompson et al. 2024)",
    compute=output_statistic(_spa),
    bounds=SHARE,
    chance=0.5,
    smooth=False,
    essential=True,
)
