"""Lasso path: weights of columns at each penalty, and held-out errors.

The path is computed here for two reasons. On HANNA with 197 columns, scikit-learn's coordinate descent takes 5 to 80
times as long and adds one to two minutes to `ceiling`. scikit-learn's least-angle regression stops too early on some
folds, so that the errors differ in the third digit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import CONSTANT, scaling, standardise_columns

ALPHAS = np.logspace(0, -3, 30)
"""Penalties from 1 down to nearly 0. At 1, all weights are 0, because no correlation exceeds 1."""

_TOLERANCE = 1e-9  # tolerance of the optimality conditions: a copy of a column in use violates them by rounding error
_RIDGE = 1e-12  # added to variances of 1, so that the weights of linearly dependent columns are unique
_STEPS = 10_000  # maximum number of steps per penalty: enough for good weights even if rounding prevents convergence


def lasso_weights(x: Floats, y: Floats, *, alphas: Floats) -> Floats:
    """Fit the lasso on standardised columns at each penalty.

    The lasso minimises half the mean squared error + alpha * (sum of absolute weights). Columns and target are
    standardised. Columns are clipped at three standard deviations, and missing values are replaced by the mean. A
    weight is the change of the prediction, in standard deviations of the target, per standard deviation of the column.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y
        Target (rows,).
    alphas
        Penalties in descending order.

    Returns
    -------
    :
        Weights (alphas, p). The weight of a constant column is 0, and all weights are 0 if y is constant.

    References
    ----------
    Tibshirani (1996); Osborne, Presnell and Turlach (2000) for the search; Colombo et al. (2023), figures 7 to 9.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> lasso_weights(x, 5 * x[:, 0], alphas=np.array([1.0, 0.25])).round(6).tolist()
    [[0.0, 0.0], [0.75, 0.0]]
    """
    standardised_x, target_sd = standardise_columns(x, scaling(x)), float(y.std())
    n_rows, n_columns = x.shape
    weights_by_penalty, weights, weight_signs = (
        np.zeros((len(alphas), n_columns)),
        np.zeros(n_columns),
        np.zeros(n_columns),
    )
    if not x.size or target_sd <= CONSTANT * float(np.abs(y).max()):
        return weights_by_penalty
    gram = standardised_x.T @ standardised_x / n_rows + _RIDGE * np.eye(n_columns)
    target_products = standardised_x.T @ ((y - y.mean()) / target_sd) / n_rows
    # Warm start from the previous penalty.
    for penalty_index, alpha in enumerate(alphas):
        weights = weights_by_penalty[penalty_index] = _optimal_weights(
            gram, target_products, float(alpha), weight_signs, weights
        )
    return weights_by_penalty


def _optimal_weights(
    gram: Floats, target_products: Floats, alpha: float, weight_signs: Floats, weights: Floats
) -> Floats:
    """The optimal weights (p,) at a penalty, starting from the weights at a different penalty.

    `weight_signs` (p,) has the signs of the weights of the columns in use, and 0 for all other columns. The
    function changes `weight_signs` in place.

    For given columns and signs, the optimal weights solve a linear system. If a weight would change its sign on the way
    to this solution, its column is removed. Otherwise the column whose correlation with the residual exceeds the
    penalty most is added. Every step decreases the objective, so the search ends. If no column can be added, the
    minimum is reached (Karush, Kuhn and Tucker).
    """
    for _ in range(_STEPS):
        active_columns, solved_weights = np.flatnonzero(weight_signs), np.zeros(len(target_products))
        solved_weights[active_columns] = np.linalg.solve(
            gram[np.ix_(active_columns, active_columns)],
            target_products[active_columns] - alpha * weight_signs[active_columns],
        )
        sign_changing_columns = np.flatnonzero(solved_weights * weight_signs < 0)
        if len(sign_changing_columns):
            step_lengths = weights[sign_changing_columns] / (
                weights[sign_changing_columns] - solved_weights[sign_changing_columns]
            )
            leaving_column = sign_changing_columns[step_lengths.argmin()]
            weights = weights + step_lengths.min() * (solved_weights - weights)
            weights[leaving_column] = weight_signs[leaving_column] = 0.0
            continue
        weights = solved_weights
        residual_correlations = np.where(
            weight_signs == 0, target_products - weights[active_columns] @ gram[active_columns], 0.0
        )
        entering_column = int(np.abs(residual_correlations).argmax())
        if abs(residual_correlations[entering_column]) <= alpha + _TOLERANCE:
            break
        weight_signs[entering_column] = np.sign(residual_correlations[entering_column])
    return weights


def fit_lasso(x: Floats, y: Floats, *, alphas: Floats) -> Callable[[Floats], Floats]:
    """Fit the lasso at each penalty, and return a function from values (rows, p) to predictions (alphas, rows)."""
    column_scaling, mean_target, weights = scaling(x), y.mean(), y.std() * lasso_weights(x, y, alphas=alphas)
    return lambda new_x: np.asarray(mean_target + weights @ standardise_columns(new_x, column_scaling).T)


def lasso_errors(x: Floats, y: Floats, fold: Ints, *, alphas: Floats) -> Floats:
    """Squared errors of predictions of held-out rows at each penalty.

    All variables are standardised on the training part, so penalties are comparable between folds.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y, fold
        Target (rows,) and fold (rows,), -1 for rows that are not used.
    alphas
        Penalties in descending order.

    Returns
    -------
    :
        Squared errors (alphas, rows) in the squared units of y; NaN for rows that are not used.

    References
    ----------
    Tibshirani (1996); Colombo et al. (2023), figure 7.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [2.0]])
    >>> fold = np.array([0, 0, 0, 1, 1, 1])
    >>> lasso_errors(x, 3 * x[:, 0], fold, alphas=np.array([1.0])).round(6).tolist()
    [[9.0, 0.0, 9.0, 9.0, 0.0, 9.0]]
    """
    squared_errors = np.full((len(alphas), len(y)), np.nan)
    for is_training, is_held_out in splits(fold):
        predict = fit_lasso(x[is_training], y[is_training], alphas=alphas)
        squared_errors[:, is_held_out] = (y[is_held_out] - predict(x[is_held_out])) ** 2
    return squared_errors
