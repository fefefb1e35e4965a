"""Length bias: does a judge prefer the longer output more than annotators do?

Human verdicts are a noisy measure of quality. If quality is correlated with length, a fair judge seems to prefer length
even after adjustment for human verdicts, because these measure quality only imperfectly. Two annotators solve this
problem. Quality is defined as their common part, so their agreement shows the proportion of noise in a verdict (errors
in variables). With one annotator, only bounds can be computed. Correlations are on the latent scale (see `latent`), so
that a judge may be more or less decisive than annotators. They are computed within pairs of systems, because quality
over all pairs has a mixture distribution, which is not normal.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs
from custodes.stats.bootstrap import with_point, without_block
from custodes.stats.intervals import student_quantile
from custodes.stats.judging.latent import (
    cuts,
    normal_scores,
    polychoric_correlation,
    polyserial_correlation,
    stratum_deviations,
)
from custodes.stats.logistic import first_coefficient
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import weighted_item_mean

BLOCKS = 200
LEAST_AGREEMENT = 0.05
"""Minimum latent correlation of two annotators, adjusted for length. Below it, they do not count as measuring
quality."""

LEAST_OF_STRATUM = 10
"""Minimum number of comparisons of a pair of systems for estimating its means and thresholds."""

LEAST_WON = 0.1
"""Minimum proportion of the verdicts on a pair of systems that each of the two systems must win. With less, or with
nearly all ties, a ceiling of coarse ratings hides quality, and latent normality does not hold."""

MODEL_ERROR = 0.016
"""Standard deviation, in simulations, of the effect that non-normal quality (coarse ratings) has on a fair judge. It
is about one point of margin. It is added to the standard error; otherwise many comparisons would make this effect
significant."""


class LengthBias(NamedTuple):
    """Latent correlations of verdicts with log length, for a judge (`judge`) and for annotators (`people`).

    `excess` is the part of the judge's correlation that annotators do not explain, with interval and p-value.
    `identified` is whether the data determine the sign of the excess.
    """

    judge: float
    people: float
    excess: float
    low: float
    high: float
    p_value: float
    identified: bool

    @classmethod
    def unknown(cls) -> LengthBias:
        """A result with all values unknown."""
        nan = float("nan")
        return cls(nan, nan, nan, nan, nan, nan, identified=False)


def length_bias(
    judge: Signs, people: Signs, length: Floats, *, strata: Ints, units: Ints, confidence: float
) -> LengthBias:
    """Test whether a judge's preference for length exceeds what quality, as rated by annotators, explains.

    `judge` (n,) and `people` (annotators, n) are verdicts on comparisons: 1, 0, -1 or absent. `length` (n,) is the log
    ratio of lengths, NaN if unknown. `strata` (n,) are the pairs of systems, and `units` (n,) are the clusters. Only
    informative strata are used (`is_in_informative_stratum`).

    Let R be the latent correlations within strata, where y is the judge, h and h' are two annotators, and L is length.
    A fair judge has R_yL R_hh' = R_yh R_h'L, because all dependence is through quality. The difference between the two
    products is tested by Student's t, for all pairs of annotators jointly. Its standard error combines the jackknife
    over clusters with `MODEL_ERROR`. `excess` is the difference on the scale of a correlation.

    With one annotator, R_hh' is unknown. In this case `excess` assumes an annotator without noise. The interval and the
    p-value are the least favourable over all possible values of R_hh', and `identified` is False if the sign of the
    difference depends on this value.

    >>> rng = np.random.default_rng(0)
    >>> quality, length = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=900).T
    >>> people = np.sign(quality + rng.normal(size=(3, 900))).astype(np.int8)
    >>> fair = np.sign(quality + rng.normal(size=900)).astype(np.int8)
    >>> biased = np.sign(quality + length + rng.normal(size=900)).astype(np.int8)
    >>> result = [length_bias(own, people, length,
    ...                     strata=np.arange(900) % 3, units=np.arange(900), confidence=0.95)
    ...         for own in (fair, biased)]
    >>> [(f"{own.judge:.1f}", f"{abs(own.excess):.1f}", own.p_value < 0.001) for own in result]
    [('0.4', '0.0', False), ('0.8', '0.5', True)]

    Source: ours. Vanishing tetrads: Spearman 1904; bounds with one annotator: Klepper and Leamer 1984.
    """
    is_rated = people != ABSENT
    is_used = is_in_informative_stratum((judge != ABSENT) & np.isfinite(length), judge, people, strata)
    names, units = np.unique(units[is_used], return_inverse=True)
    _, strata = np.unique(strata[is_used], return_inverse=True)
    used_ratings = is_rated[:, is_used]
    people = people[:, is_used][used_ratings.any(axis=1)]
    if len(names) < 2 or not len(people):
        return LengthBias.unknown()
    jackknife_weights, _ = without_block(len(names), most=BLOCKS)
    moments = _Moments.from_verdicts(
        judge[is_used], people, length[is_used], strata=strata, units=units, weights=with_point(jackknife_weights)
    )
    quantile = student_quantile(confidence, len(jackknife_weights))
    judge_correlation, people_correlation = float(moments.judge[0]), float(moments.people[0])
    if len(people) < 2:
        return _bound_length_bias(moments, quantile)
    annotator_agreement = ratio((moments.shared * moments.weight).sum(axis=1), moments.weight.sum(axis=1))
    correlation_product = ratio((moments.crossed * moments.weight).sum(axis=1), moments.weight.sum(axis=1))
    agree = float(
        annotator_agreement[0] - ratio((moments.bent * moments.weight).sum(axis=1), moments.weight.sum(axis=1))[0]
    )
    difference = moments.judge * annotator_agreement - correlation_product
    error = _jackknife(difference)
    if not (agree > LEAST_AGREEMENT and error > 0):
        return LengthBias(judge_correlation, people_correlation, np.nan, np.nan, np.nan, np.nan, identified=False)
    middle, error = float(difference[0]) / agree, float(np.hypot(error / agree, MODEL_ERROR))
    reach = quantile * error
    return LengthBias(
        judge_correlation,
        people_correlation,
        middle,
        middle - reach,
        middle + reach,
        _p_value(middle / error, len(jackknife_weights)),
        identified=True,
    )


def is_in_informative_stratum(used: Bools, judge: Signs, people: Signs, strata: Ints) -> Bools:
    """Mask (n,) of the comparisons in use that have human verdicts and lie in informative strata.

    A stratum is informative if it has at least `LEAST_OF_STRATUM` comparisons and each side won at least the proportion
    `LEAST_WON` of the verdicts of the judge, and also of the verdicts of the annotators.

    >>> judge = np.array([1, -1] * 6, dtype=np.int8)
    >>> int(is_in_informative_stratum(judge != 0, judge, judge[None], np.repeat([0, 1], [2, 10])).sum())
    10
    """
    used = used & (people != ABSENT).any(axis=0)
    _, stratum_index = np.unique(strata, return_inverse=True)

    def number(present: Bools) -> Ints:
        return np.bincount(stratum_index, np.atleast_2d(present & used).sum(axis=0))

    is_informative = number(used) >= LEAST_OF_STRATUM
    for verdicts in (judge, people):
        is_informative &= np.minimum(number(verdicts == 1), number(verdicts == -1)) >= LEAST_WON * number(
            verdicts != ABSENT
        )
    return np.asarray(used & is_informative[stratum_index])


def _bound_length_bias(moments: _Moments, quantile: float) -> LengthBias:
    """Result with one annotator. One bound assumes an annotator without noise, the other bound assumes a judge without
    noise."""
    judge, mine, both = moments.judge, moments.people, moments.agree[:, 0]
    spare = (1 - judge**2) * (1 - mine**2)
    partial = (both - judge * mine) / np.sqrt(spare)
    least = mine**2 + partial**2 * (1 - mine**2)  # lower bound of the reliability of a human verdict
    ends = [(judge * share - both * mine) / (1.0 - mine[0] ** 2) for share in (np.ones_like(least), least)]
    errors = [float(np.hypot(_jackknife(bound), MODEL_ERROR)) for bound in ends]
    reached = [
        (bound[0] - quantile * error, bound[0] + quantile * error) for bound, error in zip(ends, errors, strict=True)
    ]
    same_sign = bool(ends[0][0] * ends[1][0] > 0)
    p_value = max(_p_value(bound[0] / error, len(judge) - 1) for bound, error in zip(ends, errors, strict=True))
    low, high = min(low for low, _ in reached), max(high for _, high in reached)
    return LengthBias(judge[0], mine[0], ends[0][0], low, high, p_value if same_sign else np.nan, identified=same_sign)


def _jackknife(values: Floats) -> float:
    """Jackknife standard error of the first value. Each further value is computed without one block."""
    left = values[1:]
    return float(np.sqrt((len(left) - 1) * left.var()))


def _p_value(t: float, blocks: int) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(blocks - 1, -abs(t)))


class _Moments(NamedTuple):
    """Latent correlations in every resample (R,), of the judge and of all annotators with length.

    `agree` (R, annotators) is the correlation of the judge with each annotator. The remaining fields have shape (R,
    pairs of annotators). `shared` is the correlation of the two annotators. `crossed` is the correlation of the judge
    with one annotator times the correlation of length with the second annotator, averaged over both orders. `bent` is
    the product of the correlations of both annotators with length. `weight` is the number of shared comparisons.
    """

    judge: Floats
    people: Floats
    agree: Floats
    shared: Floats
    crossed: Floats
    bent: Floats
    weight: Floats

    @classmethod
    def from_verdicts(
        cls, judge: Signs, people: Signs, length: Floats, *, strata: Ints, units: Ints, weights: Floats
    ) -> _Moments:
        rated = people != ABSENT
        n = int(strata.max()) + 1
        pairs = list(combinations(range(len(people)), 2))
        first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        together = rated[first] & rated[second]
        scores, seen = normal_scores(length, strata), stratum_deviations(judge, strata)
        verdicts = np.zeros(people.shape)
        for j, rows in enumerate(rated):
            verdicts[j, rows] = stratum_deviations(people[j, rows], strata[rows])

        def mean(values: Floats, present: Bools) -> Floats:
            return weighted_item_mean(np.where(present, values, np.nan), units=units, weights=weights)

        def sizes(present: Bools) -> Ints:
            return np.bincount(strata[present], minlength=n)

        judge_cuts = cuts(judge, strata, n)
        people_cuts = [cuts(people[j, present], strata[present], n) for j, present in enumerate(rated)]
        everywhere = np.ones(len(judge), dtype=np.bool_)
        long = mean(seen * scores, everywhere)
        agree, liked = mean(verdicts * seen, rated), mean(verdicts * scores, rated)
        with_judge = np.stack(
            [
                polychoric_correlation(agree[:, j], judge_cuts, cut, weight=sizes(rated[j]))
                for j, cut in enumerate(people_cuts)
            ],
            axis=1,
        )
        with_length = np.stack(
            [polyserial_correlation(liked[:, j], cut, weight=sizes(rated[j])) for j, cut in enumerate(people_cuts)],
            axis=1,
        )
        shared = mean(verdicts[first] * verdicts[second], together) if pairs else np.empty((len(weights), 0))
        number = np.broadcast_to(together.sum(axis=1, dtype=np.float64), shared.shape)
        between = [
            polychoric_correlation(shared[:, k], people_cuts[i], people_cuts[j], weight=sizes(together[k]))
            for k, (i, j) in enumerate(pairs)
        ]
        turned = with_judge[:, first] * with_length[:, second] + with_judge[:, second] * with_length[:, first]
        defined = np.isfinite(shared).all(axis=0)
        return cls(
            judge=polyserial_correlation(long, judge_cuts, weight=sizes(everywhere)),
            people=np.asarray(with_length @ rated.sum(axis=1) / rated.sum()),
            agree=with_judge,
            shared=np.where(defined, np.stack(between, axis=1) if pairs else shared, 0.0),
            crossed=np.where(defined, turned / 2, 0.0),
            bent=np.where(defined, with_length[:, first] * with_length[:, second], 0.0),
            weight=number * defined,
        )


class Slopes(NamedTuple):
    """Three slopes on length, with the bounds of their intervals, (3,) each; NaN if undefined.

    The slopes are those of the judge, of the judge adjusted for human verdicts, and of annotators.
    """

    slope: Floats
    low: Floats
    high: Floats


def logit_slopes(judge: Signs, people: Floats, length: Floats, *, units: Ints, confidence: float) -> Slopes:
    """Logistic regressions on the log ratio of lengths, without an intercept (swapping two systems reverses all signs).

    `judge` (n,) are verdicts 1, 0, -1. `people` (n,) are mean human verdicts, NaN without any. `length` (n,) is the log
    ratio of lengths, and `units` (n,) are the clusters. Ties of the judge are left out. Standard errors are clustered.
    The second slope adjusts for noisy human verdicts, so part of the effect of quality on length remains. It is
    descriptive and not a test.

    >>> length, units = np.tile([-1.0, 1.0], 50), np.arange(100)
    >>> judge = np.sign(length).astype(np.int8) * np.where(np.arange(100) % 4 < 3, 1, -1).astype(np.int8)
    >>> result = logit_slopes(judge, np.full(100, np.nan), length, units=units, confidence=0.95)
    >>> f"{result.slope[0]:.2f}", bool(np.isnan(result.slope[1]))
    ('1.10', True)

    Source: Zheng et al. 2023 and Dubois et al. 2024 regress verdicts on length; Liang and Zeger 1986 for the errors.
    """
    decided = judge != 0
    judge, people, length, units = judge[decided], people[decided], length[decided], units[decided]
    rated = np.isfinite(people)
    fits = [
        first_coefficient((1 + judge) / 2, length[:, None], units, confidence=confidence),
        first_coefficient(
            (1 + judge[rated]) / 2,
            np.stack([length[rated], people[rated]], axis=1),
            units[rated],
            confidence=confidence,
        ),
        first_coefficient((1 + people[rated]) / 2, length[rated, None], units[rated], confidence=confidence),
    ]
    return Slopes(*np.array(fits).T)
