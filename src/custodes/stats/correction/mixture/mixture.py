"""Mixture: the metric is a noisy channel of people's preference, the model of Deriu et al. 2023."""

from functools import partial

from custodes.stats.correction.estimator import Estimator
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.nuts import nuts_posterior
from custodes.stats.correction.mixture.screening import screened
from custodes.stats.correction.poststratified import poststratified_margin

MIXTURE = Estimator(
    name="mixture",
    label="Mixture model",
    doc="The metric is a noisy channel of people's preference: a Bayesian model (Deriu et al. 2023).",
    # The Monte Carlo error of theta at which draws stop, unless a decision is clear before; draws of one table at most.
    estimate=partial(mixture_posterior, precision=0.005, max_draws=1_000_000),
    point=poststratified_margin,
    samplers={"nuts": partial(nuts_posterior, chains=5, warmup=2000, draws=10_000)},  # as in the paper
    quick=screened,
)
