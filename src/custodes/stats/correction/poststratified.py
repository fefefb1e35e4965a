"""Poststratified: people's answer given the metric's, averaged over how often the metric gives each answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, Estimate, Estimator

STRATUM_PRIOR = 1 / 3
"""Pseudo-annotations of each answer of people in each stratum (an answer of the metric, or its silence)."""

# What is averaged: win, tie, loss, and win - loss. Columns: the person's answer.
_FUNCTIONS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, -1]], dtype=np.float64)


class Moments(NamedTuple):
    """Posterior mean and variance of win, tie and loss share and margin: (..., 4) each."""

    mean: Floats
    variance: Floats


def poststratified_moments(counts: Counts) -> Moments:
    """Posterior moments of p_h = sum_r q_r nu[h|r], of tables (...).

    Strata r are the metric's answers, and its silence where people rated items that it did not. q is Dirichlet(items in
    the stratum, + 1/3 for an answer), nu[.|r] Dirichlet(people's answers in it + 1/3), all independent; so a stratum
    without annotations is taken to hold wins, ties and losses alike, with the weight of one annotation. Metric-only
    items count where at least one item has both ratings. Never NaN: without ratings all answers are as likely.

    >>> mean, variance = poststratified_moments(
    ...     Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3))
    ... )
    >>> mean.round(3).tolist()
    [0.402, 0.229, 0.37, 0.032]

    Source: ours; the two factors are those of the exact sampler's proposal.
    """
    paired, metric_only, human_only = (np.asarray(c, dtype=np.float64) for c in counts)
    by_stratum = np.concatenate([np.swapaxes(paired, -1, -2), human_only[..., np.newaxis, :]], axis=-2)
    strata = by_stratum + STRATUM_PRIOR  # (..., stratum, human)
    size = strata.sum(axis=-1, keepdims=True)
    nu = strata / size
    within_mean = nu @ _FUNCTIONS.T  # (..., stratum, 4)
    within_variance = (nu @ (_FUNCTIONS**2).T - within_mean**2) / (size + 1)

    answers = by_stratum.sum(axis=-1)
    informed = paired.sum(axis=(-2, -1), keepdims=True)[..., 0] > 0
    answers[..., :3] += STRATUM_PRIOR + np.where(informed, metric_only, 0.0)
    answered = answers.sum(axis=-1, keepdims=True)
    q = answers / answered
    mean = np.einsum("...r,...rf->...f", q, within_mean)
    between = (np.einsum("...r,...rf->...f", q, within_mean**2) - mean**2) / (answered + 1)
    squares = q**2 + q * (1 - q) / (answered + 1)  # E[q_r^2]
    return Moments(mean=mean, variance=between + np.einsum("...r,...rf->...f", squares, within_variance))


def poststratified_margin(counts: Counts) -> Floats:
    """The posterior mean of p_win - p_loss, of tables (...).

    Nearly that of the mixture model: q_r nu[h|r] is the joint table of greatest likelihood under it, too.
    """
    return poststratified_moments(counts).mean[..., 3]


def _by_beta(counts: Counts, *, confidence: float, **_: object) -> Estimate:
    """Beta laws with the moments of `poststratified_moments`.

    Against draws from the model theta is off by at most .05 with 10 annotations of a pair, and .01 with 50.
    """
    from scipy.special import betainc, betaincinv

    mean, variance = poststratified_moments(counts)
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
        effective_draws=np.full(counts.shape, np.nan),
    )


POSTSTRATIFIED = Estimator(
    name="poststratified",
    label="Poststratification",
    doc="People's answer given the metric's, weighted by how often the metric gives each.",
    estimate=_by_beta,
    point=poststratified_margin,
)
