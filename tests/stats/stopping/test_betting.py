"""Betting: its interval, its closed form, a martingale by brute force, and its level at all looks by simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multinomial

from custodes.stats.stopping.betting import betting_interval, log_wealth


@given(st.tuples(*[st.integers(0, 60)] * 3))
@settings(max_examples=30, deadline=None)
def test_betting_is_mirrored_and_holds_the_mean(counts: tuple[int, int, int]) -> None:
    table = np.array(counts)
    low, high = betting_interval(table, level=0.05)
    mirrored = betting_interval(table[::-1], level=0.05)
    assert [-mirrored[1], -mirrored[0]] == pytest.approx([float(low), float(high)], abs=1e-9)
    mean = (counts[0] - counts[2]) / max(1, sum(counts))
    assert -1 <= low <= mean <= high <= 1
    refuted = log_wealth(table, margin=np.array(0.0)) >= np.log(20)
    assert bool(refuted) == bool(low > 0 or high < 0)


def test_wealth_against_a_tie_in_closed_form() -> None:
    # nine wins and a tie: half of the integral of (1 + u)^9, half of that of (1 - u)^9
    assert float(log_wealth(np.array([9, 1, 0]), margin=np.array(0.0))) == pytest.approx(np.log(51.2))


def test_wealth_is_one_on_average_when_the_margin_is_true() -> None:
    # A martingale: by brute force over all outcomes of 6 annotations.
    p = np.array([0.5, 0.3, 0.2])
    outcomes = np.array([c for c in product(range(7), repeat=3) if sum(c) == 6])
    chance = multinomial.pmf(outcomes, 6, p)
    wealth = np.exp(log_wealth(outcomes, margin=np.full(len(outcomes), 0.3)))
    assert chance @ wealth == pytest.approx(1.0)


def test_betting_keeps_its_level_at_all_looks_together() -> None:
    rng = np.random.default_rng(2)
    for p in ([0.5, 0.0, 0.5], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2]):
        drawn = rng.choice(3, p=p, size=(1000, 120))
        counts = np.stack([(drawn == kind).cumsum(axis=1) for kind in range(3)], axis=-1)[:, 4::5]
        wealth = log_wealth(counts, margin=np.full(counts.shape[:-1], p[0] - p[2]))
        # Monte Carlo sd of .05 over 1000: .007
        assert (wealth >= np.log(20)).any(axis=1).mean() <= 0.07


@pytest.mark.parametrize("margin", [-0.6, 0.0, 0.25])
def test_wealth_is_the_integral_over_stakes_of_what_each_bet_paid(margin: float) -> None:
    counts = np.array([5, 4, 2])

    def fortune(stake: float) -> float:
        # a stake of 1 - margin or 1 + margin is all that can be lost, as preferences lie in [-1, 1]
        more = np.prod(
            [(1 + stake * (x - margin) / (1 + margin)) ** k for x, k in zip((1, 0, -1), counts, strict=True)]
        )
        less = np.prod(
            [(1 - stake * (x - margin) / (1 - margin)) ** k for x, k in zip((1, 0, -1), counts, strict=True)]
        )
        return (more + less) / 2

    wealth = np.log(quad(fortune, 0, 1)[0])
    assert float(log_wealth(counts, margin=np.array(margin))) == pytest.approx(wealth)


def test_the_interval_ends_where_the_wealth_refutes() -> None:
    tables = np.array([[20, 5, 5], [3, 40, 1], [0, 0, 30], [12, 0, 0]])
    low, high = betting_interval(tables, level=0.1)
    for end, inner in ((low, 1e-6), (high, -1e-6)):
        inside = np.abs(end) < 1 - 1e-6
        assert log_wealth(tables, margin=end)[inside] == pytest.approx(np.full(inside.sum(), np.log(10)), abs=1e-6)
        assert (log_wealth(tables, margin=end + inner) < np.log(10)).all()
    # only losses, only wins: that end is never refuted
    assert (low[2], high[3]) == (-1, 1)
    assert betting_interval(np.zeros(3), level=0.1) == (-1, 1)


def test_a_stricter_level_and_fewer_annotations_give_wider_intervals() -> None:
    table = np.array([30, 10, 15])
    widths = [
        np.diff(betting_interval(counts, level=level))[0]
        for counts, level in ((table, 0.1), (table, 0.05), (table // 5, 0.05))
    ]
    assert widths[0] < widths[1] < widths[2]
