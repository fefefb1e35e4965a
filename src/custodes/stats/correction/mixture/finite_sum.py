"""The posterior of the mixture model as the finite sum that it is: no Monte Carlo error in theta and in means.

Given how many metric-only items fall to each human class, p is a Dirichlet. Under the model the weight of such numbers
s = (s_win, s_tie, s_loss) is

    (T_win * T_tie * T_loss)(s) * prod_h Gamma(n_h + a_h + s_h + 1) / Gamma(n_h + s_h + 3)

with n_h paired and a_h human-only items of class h, and T_r(t) = prod_h Gamma(N[h, r] + t_h + 1) / t_h! over the ways t
to split the m_r metric-only items of metric class r. The convolution of the three takes Fourier transforms of arrays
as long and wide as there are metric-only items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.posterior import MixturePosterior, summarise

_DRAWS = 4096  # for the interval alone
_NEGLIGIBLE = 1e-13  # of the largest weight
_ROUNDING = 1e-14  # of a convolution by Fourier transforms, relative to the norms of what is convolved
_TOLERANCE = 1e-6  # of theta
_STEPS = 60


def summed(counts: Counts, *, rng: np.random.Generator, confidence: float) -> MixturePosterior | None:
    """The posterior of one table of whole counts, or None where rounding might change theta by more than 1e-6.

    Time and memory grow with the square of the number of metric-only items. The interval comes from independent draws,
    theta, p and mu from the sum itself; `theta_error` bounds what rounding does.

    Source: the model of Deriu et al. 2023, Section 3.3; the sum is ours.
    """
    from scipy.special import betainc

    made = _Sum.of(counts)
    if made is None:
        return None
    where = np.nonzero(made.weights > _NEGLIGIBLE * made.weights.max())
    weights = made.weights[where] / made.weights[where].sum()
    totals = np.stack([where[0], counts.metric_only.sum() - where[0] - where[1], where[1]])
    shapes = counts.human[:, np.newaxis] + totals + 1  # of the Dirichlet of p, (3, k)
    # Evenly spaced through the sum in the order of the margin: independent draws would leave a larger error.
    order = np.argsort(totals[0] - totals[2], kind="stable")
    cumulative = np.cumsum(weights[order])
    at = np.searchsorted(cumulative, (np.arange(_DRAWS) + rng.random()) / _DRAWS * cumulative[-1])
    gammas = rng.standard_gamma(shapes[:, order[np.minimum(at, len(order) - 1)]])
    posterior = summarise(
        gammas / (gammas[0] + gammas[1] + gammas[2]),
        made.mixture_matrix(),
        np.ones(_DRAWS),
        confidence=confidence,
        theta_error=made.bound,
        effective_draws=float(_DRAWS),
        r_hat=np.nan,
        method="sum",
    )
    p = shapes @ weights / shapes[:, 0].sum()
    return replace(
        posterior,
        theta=np.asarray(np.clip(weights @ betainc(shapes[2], shapes[0], 0.5), 0.0, 1.0)),
        p=p,
        margin=np.asarray(p[0] - p[2]),
    )


@dataclass(frozen=True, kw_only=True)
class _Sum:
    """`weights` (m + 1, m + 1) by the metric-only items that are wins and losses for people, and what they came from:
    `factor` (the same shape), `parts` (three of metric class, each its splits) and their `transforms`, a `bound` on the
    error of any probability by rounding, and the `counts`."""

    counts: Counts
    weights: Floats
    factor: Floats
    parts: list[Floats]
    transforms: list[NDArray[Any]]
    bound: float

    @classmethod
    def of(cls, counts: Counts) -> _Sum | None:
        """None where rounding hides the sum."""
        from scipy.special import gammaln

        metric_only = counts.metric_only.astype(np.int64)
        most, n = int(metric_only.sum()), counts.paired.sum(axis=1)
        # Weighing every split by exp(tilt * totals) is undone exactly after the convolution; where people's own items
        # pull far from what the metric says, it moves the bulk of the convolution to where the posterior is.
        tilt = _tilt(counts)
        parts = []
        for r, number in enumerate(metric_only.tolist()):
            items = np.arange(number + 1)
            logs = [gammaln(counts.paired[h, r] + items + 1) - gammaln(items + 1) + tilt[h] * items for h in range(3)]
            parts.append(_over_splits(logs))
        items = np.arange(most + 1)
        logs = [
            gammaln(n[h] + counts.human_only[h] + items + 1) - gammaln(n[h] + items + 3) - tilt[h] * items
            for h in range(3)
        ]
        factor = _over_splits(logs)
        transforms = [_transform(part, most) for part in parts]
        convolved = _inverse(transforms[0] * transforms[1] * transforms[2], most)
        norms = sorted(float(np.sqrt((part**2).sum())) for part in parts)
        rounding = _ROUNDING * norms[1] * norms[2] * float(min(part.sum() for part in parts))
        weights = np.maximum(convolved, 0.0) * factor
        total = weights.sum()
        bound = rounding * float(factor.sum()) / total if total > 0 else np.inf
        if not bound <= _TOLERANCE:
            return None
        return cls(counts=counts, weights=weights, factor=factor, parts=parts, transforms=transforms, bound=bound)

    def mixture_matrix(self) -> Floats:
        """The posterior mean of mu (3, 3), [metric, human]: of (N[h, r] + t[h, r] + 1) / (n_h + s_h + 3)."""
        most = int(self.counts.metric_only.sum())
        n = self.counts.paired.sum(axis=1)
        first, second, third = self.transforms
        others = (second * third, third * first)
        total, mean = self.weights.sum(), np.empty((3, 3))
        items = _class_items(most)
        for h in range(3):
            denominator = n[h] + items[h] + 3
            # Parseval: the sum over totals of a convolution times the rest, without transforming back
            rest = _transform(self.factor / denominator, most).conj()
            share = float((self.weights / denominator).sum() / total)
            for r in range(2):
                own = self.parts[r] * _class_items(len(self.parts[r]) - 1)[h]
                imputed = _summed_spectrum(_transform(own, most) * others[r] * rest) / total
                mean[r, h] = (self.counts.paired[h, r] + 1) * share + imputed
        mean[2] = 1 - mean[0] - mean[1]
        return mean


def _tilt(counts: Counts) -> Floats:
    """(3,): the slope of the log of the sum's second factor where the posterior is, by steps of EM for its mode."""
    from scipy.special import digamma

    if not counts.human_only.any():
        return np.zeros(3)
    imputed = np.zeros((3, 3))
    for _ in range(_STEPS):
        cells = counts.paired + imputed + 1
        p = cells.sum(axis=1) + counts.human_only
        joint = (p / cells.sum(axis=1))[:, np.newaxis] * cells
        imputed = counts.metric_only * joint / joint.sum(axis=0)
    n, totals = counts.paired.sum(axis=1), imputed.sum(axis=1)
    slope = digamma(n + counts.human_only + totals + 1) - digamma(n + totals + 3)
    return np.asarray(slope - slope.mean())


def _over_splits(logs: list[Floats]) -> Floats:
    """exp of the sum of three functions of wins, ties and losses (k,) each, over the ways to split k - 1 items: (k, k)
    by wins and losses, the largest value 1."""
    k = len(logs[0])
    wins, losses = np.ogrid[:k, :k]
    ties = k - 1 - wins - losses
    total = logs[0][:, np.newaxis] + logs[1][np.maximum(ties, 0)] + logs[2]
    total = np.where(ties >= 0, total, -np.inf)
    return np.asarray(np.exp(total - total.max()))


def _class_items(most: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """How many of `most` items fall to each human class, by wins and losses: each broadcasts to (most + 1, most + 1),
    with 0 where there is no such split."""
    wins, losses = np.ogrid[: most + 1, : most + 1]
    return wins, np.maximum(most - wins - losses, 0), losses


def _transform(values: Floats, most: int) -> NDArray[Any]:
    from scipy.fft import next_fast_len, rfft2

    length = next_fast_len(most + 1, real=True)
    return np.asarray(rfft2(values, s=(length, length)))


def _inverse(values: NDArray[Any], most: int) -> Floats:
    from scipy.fft import irfft2

    length = values.shape[0]
    return np.asarray(irfft2(values, s=(length, length))[: most + 1, : most + 1])


def _summed_spectrum(values: NDArray[Any]) -> float:
    """The mean over all frequencies of what is given at the half that determines the rest."""
    length = values.shape[0]
    columns = values.real.sum(axis=0)
    doubled = columns[1:-1].sum() if length % 2 == 0 else columns[1:].sum()
    return float((columns.sum() + doubled) / length**2)
