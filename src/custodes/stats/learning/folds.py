"""Folds for cross-validation: whole groups at random, or single rows."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Ints

N_INNER_FOLDS = 5


def grouped_folds(groups: NDArray[Any], *, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Assign whole groups to folds at random, with similar numbers of rows: groups (rows,) -> (rows,).

    Folds are numbered from 0 to n_folds - 1, and none is empty. Groups are taken in order of size, the largest first;
    groups of equal size are in random order. Each group is assigned to the fold with the fewest rows so far. The caller
    must ensure that there are at least n_folds groups.

    >>> fold = grouped_folds(np.array([7, 7, 8, 8, 9, 9]), n_folds=3, rng=np.random.default_rng(0))
    >>> fold[::2].tolist() == fold[1::2].tolist(), sorted(fold.tolist())
    (True, [0, 0, 1, 1, 2, 2])
    """
    group_of_row, group_sizes = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    shuffled_groups = rng.permutation(len(group_sizes))
    fold_of_group = np.empty(len(group_sizes), dtype=np.intp)
    size_and_fold_heap = [(0, fold_number) for fold_number in range(n_folds)]
    for group in shuffled_groups[np.argsort(-group_sizes[shuffled_groups], kind="stable")]:
        n_rows_in_fold, smallest_fold = size_and_fold_heap[0]
        fold_of_group[group] = smallest_fold
        heapq.heapreplace(size_and_fold_heap, (n_rows_in_fold + int(group_sizes[group]), smallest_fold))
    return fold_of_group[group_of_row]


def plain_folds(groups: NDArray[Any], *, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Assign rows to folds at random, ignoring groups: groups (rows,) -> (rows,). Fold sizes differ by at most one.

    Rows of one group can then be in both the training and the test part, which leaks information. Use random folds of
    single rows only to reproduce papers.

    >>> np.bincount(plain_folds(np.arange(7), n_folds=3, rng=np.random.default_rng(0))).tolist()
    [3, 2, 2]
    """
    return np.asarray(rng.permutation(len(groups)) % n_folds, dtype=np.intp)


def inner_folds(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Assign groups, in sorted order, to five folds in turn: groups (rows,) -> (rows,).

    With fewer than five groups, there are fewer folds. The assignment is deterministic. Inner folds are used for
    choices within a training part.

    >>> inner_folds(np.array([7, 9, 9, 8])).tolist()
    [0, 2, 2, 1]
    """
    return np.asarray(np.unique(groups, return_inverse=True)[1] % N_INNER_FOLDS)


def splits(fold: Ints) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Training and held-out rows of each fold, given the fold of each row (rows,). Rows with fold -1 are in neither
    part.

    >>> [(train.tolist(), held.tolist()) for train, held in splits(np.array([0, 1, -1]))]
    [([False, True, False], [True, False, False]), ([True, False, False], [False, True, False])]
    """
    is_used_row = fold >= 0
    return [(is_used_row & (fold != fold_number), fold == fold_number) for fold_number in np.unique(fold[is_used_row])]
