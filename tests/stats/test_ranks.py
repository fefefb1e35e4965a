from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.ranks import count_earlier_lower, mid_ranks, representation, tie_runs

SEEDS = st.integers(0, 2**32 - 1)


def rankings(seed: int, *, complete: bool = False) -> np.ndarray:
    """Return rankings (raters, units, n) with ties, and missing cells unless complete."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, (4, 6, 8)))
    values = rng.integers(0, rng.integers(1, 12), shape).astype(float)
    if not complete:
        values[rng.random(shape) < rng.choice([0.1, 0.5])] = np.nan
    return values


@settings(deadline=None)
@given(seed=SEEDS)
def test_mid_ranks_equal_scipy(seed: int) -> None:
    values = rankings(seed)
    expected = stats.rankdata(values, axis=-1, nan_policy="omit")
    np.testing.assert_array_equal(mid_ranks(values), expected)


@settings(deadline=None)
@given(seed=SEEDS, n=st.integers(20, 60))
def test_mid_ranks_of_long_rows_equal_scipy(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n, (2, 3, n)).astype(float)
    values[rng.random(values.shape) < 0.1] = np.nan
    np.testing.assert_array_equal(mid_ranks(values), stats.rankdata(values, axis=-1, nan_policy="omit"))


def test_nothing_to_rank() -> None:
    assert mid_ranks(np.empty((2, 0))).shape == (2, 0)
    assert np.isnan(mid_ranks(np.full((2, 3), np.nan))).all()
    assert mid_ranks(np.array([[7.0]])).tolist() == [[1.0]]


@given(seed=SEEDS)
def test_tie_runs_by_search(seed: int) -> None:
    ordered = np.sort(np.random.default_rng(seed).integers(0, 5, 9))
    first, end = tie_runs(ordered)
    assert np.array_equal(first, np.searchsorted(ordered, ordered, side="left"))
    assert np.array_equal(end, np.searchsorted(ordered, ordered, side="right"))


@settings(deadline=None)
@given(seed=SEEDS)
def test_representation_by_its_definition(seed: int) -> None:
    values, rng = rankings(seed), np.random.default_rng(seed)
    weights = rng.integers(0, 3, values.shape[1])
    n = values.shape[-1]
    ranks = representation(values, weights=weights)
    for r, rater in enumerate(values):
        for k in range(n):
            stretched = [
                ((stats.rankdata(unit, nan_policy="omit")[k] - 0.5) / np.sum(~np.isnan(unit)) * n + 0.5, times)
                for unit, times in zip(rater, weights, strict=True)
                if not np.isnan(unit[k]) and np.sum(~np.isnan(unit)) > 1 and times
            ]
            total, times = sum(rank * times for rank, times in stretched), sum(times for _, times in stretched)
            expected = total / times * weights.sum() if times else np.nan
            np.testing.assert_allclose(ranks[r, k], expected, atol=1e-9)


@settings(deadline=None)
@given(seed=SEEDS)
def test_lower_before_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, n = rng.integers(0, 4), rng.integers(0, 60)
    codes, weights = rng.permuted(np.tile(np.arange(n), (rows, 1)), axis=1), rng.random((rows, n))
    lower = (codes[:, :, None] > codes[:, None]) & (np.arange(n)[:, None] > np.arange(n))
    np.testing.assert_array_equal(count_earlier_lower(codes), lower.sum(axis=2))
    np.testing.assert_allclose(count_earlier_lower(codes, weights), np.einsum("rij,rj->ri", lower, weights), atol=1e-9)


def test_lower_before_of_many() -> None:
    # more codes than int16 holds, and a number that fills no whole blocks
    codes = np.random.default_rng(0).permutation(40_003)
    expected = [np.count_nonzero(codes[:place] < codes[place]) for place in range(0, len(codes), 997)]
    assert count_earlier_lower(codes[np.newaxis])[0, ::997].tolist() == expected
