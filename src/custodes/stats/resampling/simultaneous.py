"""Several estimates at once: intervals that hold together, and tests of a value for each.

Each estimate keeps the interval that it would have alone, at a higher level. How much higher follows from how alike the
estimates vary over the resamples that they share: not at all where they are the same, Bonferroni's where they have
nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.resampling.resample import Bounds, expanded_interval, student_interval, student_quantile
from custodes.stats.resampling.stepdown import NormalMaximum

N_DIRECTIONS = 20_000
"""Random directions for the largest of several normal values: the level of .95 is met within .001."""

_SAME = 1e-9  # statistics are of the order of 1; a smaller difference is rounding
_FARTHEST = 9.0  # standard errors that a p-value is sought in
_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate in resamples of `n_units` clusters: `draws` (1 + B,), the data first. `population` (B,) says what it
    may be with very many items, where resamples are no guide to that. `bounds` of what is estimated, and the `width` of
    what one cluster can change."""

    draws: Floats
    population: Floats | None
    n_units: int
    bounds: Bounds
    width: float

    @property
    def value(self) -> float:
        """Of the data."""
        return float(self.draws[0])

    @property
    def resampled(self) -> Floats:
        """(B,): what varies over resamples, for its likeness to other estimates."""
        return self.draws[1:] if self.population is None else self.population

    def interval(self, level: float) -> tuple[float, float]:
        """Student's, or the expanded percentiles of the population; NaN where too few clusters or draws tell the level.

        Where signs alone would not be significant, 2^(1 - G) above 1 - level, there is no interval; nor where a
        percentile is beyond the outermost draws. Where no resample departs from the estimate, its error is unknown and
        not 0: the interval reaches as far as the share of clusters that could differ and have not been met,
        1 - ((1 - level) / 2)^(1 / G), times the `width`.
        """
        tail = (1 - level) / 2
        if self.n_units < 2 or 2.0 ** (1 - self.n_units) > 1 - level or not np.isfinite(self.value):
            return np.nan, np.nan
        if self.population is not None:
            if _normal_tail(level, self.n_units) * (len(self.population) + 1) < 1:
                return np.nan, np.nan
            ends = expanded_interval(
                self.draws[0], self.population, confidence=level, n_units=self.n_units, bounds=self.bounds
            )
            return float(ends[0]), float(ends[1])
        ends = student_interval(self.draws, confidence=level, n_units=self.n_units, bounds=self.bounds, few_draws=True)
        low, high = float(ends[0]), float(ends[1])
        if np.isfinite(low) and np.nanmax(np.abs(self.draws - self.value)) <= _SAME:
            reach, (least, largest) = self.width * (1 - tail ** (1 / self.n_units)), self.bounds
            return max(self.value - reach, least), min(self.value + reach, largest)
        return low, high

    def distance(self, at: float) -> float:
        """How far the estimate is from a value, in standard errors: its interval at a level ends there; NaN without."""
        from scipy.special import ndtr

        def leaves_out(z: float) -> bool:
            low, high = self.interval(2 * float(ndtr(z)) - 1)
            return at < low or at > high  # NaN: it does not

        near, far = 0.0, _FARTHEST
        for _ in range(_STEPS):
            middle = (near + far) / 2
            near, far = (middle, far) if leaves_out(middle) else (near, middle)
        return near


@dataclass(frozen=True, kw_only=True)
class Together:
    """Estimates (k,) with intervals that hold all true values together, and p-values of 'it is this value', adjusted
    for all; `level` is that of each interval alone. NaN where undefined."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    level: float


def together(estimates: Sequence[Estimate | None], at: Sequence[float], *, confidence: float) -> Together:
    """Intervals of estimates that hold together at a level, and tests of each against a value.

    The level of each interval is that of |z| for the `confidence` quantile of the largest |z| of normal values with the
    correlations that the estimates have over their shared resamples. p is at most 1 - confidence exactly where the
    interval leaves out the value. One estimate has the interval that it has alone. An estimate without an interval at
    `confidence` is not of the family, nor is one that is None.

    >>> from custodes.stats.resampling.resample import ANY
    >>> rng = np.random.default_rng(0)
    >>> draws = np.concatenate([np.zeros((1, 2)), rng.normal(size=(999, 2))])
    >>> pair = [Estimate(draws=own, population=None, n_units=500, bounds=ANY, width=1.0) for own in draws.T]
    >>> round(together(pair[:1], [0.0], confidence=0.95).level, 3)
    0.95
    >>> round(together(pair, [0.0, 0.0], confidence=0.95).level, 2)  # 0.95 ** 0.5 = 0.975
    0.97
    >>> round(together(pair[:1] * 2, [0.0, 0.0], confidence=0.95).level, 2)
    0.95

    Source: Hothorn, Bretz and Westfall 2008, simultaneous inference by the largest t.
    """
    from scipy.special import ndtr

    known = {i: own for i, own in enumerate(estimates) if own and np.isfinite(own.interval(confidence)[0])}
    k, level, maximum = len(known), confidence, None
    estimate, low, high, p_value = np.full((4, len(estimates)), np.nan)
    estimate[:] = [np.nan if own is None else own.value for own in estimates]
    if k > 1:
        # Each estimate is compared with one more that does not vary.
        correlation = np.pad(_correlation([own.resampled for own in known.values()]), (0, 1))
        maximum = NormalMaximum(correlation, np.arange(k), np.full(k, k), n=N_DIRECTIONS)
        level = max(2 * float(ndtr(maximum.quantile(1 - confidence))) - 1, confidence)
    for i, own in known.items():
        low[i], high[i] = own.interval(level)
        if not np.isfinite(low[i]):
            continue
        z = own.distance(at[i])
        p_value[i] = single = 2 * float(ndtr(-z))
        if maximum is not None:
            p_value[i] = min(max(maximum.tail(z), single), k * single, 1.0)
    return Together(estimate=estimate, low=low, high=high, p_value=p_value, level=level)


def _normal_tail(level: float, n_units: int) -> float:
    """The share of draws beyond one end of an expanded interval."""
    from scipy.special import ndtr

    return float(ndtr(-student_quantile(level, n_units)))


def _correlation(resampled: Sequence[Floats]) -> Floats:
    """(k, k); what does not vary is like nothing else, and a resample that lacks an estimate tells nothing of it."""
    draws = np.stack(resampled, axis=1)
    there = np.isfinite(draws)
    mean = np.where(there, draws, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    around = np.where(there, draws - mean, 0.0)
    size = np.sqrt((around**2).sum(axis=0))
    scaled = np.where(size > _SAME, around / np.where(size > _SAME, size, 1.0), 0.0)
    made = np.asarray(scaled.T @ scaled)
    np.fill_diagonal(made, 1.0)
    return made
