"""The estimator `human`, which uses only the human annotations of a pair."""

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Estimator

HUMAN = Estimator(
    name="human",
    label="Annotators alone",
    doc="Only human annotations: the Dirichlet posterior given all human labels, in closed form.",
    estimate=lambda counts, confidence, **_: human_posterior(counts.human, confidence=confidence),
    uses_metric=False,
    quick=True,
)
