"""From draws to a posterior, by sorting and loops; its mirror image; many of them in one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.correction.mixture.posterior import (
    MixturePosterior,
    joined,
    stack,
    summarise,
    weighted_quantiles,
)

YES = np.array(True)


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5).map(lambda x: round(x, 1))),
    st.floats(0.01, 0.99),
    st.integers(0, 100),
)
def test_weighted_quantiles_by_definition(values, probability, seed):
    weights = np.random.default_rng(seed).uniform(0.1, 1, len(values))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    at = min(np.searchsorted(reached, probability - 1e-12), len(values) - 1)
    got = weighted_quantiles(values[np.newaxis], weights, (probability,))[0, 0]
    assert got in values
    # rounding of the sum may pick a neighbour only where the cumulative weight meets the probability
    assert got == values[order][at] or np.isclose(reached, probability).any()


def test_weighted_quantiles_of_many_draws():
    # far more draws than there are bins, bunched at one end; a constant row; the whole weight on one draw
    rng = np.random.default_rng(0)
    values = np.stack([rng.random(20_000) ** 20, np.full(20_000, 0.3), -rng.standard_gamma(0.05, 20_000)])
    weights = rng.random(20_000)
    wanted = (1e-6, 0.025, 0.5, 0.9, 1.0)
    got = weighted_quantiles(values, weights, wanted)
    for row, own in zip(values, got, strict=True):
        order = np.argsort(row, kind="stable")
        reached = np.cumsum(weights[order]) / weights.sum()
        expected = [row[order][min(int(np.searchsorted(reached, q - 1e-12)), 19_999)] for q in wanted]
        np.testing.assert_array_equal(own, expected)
    alone = weighted_quantiles(values[:1], np.where(np.arange(20_000) == 7, 1.0, 0.0), (0.0001, 0.5, 1.0))
    np.testing.assert_array_equal(alone, np.full((1, 3), values[0, 7]))


def drawn(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet([3, 1, 2], n).T, rng.random(n)


def made(seed: int) -> MixturePosterior:
    p, weights = drawn(seed)
    return summarise(
        p, weights, confidence=0.9, theta_error=0.01 * seed, effective_draws=300.0, r_hat=1.01, method="exact"
    )


def test_a_summary_is_what_it_says():
    p, weights = drawn(1)
    got = made(1)
    better = sum(w for (win, _, loss), w in zip(p.T, weights, strict=True) if win > loss)
    assert got.theta == pytest.approx(better / weights.sum())
    assert got.largest_weight == pytest.approx(weights.max() / weights.sum())
    assert (float(got.theta_error), float(got.effective_draws), float(got.r_hat)) == (0.01, 300, 1.01)
    assert got.method == "exact"

    def quantile(values: np.ndarray, probability: float) -> float:
        order = np.argsort(values)
        return values[order][np.flatnonzero(np.cumsum(weights[order]) >= probability * weights.sum())[0]]

    for k in range(3):
        assert got.p[k] == pytest.approx(np.average(p[k], weights=weights))
        assert (got.p_low[k], got.p_high[k]) == (quantile(p[k], 0.05), quantile(p[k], 0.95))
    margin = p[0] - p[2]
    assert (got.margin_low, got.margin_high) == (quantile(margin, 0.05), quantile(margin, 0.95))


def test_a_swap_exchanges_wins_and_losses():
    one = made(2)
    got = one.swapped(YES)
    assert got.theta == 1 - one.theta
    for name in ("p", "p_low", "p_high"):
        assert getattr(got, name).tolist() == getattr(one, name)[[2, 1, 0]].tolist()
    assert (got.margin_low, got.margin_high) == (-one.margin_high, -one.margin_low)
    for name in ("theta_error", "effective_draws", "largest_weight", "r_hat", "method"):
        assert getattr(got, name) == getattr(one, name)
    again = got.swapped(YES)
    for name in ("theta", "p", "p_low", "p_high", "margin_low", "margin_high"):
        np.testing.assert_allclose(getattr(again, name), getattr(one, name), rtol=1e-12)


def test_a_mirrored_posterior_is_its_own_swap_and_knows_theta():
    one = made(3)
    got = one.mirrored(YES)
    assert (got.theta, got.theta_error) == (0.5, 0)
    assert got.p.tolist() == [
        (one.p[0] + one.p[2]) / 2,
        one.p[1],
        (one.p[0] + one.p[2]) / 2,
    ]
    assert got.margin_high == (one.margin_high - one.margin_low) / 2 == -got.margin_low
    assert (got.effective_draws, got.largest_weight, got.method) == (300, one.largest_weight, "exact")
    other = got.swapped(YES)
    for name in ("theta", "p_low", "p_high", "p", "margin_low"):
        np.testing.assert_array_equal(getattr(other, name), getattr(got, name))


def test_only_those_named_are_swapped_and_mirrored():
    ones = stack([made(seed) for seed in range(3)])
    which = np.array([False, True, False])
    for way in ("swapped", "mirrored"):
        got = getattr(ones, way)(which)
        for k in range(3):
            expected = getattr(made(k), way)(YES) if which[k] else made(k)
            for field in fields(MixturePosterior):
                np.testing.assert_array_equal(getattr(got, field.name)[k], getattr(expected, field.name))


def test_a_stack_and_what_is_joined_hold_them_in_order():
    ones = [replace(made(seed), method=np.asarray(f"way {seed}")) for seed in range(6)]
    got = joined(
        [(np.array([4, 0]), stack([ones[4], ones[0]])), (np.array([1, 2, 3, 5]), stack([*ones[1:4], ones[5]]))]
    )
    got = got.at(np.arange(6).reshape(2, 3))
    for k, one in enumerate(ones):
        for field in fields(MixturePosterior):
            np.testing.assert_array_equal(getattr(got, field.name)[divmod(k, 3)], getattr(one, field.name))
    shapes = {field.name: getattr(stack([]), field.name).shape for field in fields(MixturePosterior)}
    assert shapes == {**dict.fromkeys(shapes, (0,)), **dict.fromkeys(("p", "p_low", "p_high"), (0, 3))}
    assert stack([]).method.dtype.kind == "U"
