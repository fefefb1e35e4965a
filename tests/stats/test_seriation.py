from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from custodes.stats.ordination import leaf_order

seeds = st.integers(0, 2**32 - 1)


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


@given(seed=seeds)
def test_the_order_follows_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distance = distances(rng, 8)
    shuffle = rng.permutation(8)
    followed = shuffle[leaf_order(distance[np.ix_(shuffle, shuffle)])]
    assert followed.tolist() in either_way(leaf_order(distance))


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
    # and not as 0, which would draw the two farthest rows together
    line = np.abs(np.arange(5.0)[:, np.newaxis] - np.arange(5))
    line[0, 4] = line[4, 0] = np.nan
    assert leaf_order(line).tolist() == [0, 1, 2, 3, 4]


def test_the_diagonal_is_ignored() -> None:
    distance = distances(np.random.default_rng(1), 7)
    order = leaf_order(distance)
    np.fill_diagonal(distance, np.nan)
    assert np.array_equal(leaf_order(distance), order)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_stay_as_they_are(n: int) -> None:
    assert leaf_order(np.full((n, n), 0.5)).tolist() == list(range(n))
    assert leaf_order(np.full((n, n), np.nan)).tolist() == list(range(n))


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_rows_equally_far_are_all_there(value: float) -> None:
    assert sorted(leaf_order(np.full((6, 6), value)).tolist()) == list(range(6))
