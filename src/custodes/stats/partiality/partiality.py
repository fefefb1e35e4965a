"""Partiality: does a metric rate a system higher or lower than the system's human ratings explain?

The score of a fair metric depends only on the quality of an output, through one link function, and not on the system
that wrote the output. If the metric's system means are plotted over the human means, the points then lie on one curve.
A system above the curve of the other systems is favoured, and a system below this curve is disfavoured.

A distance from the curve can have four other causes: errors of human means; curvature of the link; favoritism for
another system; fair systems that do not follow a quadratic curve (because of another link, or other distributions of
quality). The misfit is estimated from the remaining systems. A system is flagged only if its distance is larger than
expected of a fair system. Error rates are in docs/explanation/statistics/favoritism-and-partiality.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.partiality.placement import Placement
from custodes.stats.ratios import ratio

FEWEST_SYSTEMS = 5
"""Minimum number of systems: the tested system, three systems that fix a line, and one more system that may be
favoured."""

FEWEST_UNITS = 10
"""Minimum number of clusters with outputs of a system from which the system's sampling error is estimated."""

_LEVEL = 1e-9  # smaller differences of means are rounding errors
_MOST_NOISE = 0.8  # the slope correction attributes at most this proportion of the variance of human means to error
_MISFIT_SCALE = 0.1
"""Scale of the half-Cauchy prior of the misfit of fair systems; misfits are relative to the sampling error."""

_MISFIT_BOUND = 0.1
"""Scale of a second, half-normal prior of the misfit, in standard deviations of outputs.

With this prior, misfits much larger than this scale are implausible. A larger distance is therefore attributed to
favoritism, whatever the number of systems.
"""

_MISFIT_GRID = np.concatenate([[0.0], np.geomspace(0.02, 50.0, 48)])
"""Misfits, relative to the sampling error, over which the posterior is summed."""

_MISFIT_WIDTH = np.gradient(_MISFIT_GRID)
APART = 3.0
"""Maximum distance between the best (or worst) system and the next, in standard deviations of outputs.

At a larger distance, the two systems have no outputs of similar quality.
"""

WIDEST = 1.0
"""Maximum half-width of an interval, in standard deviations of outputs.

If an interval is wider and the test is not significant, the result is inconclusive.
"""

_STEPS = 100
_SMALL = 1e-7  # Newton's method stops after a smaller relative step, because the next would be about its square
_NEGLIGIBLE = 1e-30  # components of a mixture with a smaller weight are left out


class Reason(IntEnum):
    """Reasons why the result on the partiality to a system is inconclusive."""

    NONE = 0
    FEW_SYSTEMS = 1
    FEW_UNITS = 2
    UNCONNECTED = 3
    LEVEL = 4
    UNRATED = 5
    UNMET = 6
    CONSTANT = 7
    WIDE = 8
    APART = 9


class Partiality(NamedTuple):
    """Results for every metric and system, (metrics, systems).

    - `shift`: how much the metric rates the system above the system's quality, in units of the placement.
    - `low`, `high`: bounds of the shift's interval.
    - `p_value`: p-value without adjustment.
    - `p_adjusted`: p-value adjusted for testing all metrics and systems, and for one possible further favoured system.
    - `reason`: a `Reason` why the result is inconclusive, or `Reason.NONE`.
    """

    shift: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    reason: NDArray[np.int8]


def partiality(
    placements: Sequence[Placement], *, alpha: float, confidence: float, systems: Sequence[int] | None = None
) -> Partiality:
    """Test, for each metric and system, whether the metric rates the system higher or lower than quality, a curved link
    and errors of human ratings explain.

    The tested system is left out, and a curve of metric means over human means is fitted to the remaining systems, with
    errors in both variables. The distance of the tested system from the curve is compared with the predictive
    distribution for a fair system. The predictive distribution contains the sampling error and the misfit of the
    remaining systems around their curve. The most significant system is flagged first and removed from the curve. Then
    the next system is tested in the same way (Holm over all metrics and systems). A flagged system must remain
    significant if any one more system is left out of the curve.

    Parameters
    ----------
    placements
        The placement by each metric.
    alpha
        Familywise level of the sequential test.
    confidence
        Level of the interval of each shift.
    systems
        Positions of the systems to test (default: all). Systems that are not tested are only used for the curve.

    Returns
    -------
    Partiality
        Arrays (metrics, systems); NaN if not tested, with a `reason`.

    References
    ----------
    The method was developed for custodes. Errors in variables: Fuller 1987. Predictive distribution of a new unit in a
    random-effects model: Higgins, Thompson and Spiegelhalter 2009, section 4.

    Examples
    --------
    >>> from custodes.stats.partiality.scores import ScoredPeople
    >>> rng = np.random.default_rng(0)
    >>> quality = np.linspace(-1, 1, 8) + rng.normal(size=(100, 8))
    >>> persons = quality + rng.normal(size=(3, 100, 8))
    >>> metric = quality + rng.normal(size=(100, 8)) + np.array([0, 0, 0, 1, 0, 0, 0, 0])
    >>> placement = ScoredPeople(persons, units=np.arange(100)).placement(metric)
    >>> result = partiality([placement], alpha=0.05, confidence=0.95)
    >>> np.flatnonzero(result.p_adjusted[0] <= 0.05).tolist()
    [3]
    """
    if not placements:
        empty_table = np.zeros((0, 0))
        return Partiality(empty_table, empty_table, empty_table, empty_table, empty_table, empty_table.astype(np.int8))
    searches = [_Search(placement, systems) for placement in placements]
    n_remaining_tests = sum(int(search.is_candidate.sum()) for search in searches)
    largest_p_adjusted = 0.0
    while n_remaining_tests:
        testable_p_values = np.stack([search.testable_p_values() for search in searches])
        metric_index, system = np.unravel_index(testable_p_values.argmin(), testable_p_values.shape)
        smallest_p_value, search = testable_p_values[metric_index, system], searches[metric_index]
        if smallest_p_value * n_remaining_tests > alpha:
            break
        p_without_rival = search.largest_rival_p_value(int(system))
        if p_without_rival > alpha:
            search.rival_p_values[system] = p_without_rival
            continue
        largest_p_adjusted = max(largest_p_adjusted, smallest_p_value * n_remaining_tests, p_without_rival)
        search.flag(int(system), p_adjusted=largest_p_adjusted)
        n_remaining_tests -= 1
    reasons, shifts, standard_errors, mixture_weights, p_values, p_adjusted, rival_p_values, is_candidate = (
        np.stack([getattr(search, field_name) for search in searches])
        for field_name in (
            *("reason", "shifts", "standard_errors", "mixture_weights", "p_values"),
            *("p_adjusted", "rival_p_values", "is_candidate"),
        )
    )
    is_tested = ~np.isnan(p_values)
    shifts[~is_tested] = np.nan
    p_of_candidates = np.fmax(np.fmax(p_values * n_remaining_tests, rival_p_values), largest_p_adjusted)
    p_adjusted = np.where(is_tested & is_candidate, np.minimum(p_of_candidates, 1.0), p_adjusted)
    freedom_of_mixture = np.stack([placement.units for placement in placements]) - 1
    half_width = np.full(shifts.shape, np.nan)
    half_width[is_tested] = _half_width(
        standard_errors[is_tested], mixture_weights[is_tested], freedom_of_mixture[is_tested], confidence
    )
    reasons[(half_width > WIDEST) & (p_adjusted > alpha)] = Reason.WIDE
    return Partiality(shifts, shifts - half_width, shifts + half_width, p_values, p_adjusted, reasons)


def win_rate_without(placement: Placement, shift: Floats) -> tuple[Floats, Ints, Ints]:
    """Return three results (systems,): the part of the win rate that `shift` causes, the rank, and the rank without
    shift.

    Win rates and ranks come from the metric's preferences in the data. NaN shifts count as 0. The effect of a shift is
    computed under a normal distribution of score differences, so that ties and steps of a coarse metric do not matter.
    """
    from scipy.special import ndtr

    is_off_diagonal = ~np.eye(len(shift), dtype=np.bool_)
    is_compared_pair = np.isfinite(placement.advantage) & is_off_diagonal
    n_opponents = np.maximum(is_compared_pair.sum(axis=1), 1)
    win_probability, win_probability_without_shift = (
        np.where(is_compared_pair, ndtr(placement.advantage - effect_of_shift), 0.0)
        for effect_of_shift in (0.0, np.nan_to_num(shift)[:, None] * placement.steepness)
    )
    win_rates, win_rates_without_shift = (
        probability.sum(axis=1) / n_opponents for probability in (win_probability, win_probability_without_shift)
    )
    # Without its shift, a system loses win rate, which its opponents gain.
    opponent_rates_without_shift = win_rates + (win_probability - win_probability_without_shift) / n_opponents[None, :]
    return (
        win_rates - win_rates_without_shift,
        1 + (win_rates[None, :] > win_rates[:, None] + 1e-12).sum(axis=1),
        1 + ((opponent_rates_without_shift > win_rates_without_shift[:, None] + 1e-12) & is_off_diagonal).sum(axis=1),
    )


class _Search:
    """The sequential test for one metric.

    `is_in_curve` (systems,) marks the systems to which the curve is fitted, `is_candidate` those that may still be
    flagged. If favoritism for another system may explain the distance of a system, `rival_p_values` (systems,) has the
    p-value of the distance without the other system; otherwise NaN.

    `shifts` (systems,) are the distances of systems from the curve of the remaining systems, with `p_values`. The null
    distributions of the distances are mixtures of Student's t distributions with `standard_errors` and
    `mixture_weights` (systems, misfits). A flagged system keeps its results, and has a value in `p_adjusted`.
    """

    def __init__(self, placement: Placement, systems: Sequence[int] | None) -> None:
        n_systems = len(placement.human)
        self.placement = placement
        self.reason = np.select(
            [
                placement.units == 0,
                ~placement.connected,
                ~placement.is_compared_with_all,
                placement.units < FEWEST_UNITS,
            ],
            [Reason.UNRATED, Reason.UNCONNECTED, Reason.UNMET, Reason.FEW_UNITS],
            Reason.NONE,
        ).astype(np.int8)
        is_usable = self.reason == Reason.NONE
        if (
            is_usable.any()
            and min(np.ptp(positions[is_usable]) for positions in (placement.human, placement.metric)) < _LEVEL
        ):
            self.reason[is_usable] = Reason.LEVEL
        usable_systems = np.flatnonzero(self.reason == Reason.NONE)
        systems_by_quality = usable_systems[np.argsort(placement.human[usable_systems], kind="stable")]
        if len(systems_by_quality) >= FEWEST_SYSTEMS:
            is_next_system_apart = np.diff(placement.human[systems_by_quality]) > APART * placement.spread
            self.reason[systems_by_quality[[0, -1]][is_next_system_apart[[0, -1]]]] = Reason.APART
        self.is_in_curve = self.reason == Reason.NONE
        self.is_candidate = self.is_in_curve & np.isin(
            np.arange(n_systems), range(n_systems) if systems is None else systems
        )
        self.shifts, self.p_values, self.p_adjusted, self.rival_p_values = np.full((4, n_systems), np.nan)
        self.standard_errors, self.mixture_weights = np.full((2, n_systems, len(_MISFIT_GRID)), np.nan)
        self._measure_candidates()

    def _measure_candidates(self) -> None:
        """Measure the candidates. There are no candidates if too few systems are left for a curve."""
        candidate_systems = np.flatnonzero(self.is_candidate)
        if self.is_in_curve.sum() < FEWEST_SYSTEMS:
            self.reason[candidate_systems], self.p_values[candidate_systems] = Reason.FEW_SYSTEMS, np.nan
            self.is_candidate[:] = False
            return
        (
            self.shifts[candidate_systems],
            self.standard_errors[candidate_systems],
            self.mixture_weights[candidate_systems],
            self.p_values[candidate_systems],
        ) = self._distances_from_curve(candidate_systems, candidate_systems)
        self.reason[candidate_systems] = np.where(
            np.isnan(self.p_values[candidate_systems]), Reason.CONSTANT, Reason.NONE
        )

    def _distances_from_curve(
        self, tested_systems: Ints, left_out_systems: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the results (k,) for tested systems (k,). The curve for a tested system leaves out this system and one
        of `left_out_systems` (k,)."""
        is_in_curve = np.tile(self.is_in_curve, (len(tested_systems), 1))
        for removed_systems in (tested_systems, left_out_systems):
            is_in_curve[np.arange(len(removed_systems)), removed_systems] = False
        distance_distribution = _distances_from_curves(self.placement, tested_systems, is_in_curve)
        return *distance_distribution, _tail_probability(
            *distance_distribution, self.placement.units[tested_systems] - 1
        )

    def testable_p_values(self) -> Floats:
        """Return the p-values (systems,) of the systems that may be flagged next; inf for all other systems."""
        is_testable = self.is_candidate & np.isnan(self.rival_p_values) & np.isfinite(self.p_values)
        return np.where(is_testable, self.p_values, np.inf)

    def largest_rival_p_value(self, system: int) -> float:
        """Leave out every other system of the curve in turn, and return the largest of the p-values of `system`."""
        left_out_systems = np.setdiff1d(np.flatnonzero(self.is_in_curve), system)
        *_, p_values = self._distances_from_curve(np.full(len(left_out_systems), system), left_out_systems)
        return float(np.nan_to_num(p_values, nan=1.0).max())

    def flag(self, system: int, *, p_adjusted: float) -> None:
        """Remove a system from the curve and from the candidates, and measure the remaining candidates again."""
        self.p_adjusted[system] = p_adjusted
        self.is_in_curve[system] = self.is_candidate[system] = False
        self.rival_p_values[:] = np.nan
        self._measure_candidates()


def _tail_probability(
    distances: Floats, standard_errors: Floats, mixture_weights: Floats, freedom_of_mixture: Ints
) -> Floats:
    """Return the two-sided probability (k,) of a larger distance than `distances` (k,).

    The distribution is a mixture of Student's t with standard errors and weights (k, components).
    """
    from scipy.special import stdtr

    tail_probabilities = stdtr(
        freedom_of_mixture[:, np.newaxis].astype(np.float64),
        -np.abs(distances)[:, np.newaxis] / standard_errors,
        where=mixture_weights > _NEGLIGIBLE,
        out=np.zeros_like(mixture_weights),
    )
    return np.asarray((2 * mixture_weights * tail_probabilities).sum(axis=1))


def _half_width(
    standard_errors: Floats, mixture_weights: Floats, freedom_of_mixture: Ints, confidence: float
) -> Floats:
    """Return the half-widths (k,) of central intervals around 0, for the mixtures of `_tail_probability`."""
    from scipy.special import gammaln, stdtrit

    degrees_of_freedom = freedom_of_mixture[:, np.newaxis].astype(np.float64)
    t_density_at_zero = np.exp(gammaln((degrees_of_freedom + 1) / 2) - gammaln(degrees_of_freedom / 2)) / np.sqrt(
        degrees_of_freedom * np.pi
    )
    half_widths = stdtrit(freedom_of_mixture.astype(np.float64), (1 + confidence) / 2) * standard_errors.min(axis=1)
    for _ in range(_STEPS):  # Newton's steps increase towards the root, because the probability is a convex function
        t_densities = t_density_at_zero * (
            1 + (half_widths[:, np.newaxis] / standard_errors) ** 2 / degrees_of_freedom
        ) ** (-(degrees_of_freedom + 1) / 2)
        newton_steps = (
            _tail_probability(half_widths, standard_errors, mixture_weights, freedom_of_mixture) - (1 - confidence)
        ) / (2 * mixture_weights * t_densities / standard_errors).sum(axis=1)
        half_widths = half_widths + newton_steps
        if not (newton_steps > _SMALL * half_widths).any():
            break
    return np.asarray(half_widths)


def _distances_from_curves(
    placement: Placement, tested_systems: Ints, is_in_curve: Bools
) -> tuple[Floats, Floats, Floats]:
    """Return the distances (k,) of the tested systems (k,) from curves, with standard errors and weights (k, misfits).

    `is_in_curve` (k, systems) marks the systems to which each curve is fitted. For each possible misfit, there is a
    standard error of the distance of a fair system. The weights are the posterior probabilities of the misfits.
    """
    curve_indices, curve_weights = np.arange(len(tested_systems)), is_in_curve.astype(np.float64)
    n_curve_systems = curve_weights.sum(axis=1)

    def curve_deviations(values: Floats) -> Floats:
        """Return values (systems,) minus their mean over the systems of each curve: (k, systems)."""
        return np.asarray(values - (curve_weights @ values / n_curve_systems)[:, np.newaxis])

    def quadratic(matrix: Floats, vectors: Floats) -> Floats:
        """Return the quadratic forms (k,) of a matrix (systems, systems) and vectors (k, systems)."""
        return np.asarray(((vectors @ matrix) * vectors).sum(axis=1))

    def dot(first: Floats, second: Floats) -> Floats:
        return np.asarray((first * second * curve_weights).sum(axis=1))

    def reciprocal(values: Floats) -> Floats:
        """Return 1 / values. If a value is 0, because all systems of the curve have equal means, the result is 0."""
        return np.nan_to_num(ratio(np.ones(len(values)), values))

    human_deviations, metric_deviations = curve_deviations(placement.human), curve_deviations(placement.metric)
    # The powers of quality must only bend the curve, so their linear part is removed.
    power_deviations = np.stack([curve_deviations(power_means) for power_means in placement.powers], axis=1)
    human_squares = dot(human_deviations, human_deviations)
    power_slopes = (
        np.einsum("kps,ks->kp", power_deviations * curve_weights[:, np.newaxis], human_deviations)
        * reciprocal(human_squares)[:, np.newaxis]
    )
    power_deviations = power_deviations - power_slopes[..., np.newaxis] * human_deviations[:, np.newaxis]
    # Because of their errors, human means vary more than true quality; without a correction, the slope is too flat.
    human_sampling_sums, cross_sampling_sums, metric_sampling_sums = (
        curve_weights @ covariance_matrix.diagonal() - quadratic(covariance_matrix, curve_weights) / n_curve_systems
        for covariance_matrix in (placement.hh, placement.hm, placement.mm)
    )
    capped_human_sampling_sums = np.minimum(human_sampling_sums, _MOST_NOISE * human_squares)
    squared_quality_sums = human_squares - capped_human_sampling_sums
    slopes = (
        dot(human_deviations, metric_deviations)
        - cross_sampling_sums * np.nan_to_num(ratio(capped_human_sampling_sums, human_sampling_sums))
    ) * reciprocal(squared_quality_sums)
    sampling_variance = np.maximum(
        metric_sampling_sums - 2 * slopes * cross_sampling_sums + slopes**2 * human_sampling_sums, 0.0
    ) / (n_curve_systems - 1)
    # The curvature is shrunk according to the residuals of the line, which include the misfit.
    line_residual_variance = np.maximum(
        dot(metric_deviations - slopes[:, np.newaxis] * human_deviations, metric_deviations)
        / np.maximum(n_curve_systems - 2, 1),
        sampling_variance,
    )
    model_terms = np.concatenate([human_deviations[:, np.newaxis], power_deviations], axis=1)
    masked_model_terms = model_terms * curve_weights[:, np.newaxis]
    term_gram = masked_model_terms @ masked_model_terms.transpose(0, 2, 1)
    gram_inverse = np.zeros_like(term_gram)
    gram_inverse[:, 0, 0] = reciprocal(squared_quality_sums)
    penalty_matrix = line_residual_variance[:, np.newaxis, np.newaxis] * np.linalg.inv(placement.powers_covariance)
    gram_inverse[:, 1:, 1:] = np.linalg.inv(term_gram[:, 1:, 1:] + penalty_matrix)
    coefficients = (gram_inverse @ (masked_model_terms @ metric_deviations[..., np.newaxis]))[..., 0]
    coefficients[:, 0] = slopes
    residuals = metric_deviations - np.einsum("kp,kps->ks", coefficients, model_terms)
    distance_contrasts = -curve_weights / n_curve_systems[:, np.newaxis] - np.einsum(
        "kps,kpq,kq->ks", masked_model_terms, gram_inverse, model_terms[curve_indices, :, tested_systems]
    )
    distance_contrasts[curve_indices, tested_systems] = 1.0
    slopes_of_curve = slopes[:, np.newaxis, np.newaxis]

    def covariances(vectors: Floats) -> Floats:
        """Return the sampling covariances (k, m, m) of metric - slope x human, for vectors (k, m, systems)."""
        products = vectors @ placement.mm - slopes_of_curve * (vectors @ (placement.hm + placement.hm.T))
        return np.asarray((products + slopes_of_curve**2 * (vectors @ placement.hh)) @ vectors.transpose(0, 2, 1))

    distance_variance = (
        np.maximum(covariances(distance_contrasts[:, np.newaxis])[:, 0, 0], 0.0)
        + quadratic(placement.powers_covariance, np.einsum("ks,kps->kp", distance_contrasts, power_deviations))
        + (distance_contrasts @ placement.bend) ** 2
    )
    # expected sums of squared residuals around the curve: from sampling errors only, and from a misfit of variance 1
    term_hat_matrix, term_noise_matrix = gram_inverse @ term_gram, gram_inverse @ covariances(masked_model_terms)
    residual_sum_per_misfit_variance = (
        n_curve_systems
        - 1
        - 2 * np.trace(term_hat_matrix, axis1=1, axis2=2)
        + np.einsum("kpq,kqp->k", term_hat_matrix, term_hat_matrix)
    )
    expected_residual_sum = (
        sampling_variance * (n_curve_systems - 1)
        - 2 * np.trace(term_noise_matrix, axis1=1, axis2=2)
        + np.einsum("kpq,kqp->k", term_noise_matrix, term_hat_matrix)
    )
    noise_variance = np.nan_to_num(ratio(np.maximum(expected_residual_sum, 0.0), residual_sum_per_misfit_variance))
    residual_degrees_of_freedom = np.maximum(
        n_curve_systems - 2 - np.trace(term_hat_matrix[:, 1:, 1:], axis1=1, axis2=2), 1
    )
    scaled_residual_ratio = (
        np.nan_to_num(ratio(dot(residuals, residuals), residual_sum_per_misfit_variance * noise_variance))
        * residual_degrees_of_freedom
    )
    variance_ratios = 1 + _MISFIT_GRID**2
    # the log likelihood of each misfit plus the logarithm of the half-normal prior
    misfit_log_posterior = (
        -residual_degrees_of_freedom[:, np.newaxis] * np.log(variance_ratios)
        - scaled_residual_ratio[:, np.newaxis] / variance_ratios
        - noise_variance[:, np.newaxis] * (_MISFIT_GRID / _MISFIT_BOUND) ** 2
    ) / 2
    misfit_posterior = (
        np.exp(misfit_log_posterior - misfit_log_posterior.max(axis=1, keepdims=True))
        * _MISFIT_WIDTH
        / (1 + (_MISFIT_GRID / _MISFIT_SCALE) ** 2)
    )
    distance_misfit_variances = (noise_variance * (distance_contrasts**2).sum(axis=1))[:, np.newaxis] * _MISFIT_GRID**2
    standard_errors = np.sqrt(distance_variance[:, np.newaxis] + distance_misfit_variances)
    standard_errors[np.sqrt(distance_variance) <= _LEVEL * float(np.ptp(placement.metric))] = np.nan
    return (
        residuals[curve_indices, tested_systems],
        standard_errors,
        misfit_posterior / misfit_posterior.sum(axis=1, keepdims=True),
    )
