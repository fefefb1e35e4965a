"""Accuracy within items with calibrated metric ties ("Ties Matter", Deutsch et al. 2023)."""

from __future__ import annotations

from custodes.evaluate.agreement.statistic import Statistic, of_outputs
from custodes.stats.intervals import POSITIVE, SHARE

WITH_TIES = (
    Statistic(
        name="acc_eq",
        label="Pairwise accuracy with ties (acc_eq)",
        doc="accuracy within items with calibrated metric ties, averaged over items (Deutsch et al. 2023)",
        compute=of_outputs(lambda sample: sample.acc_eq[0]),
        compared=True,
        bounds=SHARE,
        essential=True,
    ),
    Statistic(
        name="acc_eq_epsilon",
        label="Tie threshold of acc_eq (metric's units)",
        doc="tie threshold of acc_eq, in units of the metric",
        compute=of_outputs(lambda sample: sample.acc_eq[1]),
        bounds=POSITIVE,
        fewest=1000,  # a threshold jumps from one score difference to the next
        best="",
    ),
)
