"""Pearson, Spearman and Kendall correlation over all outputs, in every bootstrap resample.

Several functions share these arrays. `human` (items, systems) and `metrics` (metrics, items, systems) are ratings, NaN
if not rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights
of the units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the
metric rated it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import CHUNK, Floats, Ints, chunks, scaled_deviations, table_sums
from custodes.stats.bootstrap import group_by_outputs, unit_sums, weighted_sums
from custodes.stats.correlation import Kind, concordance, tau_b
from custodes.stats.ranks import difference_signs
from custodes.stats.ratios import ratio

EXACT = 4096**2
"""Up to this number of outputs x resampling units, Kendall's concordance is computed exactly in every resample."""

_CONSTANT = 1e-12  # a variance below this proportion of its largest possible value is rounding error
_BINS = 64  # bins per ranking of the grid that approximates very many outputs
_INT8 = 127  # maximum number of signs whose sum fits int8
_STEPS = 16  # rows of a block of running sums
_FEW_GROUPS = 50  # without sparse matrices, a fold takes a third of the time with 20 units, but more with 100 units
_WIDTH = 64  # resamples at a time, for the processor's cache
_CACHE = 8  # divisor of the size of temporary arrays, so that they fit the cache


def pooled_correlation(
    kind: Kind,
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    item_weights: Floats | None = None,
) -> Floats:
    """Correlation over all outputs of all items in every resample.

    Ranks and ties are those of the resample, in which copies of an output tie. So each value equals the correlation
    computed from the resampled outputs, with one exception. If outputs x units exceeds `EXACT`, Kendall's concordance
    is computed from rankings that are cut into 64 bins, with a first-order correction for pairs within a bin. This
    concordance is exact for the data themselves. It is also exact if neither the human nor the metric scores have more
    than 64 distinct values.

    Parameters
    ----------
    kind
        The correlation; 'kendall' is tau-b.
    human
        Human scores (items, systems).
    metrics, units, weights, item_weights
        As described for the module. Item weights act as fractional multiplicities of the items.

    Returns
    -------
    :
        Correlations (B, metrics). They are NaN if the human or the metric scores are constant in the resample, or if no
        output has both ratings.

    References
    ----------
    Pearson (1895); Spearman (1904); Kendall (1945) for ties and tau-b; Hoeffding (1948) for the influence of an output
    on a U-statistic.

    Examples
    --------
    >>> human, metric = np.array([[1.0, 2], [3, 4]]), np.array([[[1.0, 3], [2, 4]]])
    >>> pooled_correlation("kendall", human, metric, units=np.arange(2), weights=np.ones((1, 2))).round(3).tolist()
    [[0.667]]
    """
    flat_human, flat_metrics = human.reshape(-1), metrics.reshape(len(metrics), human.size)
    correlations = np.full((len(weights), len(metrics)), np.nan)
    for metric_indices, rated_outputs in group_by_outputs(flat_human, flat_metrics):
        if len(rated_outputs) == 0:
            continue
        item = rated_outputs // human.shape[1]
        resample_weights, group_of_output, group_weights = weights, units[item], np.ones(weights.shape[1])
        if item_weights is not None:  # all outputs of a group have the same unit and item weight
            keys = np.stack([units, item_weights], axis=1)[item]
            (unit_of_group, group_weights), group_of_output = (
                array.T for array in np.unique(keys, axis=0, return_inverse=True)
            )
            resample_weights, group_of_output = (
                weights[:, unit_of_group.astype(np.intp)] * group_weights,
                group_of_output.reshape(-1),
            )
        correlations[:, metric_indices] = _POOLED[kind](
            flat_human[rated_outputs],
            flat_metrics[metric_indices][:, rated_outputs],
            group_of_output,
            resample_weights,
            group_weights,
        )
    return correlations


def _pooled_pearson(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], _: Floats
) -> Floats:
    """Pearson's r from moment sums by group: human (n,), metrics (metrics, n) -> (B, metrics)."""
    x, y = scaled_deviations(human[np.newaxis]), scaled_deviations(metrics)

    def sum_groups(values: Floats) -> Floats:
        return weighted_sums(
            resample_weights, unit_sums(values, units=group_of_output, n_units=resample_weights.shape[1])
        )

    n, product_sums = sum_groups(np.ones((1, len(group_of_output)))), sum_groups(x * y)
    (sum_x, sum_xx), (sum_y, sum_yy) = (
        (sum_groups(centred_scores), sum_groups(centred_scores * centred_scores)) for centred_scores in (x, y)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        variance_x, variance_y = sum_xx - sum_x * sum_x / n, sum_yy - sum_y * sum_y / n
        variance_x[variance_x <= _CONSTANT * sum_xx], variance_y[variance_y <= _CONSTANT * sum_yy] = np.nan, np.nan
        return np.asarray(((product_sums - sum_x * (sum_y / n)) / np.sqrt(variance_x * variance_y)).clip(-1.0, 1.0))


class _Levels:
    """Levels of a ranking: its distinct values in ascending order.

    `level` and `group` (n,) are the level and the group of each output.
    """

    def __init__(self, values: Floats, group: Ints, n_groups: int) -> None:
        self.level = np.unique(values, return_inverse=True)[1].reshape(-1)
        self.group, self.shape = group, (int(self.level.max()) + 1, n_groups)

    @cached_property
    def counts(self) -> Any:
        """Number of outputs in each level and group. Multiplied by weights of groups, it gives the sizes of levels in
        resamples."""
        return self._matrix(self.level, self.group, self.shape[0])

    @cached_property
    def _steps(self) -> Any:
        """Number of outputs in each level plus those in the level below, by group; rows are in the order of `_row`."""
        level = np.concatenate([self.level, self.level + 1])
        is_level = level < self.shape[0]
        return self._matrix(self._row(level[is_level]), np.tile(self.group, 2)[is_level], self._n_blocks * _STEPS)

    def _matrix(self, row: Ints, group: Ints, n_rows: int) -> Any:
        from scipy.sparse import csr_array

        return csr_array((np.ones(len(row)), (row, group)), shape=(n_rows, self.shape[1]))

    @property
    def _n_blocks(self) -> int:
        return -(-self.shape[0] // _STEPS)

    def _row(self, level: Ints) -> Ints:
        """Row of each level. Levels are cut into blocks of `_STEPS` levels. The first levels of all blocks have the
        first rows, the second levels have the next rows, and so on."""
        return level % _STEPS * self._n_blocks + level // _STEPS

    def ranks(self, weights: Floats) -> Floats:
        """Twice the mid-ranks in resamples with weights (groups, B): (n, B). A mid-rank is the weight of all lower
        outputs plus half the weight of equal outputs.

        NumPy adds one element at a time along the first axis; adding whole rows of many blocks takes a sixth of the
        time.
        """
        ranks = np.asarray(self._steps @ weights)
        blocks = ranks.reshape(_STEPS, self._n_blocks, -1)
        for step in range(1, _STEPS):
            blocks[step] += blocks[step - 1]
        blocks[:, 1:] += np.cumsum(blocks[-1, :-1], axis=0)
        return ranks.take(self._row(self.level), axis=0)

    def squares(self, resample_weights: Floats) -> Floats:
        """Sums of squared sizes of levels in resamples: (B,).

        If all outputs of a level are in one group, the size of the level is proportional to the weight of this group.
        """
        n_groups_of_level = np.diff(self.counts.indptr)
        shared_counts, alone_counts = (
            self.counts[np.flatnonzero(is_row_used)] for is_row_used in (n_groups_of_level > 1, n_groups_of_level == 1)
        )
        squared_counts: Floats = np.asarray((alone_counts * alone_counts).sum(axis=0))
        squared_sums = np.empty(len(resample_weights))
        for resample_slice, weights in _iter_weight_columns(resample_weights, 4 * max(shared_counts.shape)):
            level_sizes = np.asarray(shared_counts @ weights)
            squared_sums[resample_slice] = np.einsum("lb,lb->b", level_sizes, level_sizes) + squared_counts @ weights**2
        return squared_sums


def _squares(rankings: list[_Levels], resample_weights: NDArray[Any]) -> Floats:
    """Sums of squared sizes of the levels of each ranking in resamples: (rankings, B)."""
    if resample_weights.shape[1] > _FEW_GROUPS:
        return np.stack([levels.squares(resample_weights) for levels in rankings])
    weights = resample_weights.astype(np.float64)
    tables = [table_sums(levels.level, levels.group, shape=levels.shape).astype(np.float64) for levels in rankings]
    products = np.stack([table.T @ table for table in tables])
    return np.asarray(np.einsum("bg,bsg->sb", weights, weighted_sums(weights, products)))


def _pooled_spearman(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], _: Floats
) -> Floats:
    """Spearman's rho from mid-ranks in every resample: human (n,), metrics (metrics, n) -> (B, metrics)."""
    human_levels, *metric_levels = (
        _Levels(values, group_of_output, resample_weights.shape[1]) for values in (human, *metrics)
    )
    correlations = np.empty((len(resample_weights), len(metrics)))
    for resample_slice, weights in _iter_weight_columns(resample_weights, 4 * len(group_of_output)):
        weight_of_output = weights[group_of_output]  # (n, B)
        total_weight = weight_of_output.sum(axis=0)

        def sum_squared_deviations(
            ranks: Floats, weight_of_output: Floats = weight_of_output, total_weight: Floats = total_weight
        ) -> Floats:
            """Sum of squared deviations of twice the mid-ranks from their mean, which is the total weight."""
            squares = np.einsum("nb,nb->b", ranks * weight_of_output, ranks) - total_weight**3
            return np.where(squares > _CONSTANT * total_weight**3, squares, np.nan)

        ranks = human_levels.ranks(weights)
        centred_human, human_sum = (ranks - total_weight) * weight_of_output, sum_squared_deviations(ranks)
        for m, levels in enumerate(metric_levels):
            ranks = levels.ranks(weights)
            covariance = np.einsum("nb,nb->b", centred_human, ranks)
            correlations[resample_slice, m] = ratio(covariance, np.sqrt(sum_squared_deviations(ranks) * human_sum))
    return correlations.clip(-1.0, 1.0)


def _pooled_kendall(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], group_share: Floats
) -> Floats:
    """Kendall's tau-b in every resample: human (n,), metrics (metrics, n) -> (B, metrics)."""
    x, *y = rankings = [_Levels(values, group_of_output, resample_weights.shape[1]) for values in (human, *metrics)]
    n_pairs = (
        weighted_sums(
            resample_weights, np.bincount(group_of_output, minlength=resample_weights.shape[1]).astype(np.float64)
        )
        ** 2
    )
    n_untied = n_pairs - _squares(rankings, resample_weights)
    n_untied[n_untied <= _CONSTANT * n_pairs] = np.nan
    compute_concordance = (
        _paired_groups if len(group_of_output) * resample_weights.shape[1] <= EXACT else _binned_concordance
    )
    return tau_b(
        compute_concordance(x, y, group_of_output, resample_weights, group_share),
        n_untied[0][:, np.newaxis],
        n_untied[1:].T,
    )


def _paired_groups(
    x: _Levels, y: list[_Levels], group_of_output: Ints, resample_weights: NDArray[Any], _: Floats
) -> Floats:
    """Concordance in every resample: w' K w with the weights w of the groups, (B, metrics).

    K[u, v] is the concordance between the outputs of groups u and v. K is symmetric, so blocks of its rows contain only
    the columns from the first row on. A group with many outputs is cut into several parts.
    """
    order = np.argsort(group_of_output, kind="stable")
    index_in_group = np.arange(len(order)) - np.searchsorted(group_of_output[order], group_of_output[order])
    part_starts = np.flatnonzero(index_in_group % _INT8 == 0)
    part_stops = np.append(part_starts[1:], len(order))
    int_type = np.int16 if len(order) <= np.iinfo(np.int16).max else np.int32
    human_codes = x.level[order].astype(int_type)
    metric_codes = np.stack([metric_levels.level[order] for metric_levels in y]).astype(int_type)
    block_weights = resample_weights[:, group_of_output[order][part_starts]]
    concordance_sums = np.zeros((len(resample_weights), len(y)))
    for block_slice in chunks(
        len(part_starts),
        max(_CACHE * len(order) * int((part_stops - part_starts).max()), len(y) * len(resample_weights)),
    ):
        first_column, rows = (
            part_starts[block_slice.start],
            slice(part_starts[block_slice.start], part_stops[block_slice.stop - 1]),
        )
        signs = difference_signs(human_codes[rows, np.newaxis], human_codes[np.newaxis, first_column:])
        upper_sums = np.empty((len(y), block_slice.stop - block_slice.start, len(part_starts) - block_slice.start))
        for metric_slice in chunks(len(y), signs.size):
            sign_products = difference_signs(
                metric_codes[metric_slice, rows, np.newaxis], metric_codes[metric_slice, np.newaxis, first_column:]
            )
            sign_products *= signs
            sums_by_block = np.empty((len(sign_products), upper_sums.shape[1], sign_products.shape[2]), dtype=np.int8)
            for k, (first_row, end_row) in enumerate(
                zip(part_starts[block_slice] - first_column, part_stops[block_slice] - first_column, strict=True)
            ):
                np.add.reduce(sign_products[:, first_row:end_row], axis=1, dtype=np.int8, out=sums_by_block[:, k])
            upper_sums[metric_slice] = np.add.reduceat(
                sums_by_block, part_starts[block_slice.start :] - first_column, axis=2, dtype=np.int64
            )
        upper_sums[:, :, block_slice.stop - block_slice.start :] *= 2
        concordance_sums += np.einsum(
            "bu,byu->by",
            block_weights[:, block_slice],
            weighted_sums(block_weights[:, block_slice.start :], upper_sums),
        )
    return concordance_sums


def _binned_concordance(
    x: _Levels, y: list[_Levels], group_of_output: Ints, resample_weights: NDArray[Any], group_share: Floats
) -> Floats:
    """Concordance of rankings that are cut into bins, with a first-order correction for pairs within a bin: (B,
    metrics)."""
    from scipy.sparse import csc_array

    concordances = np.empty((len(resample_weights), len(y)))
    output_weights = None if (group_share == 1).all() else group_share[group_of_output]
    bin_of_x = _bin_levels(x.level)
    for m, metric_levels in enumerate(y):
        bin_of_y = _bin_levels(metric_levels.level)
        shape = int(bin_of_x.max()) + 1, int(bin_of_y.max()) + 1
        cell_of_output = bin_of_x * shape[1] + bin_of_y
        cells = csc_array(
            (np.ones(len(group_of_output)), (cell_of_output, group_of_output)),
            shape=(math.prod(shape), len(group_share)),
        )
        signs = [np.sign(np.arange(n)[:, np.newaxis] - np.arange(n)).astype(np.float64) for n in shape]
        exact_concordance = concordance(x.level[np.newaxis], metric_levels.level[np.newaxis], weights=output_weights)[0]
        binned_concordance = signs[0] @ np.asarray(cells @ group_share).reshape(shape) @ signs[1].T
        correction = np.bincount(
            group_of_output, exact_concordance - binned_concordance.ravel()[cell_of_output], resample_weights.shape[1]
        )
        for resample_slice, weights in _iter_weight_columns(resample_weights, 4 * max(cells.shape)):
            table = np.asarray(cells @ weights).reshape(*shape, -1)
            net_counts = np.matmul(signs[1], np.tensordot(signs[0], table, 1))
            concordances[resample_slice, m] = (
                np.einsum("xyb,xyb->b", table, net_counts) + (2 * weights.T - group_share) @ correction
            )
    return concordances


def _bin_levels(level: Ints) -> Ints:
    """Levels grouped into bins with similar numbers of outputs. If there are few levels, they are unchanged."""
    n_of_level = np.bincount(level)
    if len(n_of_level) <= _BINS:
        return level
    middle_rank = np.cumsum(n_of_level) - n_of_level / 2
    return np.unique((middle_rank * (_BINS / len(level))).astype(np.intp)[level], return_inverse=True)[1].reshape(-1)


def _iter_weight_columns(resample_weights: NDArray[Any], size: int) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of resamples: their slice, and their weights as columns (groups, resamples)."""
    for resample_slice in chunks(len(resample_weights), max(size, CHUNK // _WIDTH)):
        yield resample_slice, np.ascontiguousarray(resample_weights[resample_slice].T, dtype=np.float64)


_POOLED = {"pearson": _pooled_pearson, "spearman": _pooled_spearman, "kendall": _pooled_kendall}
