"""Number of further comparisons of a pair with which the joint test of all pairs decides this pair with 50 % power."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Bools, Floats
from custodes.stats.information_gain import information_gain
from custodes.stats.normal_pairs import NormalMaximum, variance_of_differences
from custodes.stats.ratios import ratio
from custodes.stats.strength.strengths import Strengths
from custodes.stats.strength.win_rates import PairRates

MOST_PAIRS = 20_000
"""Maximum number of pairs for which forecasts are computed."""

_OF_EQUALS = 0.25  # information on the log odds from one battle of equal systems that is not a tie


def more_battles(strengths: Strengths, pairs: PairRates, different: Bools, *, confidence: float) -> Floats:
    """Return the number (pairs,) of further battles of each pair with which `ranks` decides the pair with 50 % power.

    The critical value is that of the last step of the joint test: the quantile of the largest |t| over all undecided
    pairs. Only battles of the pair are added, and the model weights them like existing battles. The result is NaN for
    decided pairs, for pairs that no number decides (see `information_gain`), and for pairs with a system whose strength
    is finite only because of a penalty. All results are NaN without resamples or with more than `MOST_PAIRS` pairs.

    References
    ----------
    Ours; see `information_gain`.
    """
    from scipy.special import ndtr, stdtrit

    n_pairs = len(pairs.first)
    is_undecided = ~different[pairs.first, pairs.second]
    n_battles, n_untied = pairs.outcomes.sum(axis=1), pairs.outcomes[:, 0] + pairs.outcomes[:, 2]
    if (
        len(strengths.draws) < 3
        or n_pairs > MOST_PAIRS
        or strengths.n_units < 2
        or not is_undecided.any()
        or not n_untied.any()
    ):
        return np.full(n_pairs, np.nan)
    defined_systems = np.flatnonzero(np.isfinite(strengths.draws[0]))
    covariance = np.atleast_2d(np.cov(strengths.draws[1:, defined_systems], rowvar=False))
    first, second = np.searchsorted(defined_systems, pairs.first), np.searchsorted(defined_systems, pairs.second)
    variance, is_varying = variance_of_differences(covariance, first, second)
    t = ratio(
        np.abs(strengths.draws[0, pairs.first] - strengths.draws[0, pairs.second]), np.sqrt(np.maximum(variance, 0.0))
    )
    is_tested = is_undecided & is_varying
    if not is_tested.any():
        return np.full(n_pairs, np.nan)
    quantile = NormalMaximum(covariance, first[is_tested], second[is_tested]).quantile(1 - confidence)
    # More battles of one pair would hardly increase the degrees of freedom of the fit, so these are not changed.
    freedom = max(1.0, strengths.n_units - 1)
    critical = -float(stdtrit(freedom, float(ndtr(-quantile))))
    is_bounded = strengths.bounded[pairs.first] & strengths.bounded[pairs.second] & is_varying
    gain = information_gain(
        np.where(is_bounded, t, np.nan), ratio(np.ones(n_pairs), _OF_EQUALS * variance), critical=critical
    )
    untied_rate = (n_untied + n_untied.sum() / n_battles.sum()) / (n_battles + 1)
    win_probability = 1 / (1 + np.exp(-np.abs(strengths.draws[0, pairs.first] - strengths.draws[0, pairs.second])))
    information = (
        untied_rate * win_probability * (1 - win_probability)
    )  # information of one battle if all are independent
    information_to_add = _information_to_add(
        gain, variance, _model_variance(pairs, n_battles * information, len(strengths.bounded))
    )
    n_more = np.ceil(ratio(information_to_add * n_battles, information * pairs.effective))
    return np.where(is_undecided & np.isfinite(n_more) & (n_more > 0), n_more, np.nan)


def _model_variance(pairs: PairRates, information: Floats, n_systems: int) -> Floats:
    """Return the variance (pairs,) of each pair's difference under the model, given the information (pairs,) of each
    pair's battles."""
    first, second = pairs.first, pairs.second
    laplacian = np.zeros((n_systems, n_systems))
    laplacian[first, second] = laplacian[second, first] = -information
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    inverse = np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True)
    return np.asarray(np.diag(inverse)[first] + np.diag(inverse)[second] - 2 * inverse[first, second])


def _information_to_add(gain: Floats, variance: Floats, model_variance: Floats) -> Floats:
    """Return the information (pairs,) of added independent battles that divides an estimate's variance by 1 + `gain`.

    The fit weights the added information i relative to 1 / `model_variance`; the `variance` of the estimate does
    not enter this weight. The variance becomes (variance / model_variance**2 + i) / (1 / model_variance + i)**2,
    and this equation is solved for i. If the gain is infinite, so is the information.
    """
    is_reachable = np.isfinite(gain)
    gain, variance, model_variance = (
        np.where(is_reachable, values, fill) for values, fill in ((gain, 0.0), (variance, 1.0), (model_variance, 1.0))
    )
    slope = (1 + gain) / variance - 2 / model_variance
    added_information = (slope + np.sqrt(slope**2 + 4 * gain / model_variance**2)) / 2
    return np.where(is_reachable, added_information, np.inf)
