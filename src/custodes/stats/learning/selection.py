"""Forward selection of columns by ridge regression, scored on held-out rows.

Columns are standardised on the training part: they are clipped at three standard deviations, and missing values are
replaced by the mean. The sweep operator (Beaton 1964) is applied to the products of columns. The operator gives the
weights of the columns in the model, and the change of all weights if a column is added or removed. scikit-learn's
SequentialFeatureSelector refits every candidate in every fold: for the nested path of one aspect of HANNA, it takes
four minutes instead of one second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, round_for_sorting
from custodes.stats.learning.folds import inner_folds, splits
from custodes.stats.learning.ridge import PENALTY, Products, fold_products, ridge_predictions, standardise_columns
from custodes.stats.ranks import mid_ranks

_TIE = 1e-10  # smaller differences, relative to the total squared error, are rounding errors


class _Model(NamedTuple):
    """A ridge regression on the columns `is_included` (p,) of a training part, with its held-out rows.

    `swept` (p + 1, p + 1) are the products of the columns and, last, of the target, swept by the columns included.
    `mean` is the mean of the target. `is_held_out` (rows,) marks the held-out rows, `z` (held-out rows, p) are the
    standardised columns of these rows, and `held_products` (p + 1, p + 1) are their products.
    """

    swept: Floats
    is_included: Bools
    mean: float
    is_held_out: Bools
    z: Floats
    held_products: Floats

    def add_column(self, column: int) -> _Model:
        """The model with a further column."""
        swept_row = self.swept[column]
        swept_products = self.swept - np.outer(swept_row, swept_row / swept_row[column])
        swept_products[column] = swept_products[:, column] = swept_row / swept_row[column]
        swept_products[column, column] = -1 / swept_row[column]
        is_included_column = self.is_included.copy()
        is_included_column[column] = True
        return self._replace(swept=swept_products, is_included=is_included_column)

    def weights(self) -> Floats:
        """Weights (1 + p, p) of this model, then of the model with each column toggled."""
        swept_column_products, swept_target_products = self.swept[:-1, :-1], self.swept[:-1, -1]
        weights = np.where(self.is_included, swept_target_products, 0.0)
        toggled_weights = weights[:, np.newaxis] - self.is_included[:, np.newaxis] * swept_column_products * (
            swept_target_products / np.diag(swept_column_products)
        )
        # Exact zeros, so that outputs with equal values in the other columns stay tied.
        np.fill_diagonal(
            toggled_weights, np.where(self.is_included, 0.0, swept_target_products / np.diag(swept_column_products))
        )
        return np.vstack([weights, toggled_weights.T])


def _models(x: Floats, products: Products, fold: Ints, included_columns: Ints) -> list[_Model]:
    """The models on the columns `included_columns`, one for each fold; `products` are those of the folds."""
    models, n_columns = [], x.shape[1]
    for part_index, (_, is_held_out) in enumerate(splits(fold), start=1):
        penalised_products = products.training[part_index] + np.diag([*[PENALTY] * n_columns, 0.0])
        standardised_held_out_x = standardise_columns(x[is_held_out], products.scaling[part_index])
        model = _Model(
            penalised_products,
            np.zeros(n_columns, dtype=np.bool_),
            products.means[part_index, n_columns],
            is_held_out,
            standardised_held_out_x,
            products.held_out[part_index],
        )
        for column in included_columns:
            model = model.add_column(column)
        models.append(model)
    return models


def toggled_predictions(x: Floats, y: Floats, fold: Ints, *, included_columns: Ints) -> Floats:
    """Out-of-fold predictions of a model on some columns, and of this model with each column added or removed.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y, fold
        Target (rows,) and fold (rows,), -1 for rows that are not used.
    included_columns
        The columns in the model. Toggling removes one of these columns, or adds one of the remaining columns.

    Returns
    -------
    :
        Predictions (1 + p, rows): of the model, then of the model with each column toggled. They are NaN for rows that
        are not used. A model without columns predicts the training mean. A column that is constant in training has no
        effect.

    References
    ----------
    Hoerl and Kennard (1970).

    Examples
    --------
    >>> y = np.array([1.0, 3.0, 5.0, 9.0])
    >>> toggled_predictions(np.ones((4, 1)), y, np.array([0, 0, 1, 1]), included_columns=np.arange(0))[1].tolist()
    [7.0, 7.0, 2.0, 2.0]
    """
    predictions = np.full((1 + x.shape[1], len(y)), np.nan)
    for model in _models(x, fold_products(x, y, fold), fold, included_columns):
        predictions[:, model.is_held_out] = model.mean + model.weights() @ model.z.T
    return predictions


def single_column_ranks(x: Floats, y: Floats, fold: Ints) -> Floats:
    """Ranks, within each fold, of out-of-fold predictions by ridge regression on each single column.

    The prediction from a single column is a monotone function of the column. So the column itself is ranked, within the
    limits of `scaling`. If the values of a column differ by many orders of magnitude, predictions would be equal in
    floating point, but the ranks still differ.

    Parameters
    ----------
    x
        Values (rows, p); NaN is missing and gets the rank that the mean would have.
    y, fold
        Target (rows,) and fold (rows,), -1 for rows that are not used.

    Returns
    -------
    :
        Ranks (p, rows), NaN for rows that are not used. All ranks in a fold are equal if the column is constant in
        training or uncorrelated with the target.

    Examples
    --------
    >>> x = np.array([1e-90, 1e-80, 1e-9, 1e-70, 1e-60, 1e-8])[:, np.newaxis]
    >>> single_column_ranks(x, -np.arange(6.0), np.array([0, 0, 0, 1, 1, 1])).tolist()
    [[3.0, 2.0, 1.0, 3.0, 2.0, 1.0]]
    """
    ranks = np.full(x.shape[::-1], np.nan)
    products, n_columns = fold_products(x, y, fold), x.shape[1]
    for part_index, (_, is_held_out) in enumerate(splits(fold), start=1):
        column_scaling = products.scaling[part_index]
        correlation_signs = np.sign(round_for_sorting(products.training[part_index, :n_columns, n_columns]))
        clipped_held_out_values = np.where(
            np.isnan(x[is_held_out]),
            column_scaling.mean,
            np.clip(x[is_held_out], column_scaling.low, column_scaling.high),
        )
        ranks[:, is_held_out] = mid_ranks(
            np.where(np.isfinite(column_scaling.scale), correlation_signs * clipped_held_out_values, 0.0).T
        )
    return ranks


def forward_order(
    x: Floats, y: Floats, fold: Ints, *, included_columns: Ints, steps: int, costs: Floats
) -> NDArray[np.intp]:
    """The columns (k,) in the order of forward selection. Each step adds the column with the best held-out prediction.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y, fold
        Target (rows,) and fold (rows,), -1 for rows that are not used.
    included_columns
        The columns in the initial model.
    steps
        Maximum number of columns to add. A constant column is never added.
    costs
        Costs of the columns (p,). The next column is the one with the greatest decrease of the error per cost. If no
        column decreases the error, the next column is the one with the least increase.

    Returns
    -------
    :
        The order. Columns are selected by the squared error over the held-out rows; among equally good columns, the
        first is selected. The error may increase from step to step.

    References
    ----------
    Efroymson (1960).

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    >>> x = np.column_stack([np.ones(6), [1, 2, 2, 2, 2, 3], y])
    >>> forward_order(x, y, np.arange(6) // 3, included_columns=np.arange(0), steps=5, costs=np.ones(3)).tolist()
    [2, 1]
    """
    products = fold_products(x, y, fold)
    models = _models(x, products, fold, included_columns)
    is_candidate_column = np.isfinite(products.scaling[0].scale)
    is_candidate_column[included_columns] = False
    tie_tolerance = _TIE * sum(float(model.held_products[-1, -1]) for model in models)
    column_order: list[int] = []
    while len(column_order) < steps and is_candidate_column.any():
        squared_errors = np.zeros(1 + x.shape[1])
        for model in models:
            candidate_weights = model.weights()
            weights_with_target = np.column_stack([candidate_weights, np.full(len(candidate_weights), -1.0)])
            squared_errors += ((weights_with_target @ model.held_products) * weights_with_target).sum(axis=1)
        error_changes = np.where(is_candidate_column, squared_errors[1:] - squared_errors[0], np.inf)
        cost_divisors = np.where(error_changes < 0, costs, 1.0)
        best_column = int(
            np.argmax(
                error_changes / cost_divisors <= (error_changes / cost_divisors).min() + tie_tolerance / cost_divisors
            )
        )
        models = [model.add_column(best_column) for model in models]
        is_candidate_column[best_column] = False
        column_order.append(best_column)
    return np.array(column_order, dtype=np.intp)


class NestedPath(NamedTuple):
    """The columns in the order in which selection adds them, with predictions by nested cross-validation at each step.

    `order` (k,) are the columns in the order of selection. `predicted` (k + 1, rows) are the held-out predictions at
    every step. `chosen` (k,) is the proportion of folds whose model at a step contains the column that the step added.
    """

    order: NDArray[np.intp]
    predicted: Floats
    chosen: Floats


def nested_path(
    x: Floats, y: Floats, fold: Ints, *, groups: Ints, included_columns: Ints, steps: int, costs: Floats | None = None
) -> NestedPath:
    """Forward selection on all rows. Each fold is predicted by a path that was selected in the other folds (nested).

    At each step of the path on all rows, a fold is predicted by ridge regression on the first columns of the fold's
    path. The number of these columns is as large as possible without exceeding the cost of the columns that were
    selected on all rows up to this step. Without costs, both numbers of columns are equal. So the predictions evaluate
    the selection procedure, not only the selected columns.

    Parameters
    ----------
    x, y, fold, included_columns, steps, costs
        As in `forward_order`; by default, costs are equal. With two folds, the path of a fold is selected in inner
        folds of the remaining groups.
    groups
        Group of each row (rows,). Rows of one group stay together in cross-validation. With one remaining group, no
        selection is possible, and the predictions use only the columns `included_columns`.

    Returns
    -------
    :
        The path.

    References
    ----------
    Varma and Simon (2006) for nested cross-validation.

    Examples
    --------
    >>> y = np.tile([1.0, 2.0, 3.0], 3)
    >>> x = np.column_stack([np.ones(9), y])
    >>> path = nested_path(x, y, np.arange(9) // 3, groups=np.arange(9), included_columns=np.arange(0), steps=1)
    >>> path.order.tolist(), path.chosen.tolist(), path.predicted.shape
    ([1], [1.0], (2, 9))
    """
    costs = np.ones(x.shape[1]) if costs is None else costs
    overall_column_order = forward_order(x, y, fold, included_columns=included_columns, steps=steps, costs=costs)
    budget_by_step = np.concatenate([[0.0], np.cumsum(costs[overall_column_order])])
    predictions, n_folds_with_column = (
        np.full((len(budget_by_step), len(y)), np.nan),
        np.zeros(len(overall_column_order)),
    )
    max_steps = int(budget_by_step[-1] / costs.min() + 1)
    for is_training, is_held_out in (fold_masks := splits(fold)):
        inner_fold_of_row, fold_column_order = (
            fold[is_training] if np.ptp(fold[is_training]) else inner_folds(groups[is_training]),
            overall_column_order[:0],
        )
        if np.ptp(inner_fold_of_row):
            fold_column_order = forward_order(
                x[is_training],
                y[is_training],
                inner_fold_of_row,
                included_columns=included_columns,
                steps=max_steps,
                costs=costs,
            )
        n_columns_by_step = np.searchsorted(
            np.cumsum(costs[fold_column_order]), budget_by_step * (1 + _TIE), side="right"
        )
        n_folds_with_column += [
            column in fold_column_order[:n_columns]
            for column, n_columns in zip(overall_column_order, n_columns_by_step[1:], strict=True)
        ]
        fold_column_indices = np.concatenate([included_columns, fold_column_order[: n_columns_by_step[-1]]])
        column_slice_of_step = [slice(len(included_columns) + n_columns) for n_columns in n_columns_by_step.tolist()]
        predictions[:, is_held_out] = ridge_predictions(
            x[:, fold_column_indices],
            y,
            column_slice_of_step,
            groups=groups,
            is_training=is_training,
            is_held_out=is_held_out,
        )
    return NestedPath(overall_column_order, predictions, n_folds_with_column / len(fold_masks))
