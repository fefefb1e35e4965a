"""Ridge regression on standardised columns, with the penalty selected by grouped cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.learning.folds import inner_folds
from custodes.stats.ratios import ratio

PENALTIES = np.logspace(2, -3, 21)
"""Ridge penalties, relative to the variance of a standardised column (1)."""

PENALTY = 0.1
"""The penalty if cross-validation is impossible."""

CONSTANT = 1e-12
"""A standard deviation below this proportion of the mean is rounding error."""

_LIMIT = 3  # standard deviations from the mean at which scores are clipped


class Scaling(NamedTuple):
    """Scaling of columns (p,): limits for clipping, mean and standard deviation.

    Limits, mean and standard deviation are NaN for a column without values. The scale of a constant column is NaN.
    """

    low: Floats
    high: Floats
    mean: Floats
    scale: Floats


class Linear(NamedTuple):
    """A linear model of columns that are standardised by `scaling`, with `weights` (p,) and an `intercept`."""

    scaling: Scaling
    weights: Floats
    intercept: float


def scaling(x: Floats) -> Scaling:
    """Scaling of the columns of a training part: limits, then mean and standard deviation within the limits.

    The limits are three standard deviations from the mean. Without them, outliers (such as an extreme length or
    perplexity) would dominate the fit and the predictions.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.

    Returns
    -------
    :
        The scaling of the columns.

    Examples
    --------
    >>> by = scaling(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]))
    >>> by.mean.tolist(), by.scale.tolist(), by.high.tolist()
    ([2.0, 5.0], [1.0, nan], [5.0, 5.0])
    """
    products = fold_products(x, np.empty((0, len(x))), np.zeros(len(x), dtype=np.intp))
    return products.scaling[0]


class Products(NamedTuple):
    """Mean products of standardised columns and centred targets, in several training parts and in their held-out rows.

    `scaling` is the scaling of the columns in each part. `means` (parts, p + targets) are the means of the columns and,
    last, of the targets. `training` and `held_out` (parts, p + targets, p + targets) are
    products: means over the training rows, and sums over the held-out rows.
    """

    scaling: list[Scaling]
    means: Floats
    training: Floats
    held_out: Floats


def fold_products(x: Floats, y: Floats, fold: Ints) -> Products:
    """Products in all rows, and in the training part of each fold.

    Most rows are within the limits of every part, so their products are the same in every part, except for a shift.
    Products of these rows are computed once. Only the remaining rows are clipped and multiplied in each part.

    Parameters
    ----------
    x, y
        Values (rows, p), NaN = missing. Targets (rows,) or (targets, rows).
    fold
        Fold of each row (rows,), -1 for rows that are not used.

    Returns
    -------
    :
        The products: those of all rows, then those of each fold. With one fold, there are only those of all rows.

    Examples
    --------
    >>> x, y = np.array([[0.0], [2.0], [7.0], [8.0]]), np.array([1.0, 3.0, 5.0, 5.0])
    >>> fold_products(x, y, np.array([1, 1, 0, 0])).training[1].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    n_columns, used_row_indices = x.shape[1], np.flatnonzero(fold >= 0)
    row_order = used_row_indices[np.argsort(fold[used_row_indices], kind="stable")]
    fold_starts, fold_of_row, fold_sizes = np.unique(
        fold[row_order], return_index=True, return_inverse=True, return_counts=True
    )[1:]
    training_fold_indicators = (
        1 - np.eye(1 + len(fold_starts), len(fold_starts), -1)[: len(fold_starts) + (len(fold_starts) > 1)]
    )  # (parts, folds)
    column_values = np.vstack([x[row_order].T, y[..., row_order]])
    is_present_value = ~np.isnan(column_values)
    column_values[~is_present_value] = 0.0
    if is_present_value.all():
        is_present_value = is_present_value[:1]  # one row serves all columns
    n_present_by_fold = np.add.reduceat(is_present_value, fold_starts, axis=1, dtype=np.float64)
    n_present_by_part = np.maximum(n_present_by_fold @ training_fold_indicators.T, 1)
    shift_of_column = _central_values(ratio(np.add.reduceat(column_values, fold_starts, axis=1), n_present_by_fold))
    column_values = (column_values - shift_of_column) * is_present_value

    def standard_deviation(deviation_square_sums: Floats, means_by_part: Floats) -> Floats:
        """Standard deviations (columns, parts) from sums of squares; 0 if within rounding error."""
        deviations = np.sqrt(np.maximum(deviation_square_sums, 0.0) / n_present_by_part)
        return np.where(deviations > CONSTANT * np.abs(means_by_part + shift_of_column), deviations, 0.0)

    means_by_part = np.add.reduceat(column_values, fold_starts, axis=1) @ training_fold_indicators.T / n_present_by_part
    deviation_square_sums = (
        np.add.reduceat(column_values * column_values, fold_starts, axis=1) @ training_fold_indicators.T
        - n_present_by_part * means_by_part**2
    )
    clip_half_widths = _LIMIT * standard_deviation(deviation_square_sums, means_by_part)
    clip_half_widths[n_columns:] = np.inf  # targets are not clipped
    lower_limits, upper_limits = means_by_part - clip_half_widths, means_by_part + clip_half_widths
    is_clipped_row = (
        (column_values < lower_limits.max(axis=1, keepdims=True))
        | (column_values > upper_limits.min(axis=1, keepdims=True))
    ).any(axis=0)
    if np.isin((n_present_by_fold > 0).sum(axis=1), (1, 2)).any():
        is_clipped_row[:] = True  # the common shift may be far from the values of a part
    is_clipped_value_present, clipped_fold_starts = (
        is_present_value[:, is_clipped_row],
        np.searchsorted(fold_of_row[is_clipped_row], np.arange(len(fold_starts) + 1)),
    )
    clipped_row_training_indicators = training_fold_indicators[:, np.newaxis, fold_of_row[is_clipped_row]]
    clipped_values = (
        np.clip(column_values[:, is_clipped_row], lower_limits.T[..., np.newaxis], upper_limits.T[..., np.newaxis])
        * is_clipped_value_present
    )
    unclipped_values = np.vstack([column_values, is_present_value])
    unclipped_values[:, is_clipped_row] = 0.0
    unclipped_grams = np.stack(
        [fold_values @ fold_values.T for fold_values in np.split(unclipped_values, fold_starts[1:], axis=1)]
    )
    unclipped_sums = np.add.reduceat(unclipped_values[: len(column_values)], fold_starts, axis=1)
    means_by_part = (
        unclipped_sums @ training_fold_indicators.T + (clipped_values * clipped_row_training_indicators).sum(axis=2).T
    ) / n_present_by_part
    clipped_deviations = (clipped_values - means_by_part.T[..., np.newaxis]) * is_clipped_value_present

    clipped_training_products, clipped_held_out_products = np.zeros(
        (2, len(training_fold_indicators), len(column_values), len(column_values))
    )
    for fold_index, (clipped_start, clipped_stop) in enumerate(pairwise(clipped_fold_starts.tolist())):
        clipped_gram = (
            clipped_deviations[..., clipped_start:clipped_stop] @ clipped_deviations[..., clipped_start:clipped_stop].mT
        )
        training_part_indicators = training_fold_indicators[:, fold_index, np.newaxis, np.newaxis]
        clipped_training_products += clipped_gram * training_part_indicators
        clipped_held_out_products += clipped_gram * (1 - training_part_indicators)

    def products(weights: Floats, clipped_products: Floats) -> Floats:
        """Products about the means, from weights (parts, folds) of unclipped rows and products of clipped rows."""
        unclipped_grams_by_part, means_of_column, n_variables = (
            np.tensordot(weights, unclipped_grams, 1),
            means_by_part.T[..., np.newaxis],
            len(column_values),
        )
        sum_by_mean_products = unclipped_grams_by_part[:, :n_variables, n_variables:] * means_of_column.mT
        unclipped_products = (
            unclipped_grams_by_part[:, :n_variables, :n_variables] - sum_by_mean_products - sum_by_mean_products.mT
        )
        unclipped_products += (
            unclipped_grams_by_part[:, n_variables:, n_variables:] * means_of_column * means_of_column.mT
        )
        return np.asarray(unclipped_products + clipped_products)

    training_products, held_out_products = (
        products(training_fold_indicators, clipped_training_products),
        products(1 - training_fold_indicators, clipped_held_out_products),
    )
    column_sds = standard_deviation(np.diagonal(training_products, axis1=1, axis2=2).T, means_by_part)
    column_sds[n_columns:] = 1.0  # targets are not scaled
    sd_products = np.where(column_sds > 0, column_sds, np.inf).T[..., np.newaxis]
    sd_products = sd_products * sd_products.mT
    is_empty_column = np.broadcast_to(n_present_by_fold @ training_fold_indicators.T == 0, means_by_part.shape)
    scaling_fields = (
        np.where(is_undefined_column, np.nan, scaling_field)[:n_columns].T
        for is_undefined_column, scaling_field in (
            (is_empty_column, lower_limits + shift_of_column),
            (is_empty_column, upper_limits + shift_of_column),
            (is_empty_column, means_by_part + shift_of_column),
            (column_sds == 0, column_sds),
        )
    )
    return Products(
        [Scaling(*fields_of_part) for fields_of_part in zip(*scaling_fields, strict=True)],
        (means_by_part + shift_of_column).T,
        training_products / sd_products / (training_fold_indicators @ fold_sizes)[:, np.newaxis, np.newaxis],
        held_out_products / sd_products,
    )


def _central_values(fold_means: Floats) -> Floats:
    """The median of the means of folds (columns, folds), NaN = no values: (columns, 1).

    An outlier in one fold does not affect the median, so the products in the training part of this fold lose no
    precision.
    """
    n_defined = (~np.isnan(fold_means)).sum(axis=1, keepdims=True)
    medians = np.take_along_axis(np.sort(fold_means, axis=1), np.maximum(n_defined - 1, 0) // 2, axis=1)
    return np.where(n_defined > 0, medians, 0.0)


def standardise_columns(x: Floats, column_scaling: Scaling) -> Floats:
    """Clip, centre and scale columns.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    column_scaling
        The scaling of a training part.

    Returns
    -------
    :
        Standardised values (rows, p). They are 0 where the value is missing, and in columns without a scale.

    Examples
    --------
    >>> by = Scaling(np.array([-1.0, 5.0]), np.array([5.0, 5.0]), np.array([2.0, 5.0]), np.array([1.0, np.nan]))
    >>> standardise_columns(np.array([[9.0, 9.0], [np.nan, 9.0]]), by).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    z = np.clip(x, column_scaling.low, column_scaling.high)
    z -= column_scaling.mean
    z /= column_scaling.scale
    z[np.isnan(z)] = 0.0
    return z


def ridge(x: Floats, y: Floats, *, groups: NDArray[Any], penalties: Floats = PENALTIES) -> Linear:
    """Fit a linear model by ridge regression.

    The fit minimises mean squared error + penalty * (sum of squared weights) on standardised columns, with missing
    values replaced by the mean. The penalty with the least squared error over inner folds is selected. There are five
    inner folds, or fewer if there are fewer groups. Whole groups are assigned to folds in turn, in sorted order. Among
    equally good penalties, the largest is selected. With one group, the penalty is `PENALTY`. A single decomposition
    serves all penalties. On SummEval and HANNA, scikit-learn's Ridge takes two to six times as long, and a fit of
    `combine` needs thousands of such fits.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y
        Target (rows,).
    groups
        Group of each row (rows,). Rows of one group stay together in cross-validation.
    penalties
        Penalties above 0 to choose from.

    Returns
    -------
    :
        The model. A column that is constant or missing in training has weight 0.

    References
    ----------
    Hoerl and Kennard (1970).

    Examples
    --------
    >>> x = np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0], [np.nan, 3.0]])
    >>> linear = ridge(x, np.array([1.0, 3.0, 5.0, 3.0]), groups=np.arange(4), penalties=np.array([1e-9]))
    >>> predict(linear, np.array([[0.5, 9.0], [np.nan, 9.0]])).round(6).tolist()
    [2.0, 3.0]
    """
    return ridges(x, y, [slice(None)], groups=groups, penalties=penalties)[0]


def ridges(
    x: Floats, y: Floats, column_ranges: Sequence[slice], *, groups: NDArray[Any], penalties: Floats = PENALTIES
) -> list[Linear]:
    """Fit `ridge` on each of several ranges of the columns. The columns are standardised and multiplied only once.

    Parameters
    ----------
    x, groups, penalties
        As in `ridge`.
    y
        Target (rows,), or targets (targets, rows). Each range has one target: the targets are assigned to the ranges in
        turn.
    column_ranges
        Ranges of columns.

    Returns
    -------
    :
        A linear model for each range.

    Examples
    --------
    >>> x = np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 4.0], [3.0, 3.0]])
    >>> linears = ridges(x, x[:, 0], [slice(1), slice(2)], groups=np.arange(4))
    >>> [len(linear.weights) for linear in linears]
    [1, 2]
    """
    products, n_columns = fold_products(x, y, inner_folds(groups)), x.shape[1]
    linear_models = []
    target_columns = np.resize(np.arange(n_columns, products.means.shape[1]), len(column_ranges))
    for column_range, target_column in zip(column_ranges, target_columns.tolist(), strict=True):
        column_indices = np.arange(n_columns)[column_range]
        gram, target_products = (
            products.training[0][np.ix_(column_indices, column_indices)],
            products.training[0, column_indices, target_column],
        )
        penalty = _select_penalty(products, column_indices, target_column, penalties)
        linear_models.append(
            Linear(
                Scaling(*(scaling_field[column_range] for scaling_field in products.scaling[0])),
                np.asarray(np.linalg.solve(gram + penalty * np.eye(len(column_indices)), target_products)),
                float(products.means[0, target_column]),
            )
        )
    return linear_models


def ridge_predictions(
    x: Floats,
    y: Floats,
    column_ranges: Sequence[slice],
    *,
    groups: NDArray[Any],
    is_training: Bools,
    is_held_out: Bools,
) -> Floats:
    """Fit `ridges` to the training rows, and predict the held-out rows: (ranges, held-out rows).

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> masks = {"is_training": np.arange(4) < 3, "is_held_out": np.arange(4) == 3}
    >>> ridge_predictions(x, np.ones(4), [slice(1)], groups=np.arange(4), **masks).tolist()
    [[1.0]]
    """
    linear_models = ridges(x[is_training], y[..., is_training], column_ranges, groups=groups[is_training])
    held_out_x = x[is_held_out]
    return np.stack(
        [
            predict(linear_model, held_out_x[:, column_range])
            for linear_model, column_range in zip(linear_models, column_ranges, strict=True)
        ]
    )


def ridge_path(
    x: Floats,
    y: Floats,
    penalty_matrix: Floats,
    *,
    strengths: Sequence[float],
    groups: NDArray[Any],
    penalties: Floats = PENALTIES,
) -> list[Linear]:
    """Fit `ridge` with a further penalty: strength * w' Q w, where w are the weights of the standardised columns.

    Parameters
    ----------
    x, y, groups, penalties
        As in `ridge`. The ridge penalty that is selected at strength 0 is used for all strengths.
    penalty_matrix
        Q (p, p), positive semidefinite.
    strengths
        Multipliers of the further penalty, at least 0.

    Returns
    -------
    :
        A linear model for each strength.

    Examples
    --------
    >>> x = np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 4.0], [3.0, 3.0]])
    >>> free, bound = ridge_path(x, x[:, 0], np.diag([1.0, 0.0]), strengths=(0.0, 1e9), groups=np.arange(4))
    >>> free.weights.round(1).tolist(), bound.weights.round(1).tolist()
    ([1.1, 0.0], [0.0, 0.3])
    """
    products, n_columns = fold_products(x, y, inner_folds(groups)), x.shape[1]
    gram = products.training[0, :n_columns, :n_columns] + _select_penalty(
        products, np.arange(n_columns), n_columns, penalties
    ) * np.eye(n_columns)
    target_products = products.training[0, :n_columns, n_columns]
    weights_by_strength = [
        np.asarray(np.linalg.solve(gram + strength * penalty_matrix, target_products)) for strength in strengths
    ]
    return [
        Linear(products.scaling[0], weights, float(products.means[0, n_columns])) for weights in weights_by_strength
    ]


def predict(linear: Linear, x: Floats) -> Floats:
    """Predict rows with a linear model.

    Parameters
    ----------
    linear
        The model.
    x
        Values (rows, p); a missing value counts as the training mean.

    Returns
    -------
    :
        Predictions (rows,).

    Examples
    --------
    >>> by = Scaling(*(np.array([value]) for value in (0.0, 9.0, 5.0, 2.0)))
    >>> predict(Linear(by, np.array([4.0]), 11.0), np.array([[3.0], [np.nan], [99.0]])).tolist()
    [7.0, 11.0, 19.0]
    """
    return np.asarray(linear.intercept + standardise_columns(x, linear.scaling) @ linear.weights)


def _select_penalty(products: Products, column_indices: Ints, target_column: int, penalties: Floats) -> float:
    """The penalty with the least squared error over all held-out rows; the largest if several are equal."""
    penalties = np.sort(penalties)[::-1]
    if len(penalties) == 1 or len(products.training) == 1:
        return float(penalties[0]) if len(penalties) == 1 else PENALTY
    training_products, held_out_products = products.training[1:, column_indices], products.held_out[1:, column_indices]
    eigenvalues, eigenvectors = np.linalg.eigh(training_products[:, :, column_indices])
    penalised_eigenvalues = np.maximum(eigenvalues, 0.0)[:, :, np.newaxis] + penalties
    weights_by_penalty = eigenvectors @ (
        eigenvectors.mT @ training_products[:, :, [target_column]] / penalised_eigenvalues
    )
    # Squared error, without the squares of the target, which all penalties share.
    squared_error_of_penalty = (
        weights_by_penalty
        * (held_out_products[:, :, column_indices] @ weights_by_penalty - 2 * held_out_products[:, :, [target_column]])
    ).sum(axis=(0, 1))
    return float(penalties[np.argmin(squared_error_of_penalty)])
