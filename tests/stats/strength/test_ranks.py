from __future__ import annotations

from dataclasses import replace

import numpy as np

from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import Strengths, strengths
from tests.stats.strength.battles import battles


def strengths_of(estimate: list[float], error: float, *, component: list[int] | None = None) -> Strengths:
    n, rng = len(estimate), np.random.default_rng(0)
    return Strengths(
        draws=np.concatenate([[estimate], estimate + rng.normal(0, error, (2000, n))]),
        effects=np.empty((2001, 0)),
        ties=np.full(2001, np.nan),
        component=np.array(component or [0] * n),
        bounded=np.ones(n, dtype=bool),
        clusters=500,
        n_units=1000,
    )


def test_by_definition() -> None:
    """The largest |t| of all pairs in a single step bounds p from above; ranks count significant differences."""
    strength = strengths_of([0.9, 0.8, 0.1, 0.0, -0.9], 0.2)
    result = ranks(strength, confidence=0.95)
    first, second = np.triu_indices(5, k=1)
    gaps = strength.draws[:, first] - strength.draws[:, second]
    error = gaps[1:].std(axis=0)
    largest = np.abs((gaps[1:] - gaps[1:].mean(axis=0)) / error).max(axis=1)
    one_step = (largest[:, None] >= np.abs(gaps[0] / error)).mean(axis=0)
    p = result.p_adjusted[first, second]
    assert (p <= one_step + 0.01).all()
    most = np.abs(gaps[0] / error).argmax()
    np.testing.assert_allclose(p[most], one_step[most], atol=0.002)
    np.testing.assert_array_equal(result.p_adjusted, result.p_adjusted.T)
    better = result.apart & (strength.draws[0] > strength.draws[0][:, None])
    np.testing.assert_array_equal(result.low, 1 + better.sum(axis=1))
    np.testing.assert_array_equal(result.high, 5 - better.sum(axis=0))
    assert result.low.tolist() == [1, 1, 3, 3, 5]


def test_equal_ones_share_a_rank() -> None:
    result = ranks(strengths_of([1.0, 1.0, 0.0], 1.0), confidence=0.95)
    assert result.rank.tolist() == [1, 1, 3]
    assert result.low.tolist() == [1, 1, 1]
    assert result.high.tolist() == [3, 3, 3]


def test_without_draws_no_systems_differ() -> None:
    strength = strengths_of([1.0, 0.5, 0.0], 1.0)
    estimate = replace(strength, draws=strength.draws[:1])
    result = ranks(estimate, confidence=0.95)
    assert [values.tolist() for values in (result.rank, result.low, result.high)] == [[1, 2, 3], [1] * 3, [3] * 3]
    assert np.isnan(result.p_adjusted).all()
    assert not (result.apart | result.at_threshold).any()


def test_within_components_only() -> None:
    data = battles([0] * 60 + [2] * 60, [1] * 60 + [3] * 60, ([1] * 55 + [-1] * 5) * 2)
    strength = strengths(data, n_systems=5, ties="half", resamples=500, rng=np.random.default_rng(0))
    result = ranks(strength, confidence=0.95)
    assert result.rank.tolist() == [1, 2, 1, 2, -1]
    assert result.low.tolist() == result.high.tolist() == [1, 2, 1, 2, -1]
    assert np.isnan(result.p_adjusted[0, 2:]).all()
    assert not result.apart[4].any()


def test_one_cluster_tells_nobody_apart() -> None:
    data = battles([0] * 60, [1] * 60, [1] * 55 + [-1] * 5, unit=[0] * 60)
    strength = strengths(data, n_systems=2, ties="half", resamples=500, rng=np.random.default_rng(0))
    assert ranks(strength, confidence=0.95).high.tolist() == [2, 2]
