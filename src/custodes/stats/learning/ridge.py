"""Ridge regression on standardised columns, its penalty chosen by grouped cross-validation in closed form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.learning.folds import inner_folds, splits

PENALTIES = np.logspace(2, -3, 21)
"""Ridge penalties, relative to the variance of a standardised column (1)."""

PENALTY = 0.1
"""The penalty where nothing chooses one."""

_LIMIT = 3  # standard deviations from the mean beyond which a score counts no further
CONSTANT = 1e-12  # a spread below this share of the size is rounding


class Scaling(NamedTuple):
    """What makes columns (p,) comparable: limits they are clipped to, then their mean and standard deviation.

    A column without values is NaN in all four, a constant one has scale NaN.
    """

    low: Floats
    high: Floats
    mean: Floats
    scale: Floats


class Linear(NamedTuple):
    """A linear prediction in the units of x: an intercept, weights (p,), and what stands in for a missing value (p,).

    Scores are clipped to low and high (p,), three standard deviations about the mean in training. A column that was
    constant or missing in training has weight 0 (and fill, low and high 0 where it was missing).
    """

    intercept: float
    weights: Floats
    fill: Floats
    low: Floats
    high: Floats


def scaling(x: Floats) -> Scaling:
    """Measure the columns of x (rows, p), NaN = missing: limits, then mean and standard deviation within the limits.

    Scores far out (a length, a perplexity) would otherwise steer the fit and the predictions.

    >>> by = scaling(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]))
    >>> by.mean.tolist(), by.scale.tolist(), by.high.tolist()
    ([2.0, 5.0], [1.0, nan], [5.0, 5.0])
    """
    mean, scale = _moments(x)
    reach = _LIMIT * np.nan_to_num(scale, nan=0.0)
    return Scaling(mean - reach, mean + reach, *_moments(np.clip(x, mean - reach, mean + reach)))


def standardised(x: Floats, by: Scaling) -> Floats:
    """Clip, centre and scale the columns of x (rows, p) -> (rows, p); 0 where missing and in columns without a scale.

    >>> by = Scaling(np.array([-1.0, 5.0]), np.array([5.0, 5.0]), np.array([2.0, 5.0]), np.array([1.0, np.nan]))
    >>> standardised(np.array([[9.0, 9.0], [np.nan, 9.0]]), by).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    return np.nan_to_num((np.clip(x, by.low, by.high) - by.mean) / by.scale, nan=0.0)


def ridge(x: Floats, y: Floats, *, groups: NDArray[Any], penalties: Floats = PENALTIES) -> Linear:
    """Fit y (rows,) by the columns of x (rows, p), NaN = missing; groups (rows,) are kept whole in cross-validation.

    Minimises mean squared error + penalty * (sum of squared weights) with the columns clipped at three standard
    deviations and standardised, and missing values at the mean. The penalty is the one with the least squared error
    over inner folds: the groups in sorted order, dealt in turn to five folds (fewer with fewer groups; nothing is
    random); between equals the larger. With one group nothing can choose, and it is `PENALTY`.

    >>> x = np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0], [np.nan, 3.0]])
    >>> linear = ridge(x, np.array([1.0, 3.0, 5.0, 3.0]), groups=np.arange(4), penalties=np.array([0.0]))
    >>> round(linear.intercept, 6), linear.weights.round(6).tolist(), linear.fill.tolist()
    (1.0, [2.0, 0.0], [1.0, 3.0])

    Source: Hoerl and Kennard 1970.
    """
    penalty = penalties if len(penalties) == 1 else _chosen(x, y, groups, np.sort(penalties)[::-1])
    by = scaling(x)
    weights = np.nan_to_num(_path(standardised(x, by), y - y.mean(), penalty)[:, 0] / by.scale, nan=0.0)
    low, high, fill = (np.nan_to_num(column, nan=0.0) for column in by[:3])
    return Linear(float(y.mean() - fill @ weights), weights, fill, low, high)


def predict(linear: Linear, x: Floats) -> Floats:
    """Predict the rows of x (rows, p) -> (rows,); a missing value counts as the mean in training.

    >>> linear = Linear(1.0, np.array([2.0]), np.array([5.0]), np.array([0.0]), np.array([9.0]))
    >>> predict(linear, np.array([[3.0], [np.nan], [99.0]])).tolist()
    [7.0, 11.0, 19.0]
    """
    scores = np.clip(np.where(np.isnan(x), linear.fill, x), linear.low, linear.high)
    return np.asarray(linear.intercept + scores @ linear.weights)


def _moments(x: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation (p,) of the values present; NaN without values, the latter also where constant."""
    present = ~np.isnan(x)
    n = np.maximum(present.sum(axis=0), 1)
    mean = np.where(present, x, 0.0).sum(axis=0) / n
    deviation = np.where(present, x - mean, 0.0)
    largest = np.abs(deviation).max(axis=0, initial=0.0)
    varies = largest > CONSTANT * np.abs(mean)
    unit = np.where(varies, largest, 1.0)  # squares of what is at most 1 neither overflow nor vanish
    scale = unit * np.sqrt(((deviation / unit) ** 2).sum(axis=0) / n)
    return np.where(present.any(axis=0), mean, np.nan), np.where(varies, scale, np.nan)


def _chosen(x: Floats, y: Floats, groups: NDArray[Any], penalties: Floats) -> Floats:
    """The penalty (1,) with the least squared error over the inner folds; penalties in descending order."""
    fold = inner_folds(groups)
    if not fold.any():
        return np.array([PENALTY])
    error = np.zeros(len(penalties))
    for train, held in splits(fold):
        by, mean = scaling(x[train]), y[train].mean()
        path = _path(standardised(x[train], by), y[train] - mean, penalties)
        missed = (y[held] - mean)[:, np.newaxis] - standardised(x[held], by) @ path
        error += np.einsum("rk,rk->k", missed, missed)
    return penalties[[int(np.argmin(error))]]


def _path(z: Floats, centred: Floats, penalties: Floats) -> Floats:
    """Standardised weights for all penalties from one eigen-decomposition: z (rows, p) -> (p, penalties)."""
    variance, axes = np.linalg.eigh(z.T @ z / len(z))
    along = axes.T @ (z.T @ centred / len(z))
    damped = np.maximum(variance, 0.0)[:, np.newaxis] + penalties
    usable = damped > CONSTANT * max(1.0, float(variance.max(initial=0.0)))  # with penalty 0: the least-norm solution
    return np.asarray(axes @ np.where(usable, along[:, np.newaxis] / np.where(usable, damped, 1.0), 0.0))
