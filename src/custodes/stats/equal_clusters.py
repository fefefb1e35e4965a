"""Resampling of clusters in groups of equal clusters, which are exchangeable.

A resample draws G times from the G clusters with equal probabilities. So the numbers of clusters drawn from the groups
are multinomial, and the probability of a group is its proportion of the clusters. Drawing the numbers of clusters per
group gives the same distribution with fewer random numbers. Millions of battles form only thousands of groups.
Documents with comparisons of all pairs mostly form groups of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import EXACT_SINGLE, Floats, Ints, Signs, chunks, table_sums

_MOST_ROWS = 64  # a cluster with more rows is a separate group
_DENSE = 8  # a matrix is multiplied as a dense matrix if there are more values than 1 / 8 of the entries


def group_clusters(
    codes: Ints, units: Ints, *, n_units: int, n_clusters_of_unit: Ints | None = None
) -> tuple[Ints, Ints, Ints]:
    """Group the clusters whose rows have the same codes in the same order, given the code and cluster (unit) of each
    row.

    `n_clusters_of_unit` (units,) is the number of identical clusters that are merged in each unit, 1 by default. The
    groups are in the order of the first cluster of each group. The results are the number of clusters in each group
    (groups,) and the rows (n,) of the first cluster of each group. The third result is the group (n,) of each of these
    rows.

    >>> groups = group_clusters(np.array([7, 8, 7, 7, 8]), np.array([0, 0, 1, 2, 2]), n_units=4)
    >>> [values.tolist() for values in groups]
    [[2, 1, 1], [0, 1, 2], [0, 0, 1]]
    """
    n_rows_of_cluster = np.bincount(units, minlength=n_units)
    _, sorted_row_codes = np.unique(codes[np.argsort(units, kind="stable")], return_inverse=True)
    # Clusters are compared by the sum of their codes with random weights, modulo 2^64. Different clusters have equal
    # sums with a probability of about 2^-60.
    position_in_cluster = np.arange(len(codes)) - np.repeat(
        np.cumsum(n_rows_of_cluster) - n_rows_of_cluster, n_rows_of_cluster
    )
    hash_weights = (
        np.random.default_rng(0).integers(2**63, size=int(n_rows_of_cluster.max(initial=0)), dtype=np.uint64) * 2 + 1
    )
    cumulative_hashes = np.append(
        np.uint64(0), np.cumsum((sorted_row_codes + 1).astype(np.uint64) * hash_weights[position_in_cluster])
    )
    hash_of_cluster = np.diff(cumulative_hashes[np.append(0, np.cumsum(n_rows_of_cluster))])
    _, first_cluster_of_hash, hash_index_of_cluster = np.unique(hash_of_cluster, return_index=True, return_inverse=True)
    representative_of_cluster = np.where(
        n_rows_of_cluster > _MOST_ROWS, np.arange(n_units), first_cluster_of_hash[hash_index_of_cluster]
    )
    distinct_representatives, group_of_cluster = np.unique(representative_of_cluster, return_inverse=True)
    representative_rows = np.flatnonzero(representative_of_cluster[units] == units)
    n_clusters_of_group = np.bincount(
        group_of_cluster, weights=n_clusters_of_unit, minlength=len(distinct_representatives)
    ).astype(np.int64)
    return n_clusters_of_group, representative_rows, group_of_cluster[units[representative_rows]]


def codes_of(pair_of_row: Ints, signs_by_rater: Signs) -> Ints:
    """An integer code of each row (n,). Rows with the same pair and the same signs have the same code.

    `signs_by_rater` (k, n) are signs, or differences of two signs.
    """
    code_of_row, n_codes = pair_of_row.astype(np.int64), int(pair_of_row.max(initial=0)) + 1
    for signs_of_rater in signs_by_rater:
        if 8 * n_codes > 2**62:
            distinct_codes, code_of_row = np.unique(code_of_row, return_inverse=True)
            n_codes = len(distinct_codes)
        code_of_row, n_codes = (
            code_of_row * 8 + np.where(signs_of_rater == ABSENT, 3, signs_of_rater & 7),
            8 * n_codes,
        )  # `signs & 7` maps -2 to 6, -1 to 7, and keeps 0, 1 and 2
    return code_of_row


def iter_group_weights(
    n_clusters_of_group: Ints, resamples: int, rng: np.random.Generator, *, size_per_column: int
) -> Iterator[tuple[slice, Floats]]:
    """Yield bootstrap weights of groups in blocks: a slice of the 1 + B columns, and the weights (groups, columns).

    Column 0 is the data. The size of a block is chosen so that an array with `size_per_column` numbers per column is
    not too large. A single cluster is never resampled.

    >>> rng = np.random.default_rng(0)
    >>> [weights.shape for _, weights in iter_group_weights(np.array([1]), 4, rng, size_per_column=1)]
    [(1, 1)]
    >>> [weights.shape for _, weights in iter_group_weights(np.array([2, 1]), 4, rng, size_per_column=1)]
    [(2, 5)]
    """
    n_clusters = int(n_clusters_of_group.sum())
    for column_slice in chunks(
        1 + (resamples if n_clusters > 1 else 0), max(size_per_column, len(n_clusters_of_group)) // 4
    ):
        data_counts = n_clusters_of_group[np.newaxis][: int(column_slice.start == 0)]
        resample_counts = rng.multinomial(
            n_clusters, n_clusters_of_group / n_clusters, size=column_slice.stop - column_slice.start - len(data_counts)
        )
        yield column_slice, np.ascontiguousarray(np.concatenate([data_counts, resample_counts]).T, dtype=np.float64)


def sums_of(
    cell_of_value: Ints, group_of_value: Ints, values: NDArray[Any], *, n_cells: int, n_groups: int
) -> Callable[[Floats], NDArray[Any]]:
    """Function from bootstrap weights of groups (groups, b) to the sums of values in each cell (cells, b).

    `cell_of_value` and `group_of_value` (n,) are the cell and the group of each of the `values` (n,). The weights are
    whole numbers. If the values are whole numbers and the sums are not too large, single precision is exact and takes a
    third of the time.
    """
    from scipy.sparse import csr_array

    is_sparse = _DENSE * len(values) < n_cells * n_groups
    value_matrix: Any = (
        csr_array((values.astype(np.float64), (cell_of_value, group_of_value)), shape=(n_cells, n_groups))
        if is_sparse
        else table_sums(cell_of_value, group_of_value, shape=(n_cells, n_groups), weights=values)
    )
    largest_value = np.abs(values).max(initial=0.0)
    may_be_exact = not is_sparse and bool((values % 1 == 0).all())

    def sum_cells(group_weights: Floats) -> NDArray[Any]:
        if may_be_exact and largest_value * len(values) * group_weights.max(initial=0.0) < EXACT_SINGLE:
            return np.asarray(value_matrix.astype(np.float32) @ group_weights.astype(np.float32), dtype=np.float64)
        return np.asarray(value_matrix @ group_weights)

    return sum_cells
