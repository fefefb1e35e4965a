"""One-sided tests of one candidate after another on the same labels, with a bounded probability of any false opening.

A candidate opens the gate if its test statistic exceeds a critical value. An opening is false if the candidate's true
value is at most the threshold. The probability of any false opening is at most a level, even if the choice of a
candidate depends on the results of earlier candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.rates.posterior import DRAWS

BEFORE_OPENING = 0.8
"""Proportion of the level for candidates up to the first opening.

The remaining level is for candidates after the first opening. With a smaller remaining level, few later candidates
could open the gate. With a larger remaining level, a user could exceed the level if the user knows which candidates are
barely good. The user would test near copies of a candidate that opened the gate.
"""

REST_USED = 0.02
"""Proportion of the unspent level that the next test may use; 34 tests use half of the unspent level."""

LARGEST_Z = 38.0
"""Largest test statistic; in floating point, the tail probability of a larger statistic is 0."""


def spending_share(position: int) -> float:
    """Return the proportion of the level for the candidate at a position (1, 2, ...); all proportions sum to 1.

    >>> [round(spending_share(k), 3) for k in (1, 2, 20)]
    [0.608, 0.152, 0.002]
    """
    return float(6 / (np.pi * position) ** 2)


def level_after(n_openings: int, level: float) -> float:
    """Return the joint level of all candidates that are tested after a number of openings and before the next opening.

    The levels for all numbers of openings sum to `level`. Until the first opening, the sequence of candidates does not
    depend on the labels, because every candidate gets the same answer. An opening can change what is tested next, and
    therefore the candidates after each opening have a separate level.

    >>> [round(level_after(n, 0.05), 4) for n in (0, 1, 2)]
    [0.04, 0.0061, 0.0015]
    """
    return level * (BEFORE_OPENING if n_openings == 0 else (1 - BEFORE_OPENING) * spending_share(n_openings))


class NextTest:
    """Joint distribution of the next and the earlier test statistics, if all true values equal their thresholds.

    This is a multiplier bootstrap. With normal multipliers, the resampled statistics have a joint normal distribution
    with the correlation of the per-item results. The earlier statistics are drawn, and the next statistic is integrated
    over its distribution given the earlier statistics. Probabilities far below 1 / `n_draws` can therefore be
    estimated.

    Parameters
    ----------
    correlation : array of shape (tests, tests)
        Correlation of all test statistics; the next test is last.
    earlier_critical_values : sequence of float
        Critical values of the earlier tests.
    rng : numpy.random.Generator
    n_draws : int
        Number of resamples.

    Examples
    --------
    >>> after = NextTest(np.array([[1.0, 0.9], [0.9, 1.0]]), [1.88], rng=np.random.default_rng(0))
    >>> round(after.critical(0.01), 1), round(after.exceedance_probability(1.88), 2)
    (1.9, 0.01)

    References
    ----------
    Chernozhukov, Chetverikov and Kato 2013 (multiplier bootstrap of a maximum).
    """

    def __init__(
        self,
        correlation: Floats,
        earlier_critical_values: Sequence[float],
        *,
        rng: np.random.Generator,
        n_draws: int = DRAWS,
    ) -> None:
        cholesky_factor = np.linalg.cholesky(
            correlation + 1e-9 * np.eye(len(correlation))
        )  # the matrix is singular if two tests are equal
        independent_draws = rng.standard_normal((len(earlier_critical_values), n_draws))
        is_below_earlier_critical = (
            cholesky_factor[:-1, :-1] @ independent_draws <= np.array(earlier_critical_values)[:, np.newaxis]
        ).all(axis=0)
        self._center, self._spread, self._draws = (
            (cholesky_factor[-1, :-1] @ independent_draws)[is_below_earlier_critical],
            cholesky_factor[-1, -1],
            n_draws,
        )

    def exceedance_probability(self, critical_value: float) -> float:
        """Return the probability that the next test exceeds `critical_value` and no earlier test exceeds its critical
        value."""
        from scipy.special import ndtr

        return float(ndtr((self._center - critical_value) / self._spread).sum() / self._draws)

    def critical(self, level: float) -> float:
        """Return the critical value at which `exceedance_probability` is `level`; `LARGEST_Z` if the level is 0."""
        from scipy.optimize import brentq

        if self.exceedance_probability(LARGEST_Z) >= level:
            return LARGEST_Z
        if self.exceedance_probability(-LARGEST_Z) <= level:
            return -LARGEST_Z
        return float(brentq(lambda value: self.exceedance_probability(value) - level, -LARGEST_Z, LARGEST_Z, xtol=1e-4))


def next_level(level: float, spent_levels: Sequence[float]) -> float:
    """Return the level of the next test, given the level of the whole path and the levels that earlier tests spent.

    A binomial test spends less than its level, because counts are whole numbers. Each later test may spend a part of
    the unspent level. After a merge of two branches, earlier tests may have spent more than the spending function
    allows. The level is then 0 until the spending function allows more than was spent.

    >>> round(next_level(0.04, []), 4), round(next_level(0.04, [0.0243]), 4), next_level(0.04, [0.03, 0.03])
    (0.0243, 0.0061, 0.0)
    """
    *earlier_levels, own_level = (level * spending_share(position) for position in range(1, len(spent_levels) + 2))
    unspent_level = sum(earlier_levels) - sum(spent_levels)
    return max(0.0, own_level + (REST_USED * unspent_level if unspent_level > 0 else unspent_level))


def proportion_z(successes: float | Ints, trials: float, threshold: float) -> Floats:
    """Return the normal scores (...) of exact binomial tests of proportions against a threshold.

    The counts `successes` (...) and `trials` may be fractions.

    >>> proportion_z(177, 200, 0.8).round(2).item()
    3.09
    """
    from scipy.special import betainc, ndtri

    tail_probability = np.where(np.less_equal(successes, 0), 1.0, betainc(successes, trials - successes + 1, threshold))
    return np.clip(-ndtri(tail_probability), -LARGEST_Z, LARGEST_Z)


def posterior_z(draws: Floats, threshold: float, bounds: tuple[float, float]) -> float:
    """Return the distance between the mean of posterior draws and a threshold, in standard deviations of the draws.

    Draws and threshold are on the logit scale that maps `bounds`, the smallest and largest possible values of the
    statistic, to minus and plus infinity.
    """

    def logit(statistic_values: Floats) -> Floats:
        unit_interval_values = np.clip((statistic_values - bounds[0]) / (bounds[1] - bounds[0]), 1e-9, 1 - 1e-9)
        return np.log(unit_interval_values / (1 - unit_interval_values))

    logit_draws = logit(draws)
    return float((logit_draws.mean() - logit(np.array(threshold))) / logit_draws.std())


class Precision(NamedTuple):
    """Precision of a test of a `threshold`.

    A binomial test has a number of `trials`; any other test has the standard `error` of its statistic. If `whole` is
    true, counts are whole numbers, so that the binomial test is discrete.
    """

    threshold: float
    trials: float = 0.0
    error: float = 0.0
    whole: bool = False

    def with_labels(self, label_factor: float) -> Precision:
        """Return the precision with `label_factor` times as many labels."""
        return self._replace(trials=float(round(self.trials * label_factor)), error=self.error / label_factor**0.5)

    def effective_critical(self, critical: float) -> float:
        """Return the effective critical value of a test.

        If the test is discrete, the result is the smallest possible statistic above `critical`, less a tolerance for
        rounding errors.
        """
        if not self.whole:
            return critical
        return float(min((z for z in self._scores() if z > critical), default=LARGEST_Z) - 1e-9)

    def power(self, gain: float, critical: float) -> float:
        """Return the probability that the statistic exceeds `critical` if the true value is the threshold plus `gain`.

        >>> round(Precision(0.8, trials=200, whole=True).power(0.09, 1.96), 2)
        0.93
        """
        from scipy.special import betainc, ndtr

        if not self.trials:
            return float(ndtr(gain / self.error - critical)) if self.error else 0.0
        n_trials = round(self.trials)
        crossing_success_counts = 1 + np.flatnonzero(self._scores() > critical)
        return (
            float(betainc(crossing_success_counts[0], n_trials - crossing_success_counts[0] + 1, self.threshold + gain))
            if len(crossing_success_counts)
            else 0.0
        )

    def _scores(self) -> Floats:
        """Return the normal scores of 1, 2, ... `trials` successes."""
        n_trials = round(self.trials)
        return proportion_z(np.arange(1, n_trials + 1), n_trials, self.threshold)
