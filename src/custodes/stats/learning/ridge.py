"""Ridge regression on standardised columns, with the penalty selected by grouped cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
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

LIMIT = 3
"""Number of standard deviations from the mean at which scores are clipped."""


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

    The limits are three standard deviations from the mean. Without limits, outliers (such as an extreme length or
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
    return fold_products(x, np.empty((0, len(x))), np.zeros(len(x), dtype=np.intp)).scaling[0]


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


def fold_products(x: Floats, y: Floats, fold: Ints, *, has_common_limits: bool = False) -> Products:
    """Products in all rows, and in the training part of each fold.

    Parameters
    ----------
    x, y
        Values (rows, p), NaN = missing. Targets (rows,) or (targets, rows).
    fold
        Fold of each row (rows,), -1 for rows that are not used.
    has_common_limits
        Whether the columns are clipped at the limits of all rows in every part. By default, each part has its own
        limits.

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
    n_columns, used_rows = x.shape[1], np.flatnonzero(fold >= 0)
    sorted_rows = used_rows[np.argsort(fold[used_rows], kind="stable")]
    fold_sizes = np.unique(fold[used_rows], return_counts=True)[1]
    fold_starts = np.cumsum(fold_sizes) - fold_sizes
    fold_rows, n_folds = list(map(slice, fold_starts.tolist(), np.cumsum(fold_sizes).tolist())), len(fold_starts)
    # In the first part, no fold is held out; (parts, folds)
    is_training_fold = 1.0 - np.eye(n_folds + 1 if n_folds > 1 else 1, n_folds, -1)
    # The rows are on the last axis, along which NumPy is fastest. All parts share one array of deviations, because new
    # arrays of this size would take most of the time.
    column_values = np.concatenate([np.take(columns, sorted_rows, axis=1) for columns in (x.T, np.atleast_2d(y))])
    is_missing = np.isnan(column_values)
    is_present = (~is_missing).astype(np.float64)
    column_values[is_missing] = 0.0
    fold_counts, fold_sums = (
        np.add.reduceat(summed_values, fold_starts, axis=1).T for summed_values in (is_present, column_values)
    )
    fold_means = fold_sums / np.maximum(fold_counts, 1.0)
    deviations = column_values - np.repeat(fold_means.T, fold_sizes, axis=1)
    deviations *= is_present
    square_sums_in_folds = np.add.reduceat(np.square(deviations, out=deviations), fold_starts, axis=1).T
    n_present = is_training_fold @ fold_counts  # (parts, columns)
    mean_divisors = np.maximum(n_present, 1.0)
    means = is_training_fold @ fold_sums / mean_divisors
    square_sums = is_training_fold @ square_sums_in_folds + np.einsum(
        "pf,fc,pfc->pc", is_training_fold, fold_counts, np.square(fold_means - means[:, np.newaxis])
    )
    half_widths = LIMIT * _standard_deviations(square_sums, n_present, means)
    half_widths[:, n_columns:] = np.inf  # targets are not clipped
    lower_limits, upper_limits = means - half_widths, means + half_widths
    if has_common_limits:
        lower_limits[:], upper_limits[:] = lower_limits[0], upper_limits[0]
    training_products, held_out_products = products = np.empty((2, *means.shape, means.shape[1]))
    # With common limits, the products of each fold are computed once, as deviations from the means of all rows.
    for part_index in range(1 if has_common_limits else len(means)):
        np.fmax(column_values, lower_limits[part_index, :, np.newaxis], out=deviations)
        np.fmin(deviations, upper_limits[part_index, :, np.newaxis], out=deviations)
        held_out = fold_rows[part_index - 1] if part_index else slice(0, 0)
        row_slices = fold_rows if has_common_limits else [slice(held_out.start), slice(held_out.stop, None)]
        training_sums = [np.vecdot(deviations[:, rows], is_present[:, rows]) for rows in row_slices]
        means[part_index] = sum(training_sums) / mean_divisors[part_index]
        deviations -= means[part_index, :, np.newaxis]
        deviations *= is_present
        if has_common_limits:
            means[1:] = (is_training_fold @ training_sums / mean_divisors)[1:]
            products[:] = _part_products(deviations, is_present, fold_rows, is_training_fold, means - means[0])
        else:
            training_products[part_index], held_out_products[part_index] = (
                sum(deviations[:, rows] @ deviations[:, rows].T for rows in slices)
                for slices in (row_slices, [held_out])
            )
    standard_deviations = _standard_deviations(np.diagonal(training_products, axis1=1, axis2=2), n_present, means)
    scales = np.where((standard_deviations > 0) & (half_widths > 0), standard_deviations, np.nan)
    scaling_fields = np.where(
        n_present[:, np.newaxis] > 0, np.stack([lower_limits, upper_limits, means, scales], axis=1), np.nan
    )
    scales[:, n_columns:] = 1.0  # targets are not scaled
    scale_products = scales[:, :, np.newaxis] * scales[:, np.newaxis]
    scale_products[np.isnan(scale_products)] = np.inf
    return Products(
        [Scaling(*fields_of_part) for fields_of_part in scaling_fields[:, :, :n_columns]],
        means,
        training_products / scale_products / (is_training_fold @ fold_sizes)[:, np.newaxis, np.newaxis],
        held_out_products / scale_products,
    )


def _part_products(
    deviations: Floats, is_present: Floats, fold_rows: list[slice], is_training_fold: Floats, shifts: Floats
) -> Floats:
    """Sums of products over the training rows and over the held-out rows of all parts, (2, parts, columns, columns).

    `deviations` (columns, rows) are 0 where `is_present` (columns, rows) is 0, and `shifts` (parts, columns) are the
    means of the parts. One row of `is_present` is enough if no value is missing.
    """
    n_columns, masks = len(deviations), is_present[:1] if is_present.all() else is_present
    deviations_and_masks = np.concatenate([deviations, masks])
    products_of_folds = [deviations_and_masks[:, rows] @ deviations_and_masks[:, rows].T for rows in fold_rows]
    sums = np.tensordot(np.stack([is_training_fold, 1.0 - is_training_fold]), products_of_folds, 1)
    shifted_sums = sums[..., :n_columns, n_columns:] * shifts[:, np.newaxis]
    shift_products = sums[..., n_columns:, n_columns:] * shifts[:, :, np.newaxis] * shifts[:, np.newaxis]
    return np.asarray(sums[..., :n_columns, :n_columns] - shifted_sums - shifted_sums.mT + shift_products)


def _standard_deviations(square_sums: Floats, n_present: Floats, means: Floats) -> Floats:
    """Standard deviations (parts, columns) from sums of squared deviations; 0 if within rounding error."""
    standard_deviations = np.sqrt(ratio(np.maximum(square_sums, 0.0), n_present))
    return np.where(standard_deviations > CONSTANT * np.abs(means), standard_deviations, 0.0)


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
    standardised_x = (np.clip(x, column_scaling.low, column_scaling.high) - column_scaling.mean) / column_scaling.scale
    return np.where(np.isnan(standardised_x), 0.0, standardised_x)


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
    return fit_products(fold_products(x, y, inner_folds(groups)), np.arange(x.shape[1]), x.shape[1], penalties)


def fit_products(
    products: Products,
    column_indices: Ints,
    target_column: int,
    penalties: Floats = PENALTIES,
    penalty_matrix: Floats | float = 0.0,
) -> Linear:
    """Fit some columns to a target column, with the penalty selected on the held-out products.

    `penalty_matrix` Q (p, p) adds w' Q w to the penalty, where w are the weights; the selection ignores this addition.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> fit_products(fold_products(x, x[:, 0], np.zeros(4, dtype=int)), np.array([0]), 1).weights.round(2).tolist()
    [1.02]
    """
    penalty = _select_penalty(products, column_indices, target_column, penalties)
    gram = products.training[0][np.ix_(column_indices, column_indices)] + penalty_matrix
    return Linear(
        Scaling(*(scaling_values[column_indices] for scaling_values in products.scaling[0])),
        np.linalg.solve(gram + penalty * np.eye(len(gram)), products.training[0, column_indices, target_column]),
        float(products.means[0, target_column]),
    )


def ridge_predictions(
    x: Floats,
    y: Floats,
    column_ranges: Sequence[slice],
    *,
    groups: NDArray[Any],
    is_training: Bools,
    is_held_out: Bools,
) -> Floats:
    """Predictions of the held-out rows by `ridge` on each of several ranges of the columns: (ranges, held-out rows).

    The columns are standardised and multiplied only once. `y` has the target (rows,), or targets (targets, rows), which
    are assigned to the ranges in turn.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> masks = {"is_training": np.arange(4) < 3, "is_held_out": np.arange(4) == 3}
    >>> ridge_predictions(x, np.ones(4), [slice(1)], groups=np.arange(4), **masks).tolist()
    [[1.0]]
    """
    products = fold_products(x[is_training], y[..., is_training], inner_folds(groups[is_training]))
    columns, held_out_x = np.arange(x.shape[1]), x[is_held_out]
    target_columns = np.resize(np.arange(len(columns), products.means.shape[1]), len(column_ranges))
    return np.stack(
        [
            predict(fit_products(products, columns[column_range], target_column), held_out_x[:, column_range])
            for column_range, target_column in zip(column_ranges, target_columns.tolist(), strict=True)
        ]
    )


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
