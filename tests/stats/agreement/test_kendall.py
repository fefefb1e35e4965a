from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.agreement.kendall import kendall, pooled_kendall

SEEDS = st.integers(0, 2**32 - 1)


def reference(x: np.ndarray, y: np.ndarray) -> float:
    keep = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(stats.kendalltau(x, y).statistic)


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """human, metrics, units, weights: ties, missing cells, clusters of several items, units drawn twice or never."""
    rng = np.random.default_rng(seed)
    n_items, n_systems, n_metrics = rng.integers(1, 8), rng.integers(1, 5), rng.integers(1, 4)
    n_units = rng.integers(1, n_items + 1)
    human = rng.integers(0, rng.integers(1, 6) + 1, (n_items, n_systems)).astype(float)
    metrics = np.round(human + rng.normal(size=(n_metrics, n_items, n_systems)), rng.integers(0, 3))
    human[rng.random(human.shape) < 0.1] = np.nan
    metrics[rng.random(metrics.shape) < rng.choice([0, 0.2])] = np.nan
    units = rng.permutation(np.concatenate([np.arange(n_units), rng.integers(0, n_units, n_items - n_units)]))
    return human, metrics, units, np.vstack([np.ones(n_units), rng.integers(0, 4, (5, n_units))])


@settings(deadline=None)
@given(seed=SEEDS)
def test_kendall_equals_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 9)
    x, y = rng.integers(0, 5, (3, 1, n)).astype(float), rng.integers(0, 5, (1, 4, n)).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    tau = kendall(x, y)
    expected = [[reference(a, b) for b in y[0]] for a in x[:, 0]]
    np.testing.assert_allclose(tau, np.reshape(expected, (3, 4)), atol=1e-12)


def test_kendall_in_chunks_equals_kendall_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng(0).integers(0, 6, (2, 30, 7)).astype(float)
    at_once = kendall(x, y)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 15)
    assert np.array_equal(kendall(x, y), at_once)


@settings(deadline=None)
@given(seed=SEEDS)
def test_pooled_kendall_equals_scipy_on_repeated_data(seed: int) -> None:
    human, metrics, units, weights = study(seed)
    tau = pooled_kendall(human, metrics, units=units, weights=weights)
    for row, values in zip(weights, tau, strict=True):
        items = np.repeat(np.arange(len(human)), row[units].astype(int))
        expected = [reference(human[items].ravel(), metric[items].ravel()) for metric in metrics]
        np.testing.assert_allclose(values, expected, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_item_weights_are_multiplicities(seed: int) -> None:
    human, metrics, units, weights = study(seed)
    item_weights = np.random.default_rng(seed).integers(0, 3, len(human)).astype(float)
    copies = np.repeat(np.arange(len(human)), item_weights.astype(int))
    weighted = pooled_kendall(human, metrics, units=units, weights=weights, item_weights=item_weights)
    copied = pooled_kendall(human[copies], metrics[:, copies], units=units[copies], weights=weights)
    np.testing.assert_allclose(weighted, copied, atol=1e-12)
    halved = pooled_kendall(human, metrics, units=units, weights=weights, item_weights=item_weights * 0.3)
    np.testing.assert_allclose(halved, weighted, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_pooled_kendall_is_invariant(seed: int) -> None:
    human, metrics, units, weights = study(seed)
    rng = np.random.default_rng(seed)
    tau = pooled_kendall(human, metrics, units=units, weights=weights)
    items, systems, order = (rng.permutation(n) for n in (len(human), human.shape[1], len(metrics)))
    shuffled = pooled_kendall(
        human[items][:, systems], metrics[order][:, items][:, :, systems], units=units[items], weights=weights
    )
    np.testing.assert_allclose(shuffled, tau[:, order])
    labels = rng.permutation(weights.shape[1])
    relabelled = pooled_kendall(human, metrics, units=labels[units], weights=weights[:, np.argsort(labels)])
    np.testing.assert_allclose(relabelled, tau)
    monotone = pooled_kendall(np.exp(human), metrics**3, units=units, weights=weights)
    np.testing.assert_allclose(monotone, tau)
    np.testing.assert_allclose(pooled_kendall(-human, metrics, units=units, weights=weights), -tau)


@pytest.mark.parametrize("chunk", [1, 40, 1_000_000])
def test_many_outputs_in_few_units(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 300 outputs a unit: more than an int8 can count, so signs are added up in several parts
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", chunk)
    human = np.arange(600.0).reshape(100, 6) // 7
    metrics = np.stack([human, -human, human % 11])
    units, weights = np.arange(100) // 50, np.array([[1.0, 1.0], [2.0, 0.0], [1.0, 3.0]])
    tau = pooled_kendall(human, metrics, units=units, weights=weights)
    np.testing.assert_allclose(tau[:, :2], [[1, -1]] * 3)
    for row, value in zip(weights, tau[:, 2], strict=True):
        items = np.repeat(np.arange(100), row[units].astype(int))
        assert value == pytest.approx(reference(human[items].ravel(), metrics[2][items].ravel()))


def test_nothing_rated_in_common_is_undefined() -> None:
    human, metrics = np.array([[1.0, np.nan]]), np.array([[[np.nan, 1.0]], [[1.0, 2.0]]])
    tau = pooled_kendall(human, metrics, units=np.zeros(1, dtype=int), weights=np.ones((2, 1)))
    assert np.isnan(tau).all()
