"""Mixture: the metric is a noisy channel of people's preference, the model of Deriu et al. 2023."""

from functools import partial
from typing import Any

from custodes.stats.correction.estimator import Counts, Estimator
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.nuts import nuts_posterior
from custodes.stats.correction.mixture.posterior import MixturePosterior
from custodes.stats.correction.mixture.screening import screened
from custodes.stats.correction.poststratified import poststratified_margin


def _estimate(counts: Counts, *, gamma: float | None, **options: Any) -> MixturePosterior:
    """Draws go on until a decision at `gamma` is clear; without one, until the error of theta is .005."""
    precision = 0.005 if gamma is None else None
    return mixture_posterior(counts, gamma=gamma, precision=precision, max_draws=1_000_000, **options)


MIXTURE = Estimator(
    name="mixture",
    label="Mixture model",
    doc="The metric is a noisy channel of people's preference: a Bayesian model (Deriu et al. 2023).",
    estimate=_estimate,
    point=poststratified_margin,
    samplers={"nuts": partial(nuts_posterior, chains=5, warmup=2000, draws=10_000)},  # as in the paper
    quick=screened,
)
