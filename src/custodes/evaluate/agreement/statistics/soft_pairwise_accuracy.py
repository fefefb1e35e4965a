"""Soft pairwise accuracy: how alike the confidence of people and metric in every pair of systems is."""

from __future__ import annotations

from custodes.evaluate.agreement.statistic import Sample, Statistic, of_outputs
from custodes.stats.agreement import accuracy
from custodes.stats.arrays import Floats
from custodes.stats.resampling.resample import SHARE


def _spa(sample: Sample) -> Floats:
    own = sample.comparison
    return accuracy.spa(
        own.human,
        own.metric_scores,
        units=own.design.units,
        weights=sample.times,
        flips=sample.flips,
        item_weights=own.design.item_weights,
    )


SPA = Statistic(
    name="spa",
    label="Soft pairwise accuracy",
    doc="soft pairwise accuracy (Thompson et al. 2024)",
    compute=of_outputs(_spa),
    bounds=SHARE,
    chance=0.5,
    smooth=False,
    essential=True,
)
