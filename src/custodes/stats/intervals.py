"""Confidence intervals of proportions and of other statistics, from counts or resamples, and simultaneous intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, bisect_condition, deviations
from custodes.stats.bootstrap import smallest_p_value
from custodes.stats.normal_pairs import NormalMaximum

Bounds = tuple[float, float]
"""Lower and upper bound of a statistic."""

SHARE: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
POSITIVE: Bounds = (0.0, np.inf)
ANY: Bounds = (-np.inf, np.inf)


class Inference(NamedTuple):
    """Estimates (...), bounds of their intervals, and two-sided p-values of the hypothesis that the true value is 0;
    NaN if undefined."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats


N_DIRECTIONS = 20_000
"""Number of random directions for the maximum of several normal variates. With this number, the error of a level of .95
is below .001."""

_ENOUGH = 0.5  # proportion of resamples that must be defined for an interval
_N_BEYOND = 10  # draws beyond the percentiles from which an interval is extrapolated
_NONE = 1e-15  # smaller variances of a proportion count as 0
_SAME = 1e-9  # smaller differences of statistics (of order 1) are rounding errors
_FARTHEST = 9.0  # maximum distance, in standard errors, in the search for a p-value


def student_quantile(confidence: float, n_units: float) -> float:
    """Quantile of Student's t for a central interval, with `n_units` - 1 degrees of freedom (at least 1).

    >>> round(student_quantile(0.95, 12), 3)
    2.201
    """
    from scipy.special import stdtrit

    return float(stdtrit(max(n_units - 1, 1), (1 + confidence) / 2))


def student_inference(estimate: float, standard_error: float, *, n_units: float, confidence: float) -> Inference:
    """Estimate with Student's t interval, and the p-value of the t test that the true value is 0.

    Student's t has `n_units` - 1 degrees of freedom.

    >>> [round(float(value), 3) for value in student_inference(2.0, 1.0, n_units=12, confidence=0.95)]
    [2.0, -0.201, 4.201, 0.071]
    """
    from scipy.special import stdtr

    half_width = student_quantile(confidence, n_units) * standard_error
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * stdtr(n_units - 1, -np.abs(np.divide(estimate, standard_error)))
    return Inference(*np.array([estimate, estimate - half_width, estimate + half_width, p_value]))


def wilson_interval(proportion: Any, n: Any, *, quantile: Any) -> tuple[Floats, Floats]:
    """Wilson interval of proportions (...): lower and upper bounds.

    `n` is the number of independent observations, or the effective number if observations are clustered. `quantile` is
    the quantile of the normal distribution, or of Student's t if the variance was estimated. The interval contains the
    proportion. The interval is NaN if any argument is NaN.

    >>> low, high = wilson_interval(np.array([1.0, 0.5]), 12, quantile=1.96)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.757, 0.254], [1.0, 0.746])

    Source: Wilson 1927; with effective counts: Kish 1965, Korn and Graubard 1998.
    """
    squared_quantile_over_n = quantile**2 / n
    interval_centre = (proportion + squared_quantile_over_n / 2) / (1 + squared_quantile_over_n)
    half_width = np.sqrt(squared_quantile_over_n * proportion * (1 - proportion) + squared_quantile_over_n**2 / 4) / (
        1 + squared_quantile_over_n
    )
    low, high = (
        np.minimum(interval_centre - half_width, proportion),
        np.maximum(interval_centre + half_width, proportion),
    )
    return low.clip(0, None), high.clip(None, 1)  # rounding error


def percentile_interval(draws: NDArray[Any], *, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Central percentile interval of draws (B, ...): lower and upper bounds, (...) each.

    NaN draws are left out. The interval is NaN if fewer than half of the draws are defined, or if there are no draws.

    >>> low, high = percentile_interval(np.arange(101.0), confidence=0.5)
    >>> low.item(), high.item()
    (25.0, 75.0)

    Source: Efron 1979; quantiles are interpolated linearly (Hyndman and Fan 1996, type 7).
    """
    draws = draws if len(draws) else np.full((1, *draws.shape[1:]), np.nan)
    is_defined_draw, tail_probability = ~np.isnan(draws), (1 - confidence) / 2
    has_enough_draws = is_defined_draw.mean(axis=0) >= _ENOUGH
    low, high = (np.quantile if is_defined_draw.all() else np.nanquantile)(  # nanquantile loops over columns
        np.where(has_enough_draws, draws, 0.0), [tail_probability, 1 - tail_probability], axis=0
    )
    return np.where(has_enough_draws, low, np.nan), np.where(has_enough_draws, high, np.nan)


def student_interval(
    draws: NDArray[Any],
    *,
    confidence: float,
    n_units: float | Floats,
    bounds: Bounds,
    adjust_for_few_draws: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of estimate ± t x standard error, from draws (1 + B, ...): lower and upper bounds, (...) each.

    Row 0 of `draws` is the estimate; the other B rows are resamples of G = `n_units` clusters. `n_units` is one number,
    or one number for each estimate (...). The standard error is the standard deviation over the resamples times sqrt(G
    / (G - 1)), and t has G - 1 degrees of freedom. With `adjust_for_few_draws`, the interval also accounts for the
    sampling error of the standard error from B resamples. The degrees of freedom of t are then 1 / (1 / (G - 1) + 1 /
    (B - 1)) (Satterthwaite). With the bounds `SHARE`, the estimate is a proportion p, and its interval is the Wilson
    interval of p (1 - p) / error^2 observations. If the number of observations is 0 / 0, it is replaced by G, so that
    the interval at 0 and 1 has a width. With other bounds, the error is computed on a variance-stabilising scale:
    arcsine between two bounds, square root above a lower bound. The interval therefore stays within the bounds and
    contains the estimate. The interval is NaN in three cases: the estimate is undefined, fewer than half of the draws
    are defined, or there is only one cluster or one draw.

    >>> draws = np.array([0.5, 0.4, 0.6, 0.5])
    >>> low, high = student_interval(draws, confidence=0.95, n_units=12, bounds=SHARE)
    >>> round(low.item(), 2), round(high.item(), 2)
    (0.29, 0.71)

    Source: Efron 1979; Wilson 1927; t and G / (G - 1) for few clusters as in Cameron, Gelbach and Miller 2008; Bartlett
    1947 for the scales.
    """
    from scipy.special import stdtrit

    draws = np.asarray(draws, dtype=np.float64)
    is_defined_draw = np.isfinite(draws[1:])
    n_defined_draws = is_defined_draw.sum(axis=0)
    has_enough_draws = (
        np.isfinite(draws[0]) & (n_defined_draws > 1) & (n_defined_draws >= _ENOUGH * (len(draws) - 1)) & (n_units > 1)
    )
    stabilised_draws = draws if bounds == SHARE else _stabilise_variance(draws, bounds)
    mean_draw = np.where(is_defined_draw, stabilised_draws[1:], 0.0).sum(axis=0) / np.maximum(n_defined_draws, 1)
    degrees_of_freedom = np.maximum(n_units - 1, 1)
    squared_deviations = np.where(is_defined_draw, stabilised_draws[1:] - mean_draw, 0.0) ** 2
    standard_error = np.sqrt(
        squared_deviations.sum(axis=0) / np.maximum(n_defined_draws - 1, 1) * (n_units / degrees_of_freedom)
    )
    if adjust_for_few_draws and len(draws) > 2:
        degrees_of_freedom = np.maximum(1 / (1 / degrees_of_freedom + 1 / (len(draws) - 2)), 1)
    t_quantile = np.where(has_enough_draws, stdtrit(degrees_of_freedom, (1 + confidence) / 2), np.nan)
    if bounds == SHARE:
        proportion = draws[0].clip(0.0, 1.0)  # rounding error
        # If p is 0 or 1, the number of observations is computed from the mean of the resamples instead of p.
        proportion_for_variance = np.where(
            (proportion * (1 - proportion)) > _NONE, proportion, mean_draw.clip(0.0, 1.0)
        )
        proportion_variance = proportion_for_variance * (1 - proportion_for_variance)
        is_observation_number_defined = (proportion_variance > _NONE) & (standard_error**2 > _NONE)
        effective_n_observations = np.where(
            is_observation_number_defined,
            proportion_variance / np.where(is_observation_number_defined, standard_error**2, 1.0),
            n_units,
        )
        return wilson_interval(proportion, effective_n_observations, quantile=t_quantile)
    half_width = t_quantile * standard_error
    with np.errstate(invalid="ignore"):  # for infinite estimates, which have no interval
        low, high = (_back_transform(stabilised_draws[0] + change, bounds) for change in (-half_width, half_width))
        # The transformation and its inverse have rounding errors.
        return np.minimum(low, draws[0]).clip(*bounds), np.maximum(high, draws[0]).clip(*bounds)


def expanded_interval(
    estimate: NDArray[Any], draws: NDArray[Any], *, confidence: float, n_units: float, bounds: Bounds
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expanded percentile interval: percentiles of draws (B, ...) at wider levels, extended to contain the estimate.

    The draws are from G = `n_units` clusters and need not be centred at the estimate. The level is the normal
    probability between minus and plus the t quantile with G - 1 degrees of freedom. If the required percentile lies
    beyond the most extreme draws, the interval also contains extrapolated bounds. For an extrapolated bound, the
    distance from the estimate to a percentile with ten draws beyond it is extended in proportion to the quantile, on
    the scale of `student_interval`. The interval is NaN in three cases: the estimate is undefined, fewer than half of
    the draws are defined, or there are no draws. If the draws of a `SHARE` are all 0 or all 1, the interval is the
    Wilson interval of G observations.

    >>> draws = np.linspace(0, 1, 1001)
    >>> low, high = expanded_interval(np.array(0.5), draws, confidence=0.95, n_units=12, bounds=SHARE)
    >>> round(low.item(), 3), round(high.item(), 3)
    (0.014, 0.986)

    Source: Hesterberg 2015 (expanded percentile interval).
    """
    from scipy.special import ndtr, ndtri

    n_draws, t_quantile = max(len(draws), 2), student_quantile(confidence, n_units)
    low, high = percentile_interval(draws, confidence=2 * float(ndtr(t_quantile)) - 1)
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)  # NaN if the bound or the estimate is NaN
    if t_quantile > -ndtri(1 / (n_draws + 1)):  # beyond the most extreme draws
        inner_z = max(float(-ndtri(_N_BEYOND / (n_draws + 1))), 1.0) if n_draws > _N_BEYOND else 1.0
        stabilised_estimate, *stabilised_percentiles = (
            _stabilise_variance(unstabilised_values, bounds)
            for unstabilised_values in (estimate, *percentile_interval(draws, confidence=2 * float(ndtr(inner_z)) - 1))
        )
        with np.errstate(invalid="ignore"):  # for infinite estimates, which have no interval
            extended_low, extended_high = (
                _back_transform(
                    stabilised_estimate + t_quantile / inner_z * (stabilised_percentile - stabilised_estimate), bounds
                )
                for stabilised_percentile in stabilised_percentiles
            )
        low, high = np.minimum(low, extended_low), np.maximum(high, extended_high)
    if bounds == SHARE:
        is_degenerate_interval = (high - low <= _NONE) & ((low <= _NONE) | (high >= 1 - _NONE))
        wilson_bounds = wilson_interval(estimate, max(float(n_units), 1.0), quantile=t_quantile)
        low, high = (
            np.where(is_degenerate_interval, wilson_bound, percentile_bound)
            for wilson_bound, percentile_bound in zip(wilson_bounds, (low, high), strict=True)
        )
    return np.asarray(low), np.asarray(high)


def _stabilise_variance(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.float64]:
    if np.isfinite(bounds[1]):
        return np.asarray(np.arcsin(np.sqrt(((values - bounds[0]) / np.ptp(bounds)).clip(0.0, 1.0))))
    return np.sqrt((values - bounds[0]).clip(0.0)) if np.isfinite(bounds[0]) else values


def _back_transform(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.float64]:
    if np.isfinite(bounds[1]):
        return np.asarray(bounds[0] + np.ptp(bounds) * np.sin(values.clip(0.0, np.pi / 2)) ** 2)
    return bounds[0] + values.clip(0.0) ** 2 if np.isfinite(bounds[0]) else values


@dataclass(frozen=True, kw_only=True)
class ResampledEstimate:
    """An estimate with resamples of `n_units` clusters, whose effective number is `n_effective_units`.

    `draws` (1 + B,) are the estimates from the data (row 0) and from the resamples. If the noise of finite samples
    biases the resamples, `population` (B,) has simulated values of the statistic with very many items. `bounds` are the
    lower and the upper bound of the statistic. `width` is the largest effect of one cluster on the statistic.
    """

    draws: Floats
    population: Floats | None
    n_units: int
    n_effective_units: float
    bounds: Bounds
    width: float

    @property
    def value(self) -> float:
        """The estimate from the data."""
        return float(self.draws[0])

    @property
    def correlation_draws(self) -> Floats:
        """The values used for correlations with other estimates: (B,)."""
        return self.draws[1:] if self.population is None else self.population

    def interval(self, level: float) -> tuple[float, float]:
        """Student's t interval, or the expanded percentile interval of `population`; NaN with too few clusters or
        draws.

        With G clusters, there is no interval if sign flips could not be significant (2^(1 - G) above 1 - level). The
        interval is also undefined if, with G equal clusters, a percentile lies beyond the most extreme draws. If no
        resample differs from the estimate, the error is unknown, but not 0. The interval then extends by `width` times
        1 - ((1 - level) / 2)^(1 / G). This factor of `width` is an upper confidence bound of the proportion of clusters
        that deviate, given that none of G sampled clusters deviates.
        """
        from scipy.special import ndtr

        if self.n_units < 2 or smallest_p_value(self.n_units) > 1 - level or not np.isfinite(self.value):
            return np.nan, np.nan
        setting: Any = {"confidence": level, "n_units": self.n_effective_units, "bounds": self.bounds}
        if self.population is not None:
            if ndtr(-student_quantile(level, self.n_units)) * (len(self.population) + 1) < 1:
                return np.nan, np.nan
            low, high = expanded_interval(self.draws[0], self.population, **setting)
        else:
            low, high = student_interval(self.draws, adjust_for_few_draws=True, **setting)
            if np.isfinite(low) and np.nanmax(np.abs(self.draws - self.value)) <= _SAME:
                half_width = self.width * (1 - ((1 - level) / 2) ** (1 / self.n_units))
                low, high = np.clip([self.value - half_width, self.value + half_width], *self.bounds)
        return float(low), float(high)

    def distance(self, null_value: float) -> float:
        """Distance of the estimate from a value, in standard errors, found by inverting the interval. The estimate must
        have an interval."""
        from scipy.special import ndtr

        def excludes_value(z: float) -> bool:
            low, high = self.interval(2 * float(ndtr(z)) - 1)
            return null_value < low or null_value > high  # False if the bounds are NaN

        return float(bisect_condition(excludes_value, 0.0, _FARTHEST))


def cluster_intervals(
    draws: Floats, n_units: Ints, *, confidence: float, bounds: Bounds, fewest: int
) -> tuple[Floats, Floats]:
    """Lower and upper bounds of estimates (k,), from draws (1 + B, k) with the data in row 0.

    `n_units` (k,) is the number of clusters of each estimate. The bounds are NaN if an estimate has fewer than `fewest`
    clusters.
    """
    low, high = np.full((2, draws.shape[1]), np.nan)
    for estimate_index in np.flatnonzero((n_units >= fewest) & (len(draws) > 1)):
        low[estimate_index], high[estimate_index] = ResampledEstimate(
            draws=draws[:, estimate_index],
            population=None,
            n_units=int(n_units[estimate_index]),
            n_effective_units=float(n_units[estimate_index]),
            bounds=bounds,
            width=1.0,
        ).interval(confidence)
    return low, high


def simultaneous_intervals(
    estimates: Sequence[ResampledEstimate | None], null_values: Sequence[float], *, confidence: float
) -> tuple[Inference, float]:
    """Simultaneous confidence intervals of estimates (k,) with adjusted p-values of the hypotheses that the estimated
    quantities equal `null_values`, and the confidence level that each interval has by itself.

    Consider normal variates with the correlations that the estimates have over their shared resamples. The `confidence`
    quantile of the largest |z| of these variates is the common critical value. The level of each interval alone is the
    normal probability of a |z| below this value. A p-value is at most 1 - confidence if and only if the interval
    excludes the value of the hypothesis. A single estimate has its ordinary interval. Estimates that are None, or that
    have no interval at `confidence`, are ignored.

    >>> from custodes.stats.intervals import ANY
    >>> rng = np.random.default_rng(0)
    >>> draws = np.concatenate([np.zeros((1, 2)), rng.normal(size=(999, 2))])
    >>> about = {"population": None, "n_units": 500, "n_effective_units": 500, "bounds": ANY, "width": 1.0}
    >>> pair = [ResampledEstimate(draws=d, **about) for d in draws.T]
    >>> round(simultaneous_intervals(pair[:1], [0.0], confidence=0.95)[1], 3)
    0.95
    >>> round(simultaneous_intervals(pair, [0.0, 0.0], confidence=0.95)[1], 2)  # 0.95 ** 0.5 = 0.975
    0.97
    >>> round(simultaneous_intervals(pair[:1] * 2, [0.0, 0.0], confidence=0.95)[1], 2)
    0.95

    Source: Hothorn, Bretz and Westfall 2008, simultaneous inference by the largest t.
    """
    from scipy.special import ndtr

    estimate_of_index = {
        estimate_index: estimate
        for estimate_index, estimate in enumerate(estimates)
        if estimate and np.isfinite(estimate.interval(confidence)[0])
    }
    n_estimates, level, normal_maximum = len(estimate_of_index), confidence, None
    estimated_values = np.array([np.nan if estimate is None else estimate.value for estimate in estimates])
    low_bounds, high_bounds, p_values = np.full((3, len(estimates)), np.nan)
    if n_estimates > 1:
        correlated_draws = np.stack([estimate.correlation_draws for estimate in estimate_of_index.values()])
        # An estimate that does not vary is added, and each estimate is compared with it.
        correlations = np.pad(
            correlation_of(deviations(np.where(np.isfinite(correlated_draws), correlated_draws, np.nan))), (0, 1)
        )
        normal_maximum = NormalMaximum(
            correlations, np.arange(n_estimates), np.full(n_estimates, n_estimates), n=N_DIRECTIONS
        )
        level = max(2 * float(ndtr(normal_maximum.quantile(1 - confidence))) - 1, confidence)
    for estimate_index, resampled_estimate in estimate_of_index.items():
        low_bounds[estimate_index], high_bounds[estimate_index] = resampled_estimate.interval(level)
        if not np.isfinite(low_bounds[estimate_index]):
            continue
        z = resampled_estimate.distance(null_values[estimate_index])
        p_values[estimate_index] = unadjusted_p = 2 * float(ndtr(-z))
        if normal_maximum is not None:
            p_values[estimate_index] = min(max(normal_maximum.tail(z), unadjusted_p), n_estimates * unadjusted_p, 1.0)
    return Inference(estimated_values, low_bounds, high_bounds, p_values), level


def correlation_of(influences: Floats) -> Floats:
    """Correlations of estimates (k, k), from influences or deviations (k, n) with mean 0.

    An estimate without variation, such as an accuracy of 1, has correlation 0 with all others.
    """
    norm_of_estimate = np.sqrt((influences**2).sum(axis=1, keepdims=True))
    unit_vectors = influences / np.where(norm_of_estimate > _SAME, norm_of_estimate, np.inf)
    correlation_matrix = np.asarray(unit_vectors @ unit_vectors.T)
    np.fill_diagonal(correlation_matrix, 1.0)
    return correlation_matrix
