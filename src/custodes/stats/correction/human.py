"""Human: what people's own annotations say of a pair, and nothing else."""

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Estimator

HUMAN = Estimator(
    name="human",
    label="People alone",
    doc="People's annotations alone: the Dirichlet posterior of all their labels, in closed form.",
    estimate=lambda counts, confidence, **_: human_posterior(counts.human, confidence=confidence),
    uses_metric=False,
    quick=True,
)
