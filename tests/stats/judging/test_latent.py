from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from custodes.stats.judging.latent import behind_verdict_and_score, behind_verdicts, normal_scores, threshold


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.2, 0.6, 0.95])
@pytest.mark.parametrize(("first", "second"), [(0.0, 0.0), (0.5, 0.0), (0.4, 1.1)])
def test_the_correlation_behind_verdicts_is_found_from_what_scipy_says_of_the_normal_law(
    rho: float, first: float, second: float
) -> None:
    law = multivariate_normal(mean=[0, 0], cov=[[1, rho], [rho, 1]])

    def beyond(a: float, b: float, sign: int) -> float:
        """P(X > a, sign Y > b), by SciPy's distribution function."""
        turned = multivariate_normal(mean=[0, 0], cov=[[1, sign * rho], [sign * rho, 1]]) if sign < 0 else law
        return float(turned.cdf([-a, -b]))

    product = 2 * (beyond(first, second, 1) - beyond(first, second, -1))
    assert behind_verdicts(np.array(product), first, second).item() == pytest.approx(rho, abs=2e-3)


def test_without_ties_it_is_the_tetrachoric_correlation() -> None:
    product = np.linspace(-0.9, 0.9, 19)
    assert behind_verdicts(product, 0.0, 0.0) == pytest.approx(np.sin(np.pi / 2 * product), abs=1e-3)


@pytest.mark.parametrize("cut", [0.0, 0.7])
def test_the_correlation_of_verdicts_and_a_score(cut: float) -> None:
    # E[sign(X) Z] with Z = .6 X + noise is .6 times E|X| beyond the threshold, which is twice the density there.
    assert behind_verdict_and_score(np.array(0.6 * 2 * norm.pdf(cut)), cut).item() == pytest.approx(0.6)


def test_ties_say_how_far_apart_two_things_must_be() -> None:
    assert threshold(np.array(2 * norm.cdf(0.8) - 1)).item() == pytest.approx(0.8)


def test_scores_turn_with_the_sign_and_do_not_depend_on_the_unit() -> None:
    values = np.array([0.3, -2.0, 0.0, 1.0])
    assert normal_scores(-values) == pytest.approx(-normal_scores(values))
    assert normal_scores(10 * values) == pytest.approx(normal_scores(values))
