from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.correlation import system_correlations
from custodes.stats.system_scores import (
    blocks_of,
    common_items,
    is_complete,
    system_fit,
    system_means,
    weighted_item_mean,
)
from tests.stats.resampled_studies import repeated, study

SEEDS = st.integers(0, 2**32 - 1)
REFERENCES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def dummies(scores: np.ndarray, rated: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return effects of systems (up to a constant) by weighted least squares on dummies of items and systems."""
    item, system = np.nonzero(rated)
    design = np.zeros((len(item), sum(rated.shape)))
    design[np.arange(len(item)), item] = design[np.arange(len(item)), len(rated) + system] = 1
    root = np.sqrt(weight[item])
    return np.linalg.lstsq(design * root[:, None], scores[rated] * root, rcond=None)[0][len(rated) :]


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_is_least_squares_in_every_resample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(2, 40, 5)) + 5 * rng.normal(size=(40, 1))
    rated = rng.random((40, 5)) < 0.5
    units, weight = np.arange(40) // 2, rng.integers(1, 4, 40).astype(float)
    times = bootstrap_weights(20, 4, rng)
    fit = system_fit(scores, rated, units=units, weights=times, item_weights=weight)
    for b, m in np.ndindex(5, 2):
        expected = dummies(scores[m], rated, times[b, units] * weight)
        np.testing.assert_allclose(np.diff(fit[b, m]), np.diff(expected), atol=1e-9)


def test_complete_items_give_means() -> None:
    rng = np.random.default_rng(0)
    scores, rated = rng.normal(size=(2, 12, 4)), np.ones((12, 4), dtype=bool)
    rated[3:5] = False
    options = {"units": np.arange(12), "weights": np.ones((1, 12)), "item_weights": None}
    fit = system_fit(scores, rated, **options)
    np.testing.assert_allclose(fit[0], scores[:, rated[:, 0]].mean(axis=1), atol=1e-9)
    assert is_complete(rated)
    # Nearly complete data give nearly the means, level included.
    rated[0, 0] = False
    assert not is_complete(rated)
    near = system_fit(scores, rated, **options)
    assert np.abs(near - system_means(np.where(rated, scores, np.nan), **options)).max() < 0.3
    # The difficulty of items has no effect on differences of systems.
    shifted = system_fit(scores + 100 * rng.normal(size=(12, 1)), rated, **options)
    np.testing.assert_allclose(np.diff(shifted), np.diff(near), atol=1e-7)


@pytest.mark.parametrize("kind", REFERENCES)
def test_correlations_over_systems(kind: str) -> None:
    rng = np.random.default_rng(2)
    human, metrics = rng.integers(0, 6, (3, 2, 7)).astype(float), rng.integers(0, 6, (3, 2, 7)).astype(float)
    metrics[:, :, 5] = np.nan
    all_pairs_of = np.ones((2, 7, 7), dtype=bool)
    result = system_correlations(kind, human, metrics, pairs=all_pairs_of)  # type: ignore[arg-type]
    is_other = np.arange(7) != 5
    for b, m in np.ndindex(3, 2):
        expected = REFERENCES[kind](human[b, m, is_other], metrics[b, m, is_other]).statistic
        assert result[b, m] == pytest.approx(expected)
    constant = np.full_like(metrics, 0.1)
    assert np.isnan(system_correlations(kind, human, constant, pairs=all_pairs_of)).all()  # type: ignore[arg-type]


def test_levels_of_sets_without_a_common_item_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    human, metrics = rng.normal(size=(1, 1, 7)), rng.normal(size=(1, 1, 7))
    first = np.arange(7) < 4
    pairs = (first[:, None] == first)[None]
    assert blocks_of(pairs[0]).tolist() == [0] * 4 + [4] * 3
    for kind in ("pearson", "spearman", "kendall"):
        plain = system_correlations(kind, human, metrics, pairs=pairs)  # type: ignore[arg-type]
        shifted = system_correlations(kind, human + 100 * first, metrics - 50 * first, pairs=pairs)  # type: ignore[arg-type]
        np.testing.assert_allclose(plain, shifted)
    # Kendall by hand: nine pairs
    x, y = human[0, 0], metrics[0, 0]
    within = [(a, b) for a in range(7) for b in range(a + 1, 7) if first[a] == first[b]]
    expected = np.mean([np.sign((x[a] - x[b]) * (y[a] - y[b])) for a, b in within])
    assert system_correlations("kendall", human, metrics, pairs=pairs).item() == pytest.approx(expected)


def test_chains_join() -> None:
    rated = np.zeros((3, 5), dtype=bool)
    rated[0, [0, 1]] = rated[1, [1, 2]] = rated[2, [3, 4]] = True
    joined = common_items(rated)
    assert joined.sum() == 6
    assert blocks_of(joined).tolist() == [0, 0, 0, 3, 3]


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


def test_item_means_are_weighted() -> None:
    means = weighted_item_mean(
        np.array([[1.0, 3.0, np.nan]]),
        units=np.array([0, 1, 1]),
        weights=np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]]),
        item_weights=np.array([1.0, 3.0, 5.0]),
    )
    np.testing.assert_allclose(means[:, 0], [10 / 4, 11 / 5, np.nan])


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_means_keep_their_digits_whatever_the_size_of_scores(scale: float) -> None:
    _, metrics, units, weights = study(7)
    plain = system_means(metrics, units=units, weights=weights)
    np.testing.assert_allclose(system_means(metrics * scale, units=units, weights=weights), plain * scale, rtol=1e-9)
