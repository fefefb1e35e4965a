"""Boundaries against published constants and simulation; futility, betting, allocation and power by brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial, norm

from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.stopping.allocation import annotation_order, counted, granted, kinds_of, tables
from custodes.stats.stopping.betting import betting_interval, log_wealth
from custodes.stats.stopping.power import human_power, margin_width, preference_correlation
from custodes.stats.stopping.sequential import (
    BOUNDARIES,
    crossing_probability,
    group_sequential_bounds,
    predictive_probability,
)


# Jennison and Turnbull 2000, "Group Sequential Methods", Tables 2.1 (Pocock) and 2.3 (O'Brien-Fleming), alpha = .05.
@pytest.mark.parametrize(
    ("looks", "pocock", "obrien_fleming"),
    [(2, 2.178, 1.977), (3, 2.289, 2.004), (5, 2.413, 2.040), (10, 2.555, 2.087), (20, 2.672, 2.126)],
)
def test_boundaries_are_the_published_ones(looks: int, pocock: float, obrien_fleming: float) -> None:
    times = np.arange(1, looks + 1)
    constant = group_sequential_bounds(times, shape=BOUNDARIES["pocock"], level=0.05)
    assert constant == pytest.approx(np.full(looks, pocock), abs=5.1e-4)
    falling = group_sequential_bounds(times, shape=BOUNDARIES["obrien-fleming"], level=0.05)
    assert falling == pytest.approx(obrien_fleming * np.sqrt(looks / times), rel=5e-4)


@pytest.mark.parametrize("kind", ["pocock", "obrien-fleming"])
@pytest.mark.parametrize("looks", [(10, 20, 40), (5, 50, 60, 61, 100), (7,)])
def test_unequal_looks_keep_the_level_by_simulation(kind: str, looks: tuple[int, ...]) -> None:
    bounds = group_sequential_bounds(looks, shape=BOUNDARIES[kind], level=0.05)
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(200_000, len(looks))) * np.sqrt(np.diff(looks, prepend=0))
    z = steps.cumsum(axis=1) / np.sqrt(looks)
    # Monte Carlo sd of a share of .05 over 200,000: .0005
    assert (np.abs(z) > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert crossing_probability(bounds, np.array(looks, dtype=float)) == pytest.approx(0.05, abs=1e-8)


def test_repeated_looks_without_a_boundary() -> None:
    # Armitage, McPherson and Rowe 1969, Table 2, nominal 5 %: 2, 5 and 10 equally spaced looks.
    for looks, level in ((2, 0.083), (5, 0.142), (10, 0.193)):
        found = crossing_probability(np.full(looks, norm.isf(0.025)), np.arange(1.0, looks + 1))
        assert found == pytest.approx(level, abs=6e-4)


def test_no_boundary_asks_every_look_as_if_it_were_the_only_one() -> None:
    bounds = group_sequential_bounds((10, 20), shape=BOUNDARIES["none"], level=0.1)
    assert bounds == pytest.approx([norm.isf(0.05)] * 2)


def test_predictive_probability_by_simulation() -> None:
    rng = np.random.default_rng(1)
    margin, sd, share, bound = 0.12, 0.08, 0.3, 2.3
    # the true margin given what is known, then what the rest of the annotations says
    rest = sd * np.sqrt(share / (1 - share))
    later = rng.normal(rng.normal(margin, sd, 400_000), rest)
    final = share * margin + (1 - share) * later
    decided = np.abs(final) > bound * sd * np.sqrt(share)
    found = predictive_probability(np.array(margin), np.array(sd), share=np.array(share), bound=bound)
    assert float(found) == pytest.approx(decided.mean(), abs=0.003)
    ends = predictive_probability(np.array([0.3, 0.1, -0.3]), np.full(3, 0.1), share=np.ones(3), bound=2.0)
    assert ends.tolist() == [1, 0, 1]


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


def test_orders_are_fresh_and_available_first() -> None:
    available = np.random.default_rng(0).random((40, 30)) < 0.7
    order = annotation_order(available, np.random.default_rng(3))
    assert (np.sort(order, axis=1) == np.arange(30)).all()
    ranked = np.take_along_axis(available, order, axis=1)
    assert (np.diff(ranked.astype(int), axis=1) <= 0).all()
    assert len({tuple(row) for row in order.tolist()}) == 40


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_grants_stay_within_the_budget_and_are_even(wanted: list[int], left: int) -> None:
    given_ = granted(np.array(wanted), np.array(left))
    assert (given_ >= 0).all()
    assert (given_ <= wanted).all()
    assert given_.sum() <= left
    if sum(wanted) <= left:
        assert given_.tolist() == wanted
    elif (asking := given_[np.array(wanted) > 9]).size:
        assert np.ptp(asking) <= 1


def test_counting_along_an_order_is_counting() -> None:
    rng = np.random.default_rng(4)
    human = rng.choice(np.array([1, 0, -1, -128], dtype=np.int8), size=(5, 40))
    metric = rng.choice(np.array([1, 0, -1, -128], dtype=np.int8), size=(5, 40))
    order = annotation_order(human != -128, rng)
    kinds = np.take_along_axis(kinds_of(human, metric), order, axis=1)
    start, stop = np.array([0, 3, 5, 9, 2]), np.array([7, 3, 20, 12, 9])
    counts = counted(kinds, start, stop)
    total = np.stack([(metric == kind).sum(axis=1) for kind in (1, 0, -1)], axis=1)
    paired, metric_only, human_only = tables(counts, total)
    for pair in range(5):
        chosen = order[pair, start[pair] : stop[pair]]
        for i, h in enumerate((1, 0, -1)):
            here = human[pair, chosen] == h
            assert human_only[pair, i] == (here & (metric[pair, chosen] == -128)).sum()
            for j, m in enumerate((1, 0, -1)):
                assert paired[pair, i, j] == (here & (metric[pair, chosen] == m)).sum()
        assert (metric_only[pair] == total[pair] - paired[pair].sum(axis=0)).all()


def test_power_is_exact() -> None:
    shares, n = (
        np.array([[0.45, 0.35, 0.2], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        np.array([13, 9, 4, 6]),
    )
    better, worse = human_power(shares, n, gamma=0.1)
    for k, (p, size) in enumerate(zip(shares, n, strict=True)):
        outcomes = np.array([c for c in product(range(size + 1), repeat=3) if sum(c) == size])
        theta = human_theta(outcomes[:, 0], outcomes[:, 2])
        chance = multinomial.pmf(outcomes, size, p)
        assert better[k] == pytest.approx(chance[theta > 0.95].sum(), abs=1e-9)
        assert worse[k] == pytest.approx(chance[theta < 0.05].sum(), abs=1e-9)
    # Without ties: a binomial tail. theta(35, 15) is beyond .975 and theta(32, 18) is not.
    wins = next(w for w in range(51) if human_theta(np.array(w), np.array(50 - w)) > 0.975)
    assert human_power(np.array([[0.7, 0, 0.3]]), np.array([50]), gamma=0.05)[0][0] == pytest.approx(
        binom.sf(wins - 1, 50, 0.7)
    )


def test_correlation_and_width_by_sampling() -> None:
    rng = np.random.default_rng(5)
    p, channel = np.array([0.5, 0.2, 0.3]), np.array([[0.7, 0.1, 0.2], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]])
    human = rng.choice(3, p=p, size=400_000)
    metric = (rng.random((400_000, 1)) > channel.cumsum(axis=1)[human]).sum(axis=1)
    assert preference_correlation(p, channel) == pytest.approx(np.corrcoef(human, metric)[0, 1], abs=0.005)
    assert preference_correlation(np.array([0.0, 1.0, 0.0]), channel) == 0
    width = 2 * norm.isf(0.025) * np.std(1 - human) / np.sqrt(100)
    assert margin_width(p, np.array(96), gamma=0.05) == pytest.approx(width, rel=0.01)
