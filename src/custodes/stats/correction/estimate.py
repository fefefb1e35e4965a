"""Estimators of one quantity, how often people prefer one system to another, behind one interface.

Every estimator takes counts over tables (...): `paired` (..., 3, 3) [human, metric], `metric_only` (..., 3) and
`human_only` (..., 3), in the order win, tie, loss, and answers with an `Estimate`. The pooled one needs items and lives
in `pooled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from custodes.stats.correction.dirichlet import HumanPosterior, human_posterior
from custodes.stats.correction.inversion import inverted
from custodes.stats.correction.mixture import mixture_posterior
from custodes.stats.correction.nuts import nuts_posterior
from custodes.stats.correction.posterior import MixturePosterior
from custodes.stats.correction.poststratified import poststratified_moments
from custodes.stats.correction.ppi import ppi_margin

Floats = NDArray[np.float64]

THETA_PRECISION = 0.005
"""Monte Carlo error of theta at which draws of the mixture model stop, unless a decision is clear before."""

MOST_DRAWS = 1_000_000
"""Draws of the mixture model for one table, at most."""

NUTS = {"chains": 5, "warmup": 2000, "draws": 10_000}
"""How Deriu et al. 2023 run NUTS."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What an estimator says of tables of shape (...).

    `p`, `p_low`, `p_high` (..., 3) are win, tie and loss shares with their interval (NaN for estimators of the margin
    alone); `margin`, `margin_low`, `margin_high` (...) the same of p_win - p_loss; `theta` (...) the posterior or
    confidence probability that p_win > p_loss; `effective_draws` (...) what Monte Carlo draws are worth (NaN where
    there are none).
    """

    p: Floats
    p_low: Floats
    p_high: Floats
    margin: Floats
    margin_low: Floats
    margin_high: Floats
    theta: Floats
    effective_draws: Floats


class Estimator(Protocol):
    """From counts to an estimate; `gamma` is the error level of decisions, for what draws until theta is clear."""

    def __call__(
        self,
        paired: NDArray[Any],
        metric_only: NDArray[Any],
        human_only: NDArray[Any],
        /,
        *,
        confidence: float,
        gamma: float,
        rng: np.random.Generator,
    ) -> Estimate:
        """See the module."""
        ...


def decide(theta: NDArray[Any], *, gamma: float) -> NDArray[np.int8]:
    """Which system is better: theta (...) -> 1 where theta > 1 - gamma/2, -1 where theta < gamma/2, else 0 (also NaN).

    >>> decide(np.array([0.99, 0.6, 0.01, np.nan]), gamma=0.05).tolist()
    [1, 0, -1, 0]

    Source: Deriu et al. 2023, Algorithm 1, lines 12 to 19.
    """
    theta = np.asarray(theta, dtype=np.float64)
    return (theta > 1 - gamma / 2).astype(np.int8) - (theta < gamma / 2).astype(np.int8)


def by_human(posterior: HumanPosterior) -> Estimate:
    """What a posterior in closed form says of the pair."""
    return Estimate(
        p=posterior.p_mean,
        p_low=posterior.p_low,
        p_high=posterior.p_high,
        margin=posterior.p_mean[..., 0] - posterior.p_mean[..., 2],
        margin_low=posterior.margin_low,
        margin_high=posterior.margin_high,
        theta=posterior.theta,
        effective_draws=np.full(np.shape(posterior.theta), np.nan),
    )


def by_t(margin: Floats, error: Floats, freedom: Floats, *, confidence: float) -> Estimate:
    """An estimate of the margin alone from its standard error and degrees of freedom (inf: normal), (...) each.

    Interval and margin are clipped to [-1, 1]; where the error is NaN they are [-1, 1] and theta is 1/2.
    """
    from scipy.special import stdtr, stdtrit

    known = np.isfinite(error)
    freedom = np.where(known, freedom, 1.0)
    reach = stdtrit(freedom, (1 + confidence) / 2) * np.where(known, error, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(margin == 0, 0.0, margin / error)
    undefined = np.full((*np.shape(margin), 3), np.nan)
    return Estimate(
        p=undefined,
        p_low=undefined,
        p_high=undefined,
        margin=np.clip(margin, -1, 1),
        margin_low=np.where(known, np.clip(margin - reach, -1, 1), -1.0),
        margin_high=np.where(known, np.clip(margin + reach, -1, 1), 1.0),
        theta=np.where(known, stdtr(freedom, np.where(known, t, 0.0)), 0.5),
        effective_draws=undefined[..., 0],
    )


def human(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """People alone: the Dirichlet posterior of all their labels, in closed form."""
    return by_human(human_posterior(np.sum(paired, axis=-1) + human_only, confidence=confidence))


def naive(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """The metric taken at its word: the Dirichlet posterior of all its labels, in closed form."""
    return by_human(human_posterior(np.sum(paired, axis=-2) + metric_only, confidence=confidence))


def mixture(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """The mixture model of Deriu et al. 2023, by exact sampling (see `mixture_posterior`)."""
    posterior = mixture_posterior(
        paired,
        metric_only,
        human_only,
        rng=rng,
        confidence=confidence,
        precision=THETA_PRECISION,
        gamma=gamma,
        max_draws=MOST_DRAWS,
    )
    return by_mixture(posterior)


def mixture_by_nuts(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """The mixture model as its paper samples it, table by table (see `nuts_posterior`)."""
    posterior = nuts_posterior(paired, metric_only, human_only, rng=rng, confidence=confidence, **NUTS)
    return by_mixture(posterior)


def by_mixture(posterior: MixturePosterior) -> Estimate:
    """What a posterior of the mixture model, by whatever sampler, says of the pair."""
    draws = posterior.effective_draws
    return Estimate(
        p=posterior.p_mean,
        p_low=posterior.p_low,
        p_high=posterior.p_high,
        margin=posterior.p_mean[..., 0] - posterior.p_mean[..., 2],
        margin_low=posterior.margin_low,
        margin_high=posterior.margin_high,
        theta=posterior.theta,
        effective_draws=np.where(np.isfinite(draws), draws, np.nan),
    )


def ppi(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """PPI++ on the margin (see `ppi_margin`), clipped to [-1, 1]."""
    return by_t(*ppi_margin(paired, metric_only, human_only), confidence=confidence)


def inversion(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """The margin of p in mu p = q (see `inverted`)."""
    solved = inverted(paired, metric_only, human_only, confidence=confidence, rng=rng)
    undefined = np.full((*np.shape(solved.theta), 3), np.nan)
    return Estimate(
        p=undefined,
        p_low=undefined,
        p_high=undefined,
        margin=solved.margin,
        margin_low=solved.low,
        margin_high=solved.high,
        theta=solved.theta,
        effective_draws=undefined[..., 0],
    )


def poststratified(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    /,
    *,
    confidence: float,
    gamma: float,
    rng: np.random.Generator,
) -> Estimate:
    """Poststratification by the metric's answer: Beta laws with the moments of `poststratified_moments`.

    Against draws from the model theta is off by at most .05 with 10 annotations of a pair, and .01 with 50.
    """
    from scipy.special import betainc, betaincinv

    mean, variance = poststratified_moments(paired, metric_only, human_only)
    # the margin lies in [-1, 1]: (margin + 1) / 2 is Beta
    share = np.concatenate([mean[..., :3], (mean[..., 3:] + 1) / 2], axis=-1)
    spread = np.concatenate([variance[..., :3], variance[..., 3:] / 4], axis=-1)
    size = share * (1 - share) / spread - 1
    a, b = share * size, (1 - share) * size
    tail = (1 - confidence) / 2
    low, high = betaincinv(a, b, tail), 1 - betaincinv(b, a, tail)
    return Estimate(
        p=mean[..., :3],
        p_low=low[..., :3],
        p_high=high[..., :3],
        margin=mean[..., 3],
        margin_low=2 * low[..., 3] - 1,
        margin_high=2 * high[..., 3] - 1,
        theta=betainc(b[..., 3], a[..., 3], 0.5),
        effective_draws=np.full(np.shape(mean[..., 3]), np.nan),
    )


ESTIMATORS: dict[str, Estimator] = {
    "mixture": mixture,
    "human": human,
    "ppi": ppi,
    "inversion": inversion,
    "poststratified": poststratified,
    "naive": naive,
}
"""Estimators by name; the first is the default."""
