"""Ridge regression on standardised columns, with the penalty selected by grouped cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.learning.folds import inner_folds, splits

PENALTIES = np.logspace(2, -3, 21)
"""Ridge penalties, relative to the variance of a standardised column (1)."""

PENALTY = 0.1
"""The penalty if cross-validation is impossible."""

CONSTANT = 1e-12
"""A standard deviation below this proportion of the mean is rounding error."""

_LIMIT = 3  # standard deviations from the mean at which scores are clipped


class Scaling(NamedTuple):
    """Scaling of columns (p,): limits for clipping, mean and standard deviation.

    All are NaN for a column without values. The scale of a constant column is NaN.
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
    return _fit_transform(x.T)[0]


def _fit_transform(columns: Floats) -> tuple[Scaling, Floats]:
    """The scaling of columns (p, rows), and the standardised columns.

    Standardised values are 0 where the value is missing, and in columns without a scale. Sums along contiguous rows are
    several times faster than sums along columns.
    """
    columns = np.ascontiguousarray(columns)
    is_complete = not np.isnan(columns.sum())
    is_missing = np.zeros(0, dtype=bool) if is_complete else np.isnan(columns)
    n_present = columns.shape[1] if is_complete else np.maximum(columns.shape[1] - is_missing.sum(axis=1), 1)

    def moments(values: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, standard deviation and deviations of the values; a standard deviation within rounding error is 0."""
        if not is_complete:
            values = np.where(is_missing, 0.0, values)
        mean = values.sum(axis=1) / n_present
        deviation = values - mean[:, np.newaxis]
        if not is_complete:
            deviation[is_missing] = 0.0
        standard_deviation = np.sqrt(np.einsum("pr,pr->p", deviation, deviation) / n_present)
        return mean, np.where(standard_deviation > CONSTANT * np.abs(mean), standard_deviation, 0.0), deviation

    mean, standard_deviation, _ = moments(columns)
    low, high = mean - _LIMIT * standard_deviation, mean + _LIMIT * standard_deviation
    mean, standard_deviation, deviation = moments(np.clip(columns, low[:, np.newaxis], high[:, np.newaxis]))
    deviation /= np.where(standard_deviation > 0, standard_deviation, np.inf)[:, np.newaxis]
    if not is_complete:
        is_empty = is_missing.all(axis=1)
        low, high, mean = (np.where(is_empty, np.nan, limit) for limit in (low, high, mean))
    return Scaling(low, high, mean, np.where(standard_deviation > 0, standard_deviation, np.nan)), deviation


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
    values replaced by the mean. The penalty with the least squared error over inner folds is selected. These are five
    folds, or fewer if there are fewer groups, to which whole groups are assigned in turn in sorted order. Among equally
    good penalties, the largest is selected. With one group, the penalty is `PENALTY`. A single decomposition serves all
    penalties. On SummEval and HANNA, scikit-learn's Ridge takes two to six times as long, and a fit of `combine` needs
    thousands of such fits.

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
    x: Floats, y: Floats, subsets: Sequence[slice], *, groups: NDArray[Any], penalties: Floats = PENALTIES
) -> list[Linear]:
    """Fit `ridge` on each of several ranges of the columns. The columns are standardised and multiplied only once.

    Parameters
    ----------
    x, y, groups, penalties
        As in `ridge`.
    subsets
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
    columns = np.ascontiguousarray(x.T)
    selected_penalties = _select_penalties(columns, y, subsets, groups, penalties)
    full_data, linears = _Part.from_columns(columns, y), []
    for subset, penalty in zip(subsets, selected_penalties, strict=True):
        subset_scaling = Scaling(*(limit[subset] for limit in full_data.scaling))
        linears.append(Linear(subset_scaling, full_data.weights(subset, penalty)[:, 0], full_data.mean))
    return linears


def ridge_path(
    x: Floats,
    y: Floats,
    quadratic: Floats,
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
    quadratic
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
    columns = np.ascontiguousarray(x.T)
    (penalty,) = _select_penalties(columns, y, [slice(None)], groups, penalties)
    full_data = _Part.from_columns(columns, y)
    gram, target_products = (products / len(y) for products in full_data.products)
    penalised_gram = gram + penalty * np.eye(len(gram))
    weights = [
        np.asarray(np.linalg.solve(penalised_gram + strength * quadratic, target_products)) for strength in strengths
    ]
    return [Linear(full_data.scaling, weight, full_data.mean) for weight in weights]


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


@dataclass(frozen=True)
class _Part:
    """Training rows: the training part of one fold, or all rows.

    `scaling` is the scaling of the columns, and `z` (p, rows) are the standardised columns. `centred` (rows,) is the
    target minus its `mean`.
    """

    scaling: Scaling
    z: Floats
    centred: Floats
    mean: float

    @classmethod
    def from_columns(cls, columns: Floats, y: Floats) -> _Part:
        mean = float(y.mean())
        return cls(*_fit_transform(columns), y - mean, mean)

    @cached_property
    def products(self) -> tuple[Floats, Floats]:
        """Products of the columns with each other (p, p), and with the target (p,)."""
        return self.z @ self.z.T, self.z @ self.centred

    def weights(self, subset: slice, penalties: Floats) -> Floats:
        """Weights (k, penalties) of a range of columns."""
        z, n = self.z[subset], len(self.centred)
        is_wide = len(z) > n  # the products of rows and those of columns have the same nonzero eigenvalues
        if is_wide:
            gram, target_products = z.T @ z, self.centred
        else:
            gram, target_products = self.products[0][subset, subset], self.products[1][subset]
        variance, eigenvectors = np.linalg.eigh(gram / n)
        damped_variance = np.maximum(variance, 0.0)[:, np.newaxis] + penalties
        weights = eigenvectors @ ((eigenvectors.T @ target_products / n)[:, np.newaxis] / damped_variance)
        return np.asarray(z @ weights if is_wide else weights)


def _select_penalties(
    columns: Floats, y: Floats, subsets: Sequence[slice], groups: NDArray[Any], penalties: Floats
) -> list[Floats]:
    """The penalty (1,) of each range of the columns (p, rows), selected by cross-validation."""
    penalties, fold = np.sort(penalties)[::-1], inner_folds(groups)
    if len(penalties) > 1 and not fold.any():
        penalties = np.array([PENALTY])
    if len(penalties) == 1:
        return [penalties] * len(subsets)
    fold_parts = []
    for is_training, is_held_out in splits(fold):
        training_part = _Part.from_columns(np.compress(is_training, columns, axis=1), y[is_training])
        held_columns = standardise_columns(np.compress(is_held_out, columns, axis=1).T, training_part.scaling).T
        fold_parts.append((training_part, held_columns, y[is_held_out] - training_part.mean))
    return [_select_penalty(fold_parts, subset, penalties) for subset in subsets]


def _select_penalty(parts: Sequence[tuple[_Part, Floats, Floats]], subset: slice, penalties: Floats) -> Floats:
    """The penalty (1,) with the least squared error over the held-out rows of all folds, given penalties in descending
    order.

    Each of `parts` has the training part of a fold, the standardised columns of the held-out rows (p, rows), and the
    target of these rows minus the mean of the training part (rows,).
    """
    error = np.zeros(len(penalties))
    for training_part, held_columns, y in parts:
        residual = y - training_part.weights(subset, penalties).T @ held_columns[subset]
        error += np.einsum("ar,ar->a", residual, residual)
    return penalties[[int(np.argmin(error))]]
