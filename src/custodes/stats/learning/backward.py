"""Which columns to do without: ridge regression on what is held out, without each column in turn.

One inverse serves all: what a column takes with it follows from its own row. With more columns than rows it is that of
the products of rows, so that nothing grows with the square of the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import PENALTY, measured, standardised

_TIE = 1e-10  # of the squared error; copies of a column differ by less, through rounding, and the first of them goes


class Backward(NamedTuple):
    """The columns of a path in the order in which they leave (k,), and held-out predictions (1 + k, rows): from all,
    then without the first, and so on."""

    order: NDArray[np.intp]
    predicted: Floats


def backward_path(x: Floats, y: Floats, fold: Ints, *, steps: int) -> Backward:
    """Take columns out, each time the one whose removal raises the held-out squared error least.

    x (rows, p), NaN = missing, y and fold (rows,), rows with fold -1 are not used. Up to `steps`, until one column is
    left. The order is chosen on the rows that score it.

    >>> y = np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    >>> x = np.column_stack([y, [1, 2, 2, 2, 2, 3]])
    >>> backward_path(x, y, np.arange(6) // 3, steps=5).order.tolist()
    [1]

    Source: Efroymson 1960 (backward elimination).
    """
    used = fold >= 0
    left = np.arange(x.shape[1])
    order: list[int] = []
    path = [removed_predictions(x[:, left], y, fold)]
    while len(order) < steps and len(left) > 1:
        without = path[-1][1:]
        error = ((without[:, used] - y[used]) ** 2).sum(axis=1)
        least = int(np.argmax(error <= error.min() * (1 + _TIE)))
        order.append(int(left[least]))
        left = np.delete(left, least)
        path[-1] = path[-1][:1]
        path.append(removed_predictions(x[:, left], y, fold))
    return Backward(np.array(order, dtype=np.intp), np.concatenate([own[:1] for own in path]))


def removed_predictions(x: Floats, y: Floats, fold: Ints) -> Floats:
    """Predict each row from all columns, and without each of them, by models that have not seen its fold ->
    (1 + p, rows).

    x (rows, p), NaN = missing, y and fold (rows,). NaN in rows with fold -1, which are not used. No column predicts the
    mean in training; a column that is constant in training is not missed.

    >>> y = np.array([1.0, 3.0, 5.0, 9.0])
    >>> removed_predictions(y[:, np.newaxis], y, np.array([0, 0, 1, 1]))[1].tolist()
    [7.0, 7.0, 2.0, 2.0]

    Source: Hoerl and Kennard 1970; Sherman and Morrison 1950.
    """
    predicted = np.full((1 + x.shape[1], len(y)), np.nan)
    for train, held in splits(fold):
        (by, z), mean = measured(x[train]), float(y[train].mean())
        own, (n, p) = standardised(x[held], by), z.shape
        centred = (y[train] - mean) / n
        if p <= n:
            inverse = np.linalg.inv(z.T @ z / n + PENALTY * np.eye(p))
            weights = inverse @ (z.T @ centred)
            without = weights - (inverse * (weights / np.diag(inverse))).T
            np.fill_diagonal(without, 0.0)  # exactly: outputs that the others do not tell apart stay tied
            predicted[:, held] = mean + np.vstack([weights, without]) @ own.T
        else:
            inverse = np.linalg.inv(z @ z.T / n + PENALTY * np.eye(n))
            solved = inverse @ z
            weights = z.T @ (inverse @ centred)
            whole = mean + own @ weights
            along = (own - (own @ z.T / n) @ solved) / PENALTY
            diagonal = (1 - np.einsum("rp,rp->p", z, solved) / n) / PENALTY
            predicted[0, held] = whole
            predicted[1:, held] = whole - (along * (weights / diagonal)).T
    return predicted
