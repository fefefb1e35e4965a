"""The estimator `naive`, which uses metric ratings without correction."""

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Estimator, margin_of

NAIVE = Estimator(
    name="naive",
    label="Metric, uncorrected",
    doc="Metric ratings used as if they were human: the Dirichlet posterior given all metric labels, in closed form.",
    estimate=lambda counts, confidence, **_: human_posterior(counts.metric, confidence=confidence),
    point=lambda counts: margin_of(counts.metric),
    uses_people=False,
)
