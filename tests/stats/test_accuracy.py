from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.accuracy import acc_eq, spa
from custodes.stats.bootstrap import sign_flips
from custodes.stats.correlation import pair_counts
from tests.stats.resampled_studies import repeated, study

TIE = 1e-9  # Human scores are small integers here; their differences may carry float noise.

SEEDS = st.integers(0, 2**32 - 1)


def mean(values: list[bool] | list[float]) -> float:
    return float(np.mean(values)) if len(values) else np.nan


@settings(deadline=None)
@given(seed=SEEDS)
def test_pairwise_accuracy_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 6)
    human, metrics = rng.integers(0, 4, (3, n)).astype(float), rng.integers(0, 4, (3, 2, n)).astype(float)
    metrics[rng.random(metrics.shape) < 0.1] = np.nan
    pairs = rng.random((2, n, n)) < 0.8
    accuracy = pair_counts(np.repeat(human[:, None], 2, axis=1), metrics, pairs=pairs).accuracy
    for b, m in np.ndindex(3, 2):
        x, y = human[b], metrics[b, m]
        untied = [(a, c) for a, c in combinations(range(n), 2) if pairs[m, a, c] and not np.isnan(y[a] + y[c])]
        expected = mean([np.sign(x[a] - x[c]) == np.sign(y[a] - y[c]) for a, c in untied])
        np.testing.assert_allclose(accuracy[b, m], expected)


def acc_eq_by_definition(human: np.ndarray, metric: np.ndarray, item_weights: np.ndarray) -> tuple[float, float]:
    """Return the best accuracy over 0 and every occurring difference, in whole hundredths so that ties are exact."""
    per_item = []
    for h, k in zip(np.rint(human * 3), np.rint(metric * 100), strict=True):
        keep = ~np.isnan(h) & ~np.isnan(k)
        per_item.append([(a[0] - b[0], a[1] - b[1]) for a, b in combinations(np.c_[h, k][keep], 2)])
    non_empty = [(pairs, w) for pairs, w in zip(per_item, item_weights, strict=True) if pairs and w > 0]
    if not non_empty:
        return np.nan, np.nan
    best, best_epsilon = -1.0, np.nan
    for epsilon in sorted({0.0} | {abs(k) for pairs, _ in non_empty for _, k in pairs}):
        shares = [
            np.mean([(np.sign(k) * (abs(k) > epsilon)) == np.sign(h) for h, k in pairs]) for pairs, _ in non_empty
        ]
        accuracy = float(np.average(shares, weights=[w for _, w in non_empty]))
        if accuracy > best + 1e-12:
            best, best_epsilon = accuracy, epsilon / 100
    return best, best_epsilon


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS, weighted=st.booleans())
def test_acc_eq_by_trying_every_threshold(seed: int, weighted: bool) -> None:
    human, metrics, units, weights = study(seed)
    rng = np.random.default_rng(seed)
    item_weights = rng.integers(0, 4, len(human)) / 7 if weighted else None
    weights = weights.astype(np.uint8 if seed % 2 else np.float64)
    accuracy, epsilon = acc_eq(human, metrics, units=units, weights=weights, item_weights=item_weights, human_tie=TIE)
    for b, row in enumerate(weights):
        items = repeated(row, units)
        weights_of = np.ones(len(items)) if item_weights is None else item_weights[items]
        for m, metric in enumerate(metrics):
            expected = acc_eq_by_definition(human[items], metric[items], weights_of)
            np.testing.assert_allclose([accuracy[b, m], epsilon[b, m]], expected, atol=1e-9)


def test_acc_eq_in_blocks_of_thresholds_equals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    human, metrics = rng.integers(0, 3, (40, 9)).astype(float), rng.normal(size=(2, 40, 9))
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=30).astype(float)
    at_once = acc_eq(human, metrics, units=np.arange(40), weights=weights, human_tie=TIE)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 1)
    blocks = acc_eq(human, metrics, units=np.arange(40), weights=weights, human_tie=TIE)
    for a, b in zip(at_once, blocks, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_acc_eq_takes_float_noise_for_ties() -> None:
    # The human means 0.1 + 0.2 and 0.3 tie; so do the metric's differences 0.3 - 0.2 and 0.2 - 0.1.
    human = np.array([[0.1 + 0.2, 0.3, 5.0], [1.0, 1.0, 2.0]])
    metrics = np.array([[[0.3, 0.2, 0.9], [0.2, 0.1, 0.8]]])
    accuracy, epsilon = acc_eq(
        human, metrics, units=np.arange(2), weights=np.array([[1, 1], [2, 0], [0, 2]]), human_tie=TIE
    )
    np.testing.assert_array_equal(accuracy, 1)
    np.testing.assert_allclose(epsilon, 0.1)


def test_acc_eq_compares_tiny_scores() -> None:
    # Rounding errors are relative to the scores of the pair: a large score does not turn small scores into ties.
    human, metrics = np.array([[1.0, 2.0, 3.0]]), np.array([[[1e-40, 1e-20, 10.0]]])
    accuracy, epsilon = acc_eq(human, metrics, units=np.zeros(1, dtype=int), weights=np.ones((1, 1)), human_tie=0.0)
    assert (accuracy.item(), epsilon.item()) == (1.0, 0.0)


@pytest.mark.parametrize("pairs", [([1e6, 1e6 + 0.2], [0, 0.2 + 1e-8]), ([0, 0.2 - 1e-8], [1e6, 1e6 + 0.2])])
def test_acc_eq_allows_for_the_larger_rounding_error_of_two_differences(pairs: tuple[list[float], list[float]]) -> None:
    # Differences of .2 count as equal if either has large scores. Then no threshold is right for a tie and a win by .2.
    human, metrics = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 2.0]]), np.array([[[0, 0.1], *pairs]])
    accuracy, epsilon = acc_eq(human, metrics, units=np.arange(3), weights=np.ones((1, 3)), human_tie=TIE)
    assert (accuracy.item(), epsilon.item()) == pytest.approx((2 / 3, 0.1))


@pytest.mark.parametrize("level", [0, -5000, 10**6])
@pytest.mark.parametrize("seed", range(4))
def test_acc_eq_of_rounded_decimals_is_that_of_whole_numbers(seed: int, level: int) -> None:
    # Equal decimal differences differ as floating-point numbers; a threshold must not lie between them.
    rng = np.random.default_rng(seed)
    human = rng.integers(0, 3, (8, 6)).astype(float)
    whole = rng.integers(0, 40, (8, 6)) + 10 * human + level
    expected, threshold = acc_eq_by_definition(human, whole, np.ones(8))
    accuracy, epsilon = acc_eq(
        human, (whole / 1e4)[np.newaxis], human_tie=0.0, units=np.arange(8), weights=np.ones((1, 8))
    )
    assert accuracy.item() == pytest.approx(expected, abs=1e-12)
    assert epsilon.item() * 1e4 == pytest.approx(threshold, abs=1e-5)


def flipped_mean(a: np.ndarray, b: np.ndarray, swap: np.ndarray) -> float:
    return float(np.mean(np.where(swap, b, a) - np.where(swap, a, b)))


def permutation_p_by_definition(a: np.ndarray, b: np.ndarray, units: np.ndarray, flips: np.ndarray) -> float:
    observed = np.mean(a - b)
    return float(np.mean([flipped_mean(a, b, flip[units] < 0) >= observed - 1e-9 for flip in flips]))


def normal_p_by_definition(a: np.ndarray, b: np.ndarray, units: np.ndarray) -> float:
    """Return cluster-robust p-values from residuals summed by cluster."""
    labels = np.unique(units)
    residual = a - b - np.mean(a - b)
    sums = np.array([residual[units == u].sum() for u in labels])
    error = np.sqrt(len(labels) / (len(labels) - 1) * np.sum(sums**2)) / len(a)
    if error < 1e-9:
        return float(np.mean(a - b) <= 1e-9)
    return float(stats.norm.sf(np.mean(a - b) / error))


def spa_by_definition(human: np.ndarray, metric: np.ndarray, copies: np.ndarray, flips: np.ndarray | None) -> float:
    differences = []
    for a, b in combinations(range(human.shape[1]), 2):
        keep = ~np.isnan(human[:, a] + human[:, b] + metric[:, a] + metric[:, b])
        h, k, u = human[keep], metric[keep], copies[keep]
        if len(np.unique(u)) < (1 if flips is not None else 2):
            continue
        if flips is None:
            p = [normal_p_by_definition(x[:, a], x[:, b], u) for x in (h, k)]
        else:
            p = [permutation_p_by_definition(x[:, a], x[:, b], u, flips) for x in (h, k)]
        differences.append(abs(p[0] - p[1]))
    return 1 - mean(differences)


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_spa_by_definition(seed: int) -> None:
    human, metrics, units, weights = study(seed)
    weights = weights[seed % 2 :]  # The first row may differ from ones: copies of a unit flip jointly.
    flips = sign_flips(weights.shape[1], 40, np.random.default_rng(seed))
    soft = spa(human, metrics, units=units, weights=weights, flips=flips)
    for b, row in enumerate(weights):
        items = repeated(row, units)
        # a unit drawn twice is two units: (unit, number of the copy)
        copy = np.concatenate([np.arange(int(row[u])) for u in units]) if len(items) else np.zeros(0)
        for m, metric in enumerate(metrics):
            of_unit = units[items] if b == 0 else units[items] * 1000 + copy.astype(int)
            expected = spa_by_definition(human[items], metric[items], of_unit, flips if b == 0 else None)
            np.testing.assert_allclose(soft[b, m], expected, atol=1e-7)


def test_spa_takes_float_noise_for_no_difference() -> None:
    # Within both units the differences cancel except for rounding, so the human p is 1.
    human = np.array([[2 / 3, 1 / 3], [2 / 3, 1.0], [0.1 + 0.2, 0.3], [0.3, 0.3]])
    metrics = np.array([[[1.0, 0.0]] * 4])
    flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    soft = spa(human, metrics, units=np.array([0, 0, 1, 1]), weights=np.ones((2, 2)), flips=flips)
    np.testing.assert_allclose(soft[:, 0], [1 - (1 - 1 / 4), 0])


def test_spa_in_chunks_equals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    human, metrics = rng.normal(size=(10, 5)), rng.normal(size=(3, 10, 5))
    metrics[1, 0, 0] = np.nan
    arrays = {"units": np.arange(10), "weights": rng.integers(0, 3, (4, 10)), "flips": sign_flips(10, 20, rng)}
    at_once = spa(human, metrics, **arrays)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 40)
    np.testing.assert_allclose(spa(human, metrics, **arrays), at_once)


def test_nothing_rated_in_common_is_undefined() -> None:
    human, metrics = np.array([[1.0, np.nan]] * 2), np.array([[[np.nan, 1.0]] * 2, [[1.0, 2.0]] * 2])
    everywhere = {"units": np.arange(2), "weights": np.ones((2, 2))}
    assert np.isnan(acc_eq(human, metrics, **everywhere, human_tie=TIE)).all()
    assert np.isnan(spa(human, metrics, **everywhere, flips=np.ones((3, 2), dtype=np.int8))).all()
