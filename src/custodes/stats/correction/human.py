"""Human: what people's own annotations say of a pair, and nothing else."""

from __future__ import annotations

import numpy as np

from custodes.stats.correction.dirichlet import human_posterior, human_theta
from custodes.stats.correction.estimator import Counts, Estimator, Evidence


def _moments(counts: Counts, **_: object) -> Evidence:
    """Posterior moments under a uniform prior, without the interval, which takes much longer than all the rest."""
    human = counts.human
    n = human.sum(axis=-1)
    p = (human + 1) / (n + 3)[..., np.newaxis]
    margin = p[..., 0] - p[..., 2]
    sd = np.sqrt((p[..., 0] + p[..., 2] - margin**2) / (n + 4))
    return Evidence.quick(theta=human_theta(human[..., 0], human[..., 2]), margin=margin, sd=sd, p=p)


HUMAN = Estimator(
    name="human",
    label="People alone",
    doc="People's annotations alone: the Dirichlet posterior of all their labels, in closed form.",
    estimate=lambda counts, confidence, **_: human_posterior(counts.human, confidence=confidence),
    uses_metric=False,
    quick=_moments,
    bets=True,
)
