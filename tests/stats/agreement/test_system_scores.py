"""Scores of systems on shared cells, against least squares with dummies and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.agreement.correlation import system_means
from custodes.stats.agreement.system_scores import blocks_of, common_items, is_complete, over_systems, system_fit
from custodes.stats.bootstrap import bootstrap_weights

REFERENCES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def dummies(scores: np.ndarray, rated: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Effects of systems (up to a constant) by weighted least squares on dummies of items and systems."""
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
    # nearly complete: nearly the means, level included
    rated[0, 0] = False
    assert not is_complete(rated)
    near = system_fit(scores, rated, **options)
    assert np.abs(near - system_means(np.where(rated, scores, np.nan), **options)).max() < 0.3
    # difficulty of items, whatever it is, changes no difference of systems
    moved = system_fit(scores + 100 * rng.normal(size=(12, 1)), rated, **options)
    np.testing.assert_allclose(np.diff(moved), np.diff(near), atol=1e-7)


def test_the_same_scores_have_the_same_fit_and_no_cell_none() -> None:
    rng = np.random.default_rng(1)
    scores, rated = rng.normal(size=(1, 30, 6)), rng.random((30, 6)) < 0.3
    rated[:, 2] = False
    fit = system_fit(
        np.repeat(scores, 2, axis=0), rated, units=np.arange(30), weights=np.ones((1, 30)), item_weights=None
    )
    np.testing.assert_array_equal(fit[0, 0], fit[0, 1])
    assert np.isnan(fit[0, :, 2]).all()
    assert np.isfinite(np.delete(fit[0], 2, axis=1)).all()


@pytest.mark.parametrize("kind", REFERENCES)
def test_correlations_over_systems(kind: str) -> None:
    rng = np.random.default_rng(2)
    human, metrics = rng.integers(0, 6, (3, 2, 7)).astype(float), rng.integers(0, 6, (3, 2, 7)).astype(float)
    metrics[:, :, 5] = np.nan
    everyone = np.ones((2, 7, 7), dtype=bool)
    made = over_systems(kind, human, metrics, pairs=everyone)  # type: ignore[arg-type]
    kept = np.arange(7) != 5
    for b, m in np.ndindex(3, 2):
        expected = REFERENCES[kind](human[b, m, kept], metrics[b, m, kept]).statistic
        assert made[b, m] == pytest.approx(expected)
    constant = np.full_like(metrics, 0.1)
    assert np.isnan(over_systems(kind, human, constant, pairs=everyone)).all()  # type: ignore[arg-type]


def test_levels_of_sets_without_a_common_item_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    human, metrics = rng.normal(size=(1, 1, 7)), rng.normal(size=(1, 1, 7))
    first = np.arange(7) < 4
    pairs = (first[:, None] == first)[None]
    assert blocks_of(pairs[0]).tolist() == [0] * 4 + [4] * 3
    for kind in ("pearson", "spearman", "kendall"):
        plain = over_systems(kind, human, metrics, pairs=pairs)  # type: ignore[arg-type]
        moved = over_systems(kind, human + 100 * first, metrics - 50 * first, pairs=pairs)  # type: ignore[arg-type]
        np.testing.assert_allclose(plain, moved)
    # Kendall by hand: nine pairs
    x, y = human[0, 0], metrics[0, 0]
    within = [(a, b) for a in range(7) for b in range(a + 1, 7) if first[a] == first[b]]
    expected = np.mean([np.sign((x[a] - x[b]) * (y[a] - y[b])) for a, b in within])
    assert over_systems("kendall", human, metrics, pairs=pairs).item() == pytest.approx(expected)


def test_chains_join() -> None:
    rated = np.zeros((3, 5), dtype=bool)
    rated[0, [0, 1]] = rated[1, [1, 2]] = rated[2, [3, 4]] = True
    joined = common_items(rated)
    assert joined.sum() == 6
    assert blocks_of(joined).tolist() == [0, 0, 0, 3, 3]
