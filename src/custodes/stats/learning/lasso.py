"""Lasso along its penalty: which columns it keeps, and how well it predicts what was held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints, require
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import CONSTANT, scaling, standardised

ALPHAS = np.logspace(0, -3, 30)
"""Penalties from 1, where all weights are 0 (no correlation exceeds it), down to almost none."""

_TOLERANCE = 1e-9  # by which a correlation may exceed the penalty: a copy of a column in use does by rounding
_RIDGE = 1e-12  # added to variances of 1, so that columns that depend on others have one best weight, too
_STEPS = 10_000  # at a penalty; weights that rounding keeps from their end by then are close enough


def lasso_weights(x: Floats, y: Floats, *, alphas: Floats) -> Floats:
    """Fit y (rows,) by the columns of x (rows, p), NaN = missing, at each penalty: standardised weights (alphas, p).

    Minimises half the mean squared error + alpha * (sum of absolute weights), columns and target being standardised
    (columns clipped at three standard deviations, missing values at the mean), so that a weight says by how many
    standard deviations the prediction moves with one of the column. A constant column has weight 0, as all have where y
    is constant. alphas descend.

    >>> x = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> lasso_weights(x, 5 * x[:, 0], alphas=np.array([1.0, 0.25])).round(6).tolist()
    [[0.0, 0.0], [0.75, 0.0]]

    Source: Tibshirani 1996; Osborne, Presnell and Turlach 2000 (the search); Colombo et al. 2023, figures 7 to 9.
    """
    return _path(standardised(x, scaling(x)), y, alphas) / (_spread(y) or 1.0)


def lasso_errors(x: Floats, y: Floats, fold: Ints, *, alphas: Floats) -> Floats:
    """Squared errors on held-out rows at each penalty, in the squared units of y: fold (rows,) -> (alphas, rows).

    NaN in rows with fold -1, which are not trained on. Everything is standardised on the part trained on, so a penalty
    means the same in every fold. alphas descend.

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
    """Weights of standardised columns z (rows, p), in the units of y (rows,), at each penalty -> (alphas, p)."""
    # Each penalty starts where the one before ended.
    require(np.all(np.diff(alphas) < 0), "penalties must decrease")
    spread = _spread(y)
    path = np.zeros((len(alphas), z.shape[1]))
    if not spread or not z.shape[1]:
        return path
    gram, shared = z.T @ z / len(z), z.T @ ((y - y.mean()) / spread) / len(z)
    gram[np.diag_indices(len(gram))] += _RIDGE
    used, weights = _Used(np.empty(0, dtype=np.intp), np.empty(0)), np.empty(0)
    for at, alpha in enumerate(alphas):
        used, weights = _least(gram, shared, float(alpha), used, weights)
        path[at, used.columns] = weights * spread
    return path


class _Used(NamedTuple):
    """The columns with a weight, and the sign of each."""

    columns: Ints
    sign: Floats


def _least(gram: Floats, shared: Floats, alpha: float, used: _Used, weights: Floats) -> tuple[_Used, Floats]:
    """The columns used at a penalty and their weights, from those at another.

    Of given columns and signs the best weights are a linear system. The way there ends where a weight would change its
    sign: that column goes. At its end the column comes whose correlation with the rest exceeds the penalty most. Every
    step lessens what is minimised, so it ends, and where none comes it is the least (Karush, Kuhn and Tucker).
    """
    for _ in range(_STEPS):
        columns, sign = used
        best = np.linalg.solve(gram[np.ix_(columns, columns)], shared[columns] - alpha * sign)
        turned = np.flatnonzero(best * sign < 0)
        if len(turned):
            share = weights[turned] / (weights[turned] - best[turned])
            gone = turned[share.argmin()]
            weights = np.delete(weights + share.min() * (best - weights), gone)
            used = _Used(np.delete(columns, gone), np.delete(sign, gone))
            continue
        weights = best
        rest = shared - weights @ gram[columns]
        rest[columns] = 0.0
        comes = int(np.abs(rest).argmax())
        if abs(rest[comes]) <= alpha + _TOLERANCE:
            break
        used = _Used(np.append(columns, comes), np.append(sign, np.sign(rest[comes])))
        weights = np.append(weights, 0.0)
    return used, weights


def _spread(y: Floats) -> float:
    """The standard deviation of y, 0 where only rounding varies."""
    spread = float(y.std())
    return spread if spread > CONSTANT * float(np.abs(y).max()) else 0.0
