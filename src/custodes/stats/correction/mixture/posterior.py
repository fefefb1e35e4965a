"""What a posterior of the mixture model is, and how draws become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Estimate

_BINS = 2048


@dataclass(frozen=True, kw_only=True)
class MixturePosterior(Estimate):
    """Posterior of outcome shares p and mixture matrix mu of one table of counts (shape ()) or of many (shape (...)).

    Beside the estimate, whose `theta` is P(p_win > p_loss | data) and has the Monte Carlo error `theta_error` (...):
    `mu_mean` (..., 3, 3) [metric, human], columns summing to 1; `largest_weight`, the share of the heaviest draw;
    `r_hat`, the split R-hat of the margin over chains or populations (NaN where there are none); `method`, one of
    closed, sum, exact, tempered, nuts.
    For a bound of a rare outcome draws may be worth a sixth of `effective_draws`.
    """

    mu_mean: Floats
    largest_weight: Floats
    r_hat: Floats
    method: NDArray[np.str_]

    def swapped(self) -> MixturePosterior:
        """The posterior of the same data with the two systems of each pair exchanged."""
        return replace(
            self,
            p=self.p[..., ::-1],
            p_low=self.p_low[..., ::-1],
            p_high=self.p_high[..., ::-1],
            margin=-self.margin,
            margin_low=-self.margin_high,
            margin_high=-self.margin_low,
            theta=1 - self.theta,
            mu_mean=self.mu_mean[..., ::-1, ::-1],
        )

    def mirrored(self) -> MixturePosterior:
        """The mean of this posterior and its swap, for data that are their own mirror image: theta is 1/2, no error."""
        swapped = self.swapped()
        names = ("p", "p_low", "p_high", "margin", "margin_low", "margin_high", "theta", "mu_mean")
        means = {name: (getattr(self, name) + getattr(swapped, name)) / 2 for name in names}
        return replace(self, **means, theta_error=np.zeros_like(self.theta_error))


def stack(posteriors: Sequence[MixturePosterior], shape: tuple[int, ...]) -> MixturePosterior:
    """One posterior of the given shape out of posteriors of shape (), in C order."""
    ends = {"p": (3,), "p_low": (3,), "p_high": (3,), "mu_mean": (3, 3)}
    columns = {own.name: [getattr(posterior, own.name) for posterior in posteriors] for own in fields(MixturePosterior)}
    kinds: dict[str, Any] = dict.fromkeys(columns, np.float64) | {"method": np.str_}
    return MixturePosterior(
        **{name: np.array(own, dtype=kinds[name]).reshape(shape + ends.get(name, ())) for name, own in columns.items()}
    )


def summarise(
    p: Floats,
    mu_mean: Floats,
    weights: Floats,
    *,
    confidence: float,
    theta_error: float,
    effective_draws: float,
    r_hat: float,
    method: str,
) -> MixturePosterior:
    """The posterior that draws p (3, n) with weights (n,) and the mean mu (3, 3) stand for."""
    total = weights.sum()
    tail = (1 - confidence) / 2
    mean = p @ weights / total
    bounds = weighted_quantiles(np.vstack([p, p[0] - p[2]]), weights, (tail, 1 - tail))
    return MixturePosterior(
        theta=np.asarray(weights[p[0] > p[2]].sum() / total),
        theta_error=np.asarray(theta_error),
        p=mean,
        p_low=bounds[:3, 0],
        p_high=bounds[:3, 1],
        margin=np.asarray(mean[0] - mean[2]),
        margin_low=bounds[3, 0],
        margin_high=bounds[3, 1],
        mu_mean=mu_mean,
        effective_draws=np.asarray(effective_draws),
        largest_weight=np.asarray(weights.max() / total),
        r_hat=np.asarray(r_hat),
        method=np.asarray(method),
    )


def weighted_quantiles(values: Floats, weights: Floats, probabilities: Sequence[float]) -> Floats:
    """Quantiles of weighted draws: values (k, n), weights (n,) -> (k, probabilities).

    The smallest value whose cumulative weight reaches the probability.

    >>> weighted_quantiles(np.array([[3.0, 1.0, 2.0]]), np.array([1.0, 1.0, 2.0]), (0.25, 0.5, 1.0)).tolist()
    [[1.0, 2.0, 3.0]]
    """
    wanted = np.asarray(probabilities) * weights.sum()
    result = np.empty((len(values), len(wanted)))
    for row, out in zip(values, result, strict=True):
        # A histogram finds the bin of each quantile, so that only that bin is sorted: four times faster than a sort.
        low = row.min()
        width = max(row.max() - low, np.finfo(np.float64).tiny)
        bins = np.minimum((row - low) / width * _BINS, _BINS - 1).astype(np.int16)
        reached = np.cumsum(np.bincount(bins, weights=weights, minlength=_BINS))
        for i, target in enumerate(wanted):
            # rounding may leave the sum short of the last target
            found = min(int(np.searchsorted(reached, min(target, reached[-1]))), _BINS - 1)
            inside = np.flatnonzero(bins == found)
            inside = inside[np.argsort(row[inside])]
            before = reached[found - 1] if found else 0.0
            at = np.searchsorted(before + np.cumsum(weights[inside]), target)
            out[i] = row[inside[min(int(at), len(inside) - 1)]]
    return result
