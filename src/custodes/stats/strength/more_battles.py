"""Number of further comparisons of a pair that would give the joint test of all pairs 50 % power to decide this
pair."""

from __future__ import annotations

from functools import partial

import numpy as np

from custodes.stats.arrays import Bools, Floats, bisect_condition
from custodes.stats.bootstrap import smallest_p_value
from custodes.stats.normal_pairs import NormalMaximum, variance_of_differences
from custodes.stats.ratios import ratio
from custodes.stats.strength.davidson import strength_design
from custodes.stats.strength.strengths import Strengths
from custodes.stats.strength.win_rates import PairRates

MOST_PAIRS = 20_000
"""Maximum number of pairs for which forecasts are computed."""

MOST_GAIN = 20.0
"""Maximum gain of information, as a multiple of the present information."""


def more_battles(strengths: Strengths, pairs: PairRates, is_different: Bools, *, confidence: float) -> Floats:
    """Return the number (pairs,) of further battles with which `ranks` decides a pair with 50 % power.

    The number holds if the true difference of the two strengths equals the estimated difference. If the two strengths
    are equal, no number of battles gives 50 % power.

    The critical value is that of the last step of the joint test: the quantile of the largest |t| over all undecided
    pairs. Only battles of the pair are added, each in a new cluster. More clusters give more degrees of freedom. The
    result is NaN for decided pairs and for pairs that need more than `MOST_GAIN` times their present information. It
    is also NaN for pairs with a system whose strength is finite only because of a penalty. The result is also NaN for
    pairs with several battles in one cluster, because the similarity of these battles is not known well enough. All
    results are NaN without resamples, with more than `MOST_PAIRS` pairs, or with too few clusters for a test.
    """
    from scipy.sparse import diags_array
    from scipy.special import expit, ndtr, stdtrit

    n_pairs = len(pairs.first)
    is_undecided_pair = ~is_different[pairs.first, pairs.second]
    n_battles, n_untied = pairs.outcomes.sum(axis=1), pairs.outcomes[:, 0] + pairs.outcomes[:, 2]
    n_more_battles_of_pair = np.full(n_pairs, np.nan)
    is_too_few_or_many = len(strengths.draws) < 3 or n_pairs > MOST_PAIRS or not n_untied.any()
    if is_too_few_or_many or smallest_p_value(strengths.n_units) > 1 - confidence:
        return n_more_battles_of_pair
    defined_systems = np.flatnonzero(np.isfinite(strengths.draws[0]))
    strength_covariance = np.atleast_2d(np.cov(strengths.draws[1:, defined_systems], rowvar=False))
    first_positions, second_positions = np.searchsorted(defined_systems, [pairs.first, pairs.second])
    difference_variances, is_varying_pair = variance_of_differences(
        strength_covariance, first_positions, second_positions
    )
    differences = np.abs(strengths.draws[0, pairs.first] - strengths.draws[0, pairs.second])
    t_statistics = ratio(differences, np.sqrt(np.maximum(difference_variances, 0.0)))
    is_tested_pair = is_undecided_pair & is_varying_pair
    is_bounded_pair = strengths.bounded[pairs.first] & strengths.bounded[pairs.second]
    forecast_pairs = np.flatnonzero(is_tested_pair & is_bounded_pair & ~pairs.has_shared_cluster)
    if not len(forecast_pairs):
        return n_more_battles_of_pair
    critical_z = NormalMaximum(
        strength_covariance, first_positions[is_tested_pair], second_positions[is_tested_pair]
    ).quantile(1 - confidence)
    untied_rate = (n_untied + n_untied.sum() / n_battles.sum()) / (n_battles + 1)
    win_probability = expit(differences)
    # information of one battle if all are independent
    information_per_battle = untied_rate * win_probability * (1 - win_probability)
    design = strength_design(pairs.first, pairs.second, np.empty((n_pairs, 0)), len(strengths.bounded))
    laplacian = (design.T @ (diags_array(n_battles * information_per_battle) @ design)).toarray()
    laplacian_inverse = np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True)
    model_variance, _ = variance_of_differences(laplacian_inverse, pairs.first, pairs.second)
    design_effect = ratio(n_battles, pairs.effective)[forecast_pairs]
    difference_variances, model_variance, information_per_battle, t_statistics = (
        values_of_pair[forecast_pairs]
        for values_of_pair in (difference_variances, model_variance, information_per_battle, t_statistics)
    )

    information_to_add = partial(
        _information_to_add,
        precision=ratio(np.ones(len(forecast_pairs)), difference_variances),
        model_precision=ratio(np.ones(len(forecast_pairs)), model_variance),
    )
    battles_per_information = ratio(design_effect, information_per_battle)

    def n_more_battles(gain: Floats) -> Floats:
        """Return the number of further battles that gives a gain of information."""
        return information_to_add(gain) * battles_per_information

    def is_undecided_after(gain: Floats) -> Bools:
        """Return whether the expected |t| after a gain of information is below the critical value."""
        n_added_battles, n_present_battles = n_more_battles(gain), n_battles.sum()
        effective_n_units = (n_present_battles + n_added_battles) ** 2 / (
            n_present_battles**2 / strengths.n_units + n_added_battles
        )
        critical_t = -stdtrit(np.maximum(1.0, effective_n_units - 1), ndtr(-critical_z))
        return np.asarray(t_statistics * np.sqrt(1 + gain) < critical_t)

    largest_gains = np.full(len(forecast_pairs), MOST_GAIN)
    n_further_battles = np.ceil(
        n_more_battles(bisect_condition(is_undecided_after, np.zeros(len(forecast_pairs)), largest_gains, steps=36))
    )
    has_forecast = ~is_undecided_after(largest_gains) & (n_further_battles > 0)
    n_more_battles_of_pair[forecast_pairs] = np.where(has_forecast, n_further_battles, np.nan)
    return n_more_battles_of_pair


def _information_to_add(gain: Floats, precision: Floats, model_precision: Floats) -> Floats:
    """Return the information (pairs,) of added independent battles that divides an estimate's variance v by 1 + `gain`.

    `precision` is 1 / v, and `model_precision` is 1 / m with the variance m of the model. The fit weights the added
    information i relative to 1 / m; v does not enter this weight. The new variance is (v / m**2 + i) / (1 / m + i)**2.
    The function solves this equation for i.
    """
    linear_coefficient = (1 + gain) * precision - 2 * model_precision
    return np.asarray((linear_coefficient + np.sqrt(linear_coefficient**2 + 4 * gain * model_precision**2)) / 2)
