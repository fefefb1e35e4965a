"""Lasso along its penalty: which columns it keeps, and how well it predicts what was held out."""

from __future__ import annotations

import warnings
from threading import Lock

import numpy as np

from custodes.errors import MissingExtraError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import CONSTANT, scaling, standardised

ALPHAS = np.logspace(0, -3, 30)
"""Penalties from 1, where all weights are 0 (no correlation exceeds it), down to almost none."""

_SWEEPS = 10_000  # of coordinate descent, and steps of a path; one that is not at its optimum by then is close enough
_FILTERS = Lock()  # all threads share the filters of warnings
_TOLERANCE = 1e-5  # duality gap, relative to the variance of the target
_EXACT = 1e-8  # by which a path may miss the two conditions of a minimum, in standard deviations


def lasso_weights(x: Floats, y: Floats, *, alphas: Floats) -> Floats:
    """Fit y (rows,) by the columns of x (rows, p), NaN = missing, at each penalty: standardised weights (alphas, p).

    Minimises half the mean squared error + alpha * (sum of absolute weights), columns and target being standardised
    (columns clipped at three standard deviations, missing values at the mean), so that a weight says by how many
    standard deviations the prediction moves with one of the column. A constant column has weight 0, as all have where y
    is constant. alphas descend. MissingExtraError without scikit-learn.

    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> lasso_weights(x, 5 * x[:, 0], alphas=np.array([1.0, 0.25])).round(6).tolist()
    [[0.0, 0.0], [0.75, 0.0]]

    Source: Tibshirani 1996; Efron et al. 2004; Colombo et al. 2023, figures 7 to 9.
    """
    return _path(standardised(x, scaling(x)), y, alphas) / (_spread(y) or 1.0)


def lasso_errors(x: Floats, y: Floats, fold: Ints, *, alphas: Floats) -> Floats:
    """Squared errors on held-out rows at each penalty, in the squared units of y: fold (rows,) -> (alphas, rows).

    NaN in rows with fold -1, which are not trained on. Everything is standardised on the part trained on, so a penalty
    means the same in every fold. alphas descend. MissingExtraError without scikit-learn.

    >>> x = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [2.0]])
    >>> fold = np.array([0, 0, 0, 1, 1, 1])
    >>> lasso_errors(x, 3 * x[:, 0], fold, alphas=np.array([1.0])).round(6).tolist()
    [[9.0, 0.0, 9.0, 9.0, 0.0, 9.0]]

    Source: Tibshirani 1996; Colombo et al. 2023, figure 7.
    """
    errors = np.full((len(alphas), len(y)), np.nan)
    for train, held in splits(fold):
        by = scaling(x[train])
        weights = _path(standardised(x[train], by), y[train], alphas)
        errors[:, held] = (y[held] - y[train].mean() - weights @ standardised(x[held], by).T) ** 2
    return errors


def _path(z: Floats, y: Floats, alphas: Floats) -> Floats:
    """Weights of standardised columns z (rows, p), in the units of y (rows,), at each penalty -> (alphas, p).

    They are linear between the penalties where a column enters or leaves (Efron et al. 2004), which least angle
    regression finds one after the other; with more columns than rows, by coordinate descent.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import lars_path_gram, lasso_path
    except ImportError as error:
        raise MissingExtraError("the lasso needs scikit-learn: pip install 'custodes[learn]'") from error

    assert np.all(np.diff(alphas) < 0)  # scikit-learn would sort them without a word
    spread = _spread(y)
    if not spread or not len(alphas) or not z.shape[1]:
        return np.zeros((len(alphas), z.shape[1]))
    target = (y - y.mean()) / spread
    products = {"Gram": z.T @ z, "Xy": z.T @ target} if z.shape[1] <= len(z) else {}
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if products:
            ends = lars_path_gram(
                **products, n_samples=len(z), method="lasso", alpha_min=float(alphas[-1]), max_iter=_SWEEPS
            )
            weights = _between(ends[0], ends[2], alphas)
            left = (products["Xy"] - weights @ products["Gram"]) / len(z)
            beyond = np.abs(left).max(axis=1) - alphas
            short = alphas * np.abs(weights).sum(axis=1) - (weights * left).sum(axis=1)
            if (
                max(beyond.max(), short.max()) <= _EXACT
            ):  # not so where columns are all but copies, and some are dropped
                return np.asarray(weights * spread)
            products = {"precompute": products["Gram"], "Xy": products["Xy"]}
        path = lasso_path(z, target, alphas=alphas, max_iter=_SWEEPS, tol=_TOLERANCE, **products)
        return np.asarray(path[1].T * spread)


def _between(knots: Floats, weights: Floats, alphas: Floats) -> Floats:
    """The weights (alphas, p) on lines between those (p, knots) at the knots, which descend."""
    return np.stack([np.interp(alphas[::-1], knots[::-1], own[::-1])[::-1] for own in weights], axis=1)


def _spread(y: Floats) -> float:
    """The standard deviation of y, 0 where only rounding varies."""
    spread = float(y.std())
    return spread if spread > CONSTANT * float(np.abs(y).max()) else 0.0
