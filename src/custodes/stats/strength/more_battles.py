"""How many more battles of a pair would give the joint test of all pairs 50 % power to decide it."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Bools, Floats, chunks
from custodes.stats.decisions.information_gain import information_gain
from custodes.stats.ratios import ratio
from custodes.stats.strength.strengths import Strengths
from custodes.stats.strength.win_rates import Met

MOST_PAIRS = 20_000
"""Pairs up to which forecasts are computed."""

_PER_BATTLE = 0.25  # information on the log odds of a battle without a tie between equal systems


def more_battles(made: Strengths, met: Met, apart: Bools, *, confidence: float) -> Floats:
    """Number of further battles of each pair with which `ranks` would decide it with probability one half: (pairs,).

    The critical value is that of the last step of the joint test: the quantile of the largest |t| over all undecided
    pairs. Battles of the pair alone are added, and weighted by the model as it weights all battles. NaN for decided
    pairs, for pairs out of reach (see `information_gain`), without resamples, for pairs with a system that only a
    penalty keeps finite, and for more than `MOST_PAIRS` pairs.

    References
    ----------
    Ours; see `information_gain`.
    """
    from scipy.special import ndtr, stdtrit

    n_pairs, draws = len(met.first), made.draws[1:]
    nothing = np.full(n_pairs, np.nan)
    undecided = ~apart[met.first, met.second]
    battles, untied = met.outcomes.sum(axis=1), met.outcomes[:, 0] + met.outcomes[:, 2]
    if len(draws) < 2 or n_pairs > MOST_PAIRS or made.n_units < 2 or not undecided.any() or not untied.any():
        return nothing
    t, error, largest = np.full(n_pairs, np.nan), np.full(n_pairs, np.nan), np.zeros(len(draws))
    for block in chunks(n_pairs, len(draws)):
        first, second = met.first[block], met.second[block]
        drawn = draws[:, first] - draws[:, second]
        drawn -= drawn.mean(axis=0)
        error[block] = drawn.std(axis=0, ddof=1)
        t[block] = ratio(made.draws[0, first] - made.draws[0, second], error[block])
        scaled = ratio(np.abs(drawn), error[block])[:, undecided[block]]
        np.fmax(largest, scaled.max(axis=1, initial=0.0), out=largest)
    # Battles of one pair hardly add to the degrees of freedom of the fit.
    freedom = max(1.0, made.n_units - 1)
    quantile = float(np.quantile(largest, confidence, method="higher"))
    critical = -float(stdtrit(freedom, float(ndtr(-quantile))))
    bounded = made.bounded[met.first] & made.bounded[met.second]
    gain = information_gain(
        np.where(bounded, np.abs(t), np.nan), ratio(np.ones(n_pairs), _PER_BATTLE * error**2), critical=critical
    )
    rate = (untied + untied.sum() / battles.sum()) / (battles + 1)
    added = _information_to_add(gain, error**2, _model_variance(made, met, battles * rate))
    more = np.ceil(ratio(added * battles, _PER_BATTLE * rate * met.effective))
    return np.where(undecided & np.isfinite(more) & (more > 0), more, np.nan)


def _model_variance(made: Strengths, met: Met, untied: Floats) -> Floats:
    """The variance of the difference of each pair (pairs,) if all battles without a tie were independent."""
    first, second, n = met.first, met.second, made.draws.shape[1]
    win = 1 / (1 + np.exp(-np.abs(made.draws[0, first] - made.draws[0, second])))
    information = np.zeros((n, n))
    information[first, second] = information[second, first] = -untied * win * (1 - win)
    np.fill_diagonal(information, -information.sum(axis=1))
    inverse = np.linalg.pinv(information, hermitian=True)
    return np.asarray(np.diag(inverse)[first] + np.diag(inverse)[second] - 2 * inverse[first, second])


def _information_to_add(gain: Floats, variance: Floats, model: Floats) -> Floats:
    """Information of independent battles that divides the variance of an estimate by 1 + `gain`: (pairs,).

    The fit weights added information i against 1 / `model`, whatever the `variance` of the estimate is: the variance
    becomes (variance / model**2 + i) / (1 / model + i)**2, which is solved for i. inf where the gain is.
    """
    reachable = np.isfinite(gain)
    gain = np.where(reachable, gain, 0.0)
    slope = (1 + gain) / variance - 2 / model
    added = (slope + np.sqrt(slope**2 + 4 * gain / model**2)) / 2
    return np.where(reachable, added, np.inf)
