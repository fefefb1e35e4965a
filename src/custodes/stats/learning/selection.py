"""Forward selection and backward elimination of columns by ridge regression, scored on held-out rows.

Columns are standardised on the part trained on (clipped at three standard deviations, missing values at the mean). In
forward selection what a column shares with the others is computed when it is chosen, so that a step takes rows x
columns. In backward elimination one inverse serves all columns: the effect of removing a column follows from its row.
With more columns than rows it is the inverse of the products of rows, so that nothing grows with the square of the
columns.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import inner_folds, splits
from custodes.stats.learning.ridge import PENALTY, measured, predict, ridges, scaling, standardised

_TIE = 1e-10  # of the total squared error; copies of a column differ by less, through rounding


class _Part(NamedTuple):
    """One split: standardised columns z (rows, p) trained on; which rows are held out, and their target. Once columns
    are in the model, `pivots` (p,), `products` with the target (p,) and held-out `columns` (held rows, p) are what they
    leave of all others, `rows` (k, p) those of their Cholesky factor, and `said` (held rows,) what they predict."""

    z: Floats
    held: NDArray[np.bool_]
    target: Floats
    pivots: Floats
    products: Floats
    columns: Floats
    rows: Floats
    said: Floats

    @property
    def residual(self) -> Floats:
        """What is left of the target (held rows,)."""
        return self.target - self.said


def forward_path(
    x: Floats, y: Floats, fold: Ints, *, given: Ints, steps: int, costs: Floats | None = None
) -> tuple[NDArray[np.intp], Floats]:
    """Add columns to those given, each time the one that predicts best with them -> order (k,), error (k + 1,).

    x (rows, p), NaN = missing, y and fold (rows,), rows with fold -1 are not used. error is the mean squared error over
    the held-out rows, in the squared units of y; its first entry is that of `given`, or of the training mean where it
    is empty. A constant column is never chosen. k is `steps`, or fewer where the columns run out; the error may rise
    again on the way. Between equals the first. With costs (p,) it is the column with the greatest fall of the error per
    cost, once none lowers it the one that raises it least. The error of a path is an optimistic one: the columns were
    chosen by it.

    >>> y = np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    >>> x = np.column_stack([np.ones(6), [1, 2, 2, 2, 2, 3], y])
    >>> order, error = forward_path(x, y, np.arange(6) // 3, given=np.arange(0), steps=5)
    >>> order.tolist(), bool(error[1] < error[0])
    ([2, 1], True)

    Source: Efroymson 1960; orthogonalised step by step as in Chen, Cowan and Grant 1991.
    """
    parts, free = _parts(x, y, fold), np.isfinite(scaling(x[fold >= 0]).scale)
    costs = np.ones(len(free)) if costs is None else costs
    for column in given:
        parts = [_swept(part, column) for part in parts]
    free[given] = False
    errors = [_squared(parts)]
    order: list[int] = []
    while free.any() and len(order) < steps:
        change = np.where(free, sum(_changes(part) for part in parts), np.inf)
        per = np.where(change < 0, costs, 1.0)
        best = int(np.argmax(change / per <= (change / per).min() + _TIE * errors[0] / per))
        parts = [_swept(part, best) for part in parts]
        free[best] = False
        order.append(best)
        errors.append(_squared(parts))
    return np.array(order, dtype=np.intp), np.array(errors) / np.count_nonzero(fold >= 0)


class SelectionPath(NamedTuple):
    """The columns of a path (k,), held-out predictions at every step (k + 1, rows), and the share of folds whose own
    path had each column by its step (k,)."""

    order: NDArray[np.intp]
    predicted: Floats
    chosen: Floats


def nested_path(
    x: Floats, y: Floats, fold: Ints, *, groups: Ints, given: Ints, steps: int, costs: Floats | None = None
) -> SelectionPath:
    """The path of `forward_path` on all rows, with honest predictions: x (rows, p), y, fold, groups (rows,).

    For every fold a path of its own is chosen in the other folds (with two folds: in folds of the groups left); at each
    step of `order` the fold is predicted by ridge regression on the longest part of its own path that costs no more
    than the step (without costs: on as many columns). So the predictions judge the way of choosing, not just the
    columns of `order`. Where nothing can choose, with one group left, the predictions are those of `given`.

    >>> y = np.tile([1.0, 2.0, 3.0], 3)
    >>> x = np.column_stack([np.ones(9), y])
    >>> path = nested_path(x, y, np.arange(9) // 3, groups=np.arange(9), given=np.arange(0), steps=1)
    >>> path.order.tolist(), path.chosen.tolist(), path.predicted.shape
    ([1], [1.0], (2, 9))

    Source: Varma and Simon 2006 (nested cross-validation).
    """
    costs = np.ones(x.shape[1]) if costs is None else costs
    path = partial(forward_path, given=given, costs=costs)
    order, _ = path(x, y, fold, steps=steps)
    budgets = np.concatenate([[0.0], np.cumsum(costs[order])])
    predicted, chosen = np.full((len(budgets), len(y)), np.nan), np.zeros(len(order))
    most = int(budgets[-1] / costs.min() + 1)
    for train, held in (parts := splits(fold)):
        inner = fold[train] if np.ptp(fold[train]) else inner_folds(groups[train])
        own = path(x[train], y[train], inner, steps=most)[0] if np.ptp(inner) else order[:0]
        lengths = np.searchsorted(np.cumsum(costs[own]), budgets * (1 + _TIE), side="right")
        chosen += [column in own[:length] for column, length in zip(order, lengths[1:], strict=True)]
        members = np.concatenate([given, own[: lengths.max(initial=0)]])
        subsets = [np.arange(len(given) + length) for length in lengths]
        learnt = ridges(x[np.ix_(train, members)], y[train], groups=groups[train], subsets=subsets)
        for k, (line, subset) in enumerate(zip(learnt, subsets, strict=True)):
            predicted[k, held] = predict(line, x[np.ix_(held, members[subset])])
    return SelectionPath(order, predicted, chosen / len(parts))


def added_predictions(x: Floats, y: Floats, fold: Ints, *, given: Ints) -> Floats:
    """Predict each row from the columns given, and from these with each other one, by models that have not seen its
    fold -> (1 + p, rows).

    x (rows, p), NaN = missing, y and fold (rows,). NaN in rows with fold -1, which are not used. No column predicts the
    mean in training; a column that is constant in training, or is given, adds nothing.

    >>> y = np.array([1.0, 3.0, 5.0, 9.0])
    >>> added_predictions(np.ones((4, 1)), y, np.array([0, 0, 1, 1]), given=np.arange(0))[1].tolist()
    [7.0, 7.0, 2.0, 2.0]

    Source: Hoerl and Kennard 1970.
    """
    predicted = np.full((1 + x.shape[1], len(y)), np.nan)
    for part in _parts(x, y, fold):
        for column in given:
            part = _swept(part, column)
        weights = part.products / _safe(part.pivots)
        weights[given] = 0.0
        predicted[0, part.held] = part.said
        predicted[1:, part.held] = part.said + part.columns.T * weights[:, np.newaxis]
    return predicted


class EliminationPath(NamedTuple):
    """The columns of a path in the order in which they leave (k,), and held-out predictions (1 + k, rows): from all,
    then without the first, and so on."""

    order: NDArray[np.intp]
    predicted: Floats


def backward_path(x: Floats, y: Floats, fold: Ints, *, steps: int) -> EliminationPath:
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
    return EliminationPath(np.array(order, dtype=np.intp), np.concatenate([own[:1] for own in path]))


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


def _parts(x: Floats, y: Floats, fold: Ints) -> list[_Part]:
    parts = []
    for train, held in splits(fold):
        (by, z), mean = measured(x[train]), float(y[train].mean())
        parts.append(
            _Part(
                z=z,
                held=held,
                target=y[held],
                pivots=np.einsum("rp,rp->p", z, z) / len(z) + PENALTY,
                products=z.T @ (y[train] - mean) / len(z),
                columns=standardised(x[held], by),
                rows=np.zeros((0, z.shape[1])),
                said=np.full(np.count_nonzero(held), mean),
            )
        )
    return parts


def _swept(part: _Part, column: int) -> _Part:
    """The part once a column is in the model: all others, in training and held out, are what it leaves of them."""
    row = part.z.T @ part.z[:, column] / len(part.z) - part.rows[:, column] @ part.rows
    row[column] += PENALTY
    pivot = row / row[column]
    return part._replace(
        pivots=part.pivots - row * pivot,
        products=part.products - part.products[column] * pivot,
        columns=part.columns - np.outer(part.columns[:, column], pivot),
        rows=np.vstack([part.rows, row / np.sqrt(row[column])]),
        said=part.said + part.columns[:, column] * (part.products[column] / row[column]),
    )


def _safe(pivots: Floats) -> Floats:
    """Pivots (p,) at least as large as the penalty makes them, but rounding where swept."""
    return np.maximum(pivots, PENALTY / 2)


def _changes(part: _Part) -> Floats:
    """By how much the held-out sum of squares changes with each column added: (p,); meaningless for swept ones."""
    weights = part.products / _safe(part.pivots)
    squares = np.einsum("rp,rp->p", part.columns, part.columns)
    return np.asarray(weights * (weights * squares - 2 * (part.residual @ part.columns)))


def _squared(parts: list[_Part]) -> float:
    """The squared error, summed over all held-out rows."""
    return float(sum(np.vdot(part.residual, part.residual) for part in parts))
