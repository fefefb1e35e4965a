"""Calibration of a judge's probabilities: Brier score, calibration error, and a test of over-confidence."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.clusters import few_clusters
from custodes.stats.intervals import wilson_interval
from custodes.stats.judging.bias_tests import NOTHING, BiasTest
from custodes.stats.ratios import ratio

MOST_BINS = 10
LEAST_OF_BIN = 30
"""Minimum number of verdicts in a bin, if there are enough verdicts."""
LEVEL = 1e-9
"""Probabilities that differ by less than this value count as equal."""


def brier(chances: Floats, outcome: Ints) -> Floats:
    """Brier score of each forecast, from 0 to 2: probabilities (n, k) of outcomes, observed outcomes (n,) -> (n,).

    The score is the sum of squared errors of the probabilities.

    >>> brier(np.array([[0.7, 0.1, 0.2]]), np.array([0])).round(2).tolist()
    [0.14]

    Source: Brier 1950, "Verification of forecasts expressed in terms of probability".
    """
    came = np.eye(chances.shape[1])[outcome]
    return np.asarray(((chances - came) ** 2).sum(axis=1))


def constant_forecast(outcome: Ints) -> Floats:
    """A constant forecast (3,): probabilities that the first system wins, that both tie, and that the second system
    wins.

    `outcome` (n,) is 0, 1 or 2 in the same order. The probability of a tie is the proportion of ties. Each system wins
    with half of the remaining probability, so that the order of the systems has no effect.

    >>> constant_forecast(np.array([0, 0, 1, 2])).tolist()
    [0.375, 0.25, 0.375]
    """
    ties = float(np.mean(outcome == 1)) if len(outcome) else np.nan
    return np.array([(1 - ties) / 2, ties, (1 - ties) / 2])


def confidence_and_correctness(chances: Floats, outcome: Ints) -> tuple[Floats, Floats]:
    """Confidence and correctness of each verdict: probabilities (n, k), outcomes (n,) -> (n,) each.

    Confidence is the probability of the most likely outcome. Correctness is 1 if this outcome occurred, else 0. If
    several outcomes are most likely, correctness is 1 divided by their number if one of them occurred.

    >>> confidence_and_correctness(np.array([[0.7, 0.1, 0.2], [0.4, 0.2, 0.4]]), np.array([0, 2]))
    (array([0.7, 0.4]), array([1. , 0.5]))
    """
    most = chances.max(axis=1)
    best = chances >= most[:, None] - LEVEL
    return most, best[np.arange(len(outcome)), outcome] / best.sum(axis=1)


def bins_of(sure: Floats) -> Ints:
    """Bin of each confidence (n,), numbered from 0. There are at most ten bins.

    Bins have similar numbers of verdicts, at least thirty if there are enough verdicts.

    >>> bins_of(np.repeat([0.5, 0.9], 30)).tolist() == [0] * 30 + [1] * 30
    True
    """
    number = int(np.clip(len(sure) // LEAST_OF_BIN, 1, MOST_BINS))
    cuts = np.unique(np.quantile(sure, np.arange(1, number) / number)) if len(sure) else np.zeros(0)
    place = np.searchsorted(cuts - LEVEL, sure, side="right")
    return np.unique(place, return_inverse=True)[1].astype(np.int64)


def share_by_bin(right: Floats, bins: Ints, *, units: Ints, confidence: float) -> tuple[Floats, Floats, Floats]:
    """Mean of `right` (n,) in each bin with Wilson bounds, (bins,) each.

    The number of verdicts is divided by the design effect of the clusters in `units`. In a bin with only correct or
    only wrong verdicts, each cluster counts as one verdict.

    >>> result = share_by_bin(np.ones(30), np.zeros(30, dtype=int), units=np.arange(30), confidence=0.95)
    >>> [round(float(own[0]), 2) for own in result]
    [1.0, 0.89, 1.0]

    Source: Wilson 1927; the effective number by the ratio of variances: Kish 1965.
    """
    from scipy.special import ndtri

    number = np.bincount(bins).astype(np.float64)
    share = np.bincount(bins, weights=right) / number
    (place, _), cell = np.unique(np.stack([bins, units]), axis=1, return_inverse=True)
    sums = np.bincount(cell.ravel(), weights=right - share[bins])
    clusters = np.bincount(place)
    clustered = np.bincount(place, weights=sums**2) * clusters / np.maximum(clusters - 1, 1)
    effect = np.maximum(ratio(clustered, number * share * (1 - share)), 1.0)
    n = np.where(np.isnan(effect), clusters, number / effect)
    z = float(ndtri((1 + confidence) / 2))
    return share, *wilson_interval(share, n, quantile=z)


def correct_count_variance(chances: Floats, comparisons: Ints) -> float:
    """Variance of the number of verdicts whose most likely outcome occurs, if the probabilities (n, k) are calibrated.

    Verdicts on the same comparison (`comparisons`, (n,)) share one outcome. The probability of this outcome is the mean
    of the probabilities of these verdicts.

    >>> two = np.array([[0.9, 0.0, 0.1], [0.9, 0.0, 0.1]])
    >>> [round(correct_count_variance(two, np.array(comparisons)), 2) for comparisons in ([0, 1], [0, 0])]
    [0.18, 0.36]

    Source: Spiegelhalter 1986, "Probabilistic prediction in patient management and clinical trials"; several verdicts
    on one outcome are ours.
    """
    _, place = np.unique(comparisons, return_inverse=True)
    k = chances.shape[1]
    came = np.stack([confidence_and_correctness(chances, np.full(len(chances), j))[1] for j in range(k)], axis=1)
    total, credit = (
        np.stack([np.bincount(place, weights=outcomes[:, j]) for j in range(k)], axis=1) for outcomes in (chances, came)
    )
    chance = total / np.bincount(place)[:, None]
    return float(((chance * credit**2).sum(axis=1) - (chance * credit).sum(axis=1) ** 2).sum())


def estimate_overconfidence(
    sure: Floats, right: Floats, *, least_variance: float, units: Ints, confidence: float
) -> BiasTest:
    """Mean of `sure` (n,) minus mean of `right` (n,), with a test of whether this difference is 0.

    The test uses Student's t, with clusters `units`. The variance of the number of right verdicts is the larger of two
    values: `least_variance`, which the probabilities imply, and the estimate over clusters, with the factor of
    `few_clusters`. So shared errors within a cluster count.

    >>> right, units = np.repeat([1.0, 0.0], 50), np.arange(100)
    >>> result = estimate_overconfidence(np.full(100, 0.9), right, least_variance=9.0, units=units, confidence=0.95)
    >>> round(result.estimate.item(), 3), result.p_value.item() < 0.001
    (0.4, True)

    Source: ours, with the variance of `correct_count_variance`.
    """
    from scipy.special import stdtr, stdtrit

    n = len(sure)
    if not n:
        return BiasTest(*[np.full((), np.nan)] * 4)
    estimate = float(np.mean(sure - right))
    sums = np.bincount(units, weights=sure - right - estimate)
    clusters = int((np.bincount(units) > 0).sum())
    variance = max(
        least_variance, float(few_clusters(np.array(clusters)) * (sums**2).sum() * clusters / max(1, clusters - 1))
    )
    if clusters < 2 or variance <= NOTHING:
        return BiasTest(np.asarray(estimate), *[np.full((), np.nan)] * 3)
    error = np.sqrt(variance) / n
    half = float(stdtrit(clusters - 1, (1 + confidence) / 2)) * error
    low, high, p_value = estimate - half, estimate + half, 2 * stdtr(clusters - 1, -abs(estimate) / error)
    return BiasTest(*(np.asarray(number, dtype=np.float64) for number in (estimate, low, high, p_value)))


def expected_error(sure: Floats, right: Floats, bins: Ints, *, units: Ints) -> tuple[float, float]:
    """Expected calibration error, and its approximate expectation for calibrated probabilities.

    In each bin, take the absolute difference between the mean of `right` and the mean of `sure`. The error is the mean
    of these differences, weighted by the number of verdicts in each bin.

    >>> sure, right = np.full(40, 0.75), np.repeat([1.0, 1.0, 1.0, 0.0], 10)
    >>> expected_error(sure, right, np.zeros(40, dtype=int), units=np.arange(40))[0]
    0.0

    Source: Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, "On calibration of modern neural networks".
    Expectation: mean absolute value of a normal error, ours.
    """
    number, surplus = np.bincount(bins), sure - right
    gap = ratio(np.bincount(bins, weights=surplus), number)
    binomial_variance = np.bincount(bins, weights=sure * (1 - sure))
    cells = np.unique(np.stack([bins, units]), axis=1, return_inverse=True)
    sums = np.bincount(cells[1].ravel(), weights=surplus - gap[bins])
    cluster_variance = np.bincount(cells[0][0], weights=sums**2, minlength=len(number))
    by_chance = np.sqrt(np.maximum(binomial_variance, cluster_variance)) / number * np.sqrt(2 / np.pi)
    share = number / number.sum()
    return float(share @ np.abs(gap)), float(share @ by_chance)
