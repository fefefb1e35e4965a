from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats import pooled_correlation as pooled
from custodes.stats.bootstrap import bootstrap_weights, with_point
from custodes.stats.correlation import Kind
from custodes.stats.pooled_correlation import pooled_correlation
from tests.stats.resampled_studies import study

SEEDS = st.integers(0, 2**32 - 1)
SCIPY: dict[Kind, Callable[..., Any]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
}
each_kind = pytest.mark.parametrize("kind", SCIPY)


def reference(kind: Kind, x: np.ndarray, y: np.ndarray) -> float:
    keep = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(SCIPY[kind](x, y).statistic)


def on_repeated_rows(
    kind: Kind, human: np.ndarray, metrics: np.ndarray, units: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    repeated = [np.repeat(np.arange(len(units)), row[units].astype(int)) for row in weights]
    return np.array([[reference(kind, human[i].ravel(), m[i].ravel()) for m in metrics] for i in repeated])


def many(seed: int, items: int, systems: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return human ratings on five levels and metrics: integers, many ties, reversed, with gaps."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(items, systems))
    human = np.clip(np.rint(truth + rng.normal(size=truth.shape) + 3), 1, 5)
    metrics = np.stack([truth, np.rint(truth), -truth + rng.normal(size=truth.shape), truth])
    metrics[3][rng.random(truth.shape) < 0.1] = np.nan
    return human, metrics


@settings(deadline=None)
@given(seed=SEEDS)
@each_kind
def test_equals_scipy_on_repeated_data(kind: Kind, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    bytes_or_floats = weights.astype(np.uint8 if seed % 2 else np.float64)
    values = pooled_correlation(kind, human, metrics, units=units, weights=bytes_or_floats)
    np.testing.assert_allclose(values, on_repeated_rows(kind, human, metrics, units, weights), atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
@each_kind
def test_item_weights_are_multiplicities(kind: Kind, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    item_weights = np.random.default_rng(seed).integers(0, 3, len(human)).astype(float)
    copies = np.repeat(np.arange(len(human)), item_weights.astype(int))
    copied = pooled_correlation(kind, human[copies], metrics[:, copies], units=units[copies], weights=weights)
    for scale in (1.0, 0.3):  # only their ratios matter
        weighted = pooled_correlation(
            kind, human, metrics, units=units, weights=weights, item_weights=item_weights * scale
        )
        np.testing.assert_allclose(weighted, copied, atol=1e-9)


@each_kind
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_neither_gaps_nor_memory_limits_matter(
    kind: Kind, exact: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exact:
        monkeypatch.setattr(pooled, "EXACT", 0)
    rng = np.random.default_rng(weighted)
    human = rng.integers(0, 4, (12, 4)).astype(float)
    human[0, 1] = np.nan
    metrics = np.round(human + rng.normal(size=(5, 12, 4)), 1)
    metrics[:, 0, 1], metrics[1, 3:5, 2], metrics[2] = 0.0, np.nan, 1.0
    weights = np.vstack([np.ones(6), rng.integers(0, 3, (20, 6))])
    design: Any = {
        "units": np.arange(12) // 2,
        "weights": weights,
        "item_weights": rng.random(12) if weighted else None,
    }
    together = pooled_correlation(kind, human, metrics, **design)
    assert together.shape == (21, 5)
    assert np.isfinite(together[0, [0, 1, 3, 4]]).all()
    assert np.isnan(together[:, 2]).all()
    for m, values in enumerate(together.T):
        alone = pooled_correlation(kind, human, metrics[[m]], **design)
        np.testing.assert_allclose(alone[:, 0], values, atol=1e-12)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 40)
    np.testing.assert_allclose(pooled_correlation(kind, human, metrics, **design), together, atol=1e-12)


@each_kind
@pytest.mark.parametrize("exact", [True, False])
def test_each_metric_with_its_own_human_ratings(kind: Kind, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr(pooled, "EXACT", 0)
    rng = np.random.default_rng(5)
    human = rng.integers(0, 4, (3, 12, 4)).astype(float)
    human[1, 2, 3] = np.nan
    metrics = np.round(human + rng.normal(size=human.shape), 1)
    design: Any = {"units": np.arange(12) // 2, "weights": np.vstack([np.ones(6), rng.integers(0, 3, (20, 6))])}
    alone = [pooled_correlation(kind, human[m], metrics[[m]], **design)[:, 0] for m in range(3)]
    np.testing.assert_allclose(pooled_correlation(kind, human, metrics, **design).T, alone, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 40, 1_000_000])
def test_kendall_of_many_outputs_in_few_units(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 300 outputs per unit exceed the range of int8, so signs are summed in parts.
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", chunk)
    human = np.arange(600.0).reshape(100, 6) // 7
    metrics = np.stack([human, -human, human % 11])
    units, weights = np.arange(100) // 50, np.array([[1.0, 1.0], [2.0, 0.0], [1.0, 3.0]])
    tau = pooled_correlation("kendall", human, metrics, units=units, weights=weights)
    np.testing.assert_allclose(tau[:, :2], [[1, -1]] * 3)
    np.testing.assert_allclose(tau, on_repeated_rows("kendall", human, metrics, units, weights), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_the_size_of_scores_does_not_matter(scale: float) -> None:
    # Squares of such scores are 0 or infinite in floating point.
    human, metrics, units, weights = study(7)
    design: Any = {"units": units, "weights": weights}
    plain = pooled_correlation("pearson", human, metrics, **design)
    assert np.isfinite(plain).any()
    np.testing.assert_allclose(pooled_correlation("pearson", human * scale, metrics, **design), plain, atol=1e-9)
    np.testing.assert_allclose(pooled_correlation("pearson", human, metrics * scale, **design), plain, atol=1e-9)


def test_kendall_of_very_many_outputs() -> None:
    human, metrics = many(0, 2100)  # 4,200 outputs: more than 2^24 / 4,096
    human, metrics, units = human.reshape(-1, 1), metrics.reshape(4, -1, 1), np.arange(4200)
    assert len(units) ** 2 > pooled.EXACT
    weights = bootstrap_weights(4200, 40, np.random.default_rng(0), dtype=np.uint8)
    values = pooled_correlation("kendall", human, metrics, units=units, weights=weights)
    expected = on_repeated_rows("kendall", human, metrics, units, weights)
    np.testing.assert_allclose(values[0], expected[0], atol=1e-12)  # the data are exact
    np.testing.assert_allclose(values[:, 1], expected[:, 1], atol=1e-12)  # also for metrics with few values
    assert np.abs(values - expected).max() < 0.05 * expected[1:].std(axis=0).min()


@pytest.mark.parametrize("sizes", ["even", "one heavy", "few"])
@pytest.mark.parametrize("weighted", [False, True])
def test_kendall_on_a_grid_is_near_that_of_every_output(
    sizes: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    human, metrics = many(1, 300)
    human += np.random.default_rng(2).normal(size=human.shape)  # more values than bins
    item = np.arange(300)
    units = {"even": item, "one heavy": np.maximum(item - 150, 0), "few": item // 30}[sizes]
    n_units = int(units.max()) + 1
    drawn = bootstrap_weights(n_units, 200, np.random.default_rng(3))[1:]
    weights = np.vstack([np.ones(n_units), 1 - np.eye(n_units)[:5], drawn])
    design: Any = {"units": units, "weights": weights}
    if weighted:
        design["item_weights"] = np.random.default_rng(4).choice([0.5, 1.0, 3.0], 300)
    exact = pooled_correlation("kendall", human, metrics, **design)
    monkeypatch.setattr(pooled, "EXACT", 0)
    values = pooled_correlation("kendall", human, metrics, **design)
    np.testing.assert_allclose(values[0], exact[0], atol=1e-12)
    spread = exact[6:].std(axis=0)
    assert (np.abs(values - exact).max(axis=0) < 0.3 * spread).all()
    assert (np.abs((values - exact).mean(axis=0)) < 0.05 * spread).all()
    np.testing.assert_allclose(values[6:].std(axis=0), spread, rtol=0.03)
    assert (np.abs(values[:6] - exact[:6]) < 0.15 * spread).all()


@each_kind
@pytest.mark.parametrize("exact", [True, False])
def test_a_side_that_is_constant_in_a_resample_is_undefined(
    kind: Kind, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exact:
        monkeypatch.setattr(pooled, "EXACT", 0)
    human, metrics = many(3, 40)
    metrics[0] = np.where(np.arange(40)[:, None] == 3, metrics[0], 0.3)
    metrics[1] = 0.3
    weights = with_point(1 - np.eye(40)[2:4])
    values = pooled_correlation(kind, human, metrics[:2], units=np.arange(40), weights=weights)
    assert np.isnan(values).tolist() == [[False, True], [False, True], [True, True]]
