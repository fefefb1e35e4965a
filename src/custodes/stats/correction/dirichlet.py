"""The estimators `human` and `naive`: a closed-form posterior of the win, tie and loss probabilities given the ratings
of one rater, under a uniform prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, distinct_rows, legendre
from custodes.stats.correction.estimator import Estimate, Estimator, margin_of

_NODES = 32  # quadrature nodes; 256 nodes would change every bound by at most 1e-8 standard deviations
_TOLERANCE = 1e-8  # a bound is final if the last step was at most this many standard deviations
_EDGE = 1e-15  # probability omitted at each end of the integration range
_STEPS = 100


def human_posterior(counts: NDArray[Any], *, confidence: float | None) -> Estimate:
    """Return the posterior of the win, tie and loss probabilities given human counts (..., 3), in closed form.

    The posterior of p is Dirichlet(counts + 1), and intervals are equal-tailed. If `confidence` is None, the bounds are
    not computed but NaN, because their computation takes most of the time. `effective_draws` is always NaN, because
    nothing is drawn. No other value is NaN: without ratings, the posterior is the prior.

    >>> posterior = human_posterior(np.array([8, 1, 1]), confidence=0.95)
    >>> round(float(posterior.theta), 3), round(float(posterior.margin_low), 3)
    (0.989, 0.091)

    Source: Deriu et al. 2023, Equation 3 and Section 3.4. The closed form of theta was developed for custodes.
    """
    from scipy.special import betaincinv

    counts = np.asarray(counts, dtype=np.float64)
    distinct_tables, distinct_table_indices = distinct_rows(counts.reshape(-1, 3))
    distinct_table_indices = distinct_table_indices.reshape(counts.shape[:-1])
    n_ratings = distinct_tables.sum(axis=1, keepdims=True)
    p = (distinct_tables + 1) / (n_ratings + 3)
    margin = p[:, 0] - p[:, 2]
    sd = np.sqrt((p[:, 0] + p[:, 2] - margin**2) / (n_ratings[:, 0] + 4))
    p_low, p_high = np.full((2, *p.shape), np.nan)
    margin_low, margin_high = np.full((2, *margin.shape), np.nan)
    if confidence is not None:
        tail_probability = (1 - confidence) / 2
        p_low, p_high = (
            betaincinv(distinct_tables + 1, n_ratings - distinct_tables + 2, quantile_probability)
            for quantile_probability in (tail_probability, 1 - tail_probability)
        )
        margin_low = _margin_quantile(distinct_tables, tail_probability, margin, sd)
        # computed from the mirrored tables, so that swapping the systems negates the interval exactly
        margin_high = -_margin_quantile(distinct_tables[:, ::-1], tail_probability, -margin, sd)
    return Estimate(
        p=p,
        p_low=p_low,
        p_high=p_high,
        margin=margin,
        margin_low=margin_low,
        margin_high=margin_high,
        theta=human_theta(distinct_tables[:, 0], distinct_tables[:, 2]),
        effective_draws=np.full(margin.shape, np.nan),
        sd=sd,
    ).at(distinct_table_indices)


def human_theta(wins: NDArray[Any], losses: NDArray[Any]) -> Floats:
    """Return P(p_win > p_loss) = P(Beta(wins + 1, losses + 1) > 1/2) for wins (...) and losses (...).

    Ties do not matter: if p is Dirichlet, then p_win / (p_win + p_loss) is Beta and independent of p_tie.

    >>> float(human_theta(np.array(1), np.array(0)))
    0.75

    Source: developed for custodes.
    """
    from scipy.special import betainc

    return np.asarray(betainc(losses + 1, wins + 1, 0.5))


def _margin_quantile(tables: Floats, probability: float, mean: Floats, sd: Floats) -> Floats:
    """Return the quantile (n,) of p_win - p_loss at a probability below 1/2, for tables (n, 3). The mean and the
    standard deviation (n,) of p_win - p_loss are given."""
    from scipy.special import ndtri

    brackets = np.tile([[-1.0], [1.0]], len(tables))
    quantile = np.clip(mean + ndtri(probability) * sd, -0.999, 0.999)
    unsettled_indices = np.arange(len(tables))
    for _ in range(_STEPS):
        margins = quantile[unsettled_indices]
        p_below, density = _margin_distribution(tables[unsettled_indices], margins)
        brackets[(p_below >= probability).astype(np.intp), unsettled_indices] = margins
        low, high = brackets[:, unsettled_indices]
        # A Newton step for the logarithm of the probability, which is close to linear even in the tail. If the step
        # leaves the bracket: bisection. At the solution, the step is 0 and the margin is an end of the bracket.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton_margins = margins - np.log(p_below / probability) * p_below / density
        is_inside_bracket = (newton_margins >= low) & (newton_margins <= high)
        quantile[unsettled_indices] = np.where(is_inside_bracket, newton_margins, (low + high) / 2)
        is_unsettled = np.abs(quantile[unsettled_indices] - margins) > _TOLERANCE * sd[unsettled_indices]
        unsettled_indices = unsettled_indices[is_unsettled]
        if not len(unsettled_indices):
            break
    return np.asarray(quantile)


def _margin_distribution(tables: Floats, margin: Floats) -> tuple[Floats, Floats]:
    """Return P(p_win - p_loss <= x) and the density at x, for tables (n, 3) and x (n,).

    With w wins, t ties and l losses, p_win - p_loss = u (2 b - 1). Here u = 1 - p_tie ~ Beta(w + l + 2, t + 1) and b ~
    Beta(w + 1, l + 1) are independent. The integral is computed only over u > |x|, because for u < |x| the conditional
    probability is 0 or 1.
    """
    from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

    # For x > 0 the mirrored table is evaluated at -x, so that one tail integral covers positive and negative x.
    is_positive_margin = margin > 0
    wins, losses = (
        np.where(is_positive_margin, tables[:, 2], tables[:, 0]),
        np.where(is_positive_margin, tables[:, 0], tables[:, 2]),
    )
    ties, absolute_margin = tables[:, 1], np.abs(margin)
    non_tie_shape, tie_shape = wins + losses + 2, ties + 1
    p_non_tie_low = np.maximum(absolute_margin, betaincinv(non_tie_shape, tie_shape, _EDGE))
    p_non_tie_high = np.maximum(1 - betaincinv(tie_shape, non_tie_shape, _EDGE), p_non_tie_low)

    quadrature_nodes, quadrature_weights = legendre(_NODES)
    half_width = ((p_non_tie_high - p_non_tie_low) / 2)[:, np.newaxis]
    p_non_tie = p_non_tie_low[:, np.newaxis] + half_width * (quadrature_nodes + 1)
    wins, losses, non_tie_shape, tie_shape, absolute_margin = (
        table_values[:, np.newaxis] for table_values in (wins, losses, non_tie_shape, tie_shape, absolute_margin)
    )
    p_non_tie_mass = (
        half_width
        * quadrature_weights
        * np.exp(
            xlogy(non_tie_shape - 1, p_non_tie) + xlog1py(tie_shape - 1, -p_non_tie) - betaln(non_tie_shape, tie_shape)
        )
    )
    win_share_bound = np.maximum((1 - absolute_margin / p_non_tie) / 2, 0.0)
    tail_probability = (p_non_tie_mass * betainc(wins + 1, losses + 1, win_share_bound)).sum(axis=1)
    log_density = xlogy(wins, win_share_bound) + xlog1py(losses, -win_share_bound) - betaln(wins + 1, losses + 1)
    density = (p_non_tie_mass * np.exp(log_density) / (2 * p_non_tie)).sum(axis=1)
    return np.where(is_positive_margin, 1 - tail_probability, tail_probability), density


HUMAN = Estimator(
    name="human",
    estimate=lambda counts, confidence, **_: human_posterior(counts.human, confidence=confidence),
    uses_metric=False,
    quick=True,
)

NAIVE = Estimator(
    name="naive",
    estimate=lambda counts, confidence, **_: human_posterior(counts.metric, confidence=confidence),
    point=lambda counts: margin_of(counts.metric),
    uses_people=False,
    adjusts_for_selection=True,
)
