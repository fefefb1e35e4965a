"""Naive: the metric taken at its word."""

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Estimator, margin_of

NAIVE = Estimator(
    name="naive",
    label="Metric at its word",
    doc="The metric's ratings taken for people's: the Dirichlet posterior of all its labels, in closed form.",
    estimate=lambda counts, confidence, **_: human_posterior(counts.metric, confidence=confidence),
    point=lambda counts: margin_of(counts.metric),
    uses_people=False,
)
