"""Weights of a linear score that predicts the preferred output of an item, by logistic regression on pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.folds import inner_folds, splits
from custodes.stats.learning.objective import ordered_pairs
from custodes.stats.learning.ridge import PENALTY

PENALTIES = np.logspace(1, -4, 11)
"""Penalties, for columns with a standard deviation of 1 within items."""

_CONSTANT = 1e-12  # a range below this proportion of the values is rounding error
_TIE = 1e-9  # smaller differences, relative to the range of human ratings, are rounding errors of means
_STEPS = 100  # maximum number of Newton steps; about five are needed
_REUSE = 1 / 16  # on a path, the Hessian is reused while a step gains at most this fraction of the previous gain
_FACTORS = 512  # number of factors between 1 and 2 whose product is finite
_TOLERANCE = 1e-8  # gain of mean log-loss by the last step; about the square of this gain remains


class _Pairs(NamedTuple):
    """Decided pairs of outputs, in the order of `winner`.

    `winner` and `loser` (pairs,) are the positions of the two outputs of each pair among the rows of `x`. `x` (rows, p)
    is centred within items and standardised.
    """

    x: Floats
    winner: Ints
    loser: Ints


def pairwise_logistic(
    x: Floats, y: Floats, *, items: Ints, groups: NDArray[Any], penalties: Floats = PENALTIES
) -> Floats:
    """Fit weights such that the score x @ weights predicts the preferred output of a pair: x (rows, p) -> (p,).

    `y` (rows,) is the human rating, NaN if not rated. `items` (rows,) define which outputs are compared. `groups`
    (rows,) are kept whole in cross-validation. In the model, P(a preferred to b) = 1 / (1 + exp(-(x_a - x_b) @
    weights)), and all pairs of an item have equal weight. Human ties are left out. With a coarse rating scale, many
    different outputs tie; counting ties as half wins would then shrink the weights. On SummEval, where up to 67 % of
    pairs tie, this choice changes the held-out tau-b by at most .004.

    The fit minimises mean log-loss + penalty / 2 * (sum of squared weights). Columns are divided by their standard
    deviation within items, and missing values are replaced by the mean of the column. The penalty with the highest
    log-likelihood over inner folds is selected. For these folds, the groups in sorted order are assigned to five folds
    in turn (fewer with fewer groups), which is deterministic. The search starts with the largest penalty and stops when
    the likelihood has fallen twice in a row. Among equally good penalties, the largest is selected. With one group, the
    penalty is `PENALTY`. Penalties are above 0, so that separable data have a finite solution. Weights are in the units
    of x. The weight of a column is 0 if the column is constant within items or missing. All weights are 0 if all pairs
    are human ties.

    >>> x = np.array([[3.0, 1.0], [2.0, 1.0], [5.0, 4.0], [6.0, 4.0]])
    >>> item = np.array([0, 0, 1, 1])
    >>> y = np.array([2.0, 1.0, 1.0, 2.0])
    >>> pairwise_logistic(x, y, items=item, groups=item, penalties=np.array([0.5])).round(3).tolist()
    [1.482, 0.0]

    Source: Bradley and Terry 1952; ties as in Coakley and Heise 1996.
    """
    z, scale = _standardise_columns(x, items)
    spread = np.fmax.reduce(y, initial=-np.inf) - np.fmin.reduce(y, initial=np.inf)
    winner, loser = ordered_pairs(y, items, tie=_TIE * spread)
    if not len(winner):
        return np.zeros(x.shape[1])
    order = np.argsort(winner, kind="stable")
    pairs = _Pairs(z, winner[order], loser[order])
    penalty = float(penalties[0]) if len(penalties) == 1 else _select_penalty(pairs, groups, np.sort(penalties)[::-1])
    weights = next(_path(pairs, [penalty], np.zeros(x.shape[1])))
    return np.nan_to_num(weights / scale, nan=0.0)


def _standardise_columns(x: Floats, items: Ints) -> tuple[Floats, Floats]:
    """The standardised columns, and the standard deviation of each column (p,), NaN if the column is constant.

    Columns are centred within items and divided by their standard deviation. Missing values count as the mean of the
    column. Centring does not change any difference, and it keeps sums precise.
    """
    present = ~np.isnan(x)
    mean = np.where(present, x, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    filled = np.where(present, x, mean)
    item, size = np.unique(items, return_inverse=True, return_counts=True)[1:]
    centred = filled - (unit_sums(filled.T, units=item, n_units=len(size)) / size).T[item]
    largest = np.abs(centred).max(axis=0, initial=0.0)
    varies = largest > _CONSTANT * np.abs(filled).max(axis=0, initial=0.0)
    unit = np.where(varies, largest, 1.0)  # squares of values up to 1 neither overflow nor underflow
    scale = np.where(varies, unit * np.sqrt(((centred / unit) ** 2).mean(axis=0)), np.nan)
    return np.nan_to_num(centred / scale, nan=0.0), scale


def _select_penalty(pairs: _Pairs, groups: NDArray[Any], penalties: Floats) -> float:
    """Penalty with the highest held-out log-likelihood, given penalties in descending order.

    Pairs between two folds are left out. With one group, no penalty can be selected, and `PENALTY` is returned. The
    search stops when the likelihood has fallen twice in a row: smaller penalties would overfit even more, and they take
    longest to fit.
    """
    fold = inner_folds(groups)
    if not fold.any():
        return PENALTY
    paths, held_pairs = [], []
    for rows_of_part in splits(fold):
        chosen = [rows[pairs.winner] & rows[pairs.loser] for rows in rows_of_part]
        train, held = (_Pairs(pairs.x, pairs.winner[pair], pairs.loser[pair]) for pair in chosen)
        paths.append(_path(train, penalties.tolist(), np.zeros(pairs.x.shape[1]), reuse=_REUSE))
        held_pairs.append(held)
    losses: list[float] = []
    for fits in zip(*paths, strict=True):
        losses.append(sum(_log_loss(held, fit)[0] for held, fit in zip(held_pairs, fits, strict=True)))
        if len(losses) > 2 and losses[-1] > losses[-2] > losses[-3]:
            break
    return float(penalties[int(np.argmin(losses))])


def _path(pairs: _Pairs, penalties: Sequence[float], weights: Floats, *, reuse: float = 0.0) -> Iterator[Floats]:
    """Yield the standardised weights (p,) for each penalty, by Newton's method from `weights`.

    The first step for each further penalty is taken with the gradient and the Hessian of the previous penalty. A
    Hessian is reused only while a full step gains at most `reuse` times the previous gain; otherwise it is recomputed.
    With reuse, the result is accurate to about 1e-8 of the loss. Without reuse, it is accurate to the square of this
    value.
    """
    n, mass, last = len(pairs.x), max(1, len(pairs.winner)), 0.0
    curvature: Floats | None = None
    for penalty in penalties:
        ridge = penalty * np.eye(len(weights))
        if curvature is not None:  # at the previous weights, the gradient was 0
            weights = weights + np.linalg.solve(curvature + ridge, (last - penalty) * weights)
        last, before = penalty, np.inf
        total, surprise = _log_loss(pairs, weights)
        for _ in range(_STEPS):
            by_row = np.bincount(pairs.loser, surprise, n) - np.bincount(pairs.winner, surprise, n)
            slope = by_row @ pairs.x / mass + penalty * weights
            step = None if curvature is None else np.linalg.solve(curvature + ridge, -slope)
            if step is None or -slope @ step > reuse * before:
                curvature = _curvature(pairs, surprise)
                step = np.linalg.solve(curvature + ridge, -slope)
            before = float(-slope @ step)
            if before < _TOLERANCE:
                weights = weights + step
                break
            loss, share = total / mass + penalty / 2 * (weights @ weights), 1.0
            while True:
                moved = weights + share * step
                total, surprise = _log_loss(pairs, moved)
                if total / mass + penalty / 2 * (moved @ moved) <= loss - 0.1 * share * before:
                    break
                share, curvature = share / 2, None
            weights = moved
        yield weights


def _log_loss(pairs: _Pairs, weights: Floats) -> tuple[float, Floats]:
    """Sum of the log-loss over pairs, and the predicted probability of the other order of each pair (pairs,)."""
    score = pairs.x @ weights
    margins = score.take(pairs.winner) - score.take(pairs.loser)
    small = np.exp(-np.abs(margins))
    # log(1 + exp(-margin)); the logarithm of a product is many times faster than the sum of logarithms.
    products = np.multiply.reduceat(1 + small, np.arange(0, len(small), _FACTORS))
    loss = float(np.log(products).sum() - np.minimum(margins, 0.0).sum())
    return loss, np.where(margins > 0, small, 1.0) / (1 + small)


def _curvature(pairs: _Pairs, surprise: Floats) -> Floats:
    """Hessian (p, p) of the mean log-loss.

    The sum over pairs is computed as a sum over rows. It is x' L x, where L is the Laplacian of the graph of pairs, and
    the weight of each pair is its curvature. So no array of pairs x columns is needed.
    """
    from scipy.sparse import csr_array

    n = len(pairs.x)
    weight = surprise * (1 - surprise) / max(1, len(surprise))
    degree = np.bincount(pairs.loser, weight, n) + np.bincount(pairs.winner, weight, n)
    start: Ints = np.append(0, np.cumsum(np.bincount(pairs.winner, minlength=n)))
    joined = csr_array((weight, pairs.loser, start), shape=(n, n)) @ pairs.x
    half = pairs.x.T @ (degree[:, np.newaxis] / 2 * pairs.x - joined)
    return np.asarray(half + half.T)
