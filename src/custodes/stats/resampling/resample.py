"""Resampling: bootstrap multiplicities, sign flips, and what intervals are made of.

Every statistic of this package takes `weights` (resamples, units): how often each resampling unit (a cluster of items)
is present. A row of ones is the data as they are, so the point estimate and the bootstrap are one code path.

With many units nobody needs all weights as floats at once: `blocks` draws some resamples at a time, `bootstrap_counts`
keeps a byte for each, and `weighted_sums` takes either. All of them draw the same resamples from the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import CHUNK, chunks
from custodes.stats.proportions import wilson_interval

_ENOUGH = 0.5  # share of draws that must be defined for an interval to be
_MANY = 4096  # units from which places are drawn and counted, a tenth of the time of multinomial numbers: the same law
_NONE = 1e-15  # of a variance of a share
_BLOCK = 8 * CHUNK  # weights that are numbers of eight bytes at once

Bounds = tuple[float, float]
"""The least and the largest value that a statistic can take."""

SHARE: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
POSITIVE: Bounds = (0.0, np.inf)
ANY: Bounds = (-np.inf, np.inf)


def bootstrap_weights(n_units: int, n_resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw how often each unit enters each bootstrap resample: (resamples, units), every row summing to `n_units`.

    The row of ones is not included; see `with_point`.

    >>> bootstrap_weights(5, 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [5.0, 5.0, 5.0]

    Source: Efron 1979, the multinomial form of the nonparametric bootstrap.
    """
    return np.asarray(_drawn(n_units, n_resamples, rng), dtype=np.float64)


def bootstrap_counts(n_units: int, n_resamples: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The same with the row of ones before, a byte a number: (1 + resamples, units), for `weighted_sums`.

    >>> bootstrap_counts(5, 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [5, 5, 5, 5]
    """
    counts = np.ones((1 + n_resamples, n_units), dtype=np.uint8)
    for rows in chunks(n_resamples, n_units * CHUNK // _BLOCK):
        counts[1:][rows] = np.minimum(_drawn(n_units, rows.stop - rows.start, rng), 255)  # which never happens
    return counts


def blocks(n_units: int, n_resamples: int, rng: np.random.Generator) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """The rows of `with_point(bootstrap_weights(...))`, some at a time: yields (their places, weights (rows, units)).

    >>> [(rows, weights.shape) for rows, weights in blocks(5, 3, np.random.default_rng(0))]
    [(slice(0, 4, None), (4, 5))]
    """
    for rows in chunks(1 + n_resamples, n_units * CHUNK // _BLOCK):
        drawn = np.ones((rows.stop - rows.start, n_units))
        own = drawn[1:] if rows.start == 0 else drawn
        own[:] = _drawn(n_units, len(own), rng)
        yield rows, drawn


def _drawn(n_units: int, n_resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Resample by resample from the generator, so that it does not matter how many are drawn at a time."""
    if n_units < _MANY:
        return rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=n_resamples)
    places = (rng.integers(n_units, size=n_units, dtype=np.int64) for _ in range(n_resamples))
    return np.array([np.bincount(own, minlength=n_units) for own in places]).reshape(n_resamples, n_units)


def with_point(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Put the data as they are (a row of ones) before the resamples: (B, units) -> (1 + B, units).

    >>> with_point(np.array([[2, 0]])).tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    return np.concatenate([np.ones((1, weights.shape[1])), weights])


def unit_sums(values: NDArray[Any], *, units: NDArray[np.integer[Any]], n_units: int) -> NDArray[np.float64]:
    """Add up what belongs to one unit: (..., items) -> (..., units); a unit without items gets 0.

    >>> unit_sums(np.array([1.0, 2.0, 4.0]), units=np.array([1, 0, 1]), n_units=3).tolist()
    [2.0, 5.0, 0.0]
    """
    if len(units) == n_units and (units == np.arange(n_units)).all():
        return np.array(values, dtype=np.float64)
    sums = np.zeros((*values.shape[:-1], n_units))
    if values.shape[-1]:
        order = np.argsort(units, kind="stable")
        present, start = np.unique(units[order], return_index=True)
        sums[..., present] = np.add.reduceat(values[..., order], start, axis=-1, dtype=np.float64)
    return sums


def weighted_sums(weights: NDArray[Any], per_unit: NDArray[Any]) -> NDArray[np.float64]:
    """Sum over units in every resample: weights (B, units), per_unit (..., units) -> (B, ...).

    Weights of one byte become numbers of eight some rows at a time; units that add nothing are left out.

    >>> weighted_sums(np.array([[1.0, 1.0], [2.0, 0.0]]), np.array([3.0, 4.0])).tolist()
    [7.0, 6.0]
    """
    flat = np.asarray(per_unit.reshape(-1, per_unit.shape[-1]), dtype=np.float64)
    shape = (len(weights), *per_unit.shape[:-1])
    used = np.flatnonzero(flat.any(axis=0))
    if 2 * len(used) < flat.shape[1]:  # of a few pairs most battles say nothing
        weights, flat = weights[:, used], flat[:, used]
    if weights.dtype == np.float64:
        return np.asarray(weights @ flat.T).reshape(shape)
    sums = np.empty((len(weights), len(flat)))
    for rows in chunks(len(weights), weights.shape[1] * CHUNK // _BLOCK):
        np.matmul(np.asarray(weights[rows], dtype=np.float64), flat.T, out=sums[rows])
    return sums.reshape(shape)


def same_outputs(
    human: NDArray[np.float64], metrics: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Group the metrics that share their outputs rated by both: yields (metric indices, flat output indices).

    >>> [(m.tolist(), o.tolist()) for m, o in same_outputs(np.zeros((1, 2)), np.array([[[0.0, np.nan]], [[1.0, 2.0]]]))]
    [([0], [0]), ([1], [0, 1])]
    """
    both = (~np.isnan(human) & ~np.isnan(metrics)).reshape(len(metrics), -1)
    groups: dict[bytes, list[int]] = {}
    for m, mask in enumerate(np.packbits(both, axis=1)):
        groups.setdefault(mask.tobytes(), []).append(m)
    for rows in groups.values():
        yield np.array(rows), np.flatnonzero(both[rows[0]])


def percentile_interval(draws: NDArray[Any], *, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the central percentile interval of draws (B, ...) as (low, high), each (...).

    NaN draws are left out; where fewer than half of the draws are defined, or there are none, the interval is NaN.

    >>> low, high = percentile_interval(np.arange(101.0), confidence=0.5)
    >>> low.item(), high.item()
    (25.0, 75.0)

    Source: Efron 1979; quantiles are interpolated linearly (Hyndman and Fan 1996, type 7).
    """
    if not len(draws):
        return np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
    ordered = np.sort(np.asarray(draws, dtype=np.float64), axis=0)  # NaN comes last
    defined = np.sum(~np.isnan(ordered), axis=0)
    enough = (defined > 0) & (defined >= _ENOUGH * len(ordered))
    last = np.maximum(defined - 1, 0)

    def quantile(share: float) -> NDArray[np.float64]:
        position = share * last
        below = np.floor(position).astype(np.intp)
        lower = np.take_along_axis(ordered, below[np.newaxis], axis=0)[0]
        upper = np.take_along_axis(ordered, np.minimum(below + 1, last)[np.newaxis], axis=0)[0]
        return np.where(enough, lower + (position - below) * (upper - lower), np.nan)

    tail = (1 - confidence) / 2
    return quantile(tail), quantile(1 - tail)


def student_interval(
    draws: NDArray[Any], *, confidence: float, n_units: float, bounds: Bounds, few_draws: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give estimate ± t x standard error: draws (1 + B, ...), the estimate first, -> (low, high), each (...).

    The standard error is the standard deviation of the B resamples of `n_units` clusters times sqrt(G / (G - 1)), t has
    G - 1 degrees. With `few_draws` the error of the standard error from B resamples counts, too (Satterthwaite): t has
    1 / (1 / (G - 1) + 1 / (B - 1)) degrees. A `SHARE` p has the Wilson interval of as many observations as its standard
    error amounts to, p (1 - p) / error^2; of G where that is 0 / 0, so it has a width at 0 and 1. Else the error is
    taken where the statistic's variance depends least on its value: the arcsine scale between two bounds, the square
    root above a lower one. So the interval stays within the bounds and contains the estimate. NaN where the estimate is
    undefined or fewer than half of the draws are defined, and with one cluster or one draw.

    >>> draws = np.array([0.5, 0.4, 0.6, 0.5])
    >>> low, high = student_interval(draws, confidence=0.95, n_units=12, bounds=SHARE)
    >>> round(low.item(), 2), round(high.item(), 2)
    (0.29, 0.71)

    Source: Efron 1979; Wilson 1927; t and G / (G - 1) for few clusters as in Cameron, Gelbach and Miller 2008; Bartlett
    1947 for the scales.
    """
    draws = np.asarray(draws, dtype=np.float64)
    least, largest = bounds
    defined = np.isfinite(draws[1:])
    n = defined.sum(axis=0)
    enough = np.isfinite(draws[0]) & (n > 1) & (n >= _ENOUGH * (len(draws) - 1)) & (n_units > 1)
    scaled = draws if bounds == SHARE else _stable(draws, bounds)
    mean = np.where(defined, scaled[1:], 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(defined, scaled[1:] - mean, 0.0) ** 2
    error = np.sqrt(squares.sum(axis=0) / np.maximum(n - 1, 1) * (n_units / max(n_units - 1, 1)))
    units = (
        1 + 1 / (1 / (n_units - 1) + 1 / (len(draws) - 2)) if few_draws and n_units > 1 < len(draws) - 1 else n_units
    )
    quantile = np.where(enough, student_quantile(confidence, units), np.nan)
    if bounds == SHARE:
        share = draws[0].clip(0.0, 1.0)  # rounding
        # At 0 and 1 the resamples tell how much one observation is worth, if they vary.
        center = np.where((share * (1 - share)) > _NONE, share, mean.clip(0.0, 1.0))
        variance = center * (1 - center)
        known = (variance > _NONE) & (error**2 > _NONE)
        number = np.where(known, variance / np.where(known, error**2, 1.0), float(n_units))
        return wilson_interval(share, number, quantile=quantile)
    reach = quantile * error
    with np.errstate(invalid="ignore"):  # an infinite estimate has no interval
        low, high = _unscaled(scaled[0] - reach, bounds), _unscaled(scaled[0] + reach, bounds)
        # The way there and back rounds.
        return np.minimum(low, draws[0]).clip(least, largest), np.maximum(high, draws[0]).clip(least, largest)


def expanded_interval(
    estimate: NDArray[Any], draws: NDArray[Any], *, confidence: float, n_units: int, bounds: Bounds
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give percentiles of draws (B, ...) at the levels of t with G - 1 degrees, widened to the estimate (...).

    For draws that are not centred at the estimate, from `n_units` clusters. NaN as `percentile_interval`, and where the
    estimate is undefined. A `SHARE` of which all draws are 0, or all 1, has the Wilson interval of G observations.

    >>> draws = np.linspace(0, 1, 1001)
    >>> low, high = expanded_interval(np.array(0.5), draws, confidence=0.95, n_units=12, bounds=SHARE)
    >>> round(low.item(), 3), round(high.item(), 3)
    (0.014, 0.986)

    Source: Hesterberg 2015 (expanded percentile interval).
    """
    from scipy.special import ndtr

    level = 2 * float(ndtr(student_quantile(confidence, n_units))) - 1
    low, high = percentile_interval(draws, confidence=level)
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)  # NaN where either is
    if bounds == SHARE:
        certain = (high - low <= _NONE) & ((low <= _NONE) | (high >= 1 - _NONE))
        ends = wilson_interval(estimate, float(n_units), quantile=student_quantile(confidence, n_units))
        low, high = (np.where(certain, wilson, end) for wilson, end in zip(ends, (low, high), strict=True))
    return np.asarray(low), np.asarray(high)


def student_quantile(confidence: float, n_units: float) -> float:
    """The t quantile of a central interval with `n_units` - 1 degrees (one degree at least).

    >>> round(student_quantile(0.95, 12), 3)
    2.201
    """
    from scipy.special import stdtrit

    return float(stdtrit(max(n_units - 1, 1), (1 + confidence) / 2))


def fieller_interval(
    numerator: float, denominator: float, covariance: NDArray[Any], quantile: float
) -> tuple[float, float]:
    """Fieller's bounds of numerator / denominator, with their covariance (2, 2): all ratios r with
    |numerator - r denominator| within `quantile` standard errors. NaN where these are not an interval.

    >>> low, high = fieller_interval(1.0, 2.0, np.diag([0.01, 0.0]), 1.96)
    >>> round(low, 3), round(high, 3)
    (0.402, 0.598)

    References
    ----------
    Fieller 1954.
    """
    v = quantile**2 * covariance
    square = denominator**2 - v[1, 1]
    middle = numerator * denominator - v[0, 1]
    inside = middle**2 - square * (numerator**2 - v[0, 0])
    if square <= 0 or inside < 0:
        return np.nan, np.nan
    reach = float(np.sqrt(inside))
    return (middle - reach) / square, (middle + reach) / square


def _stable(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.float64]:
    least, largest = bounds
    if np.isfinite(largest):
        return np.asarray(np.arcsin(np.sqrt(((values - least) / (largest - least)).clip(0.0, 1.0))))
    return np.sqrt((values - least).clip(0.0)) if np.isfinite(least) else values


def _unscaled(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.float64]:
    least, largest = bounds
    if np.isfinite(largest):
        return np.asarray(least + (largest - least) * np.sin(values.clip(0.0, np.pi / 2)) ** 2)
    return least + values.clip(0.0) ** 2 if np.isfinite(least) else values


def sign_flips(n_units: int, n: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw the flips of a paired permutation test: (n, units) of +1 and -1, all equally likely.

    >>> sign_flips(4, 2, np.random.default_rng(0)).shape
    (2, 4)

    Source: Fisher 1935.
    """
    return (2 * rng.integers(0, 2, size=(n, n_units), dtype=np.int8) - 1).astype(np.int8)
