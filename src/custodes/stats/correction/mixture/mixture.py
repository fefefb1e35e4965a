"""Mixture: the metric is a noisy channel of people's preference, the model of Deriu et al. 2023."""

from __future__ import annotations

import numpy as np

from custodes.stats.correction.estimator import Counts, Estimate, Estimator, Evidence
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.nuts import nuts_posterior
from custodes.stats.correction.mixture.screening import screened

THETA_PRECISION = 0.005
"""Monte Carlo error of theta at which draws stop, unless a decision is clear before."""

MOST_DRAWS = 1_000_000
"""Draws for one table, at most."""

NUTS = {"chains": 5, "warmup": 2000, "draws": 10_000}
"""How Deriu et al. 2023 run NUTS."""


def _by_nuts(counts: Counts, *, confidence: float, rng: np.random.Generator, **_: object) -> Estimate:
    """As the paper samples it, table by table."""
    return nuts_posterior(counts, rng=rng, confidence=confidence, **NUTS)


def _exactly(counts: Counts, *, confidence: float, gamma: float, rng: np.random.Generator) -> Estimate:
    return mixture_posterior(
        counts, rng=rng, confidence=confidence, precision=THETA_PRECISION, gamma=gamma, max_draws=MOST_DRAWS
    )


def _screened(counts: Counts, *, tail: float, rng: np.random.Generator) -> Evidence:
    """As precise as the decision needs: a replay judges very many tables."""
    seen = screened(counts, tail=tail, rng=rng)
    return Evidence.quick(theta=seen.theta, margin=seen.margin, sd=seen.sd, p=seen.p, draws=seen.effective_draws)


MIXTURE = Estimator(
    name="mixture",
    label="Mixture model",
    doc="The metric is a noisy channel of people's preference: a Bayesian model (Deriu et al. 2023).",
    estimate=_exactly,
    samplers={"nuts": _by_nuts},
    quick=_screened,
)
