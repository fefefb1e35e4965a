from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from custodes.stats.judging.length import (
    cuts,
    normal_scores,
    polychoric_correlation,
    polyserial_correlation,
    stratum_deviations,
)

ONE = np.ones(1)


def even(cut: float) -> np.ndarray:
    return np.array([[-cut, cut]])


@pytest.mark.parametrize("rho", [-0.7, 0.2, 0.95])
@pytest.mark.parametrize(
    ("first", "second"), [((0.0, 0.0), (0.0, 0.0)), ((-0.5, 0.5), (0.0, 0.0)), ((-0.3, 0.8), (0.5, 1.1))]
)
def test_the_correlation_behind_verdicts_is_found_from_what_scipy_says_of_the_normal_law(
    rho: float, first: tuple[float, float], second: tuple[float, float]
) -> None:
    law = multivariate_normal(mean=[0, 0], cov=[[1, rho], [rho, 1]])
    # A verdict is 1[X > low] + 1[X > high] - 1, so its covariances are those of four pairs of events.
    product = sum(law.cdf([-a, -b]) - norm.cdf(-a) * norm.cdf(-b) for a in first for b in second)
    correlations = polychoric_correlation(np.array(product), np.array([first]), np.array([second]), stratum_weights=ONE)
    assert correlations.item() == pytest.approx(rho, abs=2e-3)


def test_without_ties_it_is_the_tetrachoric_correlation() -> None:
    product = np.linspace(-0.9, 0.9, 19)
    assert polychoric_correlation(product, even(0), even(0), stratum_weights=ONE) == pytest.approx(
        np.sin(np.pi / 2 * product), abs=2e-3
    )


def test_strata_that_differ_in_who_wins_share_one_correlation() -> None:
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1, 2], [40_000, 20_000, 30_000])
    x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=len(strata)).T
    ahead, behind = np.array([0.0, 1.0, -0.7])[strata], np.array([0.2, 0.8, -1.1])[strata]
    verdicts_a, verdicts_b = (
        np.sign(x + ahead).astype(np.int8),
        (np.sign(y + behind) * (abs(y + behind) > 0.3)).astype(np.int8),
    )
    first, second, weight = cuts(verdicts_a, strata, 3), cuts(verdicts_b, strata, 3), np.bincount(strata)
    product = (stratum_deviations(verdicts_a, strata) * stratum_deviations(verdicts_b, strata)).mean()
    assert polychoric_correlation(np.array(product), first, second, stratum_weights=weight).item() == pytest.approx(
        0.6, abs=0.01
    )
    product = (stratum_deviations(verdicts_a, strata) * normal_scores(y + 5 * strata, strata)).mean()
    assert polyserial_correlation(np.array(product), first, stratum_weights=weight).item() == pytest.approx(
        0.6, abs=0.01
    )


@pytest.mark.parametrize("cut", [0.0, 0.7])
def test_the_correlation_of_verdicts_and_a_score(cut: float) -> None:
    # E[sign(X) Z] with Z = .6 X + noise is .6 times E|X| beyond the threshold, which is twice the density there.
    correlations = polyserial_correlation(np.array(0.6 * 2 * norm.pdf(cut)), even(cut), stratum_weights=ONE)
    assert correlations.item() == pytest.approx(0.6)


def test_shares_say_where_a_loss_becomes_a_tie_and_a_tie_a_win() -> None:
    verdicts = np.repeat([-1, 0, 1], [1_000, 3_000, 6_000]).astype(np.int8)
    correlations = cuts(verdicts, np.zeros(10_000, dtype=int), 1)
    assert correlations == pytest.approx(norm.ppf([[0.1, 0.4]]), abs=1e-3)
    assert cuts(-verdicts, np.zeros(10_000, dtype=int), 1) == pytest.approx(-correlations[:, ::-1])
