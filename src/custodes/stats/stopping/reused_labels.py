"""One-sided tests of one candidate after another on the same labels, with a bounded probability of any false opening.

A candidate opens the gate if its test statistic exceeds a critical value. The probability that any candidate does so,
although its true value is at the threshold, stays below a level, also if candidates are chosen after the answers to
earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.rates.posterior import DRAWS

BEFORE_OPENING = 0.8
"""Proportion of the level for candidates before the first opening.

The rest is for those after it. With a smaller rest, few candidates could open after an opening; with a larger one, a
searcher who knows which candidates are barely good, and tries near copies of the one that opened, exceeds the level.
"""

REST_USED = 0.02
"""Proportion of the unspent level that the next test may use; half of it is used within 34 tests."""

LARGEST_Z = 38.0
"""Largest test statistic; the tail of a larger one is 0 in floating point."""


def spending(position: int) -> float:
    """Proportion of the level for the candidate at a position (1, 2, ...); the sum over all positions is 1.

    >>> [round(spending(k), 3) for k in (1, 2, 20)]
    [0.608, 0.152, 0.002]
    """
    return float(6 / (np.pi * position) ** 2)


def level_after(openings: int, level: float) -> float:
    """Level of all candidates after a number of openings, until the next one; the sum over all numbers is `level`.

    Without an opening, the sequence of candidates does not depend on the labels, as every answer is the same. An
    opening changes what is tested next, so that candidates after it have a level of their own.

    >>> [round(level_after(n, 0.05), 4) for n in (0, 1, 2)]
    [0.04, 0.0061, 0.0015]
    """
    return level * (BEFORE_OPENING if openings == 0 else (1 - BEFORE_OPENING) * spending(openings))


class NextTest:
    """Distribution of the next test statistic jointly with the earlier ones, all true values at their thresholds.

    Multiplier bootstrap: with normal multipliers, the resampled statistics have a joint normal distribution with the
    correlation of the per-item results. The next one is integrated over its distribution given the earlier ones, so
    that probabilities far below 1 / `draws` are resolved.

    Parameters
    ----------
    correlation : array of shape (tests, tests)
        Correlation of all test statistics, the next one last.
    earlier : sequence of float
        Critical values of the earlier tests.
    rng : numpy.random.Generator
    draws : int
        Number of resamples.

    Examples
    --------
    >>> after = NextTest(np.array([[1.0, 0.9], [0.9, 1.0]]), [1.88], rng=np.random.default_rng(0))
    >>> round(after.critical(0.01), 1), round(after.crossing(1.88), 2)
    (1.9, 0.01)

    References
    ----------
    Chernozhukov, Chetverikov and Kato 2013 (multiplier bootstrap of a maximum).
    """

    def __init__(
        self, correlation: Floats, earlier: Sequence[float], *, rng: np.random.Generator, draws: int = DRAWS
    ) -> None:
        factor = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation)))  # equal tests: a singular matrix
        normal = rng.standard_normal((len(earlier), draws))
        below = (factor[:-1, :-1] @ normal <= np.array(earlier)[:, np.newaxis]).all(axis=0)
        self._center, self._spread, self._draws = (factor[-1, :-1] @ normal)[below], factor[-1, -1], draws

    def crossing(self, critical: float) -> float:
        """Probability that the test exceeds a critical value and no earlier test exceeds its own."""
        from scipy.special import ndtr

        return float(ndtr((self._center - critical) / self._spread).sum() / self._draws)

    def critical(self, level: float) -> float:
        """The critical value that is crossed with a probability; `LARGEST_Z` for a level of 0."""
        from scipy.optimize import brentq

        if self.crossing(LARGEST_Z) >= level:
            return LARGEST_Z
        if self.crossing(-LARGEST_Z) <= level:
            return -LARGEST_Z
        return float(brentq(lambda value: self.crossing(value) - level, -LARGEST_Z, LARGEST_Z, xtol=1e-4))


def next_level(level: float, spent: Sequence[float]) -> float:
    """Level of the next test of a path with a level, after the levels that earlier tests spent.

    A binomial test spends less than its level, since counts are whole; each later test may spend a part of the rest.
    After a merge of two branches the path may have spent more than the spending function allows; the next level is then
    0 until it does not.

    >>> round(next_level(0.04, []), 4), round(next_level(0.04, [0.0243]), 4), next_level(0.04, [0.03, 0.03])
    (0.0243, 0.0061, 0.0)
    """
    parts = [level * spending(k + 1) for k in range(len(spent) + 1)]
    rest = sum(parts[:-1]) - sum(spent)
    return max(0.0, parts[-1] + (REST_USED * rest if rest > 0 else rest))


def correlation_of(results: Floats) -> Floats:
    """Correlation of statistics from the influence of each item: (tests, items) -> (tests, tests).

    A test without influences, such as an accuracy of 1, counts as independent of the others.
    """
    norm = np.sqrt((results**2).sum(axis=1, keepdims=True))
    scaled = np.divide(results, norm, out=np.zeros_like(results), where=norm > 0)
    correlation = scaled @ scaled.T
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def proportion_z(successes: float, trials: float, threshold: float) -> float:
    """Normal score of the exact binomial test of a proportion against a threshold; counts may be fractions.

    >>> round(proportion_z(177, 200, 0.8), 2)
    3.09
    """
    from scipy.special import betainc, ndtri

    if successes <= 0:
        return -LARGEST_Z
    tail = float(betainc(successes, trials - successes + 1, threshold))
    return float(np.clip(-ndtri(tail), -LARGEST_Z, LARGEST_Z))


def posterior_z(draws: Floats, threshold: float, bounds: tuple[float, float]) -> float:
    """Distance of the mean of posterior draws from a threshold in standard deviations, on the logit scale within the
    bounds of the statistic."""

    def logit(values: Floats) -> Floats:
        inside = np.clip((values - bounds[0]) / (bounds[1] - bounds[0]), 1e-9, 1 - 1e-9)
        return np.log(inside / (1 - inside))

    values = logit(draws)
    return float((values.mean() - logit(np.array(threshold))) / values.std())


def t_z(t: float, *, degrees: int) -> float:
    """Normal score of Student's t.

    >>> round(t_z(2.0, degrees=10), 2)
    1.79
    """
    from scipy.special import ndtri, stdtr

    return float(np.clip(-ndtri(stdtr(degrees, -t)), -LARGEST_Z, LARGEST_Z))


class Precision(NamedTuple):
    """Precision of a test: the number of `trials` of a binomial test, else the standard `error` of the statistic.

    `whole`: counts are whole numbers, so that the binomial test is discrete.
    """

    threshold: float
    trials: float = 0.0
    error: float = 0.0
    whole: bool = False

    def with_labels(self, times: float) -> Precision:
        """The precision with so many times as many labels."""
        return self._replace(trials=float(round(self.trials * times)), error=self.error / times**0.5)

    def attained(self, critical: float) -> float:
        """The critical value of a discrete test: the smallest possible statistic above a critical value, reduced by
        rounding error."""
        if not self.whole:
            return critical
        return float(min((z for z in self._scores() if z > critical), default=LARGEST_Z) - 1e-9)

    def power(self, gain: float, critical: float) -> float:
        """Probability that the statistic exceeds a critical value if the true value is the threshold plus a gain.

        >>> round(Precision(0.8, trials=200, whole=True).power(0.09, 1.96), 2)
        0.93
        """
        from scipy.special import betainc, ndtr

        if not self.trials:
            return float(ndtr(gain / self.error - critical)) if self.error else 0.0
        n = round(self.trials)
        crossing = 1 + np.flatnonzero(self._scores() > critical)
        return float(betainc(crossing[0], n - crossing[0] + 1, self.threshold + gain)) if len(crossing) else 0.0

    def _scores(self) -> Floats:
        """Normal scores of 1, 2, ... successes."""
        from scipy.special import betainc, ndtri

        n = round(self.trials)
        successes = np.arange(1, n + 1)
        return np.clip(-ndtri(betainc(successes, n - successes + 1, self.threshold)), -LARGEST_Z, LARGEST_Z)
