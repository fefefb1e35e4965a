from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats import rank_distance
from custodes.stats.rank_distance import RULES, rank_distance_influence, rank_distances

SEEDS = st.integers(0, 2**32 - 1)
ALGORITHMS = {"compared": 127, "sorted": 0}  # number of things up to which their pairs are compared
RULE_AND_ALGORITHM = list(product(RULES, ALGORITHMS))


def distances_of(values: np.ndarray, first: np.ndarray, second: np.ndarray, *, rule: str, by: str) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_distance, "MOST_COMPARED", ALGORITHMS[by])
        return rank_distances(values, first, second, rules=[rule])[0]


def influence_of(
    values: np.ndarray, first: np.ndarray, second: np.ndarray, *, rule: str, by: str
) -> tuple[np.ndarray, np.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_distance, "MOST_COMPARED", ALGORITHMS[by])
        return rank_distance_influence(values, first, second, rule=rule)


def rankings(seed: int, *, n: int | None = None, ties: bool = True, complete: bool = False) -> np.ndarray:
    """Return rankings (4 raters, 3 units, n), optionally with ties and missing cells; one rater has continuous
    scores."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 10)) if n is None else n
    values = rng.normal(size=(4, 3, n))
    if ties:
        values[:3] = rng.integers(0, rng.integers(1, 8), (3, 3, n))
    if not complete:
        values[rng.random(values.shape) < rng.choice([0, 0.1, 0.4])] = np.nan
    return values


def all_pairs() -> tuple[np.ndarray, np.ndarray]:
    return np.indices((4, 4)).reshape(2, -1)


def by_definition(x: np.ndarray, y: np.ndarray, w: np.ndarray, rule: str) -> float:
    """Return the distance of two rankings by a double loop over elements with weights w."""
    pairs = discordant = concordant = tied = untied_x = untied_y = 0.0
    for i in range(len(x)):
        for j in range(i):
            if np.isnan([x[i], x[j], y[i], y[j]]).any():
                continue
            sign_x, sign_y, weight = np.sign(x[i] - x[j]), np.sign(y[i] - y[j]), w[i] * w[j]
            pairs += weight
            concordant += weight * (sign_x * sign_y > 0)
            discordant += weight * (sign_x * sign_y < 0)
            tied += weight * (sign_x * sign_y == 0)
            untied_x += weight * (sign_x != 0)
            untied_y += weight * (sign_y != 0)
    if rule == "tau-b":
        product = untied_x * untied_y
        return (1 - (concordant - discordant) / np.sqrt(product)) / 2 if product else np.nan
    return (discordant + (tied / 2 if rule == "half" else 0.0)) / pairs if pairs else np.nan


@pytest.mark.parametrize(("rule", "by"), RULE_AND_ALGORITHM)
@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_distances_by_definition(seed: int, rule: str, by: str) -> None:
    values = rankings(seed)
    first, second = all_pairs()
    ones = np.ones(values.shape[2])
    expected = [
        [by_definition(x, y, ones, rule) for x, y in zip(values[a], values[b], strict=True)]
        for a, b in zip(first, second, strict=True)
    ]
    np.testing.assert_allclose(distances_of(values, first, second, rule=rule, by=by), expected, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_both_algorithms_agree_on_many_things(rule: str) -> None:
    values = rankings(3, n=127)
    values[3, 1] = np.random.default_rng(0).permutation(127)
    values[2, 1] = np.random.default_rng(1).permutation(127)  # one unit without ties and missing cells
    compared, by_order = (influence_of(values, *all_pairs(), rule=rule, by=by) for by in ALGORITHMS)
    for first, second in zip(compared, by_order, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-12)


@pytest.mark.parametrize(("rule", "by"), RULE_AND_ALGORITHM)
@settings(deadline=None, max_examples=8)
@given(seed=SEEDS)
def test_influence_is_the_derivative(seed: int, rule: str, by: str) -> None:
    values = rankings(seed)
    first, second = np.array([0, 3, 1]), np.array([1, 0, 3])
    distances, influence = influence_of(values, first, second, rule=rule, by=by)
    np.testing.assert_array_equal(distances, distances_of(values, first, second, rule=rule, by=by))
    step = 1e-5
    for p, (a, b) in enumerate(zip(first, second, strict=True)):
        for k in range(values.shape[2]):
            means = []
            for change in (step, -step):
                w = np.ones(values.shape[2])
                w[k] += change
                exact = np.array([by_definition(x, y, w, rule) for x, y in zip(values[a], values[b], strict=True)])
                means.append(exact[~np.isnan(exact)].mean() if not np.isnan(exact).all() else np.nan)
            np.testing.assert_allclose(influence[p, k], (means[0] - means[1]) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("by", ALGORITHMS)
def test_undefined_is_nan(by: str) -> None:
    values = np.full((3, 2, 3), np.nan)
    values[0] = [1.0, 2, 3]
    values[1, 0] = [1.0, np.nan, np.nan]  # one element rated by both
    values[2, 0] = 5.0  # constant
    first, second = np.array([0, 0]), np.array([1, 2])
    for rule in RULES:
        distances, influence = influence_of(values, first, second, rule=rule, by=by)
        assert np.isnan(distances[:, 1]).all()  # no other rater has unit 1
        assert np.isnan(distances[0, 0])
        assert np.isnan(influence[0]).all()
        assert np.isnan(distances[1, 0]) == (rule == "tau-b")
        assert np.isnan(influence[1]).all() == (rule == "tau-b")


@pytest.mark.parametrize(("rule", "by"), RULE_AND_ALGORITHM)
def test_chunks_change_nothing(rule: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = rankings(8, n=9)
    at_once = influence_of(values, *all_pairs(), rule=rule, by=by)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 30)
    for first, second in zip(influence_of(values, *all_pairs(), rule=rule, by=by), at_once, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-14)


def test_memory_is_linear_in_things() -> None:
    values = np.random.default_rng(0).integers(0, 5000, (2, 1, 20_000)).astype(float)
    tracemalloc.start()
    distance = rank_distances(values, np.array([0]), np.array([1]), rules=["tau-b"]).item()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # All pairs would take 400 MB even as bytes.
    assert distance == pytest.approx((1 - stats.kendalltau(values[0, 0], values[1, 0]).statistic) / 2, abs=1e-12)
