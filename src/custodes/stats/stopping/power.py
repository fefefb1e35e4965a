"""Expected results of annotating one pair: exact power, and the benefit of a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, chunks

_SIGNS = np.array([1.0, 0.0, -1.0])


def human_power(shares: Floats, n_annotations: NDArray[np.integer[Any]], *, gamma: float) -> tuple[Floats, Floats]:
    """Return the probabilities (k,) that n (k,) annotations decide for the first system and for the second system.

    `shares` (k, 3) are the probabilities of wins, ties and losses. The result is exact for the rule theta > 1 - gamma/2
    or theta < gamma/2 with a single analysis. The number of annotations without a tie is binomial, and the number of
    wins among these annotations is binomial. For each number of annotations without a tie, the rule requires a minimum
    number of wins.

    >>> first, second = human_power(np.array([[0.7, 0.0, 0.3]]), np.array([50]), gamma=0.05)
    >>> first.round(2).tolist(), second.round(4).tolist()
    ([0.86], [0.0])

    Source: developed for custodes; the rule is that of Deriu et al. 2023, Algorithm 1.
    """
    from scipy.special import bdtrik

    untied_counts = np.arange(int(n_annotations.max(initial=0)) + 1)
    # Theta after w wins and l losses is the binomial probability of at most w successes in w + l + 1 trials. If no
    # number of wins decides, the number needed is the number of untied annotations + 1.
    n_wins_needed = np.floor(bdtrik(1 - gamma / 2, untied_counts + 1.0, 0.5)) + 1
    power_chunks = [
        _power(np.asarray(shares)[pair_slice], n_annotations[pair_slice], untied_counts, n_wins_needed)
        for pair_slice in chunks(len(n_annotations), len(untied_counts))
    ]
    first_power, second_power = np.concatenate(power_chunks, axis=1)
    return first_power, second_power


def _power(shares: Floats, n_annotations: NDArray[Any], n_untied: NDArray[Any], n_wins_needed: NDArray[Any]) -> Floats:
    """Return both probabilities (2, k) of `human_power`. Of `n_untied` annotations without a tie, `n_wins_needed` wins
    decide."""
    from scipy.special import betainc, gammaln, xlog1py, xlogy

    n_annotations_column, tie_probability = n_annotations[:, np.newaxis], shares[:, 1:2]
    is_possible_count = n_untied <= n_annotations_column
    n_ties = np.where(is_possible_count, n_annotations_column - n_untied, 0)
    log_untied_count_probability = (
        gammaln(n_annotations_column + 1)
        - gammaln(n_untied + 1)
        - gammaln(n_ties + 1)
        + xlog1py(n_untied, -tie_probability)
        + xlogy(n_ties, tie_probability)
    )
    untied_count_probability = np.where(is_possible_count, np.exp(log_untied_count_probability), 0.0)
    decision_probabilities = []
    for outcome_column in (0, 2):
        win_probability = shares[:, outcome_column] / np.maximum(1 - shares[:, 1], 1e-300)
        conditional_decision_probability = np.where(
            n_wins_needed <= n_untied,
            betainc(
                np.maximum(n_wins_needed, 1),
                np.maximum(n_untied - n_wins_needed + 1, 1),
                win_probability[:, np.newaxis],
            ),
            0.0,
        )
        decision_probabilities.append((untied_count_probability * conditional_decision_probability).sum(axis=1))
    return np.stack(decision_probabilities)


def preference_correlation(shares: Floats, channel: Floats) -> Floats:
    """Return the correlation (...) of metric and human preferences.

    `shares` (..., 3) are the probabilities of human preferences. The rows of `channel` (3, 3) [human, metric] are the
    probabilities of metric preferences given a human preference. The correlation is 0 if metric or human preferences
    never vary.

    >>> preference_correlation(np.array([0.5, 0.0, 0.5]), np.eye(3)).item()
    1.0

    Source: by definition.
    """
    shares = np.asarray(shares, dtype=np.float64)
    mean_metric_sign_given_human = channel @ _SIGNS
    mean_human_sign, mean_metric_sign = shares @ _SIGNS, shares @ mean_metric_sign_given_human
    covariance = shares @ (_SIGNS * mean_metric_sign_given_human) - mean_human_sign * mean_metric_sign
    variance_product = (shares @ _SIGNS**2 - mean_human_sign**2) * (
        shares @ (channel @ _SIGNS**2) - mean_metric_sign**2
    )
    is_varying = variance_product > 1e-15
    return np.asarray(np.where(is_varying, covariance / np.sqrt(np.where(is_varying, variance_product, 1.0)), 0.0))
