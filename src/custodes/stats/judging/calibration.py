"""Calibration of a judge's probabilities: Brier score, calibration error, and a test of over-confidence."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import few_clusters
from custodes.stats.intervals import Inference, student_inference, wilson_interval
from custodes.stats.judging.bias_tests import NOTHING
from custodes.stats.ratios import ratio

MOST_BINS = 10
LEAST_OF_BIN = 30
"""Approximate minimum number of verdicts in a bin. With fewer than twice this number, all verdicts are in one bin."""
LEVEL = 1e-9
"""Probabilities that differ by less than this value count as equal."""


def brier(probabilities: Floats, outcomes: Ints) -> Floats:
    """Brier score of each forecast, from 0 to 2: probabilities (n, k) of outcomes, observed outcomes (n,) -> (n,).

    The score is the sum of squared errors of the probabilities.

    >>> brier(np.array([[0.7, 0.1, 0.2]]), np.array([0])).round(2).tolist()
    [0.14]

    Source: Brier 1950, "Verification of forecasts expressed in terms of probability".
    """
    return np.asarray(((probabilities - np.eye(probabilities.shape[1])[outcomes]) ** 2).sum(axis=1))


def constant_forecast(outcomes: Ints) -> Floats:
    """A constant forecast (3,): probabilities that the first system wins, that both tie, and that the second system
    wins.

    `outcomes` (n,) is 0, 1 or 2 in the same order. The probability of a tie is the proportion of ties. Each system wins
    with half of the remaining probability, so that the order of the systems has no effect.

    >>> constant_forecast(np.array([0, 0, 1, 2])).tolist()
    [0.375, 0.25, 0.375]
    """
    tie_proportion = float(np.mean(outcomes == 1))
    return np.array([(1 - tie_proportion) / 2, tie_proportion, (1 - tie_proportion) / 2])


def confidence_and_correctness(probabilities: Floats, outcomes: Ints) -> tuple[Floats, Floats]:
    """Confidence and correctness of each verdict: probabilities (n, k), outcomes (n,) -> (n,) each.

    Confidence is the probability of the most likely outcome. Correctness is 1 if this outcome occurred, else 0. If k
    outcomes tie as the most likely ones, correctness is 1 / k if one of the k occurred, else 0.

    >>> confidence_and_correctness(np.array([[0.7, 0.1, 0.2], [0.4, 0.2, 0.4]]), np.array([0, 2]))
    (array([0.7, 0.4]), array([1. , 0.5]))
    """
    highest_probability = probabilities.max(axis=1)
    is_most_likely_outcome = probabilities >= highest_probability[:, None] - LEVEL
    return highest_probability, is_most_likely_outcome[np.arange(len(outcomes)), outcomes] / is_most_likely_outcome.sum(
        axis=1
    )


def bins_of(verdict_confidences: Floats) -> Ints:
    """Bin of each confidence (n,), numbered from 0. There are at most ten bins.

    Bins have similar numbers of verdicts, about thirty or more. With fewer than sixty verdicts, there is one bin.

    >>> bins_of(np.repeat([0.5, 0.9], 30)).tolist() == [0] * 30 + [1] * 30
    True
    """
    n_bins = int(np.clip(len(verdict_confidences) // LEAST_OF_BIN, 1, MOST_BINS))
    cut_points = np.unique(np.quantile(verdict_confidences, np.arange(1, n_bins) / n_bins))
    return np.unique(np.searchsorted(cut_points - LEVEL, verdict_confidences, side="right"), return_inverse=True)[1]


def share_by_bin(
    correctness: Floats, bin_of_verdict: Ints, *, units: Ints, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Mean correctness (`correctness`, (n,)) in each bin with Wilson bounds, (bins,) each.

    The number of verdicts is divided by the design effect of the clusters in `units`. In a bin with only correct or
    only wrong verdicts, each cluster counts as one verdict.

    >>> result = share_by_bin(np.ones(30), np.zeros(30, dtype=int), units=np.arange(30), confidence=0.95)
    >>> [round(float(values[0]), 2) for values in result]
    [1.0, 0.89, 1.0]

    Source: Wilson 1927; the effective number by the ratio of variances: Kish 1965.
    """
    from scipy.special import ndtri

    n_verdicts_of_bin = np.bincount(bin_of_verdict).astype(np.float64)
    mean_correctness_of_bin = np.bincount(bin_of_verdict, weights=correctness) / n_verdicts_of_bin
    n_clusters_of_bin, residual_square_sum_of_bin = _cluster_square_sums(
        correctness - mean_correctness_of_bin[bin_of_verdict], bin_of_verdict, units
    )
    clustered_variance_of_bin = residual_square_sum_of_bin * n_clusters_of_bin / np.maximum(n_clusters_of_bin - 1, 1)
    design_effect = np.maximum(
        ratio(clustered_variance_of_bin, n_verdicts_of_bin * mean_correctness_of_bin * (1 - mean_correctness_of_bin)),
        1.0,
    )
    effective_n = np.where(np.isnan(design_effect), n_clusters_of_bin, n_verdicts_of_bin / design_effect)
    normal_quantile = float(ndtri((1 + confidence) / 2))
    return mean_correctness_of_bin, *wilson_interval(mean_correctness_of_bin, effective_n, quantile=normal_quantile)


def _cluster_square_sums(residuals: Floats, bin_of_verdict: Ints, units: Ints) -> tuple[Ints, Floats]:
    """Number of clusters in each bin, and the sum over these clusters of the squared sum of residuals, (bins,) each."""
    (bin_of_cell, _), cell_of_verdict = np.unique(np.stack([bin_of_verdict, units]), axis=1, return_inverse=True)
    residual_sum_of_cell = np.bincount(cell_of_verdict, weights=residuals)
    return np.bincount(bin_of_cell), np.bincount(bin_of_cell, weights=residual_sum_of_cell**2).astype(np.float64)


def correct_count_variance(probabilities: Floats, comparisons: Ints) -> float:
    """Variance of the number of verdicts whose most likely outcome occurs, if the probabilities (n, k) are calibrated.

    Verdicts on the same comparison (`comparisons`, (n,)) share one outcome. The probability of the shared outcome is
    the mean probability over these verdicts.

    >>> two = np.array([[0.9, 0.0, 0.1], [0.9, 0.0, 0.1]])
    >>> [round(correct_count_variance(two, np.array(comparisons)), 2) for comparisons in ([0, 1], [0, 0])]
    [0.18, 0.36]

    Source: Spiegelhalter 1986, "Probabilistic prediction in patient management and clinical trials"; the case of
    several verdicts on one outcome was developed for custodes.
    """
    _, comparison_of_verdict = np.unique(comparisons, return_inverse=True)
    correctness_by_outcome = np.stack(
        [
            confidence_and_correctness(probabilities, np.full(len(probabilities), outcome))[1]
            for outcome in range(probabilities.shape[1])
        ],
        axis=1,
    )
    probability_sums_by_comparison, correctness_sums_by_comparison = (
        unit_sums(verdict_values.T, units=comparison_of_verdict, n_units=int(comparison_of_verdict.max()) + 1).T
        for verdict_values in (probabilities, correctness_by_outcome)
    )
    mean_probabilities_by_comparison = probability_sums_by_comparison / np.bincount(comparison_of_verdict)[:, None]
    return float(
        (
            (mean_probabilities_by_comparison * correctness_sums_by_comparison**2).sum(axis=1)
            - (mean_probabilities_by_comparison * correctness_sums_by_comparison).sum(axis=1) ** 2
        ).sum()
    )


def estimate_overconfidence(
    verdict_confidences: Floats, correctness: Floats, *, least_variance: float, units: Ints, confidence: float
) -> Inference:
    """Mean of `verdict_confidences` (n,) minus mean of `correctness` (n,), with a test of equality.

    The test uses Student's t, with clusters `units`. The variance of the number of correct verdicts is the larger of
    two values: `least_variance`, which the probabilities imply, and the estimate over clusters, with the factor of
    `few_clusters`. The test therefore accounts for errors that the verdicts of a cluster have in common.

    >>> right, units = np.repeat([1.0, 0.0], 50), np.arange(100)
    >>> result = estimate_overconfidence(np.full(100, 0.9), right, least_variance=9.0, units=units, confidence=0.95)
    >>> round(result.estimate.item(), 3), result.p_value.item() < 0.001
    (0.4, True)

    Source: developed for custodes, with the variance of `correct_count_variance`.
    """
    mean_overconfidence = float(np.mean(verdict_confidences - correctness))
    residual_sum_of_cluster = np.bincount(units, weights=verdict_confidences - correctness - mean_overconfidence)
    n_clusters = int((np.bincount(units) > 0).sum())
    count_variance = max(
        least_variance,
        float(
            few_clusters(np.array(n_clusters))
            * (residual_sum_of_cluster**2).sum()
            * n_clusters
            / max(1, n_clusters - 1)
        ),
    )
    if n_clusters < 2 or count_variance <= NOTHING:
        return Inference(np.asarray(mean_overconfidence), *[np.full((), np.nan)] * 3)
    standard_error = np.sqrt(count_variance) / len(verdict_confidences)
    return student_inference(mean_overconfidence, standard_error, n_units=n_clusters, confidence=confidence)


def expected_error(
    verdict_confidences: Floats, correctness: Floats, bin_of_verdict: Ints, *, units: Ints
) -> tuple[float, float]:
    """Expected calibration error, and its approximate expectation for calibrated probabilities.

    In each bin, take the absolute difference between the means of `correctness` and `verdict_confidences`. The expected
    calibration error is the mean of the differences of all bins, weighted by the number of verdicts in each bin.

    >>> sure, right = np.full(40, 0.75), np.repeat([1.0, 1.0, 1.0, 0.0], 10)
    >>> expected_error(sure, right, np.zeros(40, dtype=int), units=np.arange(40))[0]
    0.0

    Source: Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, "On calibration of modern neural networks". The
    expectation is approximated by the mean absolute value of a normal error.
    """
    n_verdicts_of_bin, overconfidence = np.bincount(bin_of_verdict), verdict_confidences - correctness
    mean_overconfidence_of_bin = ratio(np.bincount(bin_of_verdict, weights=overconfidence), n_verdicts_of_bin)
    binomial_variance_of_bin = np.bincount(bin_of_verdict, weights=verdict_confidences * (1 - verdict_confidences))
    _, clustered_variance_of_bin = _cluster_square_sums(
        overconfidence - mean_overconfidence_of_bin[bin_of_verdict], bin_of_verdict, units
    )
    expected_error_of_bin = (
        np.sqrt(np.maximum(binomial_variance_of_bin, clustered_variance_of_bin))
        / n_verdicts_of_bin
        * np.sqrt(2 / np.pi)
    )
    bin_weights = n_verdicts_of_bin / n_verdicts_of_bin.sum()
    return float(bin_weights @ np.abs(mean_overconfidence_of_bin)), float(bin_weights @ expected_error_of_bin)
