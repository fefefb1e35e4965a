"""Weights of ridge regressions that are fitted to bootstrap resamples of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import N_INNER_FOLDS
from custodes.stats.learning.ridge import LIMIT, Linear, Products, Scaling, fit_products, scaling
from custodes.stats.ratios import ratio

_CONSTANT = 1e-12  # a variance below this proportion of the mean square is rounding error


def resampled_ridge(
    x: Floats, y: Floats, *, group_of_row: Ints, weights: Ints, predicts_ranks: bool
) -> Iterator[tuple[Linear, float]]:
    """Fit `ridge` to each bootstrap resample. Rows are weighted in sums of products instead of copied.

    In a resample, scores are clipped at the limits of the whole resample, also in inner folds. All else is as in
    `ridge`: each training part has its own means and scales, and each resample selects its own penalty.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y
        Ratings (rows,).
    group_of_row
        Group of each row (rows,), numbered from 0.
    weights
        Number of times that each group is drawn (B, groups).
    predicts_ranks
        Whether the target is the rank of a rating in the resample; otherwise it is the rating.

    Yields
    ------
    :
        The linear model of a resample (its intercept is relative to the mean target), and the slope of the least
        squares line that predicts ratings from its predictions.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> design = {"group_of_row": np.arange(4), "weights": np.array([[1, 1, 1, 1], [2, 1, 1, 0]])}
    >>> [round(slope, 3) for _, slope in resampled_ridge(x, x[:, 0], predicts_ranks=False, **design)]
    [1.001, 1.001]
    """
    data_scaling, n_columns, is_missing = scaling(x), x.shape[1], np.isnan(x)
    scores = np.nan_to_num((x - data_scaling.mean) / data_scaling.scale, nan=0.0)
    is_present, squared_scores = (~is_missing).astype(np.float64), scores * scores
    targets = np.tile((y - y.mean())[:, np.newaxis], (1, 2))  # the target, and the ratings
    # The last columns mark present values; a single column is enough if no value is missing.
    presence = np.column_stack([is_present, np.ones((len(y), 2))]) if is_missing.any() else np.ones((len(y), 1))
    columns = np.column_stack([scores, targets, presence])
    level_of_row = np.unique(y, return_inverse=True)[1]
    for group_weights in weights:
        row_weights, is_drawn = group_weights[group_of_row], group_weights > 0
        n_present = row_weights @ is_present
        means, mean_squares = (
            np.nan_to_num(ratio(row_weights @ values, n_present)) for values in (scores, squared_scores)
        )
        variances = mean_squares - means * means
        half_widths = LIMIT * np.sqrt(np.where(variances > _CONSTANT * mean_squares, variances, 0.0))
        limits = means - half_widths, means + half_widths
        np.clip(scores, *limits, out=columns[:, :n_columns])
        columns[:, :n_columns] *= is_present
        if predicts_ranks:
            level_weights = np.bincount(level_of_row, row_weights)
            mid_ranks = np.cumsum(level_weights) - level_weights / 2
            columns[:, n_columns] = (mid_ranks / row_weights.sum() - 0.5)[level_of_row]
        fold_of_row = np.where(is_drawn, (np.cumsum(is_drawn) - 1) % N_INNER_FOLDS, -1)[group_of_row]
        rows_of_folds = [np.flatnonzero(fold_of_row == fold) for fold in range(min(N_INNER_FOLDS, is_drawn.sum()))]
        moments = np.stack(
            [(columns[rows] * row_weights[rows, np.newaxis]).T @ columns[rows] for rows in rows_of_folds]
        )
        fold_sizes = [row_weights[rows].sum() for rows in rows_of_folds]
        low, high = (data_scaling.mean + data_scaling.scale * limit for limit in limits)
        products = _products(moments, n_columns, fold_sizes, data_scaling._replace(low=low, high=high))
        linear = fit_products(products, np.arange(n_columns), n_columns)
        covariance = float(linear.weights @ products.training[0, :n_columns, n_columns + 1])
        variance = float(linear.weights @ products.training[0, :n_columns, :n_columns] @ linear.weights)
        yield linear, covariance / variance if covariance > 0 and variance > 0 else 0.0


def _products(moments: Floats, n_columns: int, fold_sizes: list[float], data_scaling: Scaling) -> Products:
    """The products of all rows and of each fold. `moments` (folds, k, k) are sums of products of k variables: the
    columns, the two targets, and the indicators of present values."""
    n_folds, n_values = len(moments), n_columns + 2
    is_training_fold = 1.0 - np.eye(n_folds + 1 if n_folds > 1 else 1, n_folds, -1)
    training_sums, held_out_sums = (
        np.tensordot(is_fold_in_use, moments, 1) for is_fold_in_use in (is_training_fold, 1.0 - is_training_fold)
    )
    square_shape = len(is_training_fold), n_values, n_values
    sums, n_present = (
        np.einsum("pcc->pc", np.broadcast_to(training_sums[:, n_values:, part_columns], square_shape))
        for part_columns in (slice(n_values), slice(n_values, None))
    )
    means = np.nan_to_num(ratio(sums, n_present))

    def centre(sums: Floats) -> Floats:
        """Sums of products of deviations from the means, over the rows where both values are present."""
        cross_sums = means[:, :, np.newaxis] * sums[:, n_values:, :n_values]
        products_of_means = means[:, :, np.newaxis] * means[:, np.newaxis]
        return np.asarray(
            sums[:, :n_values, :n_values]
            - cross_sums
            - cross_sums.mT
            + products_of_means * sums[:, n_values:, n_values:]
        )

    training_products, held_out_products = centre(training_sums), centre(held_out_sums)
    square_sums, squared_deviation_sums = (
        np.einsum("pcc->pc", products[:, :n_values, :n_values]) for products in (training_sums, training_products)
    )
    is_constant = squared_deviation_sums <= _CONSTANT * square_sums
    scales = np.sqrt(np.where(is_constant, np.nan, ratio(squared_deviation_sums, n_present)))
    scales[:, n_columns:] = 1.0  # targets are not scaled
    scale_products = np.nan_to_num(scales[:, :, np.newaxis] * scales[:, np.newaxis], nan=np.inf)
    part_sizes = is_training_fold @ fold_sizes
    return Products(
        [data_scaling._replace(scale=data_scaling.scale * scales[0, :n_columns])],
        means,
        training_products / scale_products / part_sizes[:, np.newaxis, np.newaxis],
        held_out_products / scale_products,
    )
