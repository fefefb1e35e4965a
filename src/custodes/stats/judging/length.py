"""Length bias: does a judge prefer the longer output more than annotators do?

Human verdicts are a noisy measure of quality. If quality is correlated with length, even a fair judge seems to prefer
length after adjustment for human verdicts, because human verdicts measure quality with errors. With two annotators,
quality is defined as what their verdicts have in common, and their agreement shows how noisy a verdict is (errors in
variables). With one annotator, only bounds can be computed. Correlations are those of the latent normal variables
behind verdicts (win, tie or loss). Latent correlations are used because judges and annotators may give ties with very
different frequencies. Their verdicts then depend on quality by curves of different shapes, but latent correlations do
not depend on these shapes. Correlations are computed within strata (pairs of systems), because quality over all pairs
has a mixture distribution, which is not normal.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks
from custodes.stats.bootstrap import with_point, without_block
from custodes.stats.intervals import Inference, student_inference
from custodes.stats.ranks import ranks_within
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import weighted_item_mean

GRID = 0.999 * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 129))  # denser where the correlation is high


def normal_scores(values: Floats, strata: Ints) -> Floats:
    """Normal scores (n,) of values (n,) within each stratum (n,), with mean 0 and variance 1; 0 if all values are
    equal.

    >>> normal_scores(np.array([2.0, -1.0, 0.5, 7.0, 7.0]), np.array([0, 0, 0, 1, 1])).round(2).tolist()
    [1.22, -1.22, 0.0, 0.0, 0.0]

    Source: van der Waerden 1952.
    """
    from scipy.special import ndtri

    stratum_sizes = np.bincount(strata)
    centred_scores = stratum_deviations(ndtri(ranks_within(values, strata) / (stratum_sizes[strata] + 1)), strata)
    stratum_sd_of_value = np.sqrt(np.bincount(strata, centred_scores**2) / np.maximum(stratum_sizes, 1))[strata]
    return np.where(stratum_sd_of_value > 1e-9, centred_scores / np.maximum(stratum_sd_of_value, 1e-9), 0.0)


def stratum_deviations(values: NDArray[Any], strata: Ints) -> Floats:
    """Values (n,) minus the mean of their stratum (n,).

    >>> stratum_deviations(np.array([1, 0, 1]), np.array([0, 0, 1])).tolist()
    [0.5, -0.5, 0.0]
    """
    return np.asarray(values - (np.bincount(strata, values) / np.maximum(np.bincount(strata), 1))[strata])


def cuts(verdicts: Signs, strata: Ints, n_strata: int) -> Floats:
    """Thresholds of a latent normal variable in each of n strata: (n, 2).

    The first threshold is between loss and tie, the second between tie and win. The thresholds are estimated from
    verdicts (m,) with their strata (m,). Half a verdict is added to each side, so that both thresholds are finite if
    one side always won.

    >>> cuts(np.array([1, 1, 0, -1], dtype=np.int8), np.zeros(4, dtype=int), 1).round(2).tolist()
    [[-0.52, 0.0]]
    """
    from scipy.special import ndtri

    n_losses, n_wins = (np.bincount(strata[verdicts == outcome], minlength=n_strata) for outcome in (-1, 1))
    n_verdicts = np.bincount(strata, minlength=n_strata)
    return np.asarray(ndtri(np.stack([n_losses + 0.5, n_verdicts - n_wins + 0.5], axis=1) / (n_verdicts + 1)[:, None]))


def polychoric_correlation(
    mean_products: NDArray[Any], first_thresholds: Floats, second_thresholds: Floats, *, stratum_weights: NDArray[Any]
) -> Floats:
    """Latent correlation of two raters' verdicts (1, 0, -1), common to all strata (polychoric).

    `mean_products` (...) is the mean product of the two verdicts, each centred within strata. `first_thresholds` and
    `second_thresholds` (strata, 2) are the thresholds of the two raters (see `cuts`). `stratum_weights` (strata,) is
    the number of verdicts per stratum.

    In one stratum without ties and with centred verdicts, the correlation is sin(pi/2 times the mean product). Mean
    products are clipped to the value that corresponds to a correlation of .999.

    >>> middle = np.zeros((1, 2))
    >>> polychoric_correlation(np.array([1 / 3, -1 / 3]), middle, middle, stratum_weights=np.ones(1)).round(4).tolist()
    [0.5, -0.5]

    Source: Pearson 1900 (tetrachoric), Olsson 1979 (polychoric correlations); Plackett 1954 for the derivative of the
    bivariate normal integral.
    """
    residual_variances = 1 - GRID**2
    grid_densities = np.zeros(len(GRID))
    for stratum_slice in chunks(len(stratum_weights), len(GRID)):
        for first_threshold in first_thresholds[stratum_slice].T[..., None]:
            for second_threshold in second_thresholds[stratum_slice].T[..., None]:
                grid_densities += stratum_weights[stratum_slice] @ np.exp(
                    -(first_threshold**2 + second_threshold**2 - 2 * GRID * first_threshold * second_threshold)
                    / (2 * residual_variances)
                )
    # An integral over the angle, for which the density stays bounded.
    grid_densities /= 2 * np.pi * np.maximum(stratum_weights.sum(), 1e-12)
    angle_steps = np.diff(np.arcsin(GRID))
    grid_products = np.concatenate([[0.0], np.cumsum(angle_steps * (grid_densities[1:] + grid_densities[:-1]) / 2)])
    return np.asarray(np.interp(mean_products, grid_products - grid_products[(len(GRID) - 1) // 2], GRID))


def polyserial_correlation(mean_products: NDArray[Any], thresholds: Floats, *, stratum_weights: NDArray[Any]) -> Floats:
    """Polyserial correlation between the latent variable behind verdicts and a score.

    The score is standard normal in each stratum. `mean_products` (...) is the mean product of verdict and score.
    `thresholds` (strata, 2) are the thresholds of the verdicts (see `cuts`), and `stratum_weights` (strata,) is the
    number of verdicts per stratum.

    >>> product = np.array([np.sqrt(2 / np.pi) / 2])
    >>> polyserial_correlation(product, np.zeros((1, 2)), stratum_weights=np.ones(1)).round(4).tolist()
    [0.5]

    Source: Pearson 1909 (biserial correlation), with two thresholds.
    """
    # The mean product of a verdict and its latent variable is the sum of the normal densities at both thresholds.
    densities = np.exp(-(thresholds**2) / 2).sum(axis=-1) / np.sqrt(2 * np.pi)
    correlations = ratio(np.asarray(mean_products) * stratum_weights.sum(), stratum_weights @ densities)
    return np.asarray(np.clip(correlations, -0.999, 0.999))


BLOCKS = 200
NO_INFERENCE = Inference(*np.full(4, np.nan))
LEAST_AGREEMENT = 0.05
"""Minimum latent correlation of two annotators, adjusted for length. If the correlation is lower, the human verdicts do
not count as a measure of quality."""

LEAST_OF_STRATUM = 10
"""Minimum number of comparisons from which means and thresholds of a pair of systems are estimated."""

LEAST_WON = 0.1
"""Each of the two systems of a pair must win at least this proportion of the verdicts on the pair. A system may win
fewer verdicts, for example because nearly all verdicts are ties. Coarse ratings then hide differences in quality
(ceiling effect), and latent normality does not hold."""

MODEL_ERROR = 0.016
"""Standard deviation, in simulations, of the effect that non-normal quality (coarse ratings) has on a fair judge:
about one point of margin. This value is combined with the standard error. Without this value, the effect would be
significant if there are many comparisons."""


def length_bias(
    judge_verdicts: Signs,
    human_verdicts: Signs,
    log_length_ratios: Floats,
    *,
    strata: Ints,
    units: Ints,
    confidence: float,
) -> Inference:
    """Test whether a judge's preference for length exceeds what quality, as rated by annotators, explains.

    `judge_verdicts` (n,) and `human_verdicts` (annotators, n) are verdicts on comparisons: 1, 0, -1 or absent.
    `log_length_ratios` (n,) is the log ratio of lengths, NaN if unknown. `strata` (n,) are the pairs of systems, and
    `units` (n,) are the clusters. Only informative strata are used (`is_in_informative_stratum`).

    Let R be the latent correlations within strata, where y is the judge, h and h' are two annotators, and L is length.
    A fair judge has R_yL R_hh' = R_yh R_h'L, because all dependence is through quality. The difference between the two
    products is tested by Student's t, for all pairs of annotators jointly. The standard error of the difference
    combines the jackknife over clusters with `MODEL_ERROR`. The estimate is the difference on the scale of a
    correlation.

    With one annotator, R_hh' is unknown, and the estimate assumes an annotator without noise. The interval is the
    widest, and the p-value the largest, over all possible values of R_hh'. The p-value is NaN if the sign of the
    difference depends on R_hh'. All values are NaN if annotators hardly agree.

    >>> rng = np.random.default_rng(0)
    >>> quality, length = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=900).T
    >>> people = np.sign(quality + rng.normal(size=(3, 900))).astype(np.int8)
    >>> fair = np.sign(quality + rng.normal(size=900)).astype(np.int8)
    >>> biased = np.sign(quality + length + rng.normal(size=900)).astype(np.int8)
    >>> result = [length_bias(judge, people, length,
    ...                     strata=np.arange(900) % 3, units=np.arange(900), confidence=0.95)
    ...         for judge in (fair, biased)]
    >>> [(f"{abs(r.estimate):.1f}", bool(r.p_value < 0.001)) for r in result]
    [('0.0', False), ('0.5', True)]

    Source: developed for custodes. Vanishing tetrads: Spearman 1904; bounds with one annotator: Klepper and Leamer
    1984.
    """
    is_informative_comparison = is_in_informative_stratum(
        (judge_verdicts != ABSENT) & np.isfinite(log_length_ratios), judge_verdicts, human_verdicts, strata
    )
    informative_clusters, units = np.unique(units[is_informative_comparison], return_inverse=True)
    _, strata = np.unique(strata[is_informative_comparison], return_inverse=True)
    human_verdicts = human_verdicts[:, is_informative_comparison]
    human_verdicts = human_verdicts[(human_verdicts != ABSENT).any(axis=1)]
    if len(informative_clusters) < 2 or not len(human_verdicts):
        return NO_INFERENCE
    jackknife_weights, _ = without_block(len(informative_clusters), most=BLOCKS)
    correlations = _LatentCorrelations.from_verdicts(
        judge_verdicts[is_informative_comparison],
        human_verdicts,
        log_length_ratios[is_informative_comparison],
        strata=strata,
        units=units,
        weights=with_point(jackknife_weights),
    )
    if len(human_verdicts) < 2:
        return _bound_length_bias(correlations, confidence)

    def mean_over_pairs(pair_values: Floats) -> Floats:
        return ratio((pair_values * correlations.weight).sum(axis=1), correlations.weight.sum())

    mean_annotator_correlation = mean_over_pairs(correlations.human_human)
    mean_crossed_correlation = mean_over_pairs(correlations.crossed)
    length_adjusted_agreement = float(mean_annotator_correlation[0] - mean_over_pairs(correlations.length_products)[0])
    tetrad_differences = correlations.judge_length * mean_annotator_correlation - mean_crossed_correlation
    standard_error = _jackknife_error(tetrad_differences)
    if not (length_adjusted_agreement > LEAST_AGREEMENT and standard_error > 0):
        return NO_INFERENCE
    return student_inference(
        float(tetrad_differences[0]) / length_adjusted_agreement,
        float(np.hypot(standard_error / length_adjusted_agreement, MODEL_ERROR)),
        n_units=len(jackknife_weights),
        confidence=confidence,
    )


def is_in_informative_stratum(is_candidate: Bools, judge_verdicts: Signs, human_verdicts: Signs, strata: Ints) -> Bools:
    """Mask (n,) of the comparisons in `is_candidate` that have human verdicts and lie in informative strata.

    A stratum is informative if it has at least `LEAST_OF_STRATUM` comparisons, and if each side won often enough. Each
    side must have won at least the proportion `LEAST_WON` of the judge's verdicts and of the human verdicts.

    >>> judge = np.array([1, -1] * 6, dtype=np.int8)
    >>> int(is_in_informative_stratum(judge != 0, judge, judge[None], np.repeat([0, 1], [2, 10])).sum())
    10
    """
    is_candidate = is_candidate & (human_verdicts != ABSENT).any(axis=0)
    _, stratum_of_comparison = np.unique(strata, return_inverse=True)

    def count(is_counted: Bools) -> Ints:
        return np.bincount(stratum_of_comparison, np.atleast_2d(is_counted & is_candidate).sum(axis=0))

    is_informative_stratum = count(is_candidate) >= LEAST_OF_STRATUM
    for rater_verdicts in (judge_verdicts, human_verdicts):
        is_informative_stratum &= np.minimum(
            count(rater_verdicts == 1), count(rater_verdicts == -1)
        ) >= LEAST_WON * count(rater_verdicts != ABSENT)
    return np.asarray(is_candidate & is_informative_stratum[stratum_of_comparison])


def _bound_length_bias(correlations: _LatentCorrelations, confidence: float) -> Inference:
    """Result with one annotator. One bound assumes an annotator without noise, the other bound assumes a judge without
    noise."""
    judge_length_correlation, human_length_correlation = correlations.judge_length, correlations.human_length
    judge_human_correlation = correlations.judge_human[:, 0]
    judge_human_partial_correlation = (
        judge_human_correlation - judge_length_correlation * human_length_correlation
    ) / np.sqrt((1 - judge_length_correlation**2) * (1 - human_length_correlation**2))
    # lower bound of the reliability of a human verdict
    least_reliability = human_length_correlation**2 + judge_human_partial_correlation**2 * (
        1 - human_length_correlation**2
    )
    excess_by_reliability = [
        (judge_length_correlation * reliabilities - judge_human_correlation * human_length_correlation)
        / (1.0 - human_length_correlation[0] ** 2)
        for reliabilities in (np.ones_like(least_reliability), least_reliability)
    ]
    least_noise_result, most_noise_result = (
        student_inference(
            excess[0],
            float(np.hypot(_jackknife_error(excess), MODEL_ERROR)),
            n_units=len(judge_length_correlation) - 1,
            confidence=confidence,
        )
        for excess in excess_by_reliability
    )
    has_same_sign = least_noise_result.estimate * most_noise_result.estimate > 0
    return Inference(
        least_noise_result.estimate,
        np.minimum(least_noise_result.low, most_noise_result.low),
        np.maximum(least_noise_result.high, most_noise_result.high),
        np.where(has_same_sign, np.maximum(least_noise_result.p_value, most_noise_result.p_value), np.nan),
    )


def _jackknife_error(estimates: Floats) -> float:
    """Jackknife standard error of the first value. Each further value is computed without one block."""
    block_estimates = estimates[1:]
    return float(np.sqrt((len(block_estimates) - 1) * block_estimates.var()))


class _LatentCorrelations(NamedTuple):
    """Latent correlations of verdicts with length in every resample (R,): for the judge, and for all annotators.

    `judge_human` (R, annotators) is the correlation of the judge with each annotator. The remaining fields are for
    pairs of annotators with shared comparisons in every resample: `human_human` (R, pairs) is the correlation of
    the two annotators. `crossed` (R, pairs) is the correlation of the judge with one annotator times the
    correlation of length with the second annotator, averaged over both orders. `length_products` (R, pairs) is the
    product of the correlations of both annotators with length. `weight` (pairs,) is the number of shared
    comparisons.
    """

    judge_length: Floats
    human_length: Floats
    judge_human: Floats
    human_human: Floats
    crossed: Floats
    length_products: Floats
    weight: Floats

    @classmethod
    def from_verdicts(
        cls,
        judge_verdicts: Signs,
        human_verdicts: Signs,
        log_length_ratios: Floats,
        *,
        strata: Ints,
        units: Ints,
        weights: Floats,
    ) -> _LatentCorrelations:
        verdicts_by_rater = np.concatenate([judge_verdicts[np.newaxis], human_verdicts])  # the judge, then annotators
        has_verdict = verdicts_by_rater != ABSENT
        n_annotators, n_strata = len(human_verdicts), int(strata.max()) + 1
        deviations, thresholds_by_rater = np.zeros(verdicts_by_rater.shape), []
        for rater, is_rated in enumerate(has_verdict):
            verdicts = verdicts_by_rater[rater, is_rated]
            deviations[rater, is_rated] = stratum_deviations(verdicts, strata[is_rated])
            thresholds_by_rater.append(cuts(verdicts, strata[is_rated], n_strata))

        def resampled_mean(values: Floats, is_present: Bools) -> Floats:
            return weighted_item_mean(np.where(is_present, values, np.nan), units=units, weights=weights)

        def stratum_sizes(is_present: Bools) -> Ints:
            return np.bincount(strata[is_present], minlength=n_strata)

        mean_length_products = resampled_mean(deviations * normal_scores(log_length_ratios, strata), has_verdict)
        length_correlations = np.stack(
            [
                polyserial_correlation(mean_products, thresholds, stratum_weights=stratum_sizes(is_rated))
                for mean_products, thresholds, is_rated in zip(
                    mean_length_products.T, thresholds_by_rater, has_verdict, strict=True
                )
            ],
            axis=1,
        )
        # The judge with each annotator, then the pairs of annotators.
        rater_pairs = np.array(list(combinations(range(1 + n_annotators), 2)))
        has_both_verdicts = has_verdict[rater_pairs].all(axis=1)
        mean_verdict_products = resampled_mean(deviations[rater_pairs].prod(axis=1), has_both_verdicts)
        verdict_correlations = np.stack(
            [
                polychoric_correlation(
                    mean_products,
                    *(thresholds_by_rater[rater] for rater in pair),
                    stratum_weights=stratum_sizes(is_rated_by_both),
                )
                for mean_products, pair, is_rated_by_both in zip(
                    mean_verdict_products.T, rater_pairs, has_both_verdicts, strict=True
                )
            ],
            axis=1,
        )
        judge_human, human_human = np.split(verdict_correlations, [n_annotators], axis=1)
        judge_length, human_length = length_correlations[:, 0], length_correlations[:, 1:]
        is_defined_pair = np.isfinite(mean_verdict_products[:, n_annotators:]).all(axis=0)
        first_annotators, second_annotators = rater_pairs[n_annotators:][is_defined_pair].T - 1
        doubled_crossed_products = (
            judge_human[:, first_annotators] * human_length[:, second_annotators]
            + judge_human[:, second_annotators] * human_length[:, first_annotators]
        )
        n_verdicts = has_verdict[1:].sum(axis=1)
        return cls(
            judge_length=judge_length,
            human_length=np.asarray(human_length @ n_verdicts / n_verdicts.sum()),
            judge_human=judge_human,
            human_human=human_human[:, is_defined_pair],
            crossed=doubled_crossed_products / 2,
            length_products=human_length[:, first_annotators] * human_length[:, second_annotators],
            weight=has_both_verdicts[n_annotators:][is_defined_pair].sum(axis=1),
        )
