"""Pearson, Spearman and Kendall correlations, and the counts of pairs from which Kendall's tau-b is computed."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, chunks, deviations, scaled, scaled_deviations, table_sums
from custodes.stats.ranks import (
    SortedRows,
    count_earlier_lower,
    difference_signs,
    mid_ranks,
    rank_deviations,
    sorted_positions,
    take_from_rows,
)
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import blocks_of

Kind = Literal["pearson", "spearman", "kendall"]

_FEW = 32  # length of rankings up to which comparing all pairs is faster than sorting
_CACHED = 32  # divisor of the size of temporary arrays of positions, so that they fit the cache
_CACHE = 8  # divisor of the size of temporary arrays of signs, so that they fit the cache
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

    @property
    def accuracy(self) -> Floats:
        """Proportion of pairs that both rankings put in the same order; NaN without pairs.

        A pair that is tied in one ranking is in the same order only if the pair is also tied in the other ranking. With
        system means, the result is the accuracy of Kocmi et al. 2021 ("To Ship or Not to Ship").
        """
        n_tied_by_both = self.pairs - self.untied_x - self.untied_y + self.untied
        return ratio((self.concordance + self.untied) / 2 + n_tied_by_both, self.pairs)


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
    return _cosine(*map(scaled_deviations, _mask_missing(x, y)))


def _cosine(x_deviations: Floats, y_deviations: Floats) -> Floats:
    """Pearson's r along the last axis from deviations (..., n) that are at most 1."""
    xy_sum, xx_sum, yy_sum = (
        np.einsum("...n,...n->...", first_deviations, second_deviations)
        for first_deviations, second_deviations in (
            (x_deviations, y_deviations),
            (x_deviations, x_deviations),
            (y_deviations, y_deviations),
        )
    )
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
    x, y = _mask_missing(x, y)
    n, leading_shape = x.shape[-1], np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if n <= _FEW:
        return pair_counts(x, y).tau_b
    x, y = (np.broadcast_to(values, (*leading_shape, n)).reshape(-1, n) for values in (x, y))
    tau = np.empty(len(x))
    for row_slice in chunks(len(tau), _CACHED * n):
        is_missing = np.isnan(x[row_slice])
        # Missing values get the highest rank on both sides: concordant with every present output.
        sorted_x, sorted_y = (
            SortedRows.from_values(np.where(is_missing, np.inf, values[row_slice])) for values in (x, y)
        )
        n_pairs_with_one_missing = 2 * is_missing.sum(axis=1) * (~is_missing).sum(axis=1)
        has_few_levels = sorted_x.n_levels * sorted_y.n_levels <= n  # counting from a table is then faster
        tau[row_slice] = tau_b(
            (_tabled_concordance if has_few_levels else _sorted_concordance)(sorted_x, sorted_y).sum(axis=1)
            - n_pairs_with_one_missing,
            *(
                n * n - (sorted_rows.end - sorted_rows.start).sum(axis=1) - n_pairs_with_one_missing
                for sorted_rows in (sorted_x, sorted_y)
            ),
        )
    return tau.reshape(leading_shape)


def _tabled_concordance(x: SortedRows, y: SortedRows) -> NDArray[Any]:
    """Number of concordant minus discordant pairs that contain an output with each level of x: (rows, levels)."""
    x_levels, y_levels = x.levels(), y.levels()
    level_counts = table_sums(
        np.repeat(np.arange(len(x_levels)), x_levels.shape[1]),
        x_levels.ravel(),
        y_levels.ravel(),
        shape=(len(x_levels), x.n_levels, y.n_levels),
    )
    n_up_to_x_same_y = np.cumsum(level_counts, axis=1)
    n_up_to_x_up_to_y = np.cumsum(n_up_to_x_same_y, axis=2)
    # outputs with a lower x and a lower y, minus outputs with a lower x and a higher y; outputs with an equal x cancel
    net_concordance = 2 * n_up_to_x_up_to_y - n_up_to_x_same_y - n_up_to_x_up_to_y[..., -1:]
    return np.asarray(2 * (level_counts * net_concordance).sum(axis=2))


ROWS = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
"""Functions that compute correlations along the last axis, by kind of correlation."""


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
    x, y = _mask_missing(x, y)
    n, leading_shape = x.shape[-1], np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    x, y = (np.broadcast_to(values, (*leading_shape, n)).reshape(prod(leading_shape), n) for values in (x, y))
    pairs = np.ones((n, n), dtype=bool) if pairs is None or (pairs | np.eye(n, dtype=bool)).all() else pairs
    n_masks = prod(pairs.shape[:-2])
    pair_masks = np.moveaxis(pairs.reshape(n_masks, n, n), 0, -1).view(np.int8)
    mask_of_row = np.broadcast_to(np.arange(n_masks).reshape(pairs.shape[:-2]), leading_shape).reshape(len(x))
    counts = np.zeros((5, len(x)), dtype=np.int64)
    for row_slice in chunks(len(x), _CACHE * n):
        # The output is the first axis, so that all rows are compared at once.
        x_columns, y_columns = (np.ascontiguousarray(values[row_slice].T) for values in (x, y))
        is_rated = (~np.isnan(x_columns)).view(np.int8)
        is_selected = pair_masks if n_masks == 1 else pair_masks[..., mask_of_row[row_slice]]
        for output in range(n - 1):
            is_counted_pair = is_rated[output] & is_rated[output + 1 :] & is_selected[output, output + 1 :]
            signs_x, signs_y = (
                difference_signs(columns[output], columns[output + 1 :]) * is_selected[output, output + 1 :]
                for columns in (x_columns, y_columns)
            )
            sign_products = signs_x * signs_y
            for count_index, summands in enumerate(  # in the order of `ConcordanceCounts`
                (sign_products, np.abs(signs_x), np.abs(signs_y), np.abs(sign_products), is_counted_pair)
            ):
                counts[count_index, row_slice] += np.add.reduce(
                    summands, axis=0, dtype=np.int8 if n <= _INT8 else np.int32
                )
    return ConcordanceCounts(*counts.reshape(5, *leading_shape))


def concordance(x: NDArray[Any], y: NDArray[Any], *, weights: Floats | None = None) -> NDArray[Any]:
    """Number of concordant minus discordant pairs that contain each output.

    The sum of a row is twice the numerator of Kendall's tau. The derivative of the sum with respect to the weight of an
    output (its influence) is twice the result for the output. The computation takes n sqrt(n) steps.

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
    return _sorted_concordance(SortedRows.from_values(x), SortedRows.from_values(y), weights=weights)


def _sorted_concordance(x: SortedRows, y: SortedRows, *, weights: Floats | None = None) -> NDArray[Any]:
    """The result of `concordance` for sorted rows."""
    if y.has_ties and not x.has_ties:
        return _sorted_concordance(y, x, weights=weights)
    n = x.order.shape[1]
    concordance_by_tie_order = []
    for outputs_in_y_order, y_positions in sorted_positions(x, y):
        outputs_in_x_order = take_from_rows(outputs_in_y_order, y_positions)
        weights_in_x_order, weights_in_y_order = (
            np.ones((1, n)) if weights is None else weights[ordered_outputs]
            for ordered_outputs in (outputs_in_x_order, outputs_in_y_order)
        )
        n_lower_in_x_plus_y = take_from_rows(np.cumsum(weights_in_y_order, axis=1) - weights_in_y_order, y_positions)
        n_lower_in_x_plus_y += np.cumsum(weights_in_x_order, axis=1) - weights_in_x_order
        n_lower_in_both = count_earlier_lower(y_positions, None if weights is None else weights_in_x_order)
        concordance_by_tie_order.append(np.empty(y_positions.shape))
        np.put_along_axis(
            concordance_by_tie_order[-1], outputs_in_x_order, 4 * n_lower_in_both - 2 * n_lower_in_x_plus_y, axis=1
        )
    total_weight = n if weights is None else weights.sum()
    return np.asarray(np.mean(concordance_by_tie_order, axis=0) + total_weight - x.tie_counts(weights))


def system_correlations(kind: Kind, human: Floats, metrics: Floats, *, pairs: Bools) -> Floats:
    """Correlations of system scores, over the systems that can be compared.

    Kendall's tau-b uses the pairs of systems that can be compared. For Pearson and Spearman, systems that are connected
    by comparable pairs form a block, and scores (or ranks) are centred on the mean of each block.

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
        return pair_counts(human, metrics, pairs=pairs).tau_b
    block_of_system, correlations = blocks_of(pairs).T[:, np.newaxis], np.empty(metrics.shape[:2])
    for resample_slice in chunks(len(metrics), _CACHE * prod(metrics.shape[1:])):
        # With systems as the first axis, sums over systems are sums of whole arrays, which is several times as fast.
        human_and_metric_scores = _mask_missing(
            *(np.ascontiguousarray(np.moveaxis(scores[resample_slice], -1, 0)) for scores in (human, metrics))
        )
        deviations_of_raters = np.zeros((2, *human_and_metric_scores[1].shape))
        for block_number in np.unique(block_of_system):
            for deviations_of_rater, scores in zip(deviations_of_raters, human_and_metric_scores, strict=True):
                block_scores = np.where(block_of_system == block_number, scores, np.nan)
                deviations_of_rater += (
                    rank_deviations(block_scores)
                    if kind == "spearman"
                    else np.moveaxis(deviations(np.moveaxis(block_scores, 0, -1)), -1, 0)
                )
        correlations[resample_slice] = _cosine(*map(scaled, np.moveaxis(deviations_of_raters, 1, -1)))
    return correlations


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


def _mask_missing(x: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
    """x and y, with NaN wherever one of them is NaN. If there is no NaN, both are returned unchanged."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    is_missing = np.isnan(x) | np.isnan(y)
    return (np.where(is_missing, np.nan, x), np.where(is_missing, np.nan, y)) if is_missing.any() else (x, y)
