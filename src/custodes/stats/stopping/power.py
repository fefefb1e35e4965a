"""Expected results of annotations of one pair: exact power, interval width, and the benefit of a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, chunks
from custodes.stats.correction.dirichlet import human_theta

_SIGNS = np.array([1.0, 0.0, -1.0])


def human_power(shares: Floats, n: NDArray[np.integer[Any]], *, gamma: float) -> tuple[Floats, Floats]:
    """Probabilities that n annotations decide for the first and for the second system: shares (k, 3), n (k,) -> (k,),
    (k,).

    Exact for the rule theta > 1 - gamma/2 or theta < gamma/2 with a single analysis: the number of annotations without
    a tie is binomial, and so are the wins among them; for each such number the rule requires a minimum number of wins.

    >>> first, second = human_power(np.array([[0.7, 0.0, 0.3]]), np.array([50]), gamma=0.05)
    >>> first.round(2).tolist(), second.round(4).tolist()
    ([0.86], [0.0])

    Source: ours; the rule is that of Deriu et al. 2023, Algorithm 1.
    """
    untied = np.arange(int(n.max(initial=0)) + 1)
    need = _wins_needed(untied, gamma=gamma)
    parts = [_power(np.asarray(shares)[rows], n[rows], untied, need) for rows in chunks(len(n), len(untied))]
    first, second = np.concatenate([np.empty((2, 0)), *parts], axis=1)
    return first, second


def _power(shares: Floats, n: NDArray[Any], untied: NDArray[Any], need: NDArray[Any]) -> Floats:
    """Both probabilities (2, k), given the number of wins required among the `untied` annotations."""
    from scipy.special import betainc, gammaln, xlog1py, xlogy

    size, ties = n[:, np.newaxis], shares[:, 1:2]
    possible = untied <= size
    rest = np.where(possible, size - untied, 0)
    log_chance = (
        gammaln(size + 1) - gammaln(untied + 1) - gammaln(rest + 1) + xlog1py(untied, -ties) + xlogy(rest, ties)
    )
    chance = np.where(possible, np.exp(log_chance), 0.0)
    tails = []
    for column in (0, 2):
        win = shares[:, column] / np.maximum(1 - shares[:, 1], 1e-300)
        tail = np.where(
            need <= untied, betainc(np.maximum(need, 1), np.maximum(untied - need + 1, 1), win[:, np.newaxis]), 0.0
        )
        tails.append((chance * tail).sum(axis=1))
    return np.stack(tails)


def _wins_needed(untied: NDArray[np.integer[Any]], *, gamma: float) -> NDArray[np.integer[Any]]:
    """Smallest number of wins that decides, for each number of untied annotations; one more than all if none does."""
    least, most = np.zeros_like(untied), untied + 1
    while (least < most).any():  # bisection: if some number of wins decides, so do larger ones
        wins = (least + most) // 2
        enough = human_theta(wins, np.maximum(untied - wins, 0)) > 1 - gamma / 2
        least, most = np.where((least < most) & ~enough, wins + 1, least), np.where(enough, wins, most)
    return most


def margin_width(shares: Floats, n: NDArray[np.integer[Any]], *, gamma: float) -> Floats:
    """Width of the interval of the margin at 1 - gamma after n annotations: shares (..., 3), n (...) -> (...).

    Normal approximation, with the posterior's n + 4 instead of n, so that it is finite without annotations.

    >>> margin_width(np.array([0.4, 0.2, 0.4]), np.array(96), gamma=0.05).round(3).item()
    0.351

    Source: the variance of a mean; ours.
    """
    from scipy.special import ndtri

    margin = shares[..., 0] - shares[..., 2]
    variance = np.maximum(shares[..., 0] + shares[..., 2] - margin**2, 0.0)
    return np.asarray(-2 * ndtri(gamma / 2) * np.sqrt(variance / (n + 4)))


def preference_correlation(shares: Floats, channel: Floats) -> Floats:
    """Correlation of metric and human preferences: shares (..., 3), channel (3, 3) [human, metric] -> (...).

    `channel` rows sum to 1. 0 if either never varies.

    >>> preference_correlation(np.array([0.5, 0.0, 0.5]), np.eye(3)).item()
    1.0

    Source: by definition.
    """
    shares = np.asarray(shares, dtype=np.float64)
    answered = channel @ _SIGNS
    human, metric = shares @ _SIGNS, shares @ answered
    covariance = shares @ (_SIGNS * answered) - human * metric
    spread = (shares @ _SIGNS**2 - human**2) * (shares @ (channel @ _SIGNS**2) - metric**2)
    varies = spread > 1e-15
    return np.asarray(np.where(varies, covariance / np.sqrt(np.where(varies, spread, 1.0)), 0.0))
