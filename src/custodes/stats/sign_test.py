"""The sign test without ties, its adjustment for the number of pairs, and the resulting decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Test = Literal["asymptotic", "exact"]
Correction = Literal["none", "holm", "bh"]

_NEAR = 1e-5  # replaces a count of 0, for which the beta function is undefined


def sign_test(
    wins: NDArray[Any], losses: NDArray[Any], *, test: Test, probability: NDArray[Any] | float = 0.5
) -> NDArray[np.float64]:
    """Two-sided p-value of the hypothesis P(win | no tie) = `probability`: wins (...), losses (...) -> (...).

    `asymptotic` uses the normal approximation of the number of wins. `exact` doubles the smaller binomial tail, with a
    maximum of 1. Ties are dropped. The p-value is 1 if there are only ties, or no comparisons.

    >>> sign_test(np.array([8, 0]), np.array([0, 0]), test="exact").tolist()
    [0.0078125, 1.0]
    >>> sign_test(np.array(8), np.array(0), test="exact", probability=0.75).round(4).item()
    0.2002

    Source: Coakley and Heise 1996, "Versions of the sign test in the presence of ties".
    """
    from scipy.special import betainc, ndtr

    wins, losses = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if test == "exact":
        # Both binomial tails through the beta function: SciPy's bdtr is inaccurate beyond 1e7 comparisons.
        p_at_least = np.where(wins > 0, betainc(np.maximum(wins, _NEAR), losses + 1, probability), 1.0)
        p_at_most = np.where(losses > 0, betainc(np.maximum(losses, _NEAR), wins + 1, 1 - probability), 1.0)
        tail_probability = np.minimum(p_at_least, p_at_most)
    else:
        standard_deviation = np.sqrt(np.maximum(wins + losses, 1) * (probability * (1 - probability)))
        tail_probability = ndtr(-np.abs(wins * (1 - probability) - losses * probability) / standard_deviation)
    return np.asarray(np.minimum(2 * tail_probability, 1.0))


def adjust(p: NDArray[np.float64], *, correction: Correction) -> NDArray[np.float64]:
    """P-values adjusted for the number of pairs tested: p (..., pairs) -> (..., pairs).

    `holm` controls the probability of any false decision. `bh` (Benjamini-Hochberg) controls the expected proportion of
    false decisions among all decisions. NaN values remain NaN and do not count as tests.

    >>> adjust(np.array([0.01, 0.04, np.nan, 0.03]), correction="holm").tolist()
    [0.03, 0.06, nan, 0.06]

    Source: Holm 1979; Benjamini and Hochberg 1995.
    """
    if correction == "none":
        return p.copy()
    ascending_order = np.argsort(p, axis=-1)  # NaN is sorted last
    sorted_p = np.take_along_axis(p, ascending_order, axis=-1)
    n_tests = np.sum(~np.isnan(p), axis=-1, keepdims=True)
    ranks = np.arange(1, p.shape[-1] + 1)
    if correction == "holm":
        sorted_adjusted_p = np.maximum.accumulate(sorted_p * (n_tests - ranks + 1), axis=-1)
    else:
        # The minimum runs from the largest p-value down and starts with NaN, which fmin ignores.
        sorted_adjusted_p = np.fmin.accumulate((sorted_p * n_tests / ranks)[..., ::-1], axis=-1)[..., ::-1]
    adjusted_p_in_input_order = np.empty_like(p)
    np.put_along_axis(adjusted_p_in_input_order, ascending_order, np.minimum(sorted_adjusted_p, 1.0), axis=-1)
    return adjusted_p_in_input_order


@dataclass(frozen=True, kw_only=True)
class SignTest:
    """Decisions about the better system of each pair, from outcomes (..., pairs, 3) in the order win, tie, loss.

    P-values are adjusted for the number of pairs. A p-value equal to alpha is significant.

    >>> SignTest(alpha=0.05).decisions(np.array([[60, 0, 30], [50, 9, 45], [0, 0, 0]])).tolist()
    [1.0, 0.0, nan]

    Source: Coakley and Heise 1996; corrections as in `adjust`.
    """

    alpha: float
    test: Test = "asymptotic"
    correction: Correction = "none"

    def p_values(self, outcomes: NDArray[Any]) -> NDArray[np.float64]:
        """Adjusted p-values of the pairs."""
        return adjust(sign_test(outcomes[..., 0], outcomes[..., 2], test=self.test), correction=self.correction)

    def decisions(self, outcomes: NDArray[Any]) -> NDArray[np.float64]:
        """Better system of each pair: 1 (the first system), 0 (no significant difference) or -1 (the second
        system). NaN without ratings."""
        from scipy.special import ndtri

        # Written out: a sum over an axis of three is several times slower.
        wins, ties, losses = (np.asarray(outcomes[..., outcome], dtype=np.float64) for outcome in range(3))
        margins = wins - losses
        if self.test == "asymptotic" and self.correction == "none":
            # A comparison with the critical margin takes a fourth of the time of p-values.
            is_significant = np.abs(margins) >= -ndtri(self.alpha / 2) * np.sqrt(wins + losses)
        else:
            is_significant = self.p_values(outcomes) <= self.alpha
        return np.where(wins + ties + losses > 0, np.sign(margins) * is_significant, np.nan)
