"""Tests of each pair of systems by the pair's direct comparisons, next to strengths fitted to all comparisons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Bools, Floats
from custodes.stats.ratios import ratio
from custodes.stats.sign_test import adjust, sign_test
from custodes.stats.strength.battles import Battles, count_by_kind
from custodes.stats.strength.strengths import Strengths
from custodes.stats.strength.win_rates import PairRates


@dataclass(frozen=True, kw_only=True)
class DirectTests:
    """Tests of pairs by their direct comparisons.

    Attributes
    ----------
    p_direct : array of shape (pairs,)
        P-value of 'both strengths are equal', only from comparisons of the pair, adjusted for all pairs (Holm).
    p_fit : array of shape (pairs,)
        P-value of 'the win rate is that expected from the fitted strengths', adjusted for all pairs (Holm).
    better : array of shape (pairs,)
        1 if the first system is significantly better by `p_direct`, -1 if the second system is, otherwise 0.
    misfit : bool array of shape (pairs,)
        Whether `p_fit` is significant.
    """

    p_direct: Floats
    p_fit: Floats
    better: Floats
    misfit: Bools


def direct_tests(pairs: PairRates, battles: Battles, strengths: Strengths, *, confidence: float) -> DirectTests:
    """Test for each pair, by its direct comparisons, whether both systems are equal and whether the strengths fit.

    The tests are exact binomial tests of the comparisons without ties, scaled to the effective number of comparisons.
    If the model counts ties as half wins, a tie counts half for each side. If comparisons of a pair share clusters, the
    p-value is at least that of Student's t with the pair's degrees of freedom. Under the null hypothesis, the
    probability of a win comes from the fitted model with the covariates of the comparisons. The null hypothesis of
    `p_direct` has equal strengths; that of `p_fit` has the fitted strengths. The error of the fit is ignored, which
    makes `p_fit` conservative.

    References
    ----------
    Holm 1979; effective numbers of comparisons: Kish 1965.

    Examples
    --------
    Three systems in a cycle: each wins against the next in 80 of 100 comparisons, so strengths are equal.

    >>> from custodes.stats.strength.strengths import strengths
    >>> from custodes.stats.strength.win_rates import pair_rates
    >>> battles = Battles(
    ...     first=np.repeat([0, 1, 2], 100), second=np.repeat([1, 2, 0], 100),
    ...     sign=np.tile(np.repeat([1, -1], [80, 20]), 3).astype(np.int8),
    ...     unit=np.arange(300), weight=np.ones(300), covariates=np.empty((300, 0)),
    ... )
    >>> fit = strengths(battles, n_systems=3, ties="davidson", resamples=100, rng=np.random.default_rng(0))
    >>> tests = direct_tests(pair_rates(battles, confidence=0.95), battles, fit, confidence=0.95)
    >>> tests.better.tolist(), tests.misfit.tolist()  # pairs (0, 1), (0, 2), (1, 2)
    ([1.0, -1.0, 1.0], [True, True, True])
    """
    ties_are_half = bool(np.isnan(strengths.ties[0]))
    tie_rates = 1 - pairs.wins - pairs.losses if ties_are_half else 0.0
    effective_wins, effective_losses = (
        pairs.effective * (win_or_loss_rate + tie_rates / 2) for win_or_loss_rate in (pairs.wins, pairs.losses)
    )
    win_probability_if_equal, win_probability_by_strengths = _expected_win_rates(
        pairs, battles, strengths, ties_are_half=ties_are_half
    )
    alpha = 1 - confidence
    direct_p_values, fit_p_values = (
        adjust(_p_value(effective_wins, effective_losses, null_probability, pairs.freedom), correction="holm")
        for null_probability in (win_probability_if_equal, win_probability_by_strengths)
    )
    surplus = ratio(effective_wins, effective_wins + effective_losses) - win_probability_if_equal
    return DirectTests(
        p_direct=direct_p_values,
        p_fit=fit_p_values,
        better=np.where(direct_p_values <= alpha, np.sign(surplus), 0),
        misfit=fit_p_values <= alpha,
    )


def _p_value(wins: Floats, losses: Floats, win_probability: Floats, freedom: Floats) -> Floats:
    """Return the p-value (pairs,): the exact binomial p-value. If comparisons share clusters, return the larger of this
    p-value and the p-value by Student's t (NaN if there is only one cluster)."""
    from scipy.special import stdtr

    exact_p_values = sign_test(wins, losses, test="exact", probability=win_probability)
    is_clustered_pair = np.isfinite(freedom)
    standard_deviation = np.sqrt((wins + losses) * win_probability * (1 - win_probability))
    t_statistics = np.abs(ratio(wins * (1 - win_probability) - losses * win_probability, standard_deviation))
    t_test_p_values = 2 * stdtr(np.where(is_clustered_pair & (freedom > 0), freedom, 1.0), -np.nan_to_num(t_statistics))
    return np.where(
        is_clustered_pair, np.where(freedom > 0, np.maximum(exact_p_values, t_test_p_values), np.nan), exact_p_values
    )


def _expected_win_rates(
    pairs: PairRates, battles: Battles, strengths: Strengths, *, ties_are_half: bool
) -> tuple[Floats, Floats]:
    """Return two probabilities (pairs,) that the first system wins a comparison without a tie.

    The first probability holds for equal strengths, the second for fitted strengths. Each is a mean over the
    comparisons of the pair, which differ in their covariates.
    """
    from scipy.special import expit

    kinds = count_by_kind(battles, battles.weight * battles.multiplicity)
    n_counted_of_kind = kinds.outcomes @ [1.0, float(ties_are_half), 1.0]
    log_odds_if_equal = kinds.covariates @ strengths.effects[0]
    log_odds = log_odds_if_equal + strengths.draws[0, kinds.first] - strengths.draws[0, kinds.second]
    n_pairs, n_systems = len(pairs.first), strengths.draws.shape[1]
    pair_of_kind = np.searchsorted(pairs.first * n_systems + pairs.second, kinds.first * n_systems + kinds.second)
    n_counted_of_pair, expected_wins_if_equal, expected_wins = (
        np.bincount(pair_of_kind, weights=n_counted_of_kind * probability, minlength=n_pairs)
        for probability in (np.ones(len(log_odds)), expit(log_odds_if_equal), expit(log_odds))
    )
    win_rate_if_equal, win_rate = np.nan_to_num(
        ratio(np.stack([expected_wins_if_equal, expected_wins]), n_counted_of_pair), nan=0.5
    )
    return win_rate_if_equal, win_rate
