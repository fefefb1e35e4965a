"""Boundaries against published constants and simulation, estimates after interim analyses against other software, and
Wald's test by exact error rates."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import norm

from custodes.stats.stopping.sequential import (
    BOUNDARIES,
    crossing_probability,
    group_sequential_bounds,
    predictive_probability,
    sprt,
    stagewise,
    upper_tail,
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
    # Monte Carlo sd of a proportion of .05 over 200,000: .0005
    assert (np.abs(z) > bounds).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert crossing_probability(bounds, np.array(looks, dtype=float)) == pytest.approx(0.05, abs=1e-8)


def test_repeated_looks_without_a_boundary() -> None:
    # Armitage, McPherson and Rowe 1969, Table 2, nominal 5 %: 2, 5 and 10 equally spaced interim analyses.
    for looks, level in ((2, 0.083), (5, 0.142), (10, 0.193)):
        result = crossing_probability(np.full(looks, norm.isf(0.025)), np.arange(1.0, looks + 1))
        assert result == pytest.approx(level, abs=6e-4)


def test_predictive_probability_by_simulation() -> None:
    rng = np.random.default_rng(1)
    margin, sd, share, bound = 0.12, 0.08, 0.3, 2.3
    # the true margin given the data, then the remaining annotations
    rest = sd * np.sqrt(share / (1 - share))
    later = rng.normal(rng.normal(margin, sd, 400_000), rest)
    final = share * margin + (1 - share) * later
    decided = np.abs(final) > bound * sd * np.sqrt(share)
    result = predictive_probability(np.array(margin), np.array(sd), information_share=np.array(share), bound=bound)
    assert float(result) == pytest.approx(decided.mean(), abs=0.003)
    margins, shares = np.array([0.3, 0.1, -0.3, 0.2, 0.21]), np.array([1, 1, 1, 1, 1.21])  # more than planned
    ends = predictive_probability(margins, np.full(5, 0.1), information_share=shares, bound=2.0)
    assert ends.tolist() == [1, 0, 1, 0, 0]


def rejection_and_length(chance: float, **limits: float) -> tuple[float, float]:
    """Return the exact probability of rejection and the mean number of answers until a decision, over all paths."""
    alive, blocked, answers = {(0, 0): 1.0}, 0.0, 0.0
    for number in range(1, 120):
        next_counts: dict[tuple[int, int], float] = defaultdict(float)
        for (n_right, n_wrong), share in alive.items():
            next_counts[n_right + 1, n_wrong] += share * chance
            next_counts[n_right, n_wrong + 1] += share * (1 - chance)
        decisions = {counts: sprt(*counts, **limits) for counts in next_counts}
        blocked += sum(share for counts, share in next_counts.items() if decisions[counts] == -1)
        answers += sum(share * number for counts, share in next_counts.items() if decisions[counts])
        alive = {counts: share for counts, share in next_counts.items() if not decisions[counts]}
    return blocked, answers


@pytest.mark.parametrize(
    ("chance", "blocked", "answers"),
    # simulated independently; .75 and .6 were truncated at a maximum number of answers
    [
        (0.95, 0.000, 4.7),
        (0.9, 0.003, 5.7),
        (0.85, 0.015, 7.0),
        (0.75, 0.13, 10.4),
        (0.6, 0.61, 12.1),
        (0.45, 0.92, 8.5),
        (0.33, 0.98, 6.1),
    ],
)
def test_who_is_blocked_after_how_many(chance: float, blocked: float, answers: float) -> None:
    result = rejection_and_length(chance)
    assert result[0] == pytest.approx(blocked, abs=0.02)
    assert result[1] == pytest.approx(answers, abs=0.5)


LOOKS = np.array([10, 20, 40])
POCOCK = group_sequential_bounds(LOOKS, shape=BOUNDARIES["pocock"], level=0.05)


def estimates_at(margin: list[float], error: float = 0.2, *, looks: int = 3, level: float = 0.05, bounds=POCOCK):
    return stagewise(
        np.array(margin), np.full(len(margin), error), n_annotations=LOOKS[:looks], bounds=bounds[:looks], level=level
    )


def test_other_software_says_the_same() -> None:
    # Three equal interim analyses by Pocock (2.2894), stopped at the second with z = 2.5: the drift lies in (0.30,
    # 5.38), as the R package GroupSeq prints in its page "Compute Confidence Interval" (Pahl). Drift: the mean of z at
    # the last analysis.
    bounds = group_sequential_bounds([1, 2, 3], shape=BOUNDARIES["pocock"], level=0.05)
    assert bounds[0] == pytest.approx(2.2894, abs=1e-4)
    n, unit = np.array([1, 2]), 0.01  # an error so small that nothing is clipped
    result = stagewise(np.array([2.5 * unit]), np.array([unit]), n_annotations=n, bounds=bounds[:2], level=0.05)
    drift = np.array([result.low[0], result.high[0]]) / unit * np.sqrt(3 / 2)
    assert drift == pytest.approx([0.30, 5.38], abs=0.005)


def test_one_look_is_an_interval_of_a_fixed_sample() -> None:
    result = stagewise(
        np.array([0.1, -0.3]), np.array([0.2, 0.1]), n_annotations=np.array([25]), bounds=np.array([1.96]), level=0.1
    )
    reach = -ndtri(0.05) * np.array([0.2, 0.1])
    assert result.estimate == pytest.approx([0.1, -0.3])
    assert result.low == pytest.approx(np.array([0.1, -0.3]) - reach)
    assert result.high == pytest.approx(np.array([0.1, -0.3]) + reach)
    assert result.p_value == pytest.approx([0.617075, 0.0026998], abs=1e-6)  # 2 (1 - Phi(.5)), 2 (1 - Phi(3))


@pytest.mark.parametrize("drift", [-0.4, 0.0, 0.3])
def test_the_chance_of_a_larger_result_is_that_of_a_simulation(drift: float) -> None:
    rng, replications = np.random.default_rng(1), 200_000
    steps = rng.normal(drift * np.array([10, 10, 20]), np.sqrt([10, 10, 20]), (replications, 3))
    score = steps.cumsum(axis=1)
    z = score / np.sqrt(LOOKS)
    above, beyond = z[:, :2] > POCOCK[:2], np.abs(z[:, :2]) > POCOCK[:2]
    first = above[:, 0] | (~beyond[:, 0] & above[:, 1])
    reached = ~beyond.any(axis=1)
    tail_probability = upper_tail(POCOCK, LOOKS.astype(np.float64))
    for last in (-5.0, 0.0, 4.0, 12.0):
        share = (first | (reached & (score[:, 2] >= last))).mean()
        chance = tail_probability(np.array([drift]), np.array([last]))
        assert chance[0] == pytest.approx(share, abs=4 * np.sqrt(0.25 / replications))


@given(st.lists(st.floats(-0.9, 0.9), min_size=2, max_size=8), st.integers(1, 3), st.floats(0.05, 0.3))
@settings(max_examples=20, deadline=None)
def test_a_swap_mirrors_and_a_larger_score_is_a_larger_margin(values: list[float], looks: int, error: float) -> None:
    ordered = np.sort(values)
    result, mirror = estimates_at(list(ordered), error, looks=looks), estimates_at(list(-ordered), error, looks=looks)
    for value, mirrored in ((result.estimate, mirror.estimate), (result.low, mirror.high), (result.high, mirror.low)):
        assert (value == -mirrored).all()
        assert (np.diff(value) >= -1e-9).all()
    assert (result.p_value == mirror.p_value).all()
    assert ((result.low <= result.estimate + 1e-12) & (result.estimate <= result.high + 1e-12)).all()


@pytest.mark.parametrize("boundary", ["pocock", "obrien-fleming"])
def test_the_interval_excludes_a_tie_where_the_bound_is_crossed(boundary: str) -> None:
    bounds = group_sequential_bounds(LOOKS, shape=BOUNDARIES[boundary], level=0.05)
    for looks in (1, 2, 3):
        bound = bounds[looks - 1] * 0.1
        over, under = (
            estimates_at([bound * 1.001], 0.1, looks=looks, bounds=bounds),
            estimates_at([bound * 0.999], 0.1, bounds=bounds),
        )
        assert over.low[0] > 0
        assert over.p_value[0] < 0.05
        if looks == 3:
            assert under.low[0] < 0
            assert under.p_value[0] == pytest.approx(0.05, abs=5e-4)


def test_a_look_that_brought_nothing_new_is_none() -> None:
    n, bounds = np.array([10, 20, 20]), np.array([2.5, 2.4, 2.2])
    result = stagewise(np.array([0.3]), np.array([0.2]), n_annotations=n, bounds=bounds, level=0.05)
    assert result == stagewise(np.array([0.3]), np.array([0.2]), n_annotations=n[:2], bounds=bounds[[0, 2]], level=0.05)


def test_without_an_error_there_is_no_estimate() -> None:
    result = stagewise(
        np.array([0.3, np.nan, 0.1]), np.array([0.0, 0.1, np.inf]), n_annotations=LOOKS, bounds=POCOCK, level=0.05
    )
    assert np.isnan(np.array(result)).all()
