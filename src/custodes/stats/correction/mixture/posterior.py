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
    """Posterior of outcome shares p of one table of counts (shape ()) or of many (shape (...)).

    Beside the estimate, whose `theta` is P(p_win > p_loss | data) and has the Monte Carlo error `theta_error` (...):
    `largest_weight`, the share of the heaviest draw; `r_hat`, the split R-hat of the margin over chains or populations
    (NaN where there are none); `method`, one of closed, sum, exact, tempered, nuts.
    For a bound of a rare outcome draws may be worth a sixth of `effective_draws`.
    """

    largest_weight: Floats
    r_hat: Floats
    method: NDArray[np.str_]

    def swapped(self, which: NDArray[np.bool_]) -> MixturePosterior:
        """With the two systems exchanged in some of the tables (...)."""
        cells = which[..., np.newaxis]
        return replace(
            self,
            **{name: np.where(cells, own[..., ::-1], own) for name in _SHARES for own in [getattr(self, name)]},
            margin=np.where(which, -self.margin, self.margin),
            margin_low=np.where(which, -self.margin_high, self.margin_low),
            margin_high=np.where(which, -self.margin_low, self.margin_high),
            theta=np.where(which, 1 - self.theta, self.theta),
        )

    def mirrored(self, which: NDArray[np.bool_]) -> MixturePosterior:
        """Where data are their own mirror image, the mean of the posterior and its swap: theta is 1/2, no error."""
        swapped = self.swapped(which)
        names = (*_SHARES, "margin", "margin_low", "margin_high", "theta")
        means = {name: (getattr(self, name) + getattr(swapped, name)) / 2 for name in names}
        return replace(self, **means, theta_error=np.where(which, 0.0, self.theta_error))

    def at(self, where: NDArray[np.intp]) -> MixturePosterior:
        """Those of tables (k,) at some places (...)."""
        return MixturePosterior(**{name: values[where] for name, values in vars(self).items()})


_SHARES = ("p", "p_low", "p_high")


def stack(posteriors: Sequence[MixturePosterior]) -> MixturePosterior:
    """One posterior (k,) out of k posteriors of shape ()."""
    columns = {own.name: [getattr(posterior, own.name) for posterior in posteriors] for own in fields(MixturePosterior)}
    kinds: dict[str, Any] = dict.fromkeys(columns, np.float64) | {"method": np.str_}
    ends = {name: (3,) * (name in _SHARES) for name in columns}
    return MixturePosterior(
        **{name: np.array(own, dtype=kinds[name]).reshape(-1, *ends[name]) for name, own in columns.items()}
    )


def joined(parts: Sequence[tuple[NDArray[np.intp], MixturePosterior]]) -> MixturePosterior:
    """One posterior (k,) of the posteriors of its parts, each with the places of its tables."""
    places = np.argsort(np.concatenate([where for where, _ in parts]))
    return MixturePosterior(
        **{
            own.name: np.concatenate([getattr(posterior, own.name) for _, posterior in parts])[places]
            for own in fields(MixturePosterior)
        }
    )


def summarise(
    p: Floats,
    weights: Floats,
    *,
    confidence: float,
    theta_error: float,
    effective_draws: float,
    r_hat: float,
    method: str,
) -> MixturePosterior:
    """The posterior that draws p (3, n) with weights (n,) stand for."""
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
    # A histogram finds the bin of each quantile, so that only that bin is sorted: four times faster than a sort.
    low = values.min(axis=1, keepdims=True)
    width = np.maximum(values.max(axis=1, keepdims=True) - low, np.finfo(np.float64).tiny)
    scaled = values - low
    scaled /= width
    scaled *= _BINS
    binned = np.minimum(scaled, _BINS - 1, out=scaled).astype(np.int16)
    for row, bins, out in zip(values, binned, result, strict=True):
        reached = np.bincount(bins, weights=weights, minlength=_BINS).cumsum()
        for i, target in enumerate(wanted):
            # rounding may leave the sum short of the last target
            found = min(int(reached.searchsorted(min(target, reached[-1]))), _BINS - 1)
            (inside,) = (bins == found).nonzero()
            inside = inside[row[inside].argsort()]
            before = reached[found - 1] if found else 0.0
            at = (before + weights[inside].cumsum()).searchsorted(target)
            out[i] = row[inside[min(int(at), len(inside) - 1)]]
    return result
