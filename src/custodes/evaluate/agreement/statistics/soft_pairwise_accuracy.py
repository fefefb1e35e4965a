"""Soft pairwise accuracy: similarity of the p-values of annotators and metric over all pairs of systems."""

from __future__ import annotations

from custodes.evaluate.agreement.statistic import Sample, Statistic, of_outputs
from custodes.stats import accuracy
from custodes.stats.arrays import Floats
from custodes.stats.intervals import SHARE


def _of_people(sample: Sample, human: Floats, metrics: Floats) -> Floats:
    design = sample.comparison.design
    return accuracy.spa(
        human,
        metrics,
        units=design.units,
        weights=sample.times,
        flips=sample.flips,
        item_weights=design.item_weights,
    )


SPA = Statistic(
    name="spa",
    label="Soft pairwise accuracy",
    doc="soft pairwise accuracy (Thompson et al. 2024)",
    compute=of_outputs(lambda sample: _of_people(sample, sample.comparison.human, sample.comparison.metric_scores)),
    of_people=_of_people,
    bounds=SHARE,
    chance=0.5,
    smooth=False,
    essential=True,
)
