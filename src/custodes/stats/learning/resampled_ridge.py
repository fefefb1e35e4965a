"""Weights of ridge regressions that are fitted to bootstrap resamples of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import inner_folds
from custodes.stats.learning.ridge import Linear, fit_products, fold_products
from custodes.stats.ranks import mid_ranks


def resampled_ridge(
    x: Floats, y: Floats, *, group_of_row: Ints, weights: Ints, predicts_ranks: bool
) -> Iterator[tuple[Linear, float]]:
    """Fit `ridge` to each bootstrap resample.

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
    columns, n_columns = np.arange(x.shape[1]), x.shape[1]
    for group_weights in weights:
        rows = np.repeat(np.arange(len(y)), group_weights[group_of_row])
        ratings = y[rows]
        targets = np.stack([mid_ranks(ratings) / len(rows) if predicts_ranks else ratings, ratings])
        products = fold_products(x[rows], targets, inner_folds(group_of_row[rows]), has_common_limits=True)
        linear = fit_products(products, columns, n_columns)
        covariance = float(linear.weights @ products.training[0, :n_columns, n_columns + 1])
        variance = float(linear.weights @ products.training[0, :n_columns, :n_columns] @ linear.weights)
        yield linear, covariance / variance if covariance > 0 and variance > 0 else 0.0
