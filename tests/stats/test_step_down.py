from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from custodes.stats.step_down import step_down


def indicator_sums(observed: np.ndarray):
    def tail_sums(largest: np.ndarray, hypotheses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = (largest >= observed[hypotheses, np.newaxis] - 1e-12).sum(axis=1)
        return counts, counts

    return tail_sums


def by_definition(observed: np.ndarray, draws: np.ndarray, data: int) -> np.ndarray:
    """Return the p-values of Romano and Wolf: the most extreme first, each at least that of the one before."""
    p_values, least = np.empty(len(observed)), 0.0
    for k in np.argsort(-observed, kind="stable"):
        rest = draws[observed <= observed[k]].max(axis=0)
        least = max(least, ((rest >= observed[k] - 1e-12).sum() + data) / (draws.shape[1] + data))
        p_values[k] = least
    return p_values


@pytest.mark.parametrize("data", [0, 1])
def test_it_is_the_step_down_test_of_romano_and_wolf(data: int) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        draws = np.abs(rng.multivariate_normal(np.zeros(4), 0.5 + 0.5 * np.eye(4), 300)).T
        observed = np.round(np.abs(rng.normal(size=4)) * 1.5, 6)
        order = np.argsort(observed, kind="stable")
        recorded: list[tuple[list[int], tuple[int, ...]]] = []
        batches = [(200, lambda k, d=draws: d[k, :200].copy()), (100, lambda k, d=draws: d[k, 200:].copy())]
        result = step_down(
            order,
            [batches],
            indicator_sums(observed),
            alpha=0.05,
            n_data_draws=data,
            exact=True,
            record=lambda k, values, to=recorded: to.append((k.tolist(), values.shape)),
        )
        expected = by_definition(observed, draws, data)
        np.testing.assert_allclose(result.p_adjusted, expected[order])
        assert not result.at_threshold.any()
        assert recorded == [(order.tolist(), (4, 200)), (order.tolist(), (4, 100))]


def test_sign_flips_of_one_hypothesis_are_the_exact_test() -> None:
    values = np.array([1.0, 2.0, 3.0, -0.5])
    flips = np.array(list(product([1, -1], repeat=4))).T
    draws = np.abs(values @ flips)[np.newaxis]
    observed = np.array([abs(values.sum())])
    result = step_down(
        np.array([0]), [[(16, lambda k: draws[k].copy())]], indicator_sums(observed), alpha=0.1, exact=True
    )
    assert result.p_adjusted == pytest.approx([4 / 16])


def test_only_hypotheses_near_the_level_get_more_draws() -> None:
    rng = np.random.default_rng(0)
    observed = np.array([0.5, 1.97, 6.0])
    asked = []

    def stage(n: int):
        def statistics(hypotheses: np.ndarray) -> np.ndarray:
            asked.append((n, hypotheses.tolist()))
            return np.abs(rng.normal(size=(len(hypotheses), n)))

        return [(n, statistics)]

    result = step_down(np.arange(3), [stage(1000), stage(40_000), stage(10)], indicator_sums(observed), alpha=0.05)
    # The second hypothesis is at 1 - (1 - .049)^2 = .095, clearly above; the third is clearly below.
    assert asked == [(1000, [0, 1, 2])]
    assert result.p_adjusted[1] == pytest.approx(0.095, abs=0.03)
    assert result.at_threshold.tolist() == [False] * 3
    near = np.array([0.5, 2.24, 6.0])  # 1 - (1 - .025)^2 = .05
    asked.clear()
    result = step_down(np.arange(3), [stage(1000), stage(40_000)], indicator_sums(near), alpha=0.05)
    assert asked == [(1000, [0, 1, 2]), (40_000, [0, 1])]
    assert result.p_adjusted[1] == pytest.approx(0.0496, abs=0.004)
    assert result.p_adjusted[0] > result.p_adjusted[1] >= result.p_adjusted[2] == 0
    assert result.at_threshold.tolist() == [False, True, False]
    limited = step_down(
        np.arange(3), [stage(1000)], indicator_sums(near), alpha=0.05, p_limits=(np.array([0.0, 0.0, 0.01]), 0.04)
    )
    assert limited.p_adjusted.tolist() == [0.04, 0.04, 0.01]
    fixed = step_down(np.arange(3), [stage(1000)], indicator_sums(near), alpha=0.05, p_limits=(0.05, 0.05))
    assert fixed.p_adjusted.tolist() == [0.05] * 3
    assert not fixed.at_threshold.any()
    assert not step_down(np.array([], dtype=int), [stage(5)], indicator_sums(near), alpha=0.05).p_adjusted.size
