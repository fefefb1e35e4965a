from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.stats import ABSENT
from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.equal_clusters import codes_of, group_clusters, iter_group_weights, sums_of


@given(st.integers(0, 2**32 - 1))
def test_clusters_are_of_one_kind_where_their_rows_say_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_units = rng.integers(0, 60), 12
    codes, units = rng.integers(0, 3, n), rng.integers(0, n_units, n)
    contents = [tuple(codes[units == unit]) for unit in range(n_units)]
    different = list(dict.fromkeys(contents))
    number, rows, kind = group_clusters(codes, units, n_units=n_units)
    assert number.tolist() == [contents.count(content) for content in different]
    assert [tuple(codes[rows[kind == k]]) for k in range(len(number))] == different


def test_codes_tell_all_signs_apart_however_many_raters() -> None:
    rng = np.random.default_rng(0)
    pair = rng.integers(0, 3, 200)
    signs = rng.choice(np.array([2, 1, 0, -1, -2, ABSENT], dtype=np.int8), size=(40, 200))
    signs[:, 100:], pair[100:] = signs[:, :100], pair[:100]
    signs[39, 150:] = 1
    codes, rows = codes_of(pair, signs), np.column_stack([pair, signs.T])
    same = (rows[:, None] == rows).all(axis=2)
    np.testing.assert_array_equal(codes[:, None] == codes, same)
    assert same.sum() - len(same) > 50


@pytest.mark.parametrize("per_cluster", [1, 3])
def test_the_law_of_drawn_kinds_is_that_of_drawn_clusters(per_cluster: int) -> None:
    """Compare means and covariances of sums over 20,000 resamples, and of a square, which depends on whole clusters."""
    rng = np.random.default_rng(per_cluster)
    n, n_units, draws = 60 * per_cluster, 60, 20_000
    pair, sign = np.sort(rng.integers(0, 3, n)), rng.integers(-1, 2, n)
    units = rng.permutation(np.repeat(np.arange(n_units), per_cluster)) if per_cluster > 1 else np.arange(n_units)
    number, rows, kind = group_clusters(codes_of(pair, sign[None].astype(np.int8)), units, n_units=n_units)
    assert len(number) < n_units
    total = sums_of(pair[rows], kind, sign[rows], n_cells=3, n_groups=len(number))
    blocks = list(iter_group_weights(number, draws, np.random.default_rng(0), size_per_column=3))
    times = np.concatenate([weights for _, weights in blocks], axis=1)
    assert [block.stop - block.start for block, _ in blocks] == [weights.shape[1] for _, weights in blocks]
    drawn = total(times).T
    per_unit = np.zeros((3, n_units))
    np.add.at(per_unit, (pair, units), sign)
    np.testing.assert_array_equal(drawn[0], per_unit.sum(axis=1))
    # by hand: sums over G clusters drawn with replacement
    around = per_unit - per_unit.mean(axis=1, keepdims=True)
    covariance = around @ around.T
    error = np.sqrt((np.outer(covariance.diagonal(), covariance.diagonal()) + covariance**2) / draws)
    assert (np.abs(drawn[1:].mean(axis=0) - drawn[0]) < 4 * np.sqrt(covariance.diagonal() / draws)).all()
    assert (np.abs(np.cov(drawn[1:].T) - covariance) < 4.5 * error).all()
    # and by resampling the clusters directly
    old = bootstrap_weights(n_units, draws, np.random.default_rng(1))[1:] @ per_unit.T
    for level in (0.05, 0.5, 0.95):
        difference = np.quantile(drawn[1:], level, axis=0) - np.quantile(old, level, axis=0)
        assert (np.abs(difference) < 0.1 * np.sqrt(covariance.diagonal()) + 1).all()


def test_clusters_that_are_all_different_are_drawn_as_before() -> None:
    _, times = next(iter_group_weights(np.ones(7, dtype=int), 5, np.random.default_rng(3), size_per_column=1))
    np.testing.assert_array_equal(times[:, 1:].T, bootstrap_weights(7, 5, np.random.default_rng(3))[1:])
    assert (times[:, 0] == 1).all()


def test_blocks_change_nothing() -> None:
    number = np.array([3, 1, 2])
    ((_, whole),) = iter_group_weights(number, 10, np.random.default_rng(0), size_per_column=3)
    blocks = [
        *iter_group_weights(number, 10, np.random.default_rng(0), size_per_column=1_000_000)
    ]  # few arrays of this size fit
    parts = [times for _, times in blocks]
    assert [rows.start for rows, _ in blocks] == [0, *np.cumsum([times.shape[1] for times in parts])[:-1]]
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("size", [1, 2**22 + 1])
@pytest.mark.parametrize("share", [0.05, 0.9])
def test_sums_are_exact_dense_or_sparse(share: float, size: int) -> None:
    rng = np.random.default_rng(0)
    cell, kind = np.nonzero(rng.random((30, 40)) < share)
    cell, kind = np.concatenate([cell, cell[:5]]), np.concatenate([kind, kind[:5]])
    values, times = rng.integers(-3, 3, len(cell)) * size, rng.integers(0, 9, (40, 6)).astype(float)
    expected = np.zeros((30, 6))
    np.add.at(expected, cell, values[:, None] * times[kind])
    np.testing.assert_array_equal(sums_of(cell, kind, values, n_cells=30, n_groups=40)(times), expected)
