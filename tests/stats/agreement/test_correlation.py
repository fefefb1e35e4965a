from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.agreement.correlation import (
    pearson,
    pooled_pearson,
    pooled_spearman,
    spearman,
    system_means,
    weighted_item_mean,
    within_item,
)

SEEDS = st.integers(0, 2**32 - 1)
SCIPY: dict[str, Callable[..., object]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
}
POOLED = {"pearson": pooled_pearson, "spearman": pooled_spearman}


def reference(kind: str, x: np.ndarray, y: np.ndarray) -> float:
    keep = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[keep], y[keep]
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(SCIPY[kind](x, y).statistic)  # type: ignore[attr-defined]


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """human, metrics, units, weights: ties, missing cells, clusters of several items, units drawn twice or never."""
    rng = np.random.default_rng(seed)
    n_items, n_systems, n_metrics = rng.integers(1, 8), rng.integers(1, 5), rng.integers(1, 4)
    n_units = rng.integers(1, n_items + 1)
    human = rng.integers(0, rng.integers(1, 6) + 1, (n_items, n_systems)) / 3
    metrics = np.round(human + rng.normal(size=(n_metrics, n_items, n_systems)), rng.integers(0, 3))
    human[rng.random(human.shape) < 0.1] = np.nan
    metrics[rng.random(metrics.shape) < rng.choice([0, 0.2])] = np.nan
    units = rng.permutation(np.concatenate([np.arange(n_units), rng.integers(0, n_units, n_items - n_units)]))
    return human, metrics, units, np.vstack([np.ones(n_units), rng.integers(0, 4, (5, n_units))])


def repeated(row: np.ndarray, units: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(units)), row[units].astype(int))


@settings(deadline=None)
@given(seed=SEEDS)
@pytest.mark.parametrize(("correlate", "kind"), [(pearson, "pearson"), (spearman, "spearman")])
def test_correlation_equals_scipy(correlate: Callable[..., np.ndarray], kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 9)
    x, y = rng.integers(0, 5, (3, 1, n)) / 3, rng.integers(0, 5, (1, 4, n)) / 7
    x[rng.random(x.shape) < 0.1] = np.nan
    expected = [[reference(kind, a, b) for b in y[0]] for a in x[:, 0]]
    np.testing.assert_allclose(correlate(x, y), np.reshape(expected, (3, 4)), atol=1e-12)


def test_a_constant_with_float_noise_is_constant() -> None:
    assert np.isnan(pearson(np.full(10, 0.1), np.arange(10.0)))
    assert np.isnan(pearson(np.array([0.3, 0.1 + 0.2, 0.3]), np.arange(3.0)))


def test_pearson_survives_an_offset_and_extreme_scales() -> None:
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert pearson(x + 1e6, y).item() == pytest.approx(0.8, abs=1e-9)
    assert pearson(x * 1e-200, y * 1e200).item() == pytest.approx(0.8)


@settings(deadline=None)
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_pooled_correlation_equals_scipy_on_repeated_data(kind: str, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    pooled = POOLED[kind](human, metrics, units=units, weights=weights)
    assert pooled.shape == (len(weights), len(metrics))
    for row, values in zip(weights, pooled, strict=True):
        items = repeated(row, units)
        expected = [reference(kind, human[items].ravel(), metric[items].ravel()) for metric in metrics]
        np.testing.assert_allclose(values, expected, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_item_weights_are_multiplicities(kind: str, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    item_weights = np.random.default_rng(seed).integers(0, 3, len(human)).astype(float)
    copies = np.repeat(np.arange(len(human)), item_weights.astype(int))
    copied = POOLED[kind](human[copies], metrics[:, copies], units=units[copies], weights=weights)
    for scale in (1.0, 0.3):  # only their ratios matter
        weighted = POOLED[kind](human, metrics, units=units, weights=weights, item_weights=item_weights * scale)
        np.testing.assert_allclose(weighted, copied, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_pooled_correlation_is_invariant(kind: str, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    rng = np.random.default_rng(seed)
    pooled = POOLED[kind](human, metrics, units=units, weights=weights)
    items, systems, order = (rng.permutation(n) for n in (len(human), human.shape[1], len(metrics)))
    labels = rng.permutation(weights.shape[1])
    shuffled = POOLED[kind](
        human[items][:, systems],
        metrics[order][:, items][:, :, systems],
        units=labels[units[items]],
        weights=weights[:, np.argsort(labels)],
    )
    np.testing.assert_allclose(shuffled, pooled[:, order], atol=1e-9)
    scaled = POOLED[kind](100 - 7 * human, 3 * metrics + 50, units=units, weights=weights)
    np.testing.assert_allclose(scaled, -pooled, atol=1e-9)
    if kind == "spearman":
        monotone = pooled_spearman(np.exp(human), metrics**3, units=units, weights=weights)
        np.testing.assert_allclose(monotone, pooled, atol=1e-9)


def test_pooled_spearman_in_chunks_equals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    human, metrics = rng.integers(0, 4, (12, 3)).astype(float), rng.normal(size=(2, 12, 3))
    weights = rng.multinomial(12, np.full(12, 1 / 12), size=50)
    at_once = pooled_spearman(human, metrics, units=np.arange(12), weights=weights)
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 1)
    np.testing.assert_allclose(pooled_spearman(human, metrics, units=np.arange(12), weights=weights), at_once)


@settings(deadline=None)
@given(seed=SEEDS)
def test_system_means_equal_means_of_repeated_data(seed: int) -> None:
    _, scores, units, weights = study(seed)
    item_weights = np.random.default_rng(seed).random(len(units))
    plain = system_means(scores, units=units, weights=weights)
    weighted = system_means(scores, units=units, weights=weights, item_weights=item_weights)
    for row, means, by_weight in zip(weights, plain, weighted, strict=True):
        items = repeated(row, units)
        for r, s in np.ndindex(means.shape):
            column, weight = scores[r, items, s], item_weights[items]
            rated = ~np.isnan(column)
            if not rated.any():
                assert np.isnan([means[r, s], by_weight[r, s]]).all()
                continue
            assert means[r, s] == pytest.approx(column[rated].mean(), abs=1e-10)
            assert by_weight[r, s] == pytest.approx(np.average(column[rated], weights=weight[rated]), abs=1e-10)


def test_equal_means_tie_exactly() -> None:
    scores = np.array([[[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]]])  # in binary 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert scores[0, :, 0].cumsum()[-1] != scores[0, :, 1].cumsum()[-1]
    first, second = system_means(scores, units=np.arange(3), weights=np.ones((1, 3)))[0, 0]
    assert first == second


@settings(deadline=None, max_examples=50)
@given(seed=SEEDS)
@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
def test_within_item_equals_scipy(kind: str, seed: int) -> None:
    human, metrics, units, weights = study(seed)
    within = within_item(human, metrics, kind=kind)  # type: ignore[arg-type]
    expected = np.array([[reference(kind, *pair) for pair in zip(human, m, strict=True)] for m in metrics])
    np.testing.assert_allclose(within, expected, atol=1e-12)
    means = weighted_item_mean(within, units=units, weights=weights)
    for row, mean in zip(weights, means, strict=True):
        for m, values in enumerate(expected[:, repeated(row, units)]):
            defined = values[~np.isnan(values)]
            np.testing.assert_allclose(mean[m], defined.mean() if len(defined) else np.nan, atol=1e-12)


def test_item_means_are_weighted() -> None:
    means = weighted_item_mean(
        np.array([[1.0, 3.0, np.nan]]),
        units=np.array([0, 1, 1]),
        weights=np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]]),
        item_weights=np.array([1.0, 3.0, 5.0]),
    )
    np.testing.assert_allclose(means[:, 0], [10 / 4, 11 / 5, np.nan])


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_the_size_of_scores_does_not_matter(scale: float) -> None:
    # squares of such scores are 0 or infinite in floating point
    human, metrics, units, weights = study(7)
    plain = pooled_pearson(human, metrics, units=units, weights=weights)
    assert np.isfinite(plain).any()
    np.testing.assert_allclose(pooled_pearson(human * scale, metrics, units=units, weights=weights), plain, atol=1e-9)
    np.testing.assert_allclose(pooled_pearson(human, metrics * scale, units=units, weights=weights), plain, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_means_keep_their_digits_whatever_the_size_of_scores(scale: float) -> None:
    _, metrics, units, weights = study(7)
    plain = system_means(metrics, units=units, weights=weights)
    np.testing.assert_allclose(system_means(metrics * scale, units=units, weights=weights), plain * scale, rtol=1e-9)
