"""Number of further comparisons of a pair with which the joint test of all pairs decides this pair with 50 % power."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.information_gain import information_gain
from custodes.stats.normal_pairs import NormalMaximum, can_be_significant, variance_of_differences
from custodes.stats.ratios import ratio
from custodes.stats.strength.strengths import Strengths
from custodes.stats.strength.win_rates import PairRates

MOST_PAIRS = 20_000
"""Maximum number of pairs for which forecasts are computed."""

_OF_EQUALS = 0.25  # information on the log odds from one battle of equal systems that is not a tie


def more_battles(strengths: Strengths, pairs: PairRates, is_different: Bools, *, confidence: float) -> Floats:
    """Return the number (pairs,) of further battles of each pair with which `ranks` decides the pair with 50 % power.

    The critical value is that of the last step of the joint test: the quantile of the largest |t| over all undecided
    pairs. Only battles of the pair are added, in new clusters with as many battles of the pair as the existing clusters
    have on average. More clusters give more degrees of freedom. The result is NaN for
    decided pairs, for pairs that no number decides (see `information_gain`), and for pairs with a system whose strength
    is finite only because of a penalty. All results are NaN without resamples, with more than
    `MOST_PAIRS` pairs, or with too few clusters for a test.

    References
    ----------
    Ours; see `information_gain`.
    """
    from scipy.special import ndtr, stdtrit

    n_pairs = len(pairs.first)
    is_undecided_pair = ~is_different[pairs.first, pairs.second]
    n_battles, n_untied = pairs.outcomes.sum(axis=1), pairs.outcomes[:, 0] + pairs.outcomes[:, 2]
    if (
        len(strengths.draws) < 3
        or n_pairs > MOST_PAIRS
        or not can_be_significant(strengths.n_units, 1 - confidence)
        or not is_undecided_pair.any()
        or not n_untied.any()
    ):
        return np.full(n_pairs, np.nan)
    defined_systems = np.flatnonzero(np.isfinite(strengths.draws[0]))
    covariance = np.atleast_2d(np.cov(strengths.draws[1:, defined_systems], rowvar=False))
    first_positions, second_positions = (
        np.searchsorted(defined_systems, pairs.first),
        np.searchsorted(defined_systems, pairs.second),
    )
    difference_variances, is_varying_pair = variance_of_differences(covariance, first_positions, second_positions)
    t_statistics = ratio(
        np.abs(strengths.draws[0, pairs.first] - strengths.draws[0, pairs.second]),
        np.sqrt(np.maximum(difference_variances, 0.0)),
    )
    is_tested_pair = is_undecided_pair & is_varying_pair
    if not is_tested_pair.any():
        return np.full(n_pairs, np.nan)
    quantile = NormalMaximum(covariance, first_positions[is_tested_pair], second_positions[is_tested_pair]).quantile(
        1 - confidence
    )
    is_bounded_pair = strengths.bounded[pairs.first] & strengths.bounded[pairs.second] & is_varying_pair
    untied_rate = (n_untied + n_untied.sum() / n_battles.sum()) / (n_battles + 1)
    win_probability = 1 / (1 + np.exp(-np.abs(strengths.draws[0, pairs.first] - strengths.draws[0, pairs.second])))
    information_per_battle = (
        untied_rate * win_probability * (1 - win_probability)
    )  # information of one battle if all are independent
    model_variance = _model_variance(pairs, n_battles * information_per_battle, len(strengths.bounded))
    design_effect = ratio(n_battles, pairs.effective)
    battles_per_cluster = np.where(np.isfinite(pairs.freedom), n_battles / (pairs.freedom + 1), 1.0)

    def n_more_battles(gain: Floats, pair_indices: Ints) -> Floats:
        """Return the number of further battles that gives a gain of information."""
        information_to_add = _information_to_add(gain, difference_variances[pair_indices], model_variance[pair_indices])
        return ratio(information_to_add * design_effect[pair_indices], information_per_battle[pair_indices])

    def critical_value(gain: Floats, pair_indices: Ints) -> Floats:
        """Return the critical value after the battles that give a gain, in new clusters, are added."""
        n_added, n_present = n_more_battles(gain, pair_indices), n_battles.sum()
        n_units = (n_present + n_added) ** 2 / (
            n_present**2 / strengths.n_units + n_added * battles_per_cluster[pair_indices]
        )
        return np.asarray(-stdtrit(np.maximum(1.0, n_units - 1), ndtr(-quantile)))

    required_gains = information_gain(
        np.where(is_bounded_pair, t_statistics, np.nan),
        ratio(np.ones(n_pairs), _OF_EQUALS * difference_variances),
        critical=critical_value,
    )
    n_more = np.ceil(n_more_battles(required_gains, np.arange(n_pairs)))
    return np.where(is_undecided_pair & np.isfinite(n_more) & (n_more > 0), n_more, np.nan)


def _model_variance(pairs: PairRates, information: Floats, n_systems: int) -> Floats:
    """Return the variance (pairs,) of each pair's difference under the model, given the information (pairs,) of each
    pair's battles."""
    first_systems, second_systems = pairs.first, pairs.second
    laplacian = np.zeros((n_systems, n_systems))
    laplacian[first_systems, second_systems] = laplacian[second_systems, first_systems] = -information
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    laplacian_inverse = np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True)
    return np.asarray(
        np.diag(laplacian_inverse)[first_systems]
        + np.diag(laplacian_inverse)[second_systems]
        - 2 * laplacian_inverse[first_systems, second_systems]
    )


def _information_to_add(gain: Floats, variance: Floats, model_variance: Floats) -> Floats:
    """Return the information (pairs,) of added independent battles that divides an estimate's variance by 1 + `gain`.

    The fit weights the added information i relative to 1 / `model_variance`; the `variance` of the estimate does
    not enter this weight. The variance becomes (variance / model_variance**2 + i) / (1 / model_variance + i)**2,
    and this equation is solved for i. If the gain is infinite, so is the information.
    """
    is_finite_gain = np.isfinite(gain)
    gain, variance, model_variance = (
        np.where(is_finite_gain, values, fallback)
        for values, fallback in ((gain, 0.0), (variance, 1.0), (model_variance, 1.0))
    )
    linear_coefficient = (1 + gain) / variance - 2 / model_variance
    added_information = (linear_coefficient + np.sqrt(linear_coefficient**2 + 4 * gain / model_variance**2)) / 2
    return np.where(is_finite_gain, added_information, np.inf)
