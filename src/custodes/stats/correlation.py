"""Pearson, Spearman and Kendall correlations, and the counts of pairs from which Kendall's tau-b is computed."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import CHUNK, Bools, Floats, chunks, deviations, scaled_deviations, table_sums
from custodes.stats.ranks import (
    SortedRows,
    count_earlier_lower,
    difference_signs,
    jonckheere_counts,
    mid_ranks,
    sorted_positions,
    take_from_rows,
)
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import blocks_of

Kind = Literal["pearson", "spearman", "kendall"]

_FEW = 32  # length of rankings up to which comparing all pairs is faster than sorting
_CACHED = 32  # divisor of the size of temporary arrays of positions, so that they fit the cache
_CACHE = 16  # divisor of the size of temporary arrays of signs, so that they fit the cache
_INT8 = 127  # maximum number of signs whose sum fits int8


class ConcordanceCounts(NamedTuple):
    """Counts of pairs of outputs; each pair is counted once.

    Attributes
    ----------
    concordance
        Concordant minus discordant pairs.
    untied_x, untied_y, untied
        Pairs that are not tied in the first ranking, pairs that are not tied in the second ranking, and pairs that are
        tied in neither ranking.
    pairs
        All pairs.
    """

    concordance: NDArray[Any]
    untied_x: NDArray[Any]
    untied_y: NDArray[Any]
    untied: NDArray[Any]
    pairs: NDArray[Any]

    @property
    def tau_b(self) -> Floats:
        """Kendall's tau-b."""
        return tau_b(self.concordance, self.untied_x, self.untied_y)


def pearson(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Pearson's r along the last axis.

    Parameters
    ----------
    x, y
        Values (..., n) that broadcast against each other; pairs with a NaN are left out.

    Returns
    -------
    :
        r (...); NaN if x or y is constant, or with fewer than two pairs.

    References
    ----------
    Pearson (1895).

    Examples
    --------
    >>> round(pearson(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 3, 2, 9])).item(), 3)
    0.5
    """
    x, y = map(scaled_deviations, _mask_missing(x, y))
    xy_sum, xx_sum, yy_sum = (np.einsum("...n,...n->...", left, right) for left, right in ((x, y), (x, x), (y, y)))
    return ratio(xy_sum, np.sqrt(xx_sum) * np.sqrt(yy_sum)).clip(-1.0, 1.0)


def spearman(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Spearman's rho (Pearson's r of mid-ranks) along the last axis.

    Parameters
    ----------
    x, y
        Values (..., n) that broadcast against each other; pairs with a NaN are left out.

    Returns
    -------
    :
        rho (...); NaN if x or y is constant, or with fewer than two pairs.

    References
    ----------
    Spearman (1904); Kendall (1945) for ties.

    Examples
    --------
    >>> round(spearman(np.array([1.0, 2, 30]), np.array([1.0, 3, 2])).item(), 3)
    0.5
    """
    return pearson(*map(mid_ranks, _mask_missing(x, y)))


def kendall(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Kendall's tau-b along the last axis.

    Parameters
    ----------
    x, y
        Values (..., n) that broadcast against each other; pairs with a NaN are left out.

    Returns
    -------
    :
        tau-b (...); NaN if x or y is constant, or with fewer than two pairs.

    References
    ----------
    Kendall (1945).

    Examples
    --------
    >>> round(kendall(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 3, 2, 9])).item(), 3)
    0.333
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n, shape = x.shape[-1], np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if n <= _FEW:
        return pair_counts(x, y).tau_b
    is_missing = np.isnan(x) | np.isnan(y)
    if is_missing.any():  # missing values get the highest rank on both sides: concordant with every present output
        x, y = np.where(is_missing, np.inf, x), np.where(is_missing, np.inf, y)
    x, y, n_missing_by_row = (_rows(all_rows, shape) for all_rows in (x, y, is_missing.sum(axis=-1, keepdims=True)))
    sorted_single_rows = [SortedRows.from_values(all_rows) if len(all_rows) == 1 else None for all_rows in (x, y)]
    tau = np.empty(math.prod(shape))
    for row_slice in chunks(len(tau), _CACHED * n):
        sorted_rankings = [
            sorted_ranking or SortedRows.from_values(all_rows[row_slice])
            for sorted_ranking, all_rows in zip(sorted_single_rows, (x, y), strict=True)
        ]
        n_missing_in_slice = n_missing_by_row if len(n_missing_by_row) == 1 else n_missing_by_row[row_slice]
        n_missing_ordered_pairs = 2 * (n_missing_in_slice * (n - n_missing_in_slice))[:, 0]
        doubled_concordance = _doubled_concordance(*sorted_rankings)
        tau[row_slice] = tau_b(
            doubled_concordance - n_missing_ordered_pairs,
            *(
                n * n - (sorted_ranking.end - sorted_ranking.start).sum(axis=1) - n_missing_ordered_pairs
                for sorted_ranking in sorted_rankings
            ),
        )
    return tau.reshape(shape)


def _doubled_concordance(x: SortedRows, y: SortedRows) -> NDArray[Any]:
    """Twice the concordant minus discordant pairs of each row."""
    n = x.order.shape[1]
    if x.n_levels * y.n_levels <= n:
        return _table_concordance(x, y)
    if y.has_ties and not x.has_ties:
        x, y = y, x
    if len(x.order) == 1 and x.n_levels <= _FEW:
        return 2 * jonckheere_counts(x.levels()[0], *y[:3])
    fourfold_lower_counts = [
        4 * count_earlier_lower(y_positions).sum(axis=1) for _, y_positions in sorted_positions(x, y)
    ]
    return np.asarray(
        sum(fourfold_lower_counts) / len(fourfold_lower_counts) - n * (n - 2) - (x.end - x.start).sum(axis=1)
    )


def _table_concordance(x: SortedRows, y: SortedRows) -> NDArray[Any]:
    """Twice the concordant minus discordant pairs of each row, from a table of few levels."""
    x_levels, y_levels = np.broadcast_arrays(x.levels(), y.levels())
    row_of_output = np.broadcast_to(np.arange(len(x_levels))[:, np.newaxis], x_levels.shape)
    counts = table_sums(
        row_of_output.ravel(),
        x_levels.ravel(),
        y_levels.ravel(),
        shape=(len(x_levels), x.n_levels, y.n_levels),
    )
    n_lower_in_x = np.cumsum(counts, axis=1) - counts
    n_lower_or_equal_in_y = np.cumsum(n_lower_in_x, axis=2)
    # outputs with a lower x and a lower y, minus outputs with a lower x and a higher y
    net_counts = 2 * n_lower_or_equal_in_y - n_lower_in_x - n_lower_or_equal_in_y[..., -1:]
    return np.asarray(2 * (counts * net_counts).sum(axis=(1, 2)))


ROWS = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
"""Correlations along the last axis, by kind."""


def pair_counts(x: NDArray[Any], y: NDArray[Any], *, pairs: Bools | None = None) -> ConcordanceCounts:
    """Count pairs of outputs by direct comparison, in n^2 steps.

    Parameters
    ----------
    x, y
        Values (..., n) that broadcast against each other; NaN = not rated.
    pairs
        Symmetric mask of the pairs to count (..., n, n); default: all pairs.

    Returns
    -------
    :
        Counts (...) of the pairs of outputs that are rated in x and in y.

    Examples
    --------
    >>> [count.tolist() for count in pair_counts(np.array([1.0, 2, 3]), np.array([1.0, 3, 3]))]
    [2, 3, 2, 2, 3]
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n_axes = max(x.ndim, y.ndim)
    x, y = (scores.reshape((1,) * (n_axes - scores.ndim) + scores.shape) for scores in (x, y))
    x, y = (np.ascontiguousarray(np.moveaxis(scores, -1, 0)) for scores in (x, y))
    n, shape = len(x), np.broadcast_shapes(x.shape[1:], y.shape[1:])
    is_rated_output = ~(np.isnan(x) | np.isnan(y))
    are_all_pairs_counted = pairs is None and bool(is_rated_output.all())
    if pairs is not None:
        is_selected_pair = np.moveaxis(pairs, (-2, -1), (0, 1))
        is_selected_pair = is_selected_pair.reshape(
            n, n, *(1,) * (len(shape) + 2 - is_selected_pair.ndim), *is_selected_pair.shape[2:]
        )
    concordance, untied_x, untied_y, untied_in_both, n_pairs = np.zeros((5, *shape), dtype=np.int32)

    def sum_as_int8(signs_or_mask: NDArray[Any]) -> NDArray[np.int8]:
        return np.asarray(np.add.reduce(signs_or_mask, axis=0, dtype=np.int8))

    for first_output in range(n - 1):
        for offset_slice in chunks(n - 1 - first_output, max(_CACHE * math.prod(shape), CHUNK // _INT8)):
            later_output_slice = slice(first_output + 1 + offset_slice.start, first_output + 1 + offset_slice.stop)
            signs_x, signs_y = (difference_signs(scores[first_output], scores[later_output_slice]) for scores in (x, y))
            if are_all_pairs_counted:
                n_pairs += len(signs_x)
            else:
                is_counted_pair = (
                    is_rated_output[first_output] & is_rated_output[later_output_slice]
                    if pairs is None
                    else is_rated_output[first_output]
                    & is_rated_output[later_output_slice]
                    & is_selected_pair[first_output, later_output_slice]
                )
                signs_x, signs_y = signs_x * is_counted_pair, signs_y * is_counted_pair
                n_pairs += sum_as_int8(is_counted_pair.view(np.int8))
            sign_products = signs_x * signs_y
            concordance += sum_as_int8(sign_products)
            untied_x += sum_as_int8(np.abs(signs_x))
            untied_y += sum_as_int8(np.abs(signs_y))
            untied_in_both += sum_as_int8(np.abs(sign_products))
    count_arrays = (concordance, untied_x, untied_y, untied_in_both, n_pairs)
    return ConcordanceCounts(*(np.asarray(count_array, dtype=np.int64) for count_array in count_arrays))


def system_counts(human: Floats, metrics: Floats, *, pairs: Bools) -> ConcordanceCounts:
    """Count pairs of systems, among the pairs that can be compared.

    Parameters
    ----------
    human, metrics, pairs
        As in `system_correlations`.

    Returns
    -------
    :
        Counts (B, metrics).

    Examples
    --------
    >>> counts = system_counts(np.array([[[1.0, 2]]]), np.array([[[1.0, 3]]]), pairs=np.ones((1, 2, 2), dtype=bool))
    >>> counts.concordance.tolist()
    [[1]]
    """
    return pair_counts(_collapse_equal_rows(human), metrics, pairs=None if _has_all_pairs(pairs) else pairs)


def _collapse_equal_rows(scores: Floats) -> Floats:
    """Scores (B, metrics, systems), or (B, 1, systems) if the scores are equal for all metrics."""
    return scores[:, :1] if (scores == scores[:, :1]).all() else scores


def _has_all_pairs(pairs: Bools) -> bool:
    """Whether `pairs` (metrics, systems, systems) allows the comparison of all systems."""
    return bool(pairs[:, *np.triu_indices(pairs.shape[1], 1)].all())


def concordance(x: NDArray[Any], y: NDArray[Any], *, weights: Floats | None = None) -> NDArray[Any]:
    """Concordant minus discordant pairs of each output.

    The sum of a row is twice the numerator of Kendall's tau. The derivative of this sum with respect to the weight of
    an output (its influence) is twice the result for the output. The computation takes n sqrt(n) steps.

    Parameters
    ----------
    x, y
        Values (rows or 1, n) without NaN.
    weights
        Weight of each output (n,); default: 1.

    Returns
    -------
    :
        Counts (rows, n), or sums of weights if there are weights; a tie counts 0.

    References
    ----------
    Kendall (1945); Hoeffding (1948) for the influence of an output.

    Examples
    --------
    >>> concordance(np.array([[0, 1, 2]]), np.array([[0, 2, 1]])).tolist()
    [[2.0, 0.0, 0.0]]
    """
    n, total_output_weight = x.shape[1], x.shape[1] if weights is None else weights.sum()
    sorted_x, sorted_y = SortedRows.from_values(x), SortedRows.from_values(y)
    if sorted_y.has_ties and not sorted_x.has_ties:
        return concordance(y, x, weights=weights)
    counts_by_tie_order = []
    for outputs_in_y_order, y_positions in sorted_positions(sorted_x, sorted_y):
        outputs_in_x_order = take_from_rows(outputs_in_y_order, y_positions)
        weights_in_x_order, weights_in_y_order = (
            np.ones((1, n)) if weights is None else weights[ordered_outputs]
            for ordered_outputs in (outputs_in_x_order, outputs_in_y_order)
        )
        n_lower_in_x_plus_y = take_from_rows(np.cumsum(weights_in_y_order, axis=1) - weights_in_y_order, y_positions)
        n_lower_in_x_plus_y += np.cumsum(weights_in_x_order, axis=1) - weights_in_x_order
        n_lower_in_both = count_earlier_lower(y_positions, None if weights is None else weights_in_x_order)
        counts_by_tie_order.append(np.empty(y_positions.shape))
        np.put_along_axis(
            counts_by_tie_order[-1], outputs_in_x_order, 4 * n_lower_in_both - 2 * n_lower_in_x_plus_y, axis=1
        )
    return np.asarray(
        sum(counts_by_tie_order) / len(counts_by_tie_order) + total_output_weight - tie_counts(x, weights=weights)
    )


def tie_counts(values: NDArray[Any], *, weights: Floats | None = None) -> NDArray[Any]:
    """For each output, the number of outputs in its row that have the same value, including the output itself.

    Parameters
    ----------
    values
        Values (rows, n) without NaN.
    weights
        Weight of each output (n,); default: 1.

    Returns
    -------
    :
        Counts (rows, n), or sums of weights if there are weights.

    Examples
    --------
    >>> tie_counts(np.array([[3, 5, 3]])).tolist()
    [[2, 1, 2]]
    """
    sorted_rows = SortedRows.from_values(values)
    run_sizes: NDArray[Any] = sorted_rows.end - sorted_rows.start
    if weights is not None:
        cumulative_weights = np.pad(np.cumsum(weights[sorted_rows.order], axis=1), ((0, 0), (1, 0)))
        run_sizes = take_from_rows(cumulative_weights, sorted_rows.end) - take_from_rows(
            cumulative_weights, sorted_rows.start
        )
    n_tied_with_output = np.empty(values.shape, dtype=run_sizes.dtype)
    np.put_along_axis(n_tied_with_output, sorted_rows.order, run_sizes, axis=1)
    return n_tied_with_output


def system_correlations(kind: Kind, human: Floats, metrics: Floats, *, pairs: Bools) -> Floats:
    """Correlations of system scores, over the systems that can be compared.

    Kendall's tau-b uses the pairs of systems that can be compared. For Pearson and Spearman, systems that are connected
    by such pairs form a block, and scores (or ranks) are centred on the mean of each block.

    Parameters
    ----------
    kind
        The correlation.
    human, metrics
        Scores of systems (B, metrics, systems) each; NaN = no score.
    pairs
        Pairs of systems that can be compared (metrics, systems, systems): `common_items` of each metric.

    Returns
    -------
    :
        Correlations (B, metrics); NaN where the human or the metric scores are constant.

    Examples
    --------
    >>> human, metrics, pairs = np.array([[[1.0, 2, 3]]]), np.array([[[1.0, 3, 2]]]), np.ones((1, 3, 3), dtype=bool)
    >>> system_correlations("kendall", human, metrics, pairs=pairs).round(3).tolist()
    [[0.333]]
    """
    if kind == "kendall":
        return system_counts(human, metrics, pairs=pairs).tau_b
    human = _collapse_equal_rows(human)
    if _has_all_pairs(pairs):
        return ROWS[kind](human, metrics)
    block_of_system = blocks_of(pairs)
    centred_human_and_metric_scores = [np.zeros(np.broadcast_shapes(human.shape, metrics.shape)) for _ in range(2)]
    for block_number in np.unique(block_of_system):
        block_scores = _mask_missing(
            *(np.where(block_of_system == block_number, scores, np.nan) for scores in (human, metrics))
        )
        for rater_centred_scores, scores in zip(centred_human_and_metric_scores, block_scores, strict=True):
            rater_centred_scores += deviations(mid_ranks(scores) if kind == "spearman" else scores)
    return pearson(*centred_human_and_metric_scores)


def within_item(human: Floats, metrics: Floats, *, kind: Kind) -> Floats:
    """Correlations of human scores with the scores of each metric, over the systems of each item.

    Parameters
    ----------
    human, metrics
        Scores (items, systems) and (metrics, items, systems); NaN = not rated.
    kind
        The correlation.

    Returns
    -------
    :
        Correlations (metrics, items); NaN if the scores by one rater are constant, or with fewer than two outputs.

    Examples
    --------
    >>> human, metric = np.array([[1.0, 2, 3], [1, 1, 1]]), np.array([[[1.0, 3, 2], [1, 2, 3]]])
    >>> within_item(human, metric, kind="spearman").round(3).tolist()
    [[0.5, nan]]
    """
    return ROWS[kind](human[np.newaxis], metrics)


def tau_b(concordance: NDArray[Any], untied_x: NDArray[Any], untied_y: NDArray[Any]) -> Floats:
    """Kendall's tau-b from counts of pairs.

    Parameters
    ----------
    concordance
        Concordant minus discordant pairs (...).
    untied_x, untied_y
        Pairs that are not tied in the first and in the second ranking (...); NaN = undefined.

    Returns
    -------
    :
        tau-b (...); NaN if all pairs of a ranking are tied.

    Examples
    --------
    >>> tau_b(np.array([1.0]), np.array([4.0]), np.array([1.0])).tolist()
    [0.5]
    """
    return ratio(concordance, np.sqrt(untied_x) * np.sqrt(untied_y)).clip(-1.0, 1.0)


def _rows(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Values (..., n) as rows: a single row if `values` is a single row, else one row for each position of `shape`."""
    if math.prod(values.shape[:-1]) == 1:
        return values.reshape(1, values.shape[-1])
    return np.broadcast_to(values, (*shape, values.shape[-1])).reshape(-1, values.shape[-1])


def _mask_missing(x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
    """x and y, with NaN wherever one of them is NaN. If there is no NaN, both are returned unchanged."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    is_missing = np.isnan(x) | np.isnan(y)
    return (np.where(is_missing, np.nan, x), np.where(is_missing, np.nan, y)) if is_missing.any() else (x, y)
