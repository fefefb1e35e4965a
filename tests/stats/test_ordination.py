from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.decomposition import PCA

from custodes.stats.ordination import coordinates, explained_variance, leaf_order, null_explained

seeds = st.integers(0, 2**32 - 1)
# fewer raters than features, one fewer, as many, and more
shapes = pytest.mark.parametrize("shape", [(3, 9), (6, 7), (6, 6), (7, 6), (9, 3), (2, 1), (2, 5)])


def sample(seed: int, *, smallest: int = 2) -> tuple[np.random.Generator, np.ndarray]:
    """Return points (raters, n) with an offset, with more raters or more features."""
    rng = np.random.default_rng(seed)
    n_raters, n = rng.integers(smallest, 9, 2)
    return rng, rng.normal(size=(n_raters, n)) * rng.uniform(0.2, 3, n) + 5


@shapes
def test_explained_variance_is_that_of_sklearn_and_of_the_singular_values(shape: tuple[int, int]) -> None:
    points = np.random.default_rng(0).normal(size=(4, *shape)) * np.linspace(1, 4, shape[1]) + 100
    explained = explained_variance(points)
    k = min(shape[0] - 1, shape[1])
    assert explained.shape == (4, k)
    for b, rows in enumerate(points):
        np.testing.assert_allclose(explained[b], PCA(svd_solver="full").fit(rows).explained_variance_ratio_[:k])
        variance = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:k] ** 2
        np.testing.assert_allclose(explained[b], variance / variance.sum())


@shapes
def test_a_weight_is_how_often_a_feature_is_present(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(5, *shape))
    weights = rng.integers(0, 4, shape[1]).astype(float)
    weights[0] = 2  # some feature is present
    explained = explained_variance(points, column_weights=weights)
    for b in range(5):
        np.testing.assert_allclose(explained[b], repeated_shares(points[b], weights), atol=1e-12)
    np.testing.assert_allclose(explained_variance(points, column_weights=np.ones(shape[1])), explained_variance(points))


def repeated_shares(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the explained proportions by sklearn with every column repeated as often as it is present, padded with
    0."""
    k = min(len(points) - 1, points.shape[1])
    ratios = PCA(svd_solver="full").fit(np.repeat(points, weights.astype(int), axis=1)).explained_variance_ratio_[:k]
    return np.pad(ratios, (0, k - len(ratios)))


def test_raters_that_coincide_have_no_components() -> None:
    equal = np.tile([0.1, 0.2, 0.7], (4, 1))
    separated = equal.copy()
    separated[2, 1] += 1
    nearly = equal.copy()
    nearly[1] *= 1 + 1e-15
    assert (nearly != equal).any()
    explained = explained_variance(np.stack([equal, separated, nearly]))
    assert np.isnan(explained[[0, 2]]).all()
    np.testing.assert_allclose(explained[1], [1, 0, 0], atol=1e-12)
    # They differ only in a feature with weight 0.
    assert np.isnan(explained_variance(separated[np.newaxis], column_weights=np.array([1.0, 0, 1]))).all()


def test_degenerate_shapes() -> None:
    assert explained_variance(np.ones((2, 1, 3))).shape == (2, 0)
    assert explained_variance(np.ones((2, 3, 0))).shape == (2, 0)
    assert explained_variance(np.ones((0, 3, 2))).shape == (0, 2)
    assert coordinates(np.ones((1, 3))).tolist() == [[0, 0]]
    assert coordinates(np.ones((3, 0)), k=1).tolist() == [[0], [0], [0]]


@shapes
def test_coordinates_are_the_scores_of_sklearn_up_to_sign(shape: tuple[int, int]) -> None:
    points = np.random.default_rng(4).normal(size=shape) * np.linspace(1, 4, shape[1]) + 10
    k = min(shape[0] - 1, shape[1])
    scores = coordinates(points, k=k + 2)
    np.testing.assert_allclose(np.abs(scores[:, :k]), np.abs(PCA(svd_solver="full").fit_transform(points)[:, :k]))
    assert (scores[:, k:] == 0).all()
    # The sign of a column is common to all raters, so distances do not change.
    centred = points - points.mean(axis=0)
    np.testing.assert_allclose(scores @ scores.T, centred @ centred.T, atol=1e-9)
    np.testing.assert_array_equal(coordinates(points), coordinates(points, k=2))


@given(seed=seeds)
def test_coordinates_follow_the_raters(seed: int) -> None:
    rng, points = sample(seed, smallest=3)  # With two raters the scores are tied.
    scores = coordinates(points)
    largest = np.abs(scores).argmax(axis=0)
    assert (scores[largest, [0, 1]] >= 0).all()
    order = rng.permutation(len(points))
    np.testing.assert_allclose(coordinates(points[order]), scores[order], atol=1e-6)
    np.testing.assert_allclose(coordinates(rng.permutation(points, axis=1)), scores, atol=1e-6)
    np.testing.assert_allclose(coordinates(points * 3 - 7), 3 * scores, atol=1e-6)


def test_the_first_rater_decides_a_tie_of_signs() -> None:
    points = np.random.default_rng(5).normal(size=(2, 6))
    for pair in (points, points[::-1], -points):
        first, second = coordinates(pair, k=1)[:, 0]
        assert first > 0
        np.testing.assert_allclose(second, -first)


def test_components_that_do_not_exist_are_zero() -> None:
    line = np.outer([0.1, 0.2, 0.7, 0.4], [1.0, 3.0, 0.3]) + 1 / 3
    assert (coordinates(line, k=3)[:, 1:] == 0).all()
    assert (coordinates(np.tile([0.1, 0.2, 0.7], (5, 1))) == 0).all()


def test_the_null_permutes_every_rater_on_its_own() -> None:
    rng = np.random.default_rng(6)
    agreed = np.arange(8.0) + rng.normal(scale=0.1, size=(5, 8))
    null = null_explained(agreed, n_draws=2_000, rng=np.random.default_rng(7))
    assert null.shape == (2_000, 4)
    by_hand = [
        PCA(svd_solver="full").fit(np.stack([rng.permutation(row) for row in agreed])).explained_variance_ratio_[:4]
        for _ in range(500)
    ]
    # The standard error of a mean of 500 proportions is below .004.
    np.testing.assert_allclose(null.mean(axis=0), np.mean(by_hand, axis=0), atol=0.015)
    assert np.array_equal(null, null_explained(agreed, n_draws=2_000, rng=np.random.default_rng(7)))
    assert np.unique(null[:, 0]).size > 1_900
    assert null_explained(agreed, n_draws=0, rng=rng).shape == (0, 4)


def distances(rng: np.random.Generator, n: int) -> np.ndarray:
    points = rng.normal(size=(n, 3))
    return np.linalg.norm(points[:, np.newaxis] - points, axis=-1)


def either_way(order: np.ndarray) -> list[list[int]]:
    return [order.tolist(), order[::-1].tolist()]


@given(seed=seeds)
def test_a_planted_line_is_recovered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    place = rng.permutation(rng.integers(1, 5, 9).cumsum()).astype(float)
    order = leaf_order(np.abs(place[:, np.newaxis] - place))
    assert order.tolist() in either_way(np.argsort(place))
    assert order.dtype == np.intp
    assert order[0] < order[-1]


@given(seed=seeds)
def test_the_order_is_the_optimal_one_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distance = distances(rng, rng.integers(3, 12))
    expected = leaves_list(linkage(squareform(distance, checks=False), method="average", optimal_ordering=True))
    assert leaf_order(distance).tolist() in either_way(expected)


def test_missing_distances_count_as_the_mean() -> None:
    distance = distances(np.random.default_rng(0), 9)
    gaps = distance.copy()
    gaps[[0, 3, 2], [3, 0, 7]] = np.nan
    gaps[7, 2] = np.nan
    upper = np.triu_indices(9, 1)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps[upper]), gaps)
    before = gaps.copy()
    assert np.array_equal(leaf_order(gaps), leaf_order(filled))
    np.testing.assert_array_equal(gaps, before)
    # not 0, which would place the two farthest rows at one point
    line = np.abs(np.arange(5.0)[:, np.newaxis] - np.arange(5))
    line[0, 4] = line[4, 0] = np.nan
    assert leaf_order(line).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_stay_as_they_are(n: int) -> None:
    assert leaf_order(np.full((n, n), 0.5)).tolist() == list(range(n))
    assert leaf_order(np.full((n, n), np.nan)).tolist() == list(range(n))
