from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.correlation import concordance, kendall, pair_counts, pearson, spearman, within_item
from custodes.stats.ranks import SortedRows

SEEDS = st.integers(0, 2**32 - 1)
SCIPY: dict[str, Callable[..., object]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
}


def reference(kind: str, x: np.ndarray, y: np.ndarray) -> float:
    keep = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(SCIPY[kind](x, y).statistic)  # type: ignore[attr-defined]


@settings(deadline=None)
@given(seed=SEEDS)
@pytest.mark.parametrize(("correlate", "kind"), [(pearson, "pearson"), (spearman, "spearman"), (kendall, "kendall")])
@pytest.mark.parametrize("largest", [9, 60], ids=["compared", "sorted"])
def test_correlation_equals_scipy(correlate: Callable[..., np.ndarray], kind: str, largest: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, levels = rng.integers(0, largest), rng.choice([5, 12])
    x, y = rng.integers(0, levels, (3, 1, n)) / 3, rng.integers(0, levels, (1, 4, n)) / 7
    x[rng.random(x.shape) < 0.1] = np.nan
    expected = [[reference(kind, a, b) for b in y[0]] for a in x[:, 0]]
    np.testing.assert_allclose(correlate(x, y), np.reshape(expected, (3, 4)), atol=1e-12)


@settings(deadline=None)
@given(seed=SEEDS, n_levels=st.sampled_from([1, 3, 20, 60]))
@pytest.mark.parametrize("digits", [0, 9], ids=["ties", "none"])
def test_kendall_of_one_ranking_with_several(seed: int, n_levels: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, n_levels, 80) / 3, np.round(rng.normal(size=(3, 80)), digits)
    x[rng.random(80) < 0.1] = y[0, :7] = np.nan
    np.testing.assert_allclose(kendall(x, y), [reference("kendall", x, row) for row in y], atol=1e-12)
    np.testing.assert_allclose(kendall(y, x), kendall(x, y), atol=1e-12)


def test_a_constant_with_float_noise_is_constant() -> None:
    assert np.isnan(pearson(np.full(10, 0.1), np.arange(10.0)))
    assert np.isnan(pearson(np.array([0.3, 0.1 + 0.2, 0.3]), np.arange(3.0)))


def test_pearson_survives_an_offset_and_extreme_scales() -> None:
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert pearson(x + 1e6, y).item() == pytest.approx(0.8, abs=1e-9)
    assert pearson(x * 1e-200, y * 1e200).item() == pytest.approx(0.8)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("digits", [0, 1, 9], ids=["ties", "some ties", "none"])
@settings(deadline=None)
@given(seed=SEEDS)
def test_concordance_by_definition(rows: int, digits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 50)
    x, y = np.round(rng.normal(size=(3, n)), digits), np.round(rng.normal(size=(rows, n)), rng.choice([0, 1, 9]))
    weights = rng.choice([0, 0.5, 1, 3], n)
    kernel = np.sign(x[:, :, None] - x[:, None]) * np.sign(y[:, :, None] - y[:, None])
    np.testing.assert_array_equal(concordance(x, y), kernel.sum(axis=2))
    np.testing.assert_array_equal(concordance(y, x), kernel.sum(axis=2))
    np.testing.assert_allclose(concordance(x, y, weights=weights), kernel @ weights, atol=1e-9)
    same = x[:, :, None] == x[:, None]
    np.testing.assert_array_equal(SortedRows.from_values(x).tie_counts(), same.sum(axis=2))
    np.testing.assert_allclose(SortedRows.from_values(x).tie_counts(weights), same @ weights, atol=1e-9)


@settings(deadline=None)
@given(seed=SEEDS)
def test_pair_counts_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 9)
    x, y = rng.integers(0, 4, (5, 1, n)).astype(float), rng.integers(0, 4, (5, 2, n)).astype(float)
    y[rng.random(y.shape) < 0.1] = np.nan
    pairs = rng.random((2, n, n)) < 0.7
    pairs |= pairs.swapaxes(1, 2)
    for mask in (None, pairs):
        counts = pair_counts(x, y, pairs=mask)
        for b, m in np.ndindex(5, 2):
            first, second = np.triu_indices(n, 1)
            sx, sy = np.sign(x[b, 0, first] - x[b, 0, second]), np.sign(y[b, m, first] - y[b, m, second])
            compared = ~np.isnan(sy) & (True if mask is None else mask[m, first, second])
            sx, sy = sx[compared], sy[compared]
            expected = [(sx * sy).sum(), (sx != 0).sum(), (sy != 0).sum(), (sx * sy != 0).sum(), len(sx)]
            assert [count[b, m] for count in counts] == expected


@settings(deadline=None, max_examples=25)
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
def test_within_item_equals_scipy(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    human, metrics = rng.integers(0, 4, (6, 5)) / 3, rng.integers(0, 9, (3, 6, 5)) / 7
    human[rng.random(human.shape) < 0.1] = np.nan
    metrics[rng.random(metrics.shape) < 0.2] = np.nan
    within = within_item(human, metrics, kind=kind)  # type: ignore[arg-type]
    expected = [[reference(kind, *pair) for pair in zip(human, scores, strict=True)] for scores in metrics]
    np.testing.assert_allclose(within, expected, atol=1e-12)
