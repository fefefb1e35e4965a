"""Ridge regression on standardised columns, its penalty chosen by grouped cross-validation in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
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
    return measured(x)[0]


def measured(x: Floats) -> tuple[Scaling, Floats]:
    """`scaling` of the columns of x, and these standardised by it: (rows, p) -> (rows, p).

    >>> by, z = measured(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]))
    >>> z.tolist() == standardised(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]), by).tolist()
    True
    """
    z = np.array(x.T, order="C")  # a column a row, in place: several times as fast
    missing = np.isnan(z)
    some = bool(missing.any())
    n = np.maximum(z.shape[1] - missing.sum(axis=1), 1) if some else np.full(len(z), max(z.shape[1], 1))
    mean = _centred(z, missing, n, some=some)
    lowest, highest = z.min(axis=1, initial=0.0), z.max(axis=1, initial=0.0)
    largest = np.maximum(highest, -lowest)
    varies = largest > CONSTANT * np.abs(mean)
    unit = np.where(varies, largest, 1.0)  # squares of what is at most 1 neither overflow nor vanish
    z /= unit[:, np.newaxis]
    reach = np.where(varies, _LIMIT * _root_mean_square(z, n), 0.0)
    np.clip(z, -reach[:, np.newaxis], reach[:, np.newaxis], out=z)
    shift = _centred(z, missing, n, some=some)
    middle = mean + unit * shift
    furthest = np.maximum(np.minimum(highest / unit, reach) - shift, shift - np.maximum(lowest / unit, -reach))
    varies &= unit * furthest > CONSTANT * np.abs(middle)
    spread = np.where(varies, _root_mean_square(z, n), 1.0)
    z /= spread[:, np.newaxis]
    z[~varies] = 0.0
    spread[~varies] = np.nan
    known = ~missing.all(axis=1)
    low, high, middle = (np.where(known, own, np.nan) for own in (mean - unit * reach, mean + unit * reach, middle))
    return Scaling(low, high, middle, unit * spread), z.T


def standardised(x: Floats, by: Scaling) -> Floats:
    """Clip, centre and scale the columns of x (rows, p) -> (rows, p); 0 where missing and in columns without a scale.

    >>> by = Scaling(np.array([-1.0, 5.0]), np.array([5.0, 5.0]), np.array([2.0, 5.0]), np.array([1.0, np.nan]))
    >>> standardised(np.array([[9.0, 9.0], [np.nan, 9.0]]), by).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    z = np.clip(x, by.low, by.high)
    z -= by.mean
    z /= by.scale
    undefined = np.isnan(z)
    if undefined.any():
        z[undefined] = 0.0
    return z


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
    return ridges(x, y, groups=groups, subsets=[np.arange(x.shape[1])], penalties=penalties)[0]


def ridges(
    x: Floats, y: Floats, *, groups: NDArray[Any], subsets: Sequence[Ints], penalties: Floats = PENALTIES
) -> list[Linear]:
    """Give `ridge` on each of several subsets of the columns; what they share is reckoned once.

    >>> x, y = np.array([[0.0, 5.0], [1.0, 3.0], [2.0, 8.0]]), np.array([1.0, 2.0, 3.0])
    >>> alone, both = ridges(x, y, groups=np.arange(3), subsets=[[0], [0, 1]], penalties=np.array([0.0]))
    >>> len(alone.weights), np.abs(both.weights).round(9).tolist()
    (1, [1.0, 0.0])
    """
    by, z = measured(x)
    mean = float(y.mean())
    whole = _Products.of(z, y - mean)
    inner = _inner(x, y, groups) if len(penalties) > 1 else []
    descending = np.sort(penalties)[::-1]
    made = []
    for subset in subsets:
        penalty = penalties if len(penalties) == 1 else _chosen(inner, subset, descending)
        low, high, fill, scale = (column[subset] for column in by)
        weights = np.nan_to_num(whole.path(subset, penalty)[:, 0] / scale, nan=0.0)
        low, high, fill = (np.nan_to_num(column, nan=0.0) for column in (low, high, fill))
        made.append(Linear(float(mean - fill @ weights), weights, fill, low, high))
    return made


def predict(linear: Linear, x: Floats) -> Floats:
    """Predict the rows of x (rows, p) -> (rows,); a missing value counts as the mean in training.

    >>> linear = Linear(1.0, np.array([2.0]), np.array([5.0]), np.array([0.0]), np.array([9.0]))
    >>> predict(linear, np.array([[3.0], [np.nan], [99.0]])).tolist()
    [7.0, 11.0, 19.0]
    """
    scores = np.clip(np.where(np.isnan(x), linear.fill, x), linear.low, linear.high)
    return np.asarray(linear.intercept + scores @ linear.weights)


def _centred(z: Floats, missing: NDArray[np.bool_], n: Ints, *, some: bool) -> Floats:
    """The means (p,) of the n (p,) values present in z (p, rows), and z is made what deviates from them, 0 where
    missing."""
    if some:
        z[missing] = 0.0
    mean = z.sum(axis=1) / n
    z -= mean[:, np.newaxis]
    if some:
        z[missing] = 0.0
    return np.asarray(mean)


def _root_mean_square(z: Floats, n: Ints) -> Floats:
    """(p, rows) -> (p,), over n (p,) values, the others being 0."""
    return np.asarray(np.sqrt(np.einsum("pr,pr->p", z, z) / n))


class _Products(NamedTuple):
    """A part trained on, by the products of its standardised columns z (rows, p) with each other (None where there are
    more columns than rows) and with the centred target (rows,)."""

    z: Floats
    centred: Floats
    gram: Floats | None
    along: Floats

    @classmethod
    def of(cls, z: Floats, centred: Floats) -> _Products:
        """Of a part."""
        n, p = z.shape
        return cls(z, centred, z.T @ z / n if p <= n else None, z.T @ centred / n)

    def path(self, subset: Ints, penalties: Floats) -> Floats:
        """Standardised weights (columns of a subset, penalties), from one eigen-decomposition."""
        if self.gram is not None:
            return _solved(self.gram[np.ix_(subset, subset)], self.along[subset], penalties)
        z, n = self.z[:, subset], len(self.z)
        if len(subset) <= n:
            return _solved(z.T @ z / n, self.along[subset], penalties)
        # The products of rows have the same eigenvalues as those of columns, but for zeros.
        return np.asarray(z.T @ _solved(z @ z.T / n, self.centred / n, penalties))


def _solved(gram: Floats, along: Floats, penalties: Floats) -> Floats:
    """(gram + penalty)^-1 along, for all penalties: (k, k), (k,) -> (k, penalties)."""
    variance, axes = np.linalg.eigh(gram)
    damped = np.maximum(variance, 0.0)[:, np.newaxis] + penalties
    usable = damped > CONSTANT * max(1.0, float(variance.max(initial=0.0)))  # with penalty 0: the least-norm solution
    share = (axes.T @ along)[:, np.newaxis] / np.where(usable, damped, 1.0)
    return np.asarray(axes @ np.where(usable, share, 0.0))


def _inner(x: Floats, y: Floats, groups: NDArray[Any]) -> list[tuple[_Products, Floats, Floats]]:
    """The parts that choose a penalty, each with what it holds out: standardised columns, and the target less the mean
    in training; none with one group."""
    fold = inner_folds(groups)
    parts = []
    for train, held in splits(fold) if fold.any() else []:
        (by, z), mean = measured(x[train]), y[train].mean()
        parts.append((_Products.of(z, y[train] - mean), standardised(x[held], by), y[held] - mean))
    return parts


def _chosen(inner: list[tuple[_Products, Floats, Floats]], subset: Ints, penalties: Floats) -> Floats:
    """The penalty (1,) with the least squared error over the inner folds; penalties in descending order."""
    if not inner:
        return np.array([PENALTY])
    error = np.zeros(len(penalties))
    for part, z, target in inner:
        missed = target[:, np.newaxis] - z[:, subset] @ part.path(subset, penalties)
        error += np.einsum("rk,rk->k", missed, missed)
    return penalties[[int(np.argmin(error))]]
