from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from custodes.stats import information_gain as module
from custodes.stats.information_gain import MOST, information_gain

CRITICAL = float(norm.ppf(0.975))


def constant(value: float) -> Callable[..., np.ndarray]:
    """Return a critical value that does not depend on the gain."""
    return lambda gain, pairs: np.full(np.shape(gain), value)


def sign_test_gain(wins: np.ndarray, losses: np.ndarray, critical: float = CRITICAL) -> np.ndarray:
    """Return the gain for a sign test, in which an untied comparison is one unit of information."""
    n_untied = (wins + losses).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return information_gain((wins - losses) / np.sqrt(n_untied), n_untied, critical=constant(critical))


def test_half_of_the_pairs_are_decided_with_that_gain() -> None:
    # simulation: margins are normal around 0, and every pair goes on until it has the gain
    rng, n_untied, pairs = np.random.default_rng(3), 60, 2000
    win = (1 + rng.normal(0, 0.15, size=pairs).clip(-0.9, 0.9)) / 2
    wins = rng.binomial(n_untied, win)
    gain = sign_test_gain(wins, n_untied - wins)
    assert ((gain == 0) == (np.abs(2 * wins - n_untied) / np.sqrt(n_untied) >= CRITICAL)).all()
    reach = np.isfinite(gain) & (gain > 0)
    more = np.ceil(gain[reach] * n_untied).astype(int)
    assert reach.sum() > 400
    n = n_untied + more
    later = wins[reach] + rng.binomial(more, win[reach])
    decided = np.abs(2 * later - n) / np.sqrt(n) >= CRITICAL
    assert 0.45 <= decided.mean() <= 0.72
    # a quarter of it decides fewer
    some = more > 100
    quarter = more[some] // 4
    few = n_untied + quarter
    early = wins[reach][some] + rng.binomial(quarter, win[reach][some])
    assert (np.abs(2 * early - few) / np.sqrt(few) >= CRITICAL).mean() < decided[some].mean() - 0.1


@given(
    st.lists(st.tuples(*[st.integers(0, 60)] * 2), min_size=1, max_size=6),
    st.sampled_from([1.28, 1.96, 2.58]),
)
def test_direction_and_order_of_pairs_do_not_matter(outcomes: list[tuple[int, int]], critical: float) -> None:
    wins, losses = np.array(outcomes).T
    gain = sign_test_gain(wins, losses, critical)
    np.testing.assert_allclose(gain, sign_test_gain(losses, wins, critical))
    reverse = sign_test_gain(wins[::-1], losses[::-1], critical)
    np.testing.assert_allclose(gain[::-1], reverse, rtol=1e-6)
    finite = gain[np.isfinite(gain)]
    assert ((finite >= 0) & (finite <= MOST * 1.001)).all()


def test_without_information_it_is_undefined_and_level_pairs_are_out_of_reach() -> None:
    wins, losses = np.array([[0, 0, 10, 11], [0, 0, 10, 9]])
    gain = sign_test_gain(wins, losses)
    assert np.isnan(gain[:2]).all()
    assert np.isinf(gain[2:]).all()


@pytest.mark.parametrize("critical", [1.0, 1.96, 3.2])
def test_the_first_gain_with_half_power_does_not_depend_on_the_grid(critical: float) -> None:
    rng = np.random.default_rng(5)
    n_spreads = len(module._SPREADS)
    z = np.concatenate([rng.uniform(0, critical, 150), critical - rng.exponential(0.02, 50)])
    wider = rng.uniform(1, 3000, (200, 1)) * module._SPREADS**2
    likely = rng.dirichlet(np.full(n_spreads, 0.2), 200)
    first = module._half_power_gain(z, wider, likely, constant(critical))
    np.testing.assert_allclose(
        first, module._half_power_gain(z, wider, likely, constant(critical), steps=500), rtol=1e-6
    )
    assert 0 < np.isfinite(first).sum() < 200


def test_a_critical_value_that_falls_with_the_gain_needs_less_gain() -> None:
    z, information = np.array([0.5, 1.5, 2.2]), np.full(3, 40.0)
    high, low = (information_gain(z, information, critical=constant(value)) for value in (2.6, 1.96))
    falling = information_gain(
        z, information, critical=lambda gain, pairs: np.where(gain > 0, 1.96 + 0.64 / (1 + gain), 2.6)
    )
    assert (falling[1:] < high[1:]).all()
    assert (falling[1:] > low[1:]).all()
    assert low[2] == 0 < falling[2]
