"""Pearson, Spearman and Kendall correlation over all outputs, in every bootstrap resample.

Several functions share these arrays. `human` (items, systems) are human ratings, or (metrics, items, systems) if each
metric has its own human ratings. `metrics` (metrics, items, systems) are the scores of metrics. Both are NaN if not
rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights of the
units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the metric
rated it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from custodes.stats.arrays import (
    CHUNK,
    EXACT_SINGLE,
    Floats,
    Ints,
    chunks,
    distinct_rows,
    scaled_deviations,
    table_sums,
)
from custodes.stats.bootstrap import group_by_outputs, unit_sums, weighted_sums
from custodes.stats.correlation import Kind, concordance, tau_b
from custodes.stats.ranks import difference_signs
from custodes.stats.ratios import ratio

EXACT = 4096**2
"""Up to this number of outputs x resampling units, Kendall's concordance is computed exactly in every resample."""

_CONSTANT = 1e-12  # a variance below this proportion of its largest possible value is rounding error
_BINS = 64  # number of bins into which a ranking of very many outputs is cut
_INT8 = 127  # maximum number of signs whose sum fits int8
_STEPS = 16  # number of levels in a block of running sums
_WIDTH = 128  # number of resamples at a time, so that arrays fit the cache
_CACHE = 32  # divisor of the size of temporary arrays, so that they fit the cache


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

    Ranks and ties are those of the resample, in which copies of an output tie. Each value therefore equals the
    correlation of the resampled outputs, with one exception. If outputs x units exceeds `EXACT`, Kendall's concordance
    is computed from rankings that are cut into 64 bins, with a first-order correction for pairs within a bin. The
    concordance from bins is exact for the data themselves. The concordance is also exact if neither the human nor the
    metric scores have more than 64 distinct values.

    Parameters
    ----------
    kind
        The correlation; 'kendall' is tau-b.
    human
        Human scores (items, systems), or (metrics, items, systems) to compare each metric with its own human scores.
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
    flat_human, flat_metrics = (
        scores.reshape(math.prod(scores.shape[:-2]), math.prod(scores.shape[-2:])) for scores in (human, metrics)
    )
    correlations = np.full((len(weights), len(metrics)), np.nan)
    for metric_indices, rated_output_indices in group_by_outputs(flat_human, flat_metrics):
        if len(rated_output_indices) == 0:
            continue
        item_of_output = rated_output_indices // human.shape[-1]
        resample_weights, group_of_output, weight_of_group = weights, units[item_of_output], np.ones(weights.shape[1])
        if (
            item_weights is not None and (item_weights != 1).any()
        ):  # all outputs of a group have the same unit and item weight
            units_and_weights, group_of_output = distinct_rows(np.stack([units, item_weights], axis=1)[item_of_output])
            unit_of_group, weight_of_group = units_and_weights.T
            resample_weights = weights[:, unit_of_group.astype(np.intp)] * weight_of_group
        correlations[:, metric_indices] = _POOLED[kind](
            flat_human[metric_indices if len(flat_human) > 1 else slice(1)][:, rated_output_indices],
            flat_metrics[metric_indices][:, rated_output_indices],
            group_of_output,
            resample_weights,
            weight_of_group,
        )
    return correlations


def _pooled_pearson(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], _: Floats
) -> Floats:
    """Pearson's r from moment sums by group: human (1 or metrics, n), metrics (metrics, n) -> (B, metrics)."""
    human_deviations, metric_deviations = scaled_deviations(human), scaled_deviations(metrics)

    def sum_groups(values: Floats) -> Floats:
        return weighted_sums(
            resample_weights, unit_sums(values, units=group_of_output, n_units=resample_weights.shape[1])
        )

    total_weight, product_sums = (
        sum_groups(np.ones((1, len(group_of_output)))),
        sum_groups(human_deviations * metric_deviations),
    )
    (human_sums, human_square_sums), (metric_sums, metric_square_sums) = (
        (sum_groups(rater_deviations), sum_groups(rater_deviations * rater_deviations))
        for rater_deviations in (human_deviations, metric_deviations)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        human_squared_deviation_sums, metric_squared_deviation_sums = (
            human_square_sums - human_sums * human_sums / total_weight,
            metric_square_sums - metric_sums * metric_sums / total_weight,
        )
        human_squared_deviation_sums[human_squared_deviation_sums <= _CONSTANT * human_square_sums] = np.nan
        metric_squared_deviation_sums[metric_squared_deviation_sums <= _CONSTANT * metric_square_sums] = np.nan
        return np.asarray(
            (
                (product_sums - human_sums * (metric_sums / total_weight))
                / np.sqrt(human_squared_deviation_sums * metric_squared_deviation_sums)
            ).clip(-1.0, 1.0)
        )


class _Levels:
    """Levels of a ranking: its distinct values in ascending order.

    `level` and `group` (n,) are the level and the group of each output.
    """

    def __init__(self, scores: Floats, group_of_output: Ints, n_groups: int) -> None:
        self.level_of_output = np.unique(scores, return_inverse=True)[1]
        self.group_of_output, self.shape = group_of_output, (int(self.level_of_output.max()) + 1, n_groups)
        self._n_blocks = -(-self.shape[0] // _STEPS)

    @cached_property
    def _steps(self) -> Any:
        """Number of outputs of each group in a level plus the number in the level below; rows are in the order of
        `_row`."""
        level_of_entry = np.concatenate([self.level_of_output, self.level_of_output + 1])
        is_existing_level = level_of_entry < self.shape[0]
        return _count_matrix(
            self._row(level_of_entry[is_existing_level]),
            np.tile(self.group_of_output, 2)[is_existing_level],
            (self._n_blocks * _STEPS, self.shape[1]),
            dtype=np.float32,
        )

    def _row(self, level: Ints) -> Ints:
        """Row of each level. Levels are cut into blocks of `_STEPS` levels. The first levels of all blocks have the
        first rows, the second levels have the next rows, and so on."""
        return level % _STEPS * self._n_blocks + level // _STEPS

    def ranks(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Twice the mid-ranks in resamples with weights (groups, B): (n, B), in the precision of the weights. A
        mid-rank is the weight of all lower outputs plus half the weight of equal outputs.

        NumPy adds one element at a time along the first axis; adding whole rows of many blocks takes a sixth of the
        time.
        """
        doubled_ranks = np.asarray(self._steps @ weights)
        level_blocks = doubled_ranks.reshape(_STEPS, self._n_blocks, -1)
        for level_in_block in range(1, _STEPS):
            level_blocks[level_in_block] += level_blocks[level_in_block - 1]
        level_blocks[:, 1:] += np.cumsum(level_blocks[-1, :-1], axis=0)
        return doubled_ranks.take(self._row(self.level_of_output), axis=0)


def _count_matrix(row: Ints, column: Ints, shape: tuple[int, int], dtype: DTypeLike = np.float64) -> Any:
    """Sparse matrix with the number of entries in each row and column."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(row), dtype=dtype), (row, column)), shape=shape)


def _level_power_sums(levels_of_rater: list[_Levels], resample_weights: NDArray[Any], power: int) -> Floats:
    """Sum over the levels of a rater of the size of the level raised to `power`, in every resample: (raters, B).

    If all outputs of a level are in one group, the size of the level is proportional to the weight of this group.
    """

    def raise_to_power(values: Floats) -> Floats:  # several times as fast as **
        return values * values if power == 2 else values * values * values

    group_of_output, n_groups = levels_of_rater[0].group_of_output, resample_weights.shape[1]
    power_sums = np.empty((len(levels_of_rater), len(resample_weights)))
    for rater_slice in chunks(len(levels_of_rater), _WIDTH * len(group_of_output)):
        n_levels_of_rater = [levels.shape[0] for levels in levels_of_rater[rater_slice]]
        rater_of_level = np.repeat(np.arange(len(n_levels_of_rater)), n_levels_of_rater)
        rows_of_rater = [
            first_row + levels.level_of_output
            for first_row, levels in zip(np.cumsum([0, *n_levels_of_rater]), levels_of_rater[rater_slice], strict=False)
        ]
        counts = _count_matrix(
            np.concatenate(rows_of_rater),
            np.tile(group_of_output, len(rows_of_rater)),
            (len(rater_of_level), n_groups),
        )
        n_groups_of_level = np.diff(counts.indptr)
        shared_levels, single_group_levels = (
            np.flatnonzero(n_groups_of_level > 1),
            np.flatnonzero(n_groups_of_level == 1),
        )
        single_group_entries = counts.indptr[single_group_levels]
        powers_by_group = table_sums(
            rater_of_level[single_group_levels],
            counts.indices[single_group_entries],
            shape=(len(rows_of_rater), n_groups),
            weights=raise_to_power(counts.data[single_group_entries]),
        )
        shared_level_counts = counts[shared_levels]
        levels_by_rater = _count_matrix(
            rater_of_level[shared_levels], np.arange(len(shared_levels)), (len(rows_of_rater), len(shared_levels))
        )
        for resample_slice, group_weights in _iter_weight_columns(resample_weights, 4 * max(shared_level_counts.shape)):
            power_sums[rater_slice, resample_slice] = levels_by_rater @ raise_to_power(
                shared_level_counts @ group_weights
            ) + powers_by_group @ raise_to_power(group_weights)
    return power_sums


def _pooled_spearman(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], _: Floats
) -> Floats:
    """Spearman's rho from mid-ranks in resamples: human (1 or metrics, n), metrics (metrics, n) -> (B, metrics)."""
    levels_of_human, levels_of_metric = (
        [_Levels(rater_scores, group_of_output, resample_weights.shape[1]) for rater_scores in scores]
        for scores in (human, metrics)
    )
    total_weights = weighted_sums(resample_weights, np.bincount(group_of_output, minlength=resample_weights.shape[1]))
    # If weights are numbers of draws, ranks are exact in single precision, which takes half the time.
    is_exact_in_single = resample_weights.dtype == np.uint8 and 2 * total_weights.max() < EXACT_SINGLE
    covariances = np.empty((len(metrics), len(resample_weights)))
    for resample_slice, group_weights in _iter_weight_columns(resample_weights, 4 * len(group_of_output)):
        weight_of_output = group_weights[group_of_output]  # (n, B)
        rank_weights = group_weights.astype(np.float32 if is_exact_in_single else np.float64, copy=False)
        for metric_index, metric_levels in enumerate(levels_of_metric):
            if metric_index < len(levels_of_human):
                weighted_centred_human_ranks = levels_of_human[metric_index].ranks(rank_weights).astype(np.float64)
                weighted_centred_human_ranks -= total_weights[resample_slice]
                weighted_centred_human_ranks *= weight_of_output
            covariances[metric_index, resample_slice] = np.einsum(
                "nb,nb->b", weighted_centred_human_ranks, metric_levels.ranks(rank_weights)
            )
    # With levels of sizes t and the total weight T, the squared deviations of doubled mid-ranks from their mean T sum
    # to (T^3 - sum of t^3) / 3.
    cubed_total_weights = total_weights**3
    squared_deviation_sums = (
        cubed_total_weights - _level_power_sums([*levels_of_human, *levels_of_metric], resample_weights, 3)
    ) / 3
    squared_deviation_sums[squared_deviation_sums <= _CONSTANT * cubed_total_weights] = np.nan
    human_sums, metric_sums = np.split(squared_deviation_sums, [len(human)])
    return ratio(covariances, np.sqrt(human_sums * metric_sums)).T.clip(-1.0, 1.0)


def _pooled_kendall(
    human: Floats, metrics: Floats, group_of_output: Ints, resample_weights: NDArray[Any], weight_of_group: Floats
) -> Floats:
    """Kendall's tau-b in every resample: human (1 or metrics, n), metrics (metrics, n) -> (B, metrics)."""
    levels_of_human, levels_of_metric = (
        [_Levels(rater_scores, group_of_output, resample_weights.shape[1]) for rater_scores in scores]
        for scores in (human, metrics)
    )
    n_ordered_pairs = (
        weighted_sums(resample_weights, np.bincount(group_of_output, minlength=resample_weights.shape[1])) ** 2
    )
    n_untied_ordered_pairs = n_ordered_pairs - _level_power_sums(
        [*levels_of_human, *levels_of_metric], resample_weights, 2
    )
    n_untied_ordered_pairs[n_untied_ordered_pairs <= _CONSTANT * n_ordered_pairs] = np.nan
    compute_concordance = (
        _paired_groups if len(group_of_output) * resample_weights.shape[1] <= EXACT else _binned_concordance
    )
    return tau_b(
        compute_concordance(levels_of_human, levels_of_metric, group_of_output, resample_weights, weight_of_group),
        *(n_untied_pairs.T for n_untied_pairs in np.split(n_untied_ordered_pairs, [len(human)])),
    )


def _paired_groups(
    levels_of_human: list[_Levels],
    levels_of_metric: list[_Levels],
    group_of_output: Ints,
    resample_weights: NDArray[Any],
    _: Floats,
) -> Floats:
    """Concordance in every resample: w' K w with the weights w of the groups, (B, metrics).

    K[u, v] is the concordance between the outputs of groups u and v. K is symmetric, so a block of rows is computed
    only for the columns from the block's first row on. A group with many outputs is cut into several parts.
    """
    output_order = np.argsort(group_of_output, kind="stable")
    index_in_group = np.arange(len(output_order)) - np.searchsorted(
        group_of_output[output_order], group_of_output[output_order]
    )
    part_starts = np.flatnonzero(index_in_group % _INT8 == 0)
    part_stops = np.append(part_starts[1:], len(output_order))
    int_type = np.int16 if len(output_order) <= np.iinfo(np.int16).max else np.int32
    human_level_codes, metric_level_codes = (
        np.stack([levels.level_of_output[output_order] for levels in levels_of_rater]).astype(int_type)
        for levels_of_rater in (levels_of_human, levels_of_metric)
    )
    part_weights = resample_weights[:, group_of_output[output_order][part_starts]].astype(np.float64)
    concordance_sums = np.zeros((len(resample_weights), len(levels_of_metric)))
    for block_slice in chunks(
        len(part_starts),
        max(
            _CACHE * len(output_order) * int((part_stops - part_starts).max()),
            len(levels_of_metric) * len(part_starts),
            len(resample_weights) * len(part_starts),
        ),
    ):
        first_column, row_slice = (
            part_starts[block_slice.start],
            slice(part_starts[block_slice.start], part_stops[block_slice.stop - 1]),
        )
        sums_by_part_pair = np.empty(
            (len(levels_of_metric), block_slice.stop - block_slice.start, len(part_starts) - block_slice.start)
        )
        for metric_slice in chunks(
            len(levels_of_metric), (row_slice.stop - first_column) * (len(output_order) - first_column)
        ):
            if metric_slice.start < len(levels_of_human):
                human_codes = human_level_codes[metric_slice]
                human_signs = difference_signs(
                    human_codes[:, row_slice, np.newaxis], human_codes[:, np.newaxis, first_column:]
                )
            sign_products = difference_signs(
                metric_level_codes[metric_slice, row_slice, np.newaxis],
                metric_level_codes[metric_slice, np.newaxis, first_column:],
            )
            sign_products *= human_signs
            sums_by_part = np.empty(
                (len(sign_products), sums_by_part_pair.shape[1], sign_products.shape[2]), dtype=np.int8
            )
            for part_index, (first_row, end_row) in enumerate(
                zip(part_starts[block_slice] - first_column, part_stops[block_slice] - first_column, strict=True)
            ):
                np.add.reduce(
                    sign_products[:, first_row:end_row], axis=1, dtype=np.int8, out=sums_by_part[:, part_index]
                )
            sums_by_part_pair[metric_slice] = np.add.reduceat(
                sums_by_part, part_starts[block_slice.start :] - first_column, axis=2, dtype=np.int64
            )
        sums_by_part_pair[:, :, block_slice.stop - block_slice.start :] *= 2
        pair_weights = part_weights[:, block_slice, np.newaxis] * part_weights[:, np.newaxis, block_slice.start :]
        concordance_sums += (
            pair_weights.reshape(len(pair_weights), -1) @ sums_by_part_pair.reshape(len(levels_of_metric), -1).T
        )
    return concordance_sums


def _binned_concordance(
    levels_of_human: list[_Levels],
    levels_of_metric: list[_Levels],
    group_of_output: Ints,
    resample_weights: NDArray[Any],
    weight_of_group: Floats,
) -> Floats:
    """Concordance of rankings that are cut into bins, with a first-order correction for pairs within a bin: (B,
    metrics)."""
    from scipy.sparse import csc_array

    concordances = np.empty((len(resample_weights), len(levels_of_metric)))
    for metric_index, metric_levels in enumerate(levels_of_metric):
        if metric_index < len(levels_of_human):
            human_level_of_output = levels_of_human[metric_index].level_of_output
            human_bin_of_output = _bin_levels(human_level_of_output)
        metric_bin_of_output = _bin_levels(metric_levels.level_of_output)
        table_shape = int(human_bin_of_output.max()) + 1, int(metric_bin_of_output.max()) + 1
        cell_of_output = human_bin_of_output * table_shape[1] + metric_bin_of_output
        count_matrix = csc_array(
            (np.ones(len(group_of_output)), (cell_of_output, group_of_output)),
            shape=(math.prod(table_shape), len(weight_of_group)),
        )
        bin_signs = [np.sign(np.arange(n_bins)[:, np.newaxis] - np.arange(n_bins)) for n_bins in table_shape]
        exact_concordance = concordance(
            human_level_of_output[np.newaxis],
            metric_levels.level_of_output[np.newaxis],
            weights=None if (weight_of_group == 1).all() else weight_of_group[group_of_output],
        )[0]
        binned_concordance = (
            bin_signs[0] @ np.asarray(count_matrix @ weight_of_group).reshape(table_shape) @ bin_signs[1].T
        )
        correction_of_group = np.bincount(
            group_of_output, exact_concordance - binned_concordance.ravel()[cell_of_output], resample_weights.shape[1]
        )
        for resample_slice, group_weights in _iter_weight_columns(resample_weights, 4 * max(count_matrix.shape)):
            weight_table = np.asarray(count_matrix @ group_weights).reshape(*table_shape, -1)
            net_concordance = np.matmul(bin_signs[1], np.tensordot(bin_signs[0], weight_table, 1))
            concordances[resample_slice, metric_index] = (
                np.einsum("xyb,xyb->b", weight_table, net_concordance)
                + (2 * group_weights.T - weight_of_group) @ correction_of_group
            )
    return concordances


def _bin_levels(level_of_output: Ints) -> Ints:
    """Levels grouped into bins with similar numbers of outputs. If there are few levels, they are unchanged."""
    n_outputs_of_level = np.bincount(level_of_output)
    if len(n_outputs_of_level) <= _BINS:
        return level_of_output
    middle_rank_of_level = np.cumsum(n_outputs_of_level) - n_outputs_of_level / 2
    bin_of_level = (middle_rank_of_level * (_BINS / len(level_of_output))).astype(np.intp)
    return np.unique(bin_of_level[level_of_output], return_inverse=True)[1]


def _iter_weight_columns(resample_weights: NDArray[Any], elements_per_resample: int) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of resamples: their slice, and their weights as columns (groups, resamples)."""
    for resample_slice in chunks(len(resample_weights), max(elements_per_resample, CHUNK // _WIDTH)):
        yield resample_slice, np.ascontiguousarray(resample_weights[resample_slice].T, dtype=np.float64)


_POOLED = {"pearson": _pooled_pearson, "spearman": _pooled_spearman, "kendall": _pooled_kendall}
