"""Sums over weighted draws of win, tie and loss probabilities, and estimates and quantiles from the draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.correction.estimator import Estimate
from custodes.stats.ratios import ratio

_POWERS = np.array([1, 2, 1, 2, 1, 1, 1, 1])[:, np.newaxis]  # power of the weights in each row of `DrawSums`


@dataclass(frozen=True)
class DrawSums:
    """Sums over weighted draws of tables (t,).

    `top` (t,) is the largest log weight; weights are divided by the largest weight. The first two rows of `values`
    (8, t) are sums of weights and of squared weights over all draws. The next two rows are the same sums over the draws
    with p_win > p_loss. The last four rows are weighted sums of the three p and of the squared margin.
    """

    top: Floats
    values: Floats

    @classmethod
    def from_draws(cls, p: NDArray[Any], log_weights: NDArray[Any]) -> DrawSums:
        """Return the sums over draws p (3, t, n) with log weights (t, n)."""
        largest_log_weights = log_weights.max(axis=1)
        weights = np.exp(log_weights - largest_log_weights[:, np.newaxis])
        margin = p[0] - p[2]
        is_first_better, weight_squares = margin > 0, weights**2
        weighted_moments = (weights * moment_values for moment_values in (*p, margin**2))
        summed_terms = (
            weights,
            weight_squares,
            weights * is_first_better,
            weight_squares * is_first_better,
            *weighted_moments,
        )
        return cls(
            largest_log_weights, np.stack([summed_term.sum(axis=1, dtype=np.float64) for summed_term in summed_terms])
        )

    def add(self, table_indices: Ints, other_sums: DrawSums) -> None:
        """Add the sums of further draws to the tables at some positions."""
        largest_log_weights = np.maximum(self.top[table_indices], other_sums.top)
        sums_and_largest_log_weights = (
            (self.values[:, table_indices], self.top[table_indices]),
            (other_sums.values, other_sums.top),
        )
        self.values[:, table_indices] = sum(
            sums * np.exp(_POWERS * (old_largest_log_weights - largest_log_weights))
            for sums, old_largest_log_weights in sums_and_largest_log_weights
        )
        self.top[table_indices] = largest_log_weights

    @property
    def effective(self) -> Floats:
        """The number (t,) of effective draws (Kish)."""
        return ratio(self.values[0] ** 2, self.values[1])

    def estimate(self, table_indices: Ints, *, cautious: bool = False) -> Estimate:
        """Return the estimates of the tables at some positions, without intervals.

        The standard error of theta has two parts: the standard error by the delta method, and the effect of one more
        draw. The second part is needed because an event that occurs in no draw may still be possible. The additional
        draw has the average weight sum(w^2) / sum(w). If `cautious` is true, the additional draw has the largest
        weight, because the squared weights alone underestimate the error if few draws dominate.
        """
        weight_sum, weight_square_sum, better_weight_sum, better_weight_square_sum, *moment_sums = self.values[
            :, table_indices
        ]
        n_effective = self.effective[table_indices]
        theta = np.minimum(better_weight_sum / weight_sum, 1.0)
        scaled_variance = better_weight_square_sum * (1 - 2 * theta) + theta**2 * weight_square_sum
        one_draw_effect = 1 / weight_sum if cautious else 1 / n_effective
        mean_p = (np.stack(moment_sums[:3]) / weight_sum).T
        margin = mean_p[:, 0] - mean_p[:, 2]
        undefined_bounds = np.full((2, len(margin), 4), np.nan)
        return Estimate(
            p=mean_p,
            p_low=undefined_bounds[0, :, :3],
            p_high=undefined_bounds[1, :, :3],
            margin=margin,
            margin_low=undefined_bounds[0, :, 3],
            margin_high=undefined_bounds[1, :, 3],
            theta=theta,
            effective_draws=n_effective,
            theta_error=np.hypot(np.sqrt(np.maximum(scaled_variance, 0.0)) / weight_sum, one_draw_effect),
            sd=np.sqrt(np.maximum(moment_sums[3] / weight_sum - margin**2, 0.0)),
        )


def interval_bounds(p_draws: NDArray[Any], log_weights: NDArray[Any], confidence: float) -> Floats:
    """Return bounds (2, 4) of p and of the margin, given draws p (3, n) with log weights (n,)."""
    tail_probability = (1 - confidence) / 2
    weights = np.exp(log_weights - log_weights.max())
    return weighted_quantiles(
        np.concatenate([p_draws, p_draws[:1] - p_draws[2:]]), weights, (tail_probability, 1 - tail_probability)
    ).T


def with_bounds(estimate: Estimate, bounds: Floats) -> Estimate:
    """Return the estimates (t,) with the bounds (2, t, 4) of their intervals."""
    low, high = bounds
    return replace(estimate, p_low=low[:, :3], p_high=high[:, :3], margin_low=low[:, 3], margin_high=high[:, 3])


def weighted_quantiles(values: NDArray[Any], weights: NDArray[Any], probabilities: Sequence[float]) -> Floats:
    """Return quantiles (k, probabilities) of draws (k, n) with weights (n,).

    Systematic resampling by weight gives n draws of equal weight, whose order statistics are returned. Systematic
    resampling takes half the time of weighted order statistics.

    >>> weighted_quantiles(np.array([[3.0, 1.0, 2.0, 9.0]]), np.array([1.0, 1.0, 2.0, 0.0]), (0.25, 0.5, 1.0)).tolist()
    [[1.0, 2.0, 3.0]]

    Source: Kitagawa 1996, "Monte Carlo filter and smoother" (systematic resampling).
    """
    n_draws = len(weights)
    cumulative_weights = weights.cumsum(dtype=np.float64)
    n_copies = np.diff(np.floor(cumulative_weights * (n_draws / cumulative_weights[-1]) + 0.5), prepend=0.0).astype(
        np.int64
    )
    resampled_values = values.take(np.repeat(np.arange(n_draws), n_copies)[:n_draws], axis=1)
    quantile_ranks = np.ceil(np.asarray(probabilities) * n_draws).astype(np.int64).clip(1, n_draws) - 1
    return np.asarray(np.sort(resampled_values, axis=1)[:, quantile_ranks], dtype=np.float64)


def is_precise_enough(estimate: Estimate, *, precision: Floats, gamma: float | None) -> Bools:
    """Return whether theta (...) is precise enough or far enough from the thresholds of a decision."""
    is_precise = estimate.theta_error <= precision
    return is_precise if gamma is None else is_precise | ~estimate.at_threshold(gamma=gamma)
