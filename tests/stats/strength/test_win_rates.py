from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from custodes.stats.intervals import SHARE, student_interval
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.win_rates import pair_rates, system_intervals, system_rates, unexplained_share
from tests.stats.strength.battles import battles


def random_battles(
    rng: np.random.Generator, *, n: int, n_systems: int = 5, n_units: int | None = None, ties: float = 0.2
) -> tuple[Battles, NDArray[np.float64]]:
    """Return random battles and their strengths."""
    strength = rng.normal(0, 0.7, n_systems)
    first = rng.integers(0, n_systems, n)
    second = (first + rng.integers(1, n_systems, n)) % n_systems
    won = rng.random(n) < 1 / (1 + np.exp(strength[second] - strength[first]))
    sign = np.where(rng.random(n) < ties, 0, np.where(won, 1, -1)).astype(np.int8)
    unit = np.arange(n) if n_units is None else rng.permutation(np.arange(n) % n_units)
    return battles(first, second, sign, unit=unit), strength


def by_hand(data: Battles, n_systems: int) -> list[float]:
    """Return for each system the mean over opponents of its proportion of points."""
    rates = []
    for system in range(n_systems):
        shares = []
        for opponent in range(n_systems):
            points, weights = 0.0, 0.0
            for a, b, sign, weight in zip(data.first, data.second, data.sign, data.weight, strict=True):
                if (a, b) in ((system, opponent), (opponent, system)):
                    points += weight * (1 + (sign if a == system else -sign)) / 2
                    weights += weight
            if weights:
                shares.append(points / weights)
        rates.append(float(np.mean(shares)) if shares else np.nan)
    return rates


def by_hand_weighted(data: Battles, n_systems: int, often: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the same for weighted battles, by matrices."""
    points, number = np.zeros((2, n_systems, n_systems))
    for a, b, won in ((data.first, data.second, data.sign), (data.second, data.first, -data.sign)):
        np.add.at(points, (a, b), often * (1 + won) / 2)
        np.add.at(number, (a, b), often)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nanmean(points / number, axis=1))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_win_rate_is_the_mean_share_against_the_opponents_met(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    data, _ = random_battles(rng, n=60, n_systems=7)
    data = data.select_rows(data.first + data.second != 7)  # some pairs have no battles
    if weighted:
        data = replace(data, weight=rng.uniform(0.5, 2, len(data.sign)))
    rates = system_rates(data, n_systems=8, resamples=3, rng=rng)
    np.testing.assert_allclose(rates[0], by_hand(data, 8))
    assert rates.shape == (4, 8)
    assert np.isnan(rates[:, 7]).all()


@pytest.mark.parametrize("n", [400, 1200])
def test_resamples_of_alike_battles_are_those_of_battles(n: int) -> None:
    data, _ = random_battles(np.random.default_rng(1), n=n)
    # A weight of one battle forces the general computation.
    slow = replace(data, weight=np.where(np.arange(n) == 0, 1 + 1e-12, 1.0))
    few, many = (system_rates(rows, n_systems=5, resamples=4000, rng=np.random.default_rng(2)) for rows in (data, slow))
    np.testing.assert_allclose(few[0], many[0])
    np.testing.assert_allclose(few[1:].std(axis=0), many[1:].std(axis=0), rtol=0.06)
    weights = np.random.default_rng(3).multinomial(n, np.full(n, 1 / n), size=1000)  # the definition, battle by battle
    expected = [by_hand_weighted(data, 5, rows) for rows in weights]
    np.testing.assert_allclose(few[1:].std(axis=0), np.std(expected, axis=0), rtol=0.1)


def test_who_always_won_has_an_interval() -> None:
    n = 30
    data = battles(np.zeros(n, dtype=int), np.arange(n) % 2 + 1, np.ones(n))
    draws = system_rates(data, n_systems=3, resamples=50, rng=np.random.default_rng(0))
    low, high = system_intervals(draws, data, confidence=0.95)
    assert draws[0].tolist() == [1, 0, 0]
    # Clopper and Pearson: 0 losses in 30 allow .116 at most
    assert 0.85 < low[0] < 0.95
    assert high.tolist()[0] == 1
    assert (high[1:] < 0.25).all()


def pair_rates_by_hand(data: Battles, confidence: float) -> dict[tuple[int, int], list[float]]:
    """Return proportions of wins and losses, effective number, degrees of freedom and bounds of each pair."""
    sides = np.where(data.first < data.second, 1, -1)
    pairs = np.sort(np.stack([data.first, data.second], axis=1), axis=1)
    rows_of = {tuple(pair): (pairs == pair).all(axis=1) for pair in np.unique(pairs, axis=0).tolist()}
    is_clustered = any(len(np.unique(data.unit[rows])) < rows.sum() for rows in rows_of.values())
    result = {}
    for pair, rows in rows_of.items():
        signs, weight, unit = (data.sign * sides)[rows], data.weight[rows], data.unit[rows]
        win, loss = weight[signs > 0].sum() / weight.sum(), weight[signs < 0].sum() / weight.sum()
        effective, freedom = weight.sum() ** 2 / (weight**2).sum(), np.inf
        if is_clustered:
            clusters = np.unique(unit)
            if_constant = weight.sum() ** 2 / sum(weight[unit == u].sum() ** 2 for u in clusters)
            n_clusters = max(if_constant, 2) if len(clusters) > 1 else 1
            freedom = n_clusters - 1
            deviations = weight * (signs - (win - loss))
            squares = sum(deviations[unit == u].sum() ** 2 for u in clusters)
            variance = (weight * (signs - (win - loss)) ** 2).sum() / weight.sum()
            if not variance:
                effective = if_constant
            elif freedom:
                effective = min(effective, variance * weight.sum() ** 2 / (squares * n_clusters / freedom))
        win_adjusted, loss_adjusted = ((rate * effective + 1) / (effective + 2) for rate in (win, loss))
        margin = win_adjusted - loss_adjusted
        error = np.sqrt((win_adjusted + loss_adjusted - margin**2) / (effective + 2))
        reach = stats.t.ppf((1 + confidence) / 2, freedom) * error if freedom else np.nan
        rate = (1 + win - loss) / 2
        low, high = (1 + margin - reach) / 2, (1 + margin + reach) / 2
        bounds = [np.clip(np.minimum(low, rate), 0, 1), np.clip(np.maximum(high, rate), 0, 1)]
        result[pair] = [win, loss, effective, freedom, rate, *bounds]
    return result


@pytest.mark.parametrize("size", [1, 2, 15])
def test_rates_of_pairs_by_their_definition(size: int) -> None:
    rng = np.random.default_rng(size)
    data, _ = random_battles(rng, n=90, n_systems=4)
    pair = data.first + data.second
    data = replace(
        data,
        unit=np.where((pair == 3) & (size > 1), 90, np.arange(90) // size),  # two pairs in a single cluster
        sign=np.where(pair == 5, np.sign(data.second - data.first), data.sign).astype(np.int8),  # one side always wins
        weight=rng.integers(1, 3, 90) / 2,
    )
    expected = pair_rates_by_hand(data, 0.9)
    for rows in (data, data.merge_equal_clusters()):
        rates = pair_rates(rows, confidence=0.9)
        assert [*zip(rates.first.tolist(), rates.second.tolist(), strict=True)] == [*expected]
        fields = ("wins", "losses", "effective", "freedom", "rate", "low", "high")
        found = np.stack([getattr(rates, name) for name in fields], axis=1)
        np.testing.assert_allclose(found, list(expected.values()), rtol=1e-9)
        assert rates.outcomes.sum() == 90
    assert (len(data.merge_equal_clusters().sign) < 90) == (size < 15)


def test_intervals_of_systems_have_the_effective_number_of_their_clusters() -> None:
    data, _ = random_battles(np.random.default_rng(5), n=40, n_systems=4, n_units=12)
    data = replace(data, weight=np.where(data.unit == 0, 9.0, 1.0))
    single = replace(
        data.select_rows(np.arange(3)), first=np.full(3, 4), second=np.full(3, 5), unit=np.array([0, 0, 1])
    )
    data = replace(
        data, **{name: np.append(getattr(data, name), getattr(single, name)) for name in ("first", "second")}
    )
    data = replace(data, **{name: np.append(getattr(data, name), getattr(single, name)) for name in ("sign", "unit")})
    data = replace(data, weight=np.append(data.weight, [50.0, 1.0, 1.0]), covariates=np.empty((43, 0)))
    for rows in (data, data.merge_equal_clusters()):
        draws = system_rates(rows, n_systems=7, resamples=30, rng=np.random.default_rng(0))
        bounds = np.stack(system_intervals(draws, rows, confidence=0.9), axis=1)
        for system in range(7):
            is_row = (data.first == system) | (data.second == system)
            weights = np.bincount(data.unit[is_row], weights=data.weight[is_row])
            n_units = max(weights.sum() ** 2 / (weights**2).sum(), 2) if system < 6 else 0.0
            expected = student_interval(draws[:, system], confidence=0.9, n_units=n_units, bounds=SHARE)
            np.testing.assert_allclose(bounds[system], expected)


def test_what_covariates_say_beyond_systems_is_what_least_squares_leave() -> None:
    data, _ = random_battles(np.random.default_rng(6), n=80)
    rng = np.random.default_rng(7)
    values_of = rng.normal(size=5)
    values = np.stack([rng.normal(size=80), np.zeros(80), values_of[data.first] - values_of[data.second]], axis=1)
    design = np.zeros((80, 5))
    design[np.arange(80), data.first] = 1
    design[np.arange(80), data.second] -= 1
    residual = values[:, 0] - design @ np.linalg.lstsq(design, values[:, 0])[0]
    shares = unexplained_share(values, data.first, data.second, n_systems=5)
    np.testing.assert_allclose(shares, [residual @ residual / (values[:, 0] @ values[:, 0]), 0, 0])
    assert unexplained_share(np.empty((80, 0)), data.first, data.second, n_systems=5).tolist() == []
