from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.learning.folds import grouped_folds, plain_folds, splits

SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(seed=SEEDS, n_folds=st.integers(1, 6))
def test_groups_stay_whole_and_folds_are_balanced(seed: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.concatenate([np.arange(n_folds), rng.integers(0, 12, rng.integers(0, 60))])) - 3
    fold = grouped_folds(groups, n_folds=n_folds, rng=rng)
    assert np.array_equal(np.unique(fold), np.arange(n_folds))
    assert all(len(np.unique(fold[groups == group])) == 1 for group in groups)
    # The largest group goes to the emptiest fold first, so fold sizes differ by at most one group.
    sizes = np.bincount(fold)
    assert np.ptp(sizes) <= np.unique(groups, return_counts=True)[1].max()


def test_the_largest_groups_are_dealt_first() -> None:
    # four and four; the opposite order of groups would give two and six
    for seed in range(10):
        fold = grouped_folds(np.array([0, 1, 2, 3, 4, 4, 4, 4]), n_folds=2, rng=np.random.default_rng(seed))
        assert np.bincount(fold).tolist() == [4, 4]


def test_every_group_lands_in_every_fold_equally_often() -> None:
    rng = np.random.default_rng(0)
    folds = np.stack([grouped_folds(np.arange(6), n_folds=3, rng=rng) for _ in range(3000)])
    together = np.mean(folds[:, 0] == folds[:, 1])
    assert abs(together - 1 / 5) < 0.03  # one of the 5 other groups is in the same fold
    assert np.abs(np.stack([np.mean(folds == f, axis=0) for f in range(3)]) - 1 / 3).max() < 0.04


@given(seed=SEEDS, n=st.integers(1, 50), n_folds=st.integers(1, 8))
def test_plain_folds_are_equal_in_size(seed: int, n: int, n_folds: int) -> None:
    n = max(n, n_folds)
    fold = plain_folds(np.zeros(n), n_folds=n_folds, rng=np.random.default_rng(seed))
    sizes = np.bincount(fold, minlength=n_folds)
    assert len(sizes) == n_folds
    assert sizes.sum() == n
    assert np.ptp(sizes) <= 1


def test_plain_folds_split_items() -> None:
    fold = plain_folds(np.zeros(100), n_folds=5, rng=np.random.default_rng(0)).reshape(10, 10)
    assert all(len(np.unique(item)) > 1 for item in fold)


def test_splits_leave_out_what_is_not_used() -> None:
    fold = np.array([2, -1, 0, 2])
    (train, held), (other_train, other_held) = splits(fold)
    assert train.tolist() == other_held.tolist() == [True, False, False, True]
    assert held.tolist() == other_train.tolist() == [False, False, True, False]
