"""Weights of a linear score that says which of two outputs of an item people prefer: logistic regression on pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, require
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.folds import inner_folds, splits
from custodes.stats.learning.objective import ordered_pairs
from custodes.stats.learning.ridge import PENALTY

PENALTIES = np.logspace(1, -4, 11)
"""Penalties, relative to a column whose standard deviation within items is 1."""

_CONSTANT = 1e-12  # a spread below this share of the size is rounding
_TIE = 1e-9  # of the range of people's ratings; a mean of several can carry float noise
_STEPS = 100  # of Newton; about five are needed
_REUSE = 1 / 16  # in cross-validation, the curvature is kept while a step gains at most this proportion of the last one
_TOLERANCE = 1e-8  # of the mean log-loss that a step can gain; the step taken then leaves about the square of it


class _Pairs(NamedTuple):
    """Decided pairs, sorted by winner: rows (pairs,) of winner and loser, and where each row's wins start (rows + 1,).

    `x` (rows, p) is centred within items and standardised.
    """

    x: Floats
    winner: Ints
    loser: Ints
    starts: Ints


def pairwise_logistic(
    x: Floats, y: Floats, *, items: Ints, groups: NDArray[Any], penalties: Floats = PENALTIES
) -> Floats:
    """Weigh columns so that the score x @ weights tells the preferred one of two outputs: x (rows, p) -> (p,).

    y (rows,) is people's rating, NaN = not rated; items (rows,) says which outputs are compared; groups (rows,) are
    kept whole in cross-validation. P(a preferred to b) = 1 / (1 + exp(-(x_a - x_b) @ weights)), every pair of an item
    counting the same. Pairs that people tie are left out: as half a win for each they would draw the weights to 0
    wherever the scale of the ratings is too coarse to tell two outputs apart (held-out tau-b differs by .004 at most on
    SummEval, where up to 67 % of pairs tie).

    Minimises mean log-loss + penalty / 2 * (sum of squared weights) on columns divided by their standard deviation
    within items, missing values at the column's mean. The penalty is the one with the highest log-likelihood over inner
    folds: the groups in sorted order, dealt in turn to five folds (fewer with fewer groups; nothing is random). It is
    sought from the largest down, until the likelihood has fallen twice in a row; between equals it is the larger.
    Weights are in the units of x; 0 for a column constant within items or without values, and all 0 where people tie
    every pair. Penalties are above 0, so that separable data have a finite answer; with one group nothing can choose,
    and it is `PENALTY`.

    >>> x = np.array([[3.0, 1.0], [2.0, 1.0], [5.0, 4.0], [6.0, 4.0]])
    >>> item = np.array([0, 0, 1, 1])
    >>> y = np.array([2.0, 1.0, 1.0, 2.0])
    >>> pairwise_logistic(x, y, items=item, groups=item, penalties=np.array([0.5])).round(3).tolist()
    [1.482, 0.0]

    Source: Bradley and Terry 1952; ties as in Coakley and Heise 1996.
    """
    require((penalties > 0).all(), "penalties must be above 0")
    z, scale = _standardised(x, items)
    pairs = _preferred(z, y, items)
    if not len(pairs.winner):
        return np.zeros(x.shape[1])
    # With more columns than rows the weights lie in the space of the rows, where they are few.
    axes = np.linalg.svd(z, full_matrices=False)[2] if x.shape[1] > len(x) else None
    if axes is not None:
        pairs = pairs._replace(x=z @ axes.T)
    penalty = float(penalties[0]) if len(penalties) == 1 else _chosen(pairs, groups, np.sort(penalties)[::-1])
    coefficients = _fitted(pairs, penalty, np.zeros(pairs.x.shape[1]))
    return np.nan_to_num((coefficients if axes is None else coefficients @ axes) / scale, nan=0.0)


def _standardised(x: Floats, items: Ints) -> tuple[Floats, Floats]:
    """The columns centred within items and divided by what is left, and that scale (p,), NaN where constant.

    Missing values count as the mean of the column. Centring changes no difference and keeps the sums exact.
    """
    present = ~np.isnan(x)
    mean = np.where(present, x, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    filled = np.where(present, x, mean)
    item, size = np.unique(items, return_inverse=True, return_counts=True)[1:]
    centred = filled - (unit_sums(filled.T, units=item, n_units=len(size)) / size).T[item]
    largest = np.abs(centred).max(axis=0, initial=0.0)
    varies = largest > _CONSTANT * np.abs(filled).max(axis=0, initial=0.0)
    unit = np.where(varies, largest, 1.0)  # squares of what is at most 1 neither overflow nor vanish
    scale = np.where(varies, unit * np.sqrt(((centred / unit) ** 2).mean(axis=0)), np.nan)
    return np.nan_to_num(centred / scale, nan=0.0), scale


def _preferred(z: Floats, y: Floats, items: Ints) -> _Pairs:
    """All pairs of rows of one item that people do not tie."""
    scale = np.fmax.reduce(y, initial=-np.inf) - np.fmin.reduce(y, initial=np.inf)
    winner, loser = ordered_pairs(y, items, tie=_TIE * scale)
    by_winner = np.argsort(winner, kind="stable")
    return _sorted_pairs(z, winner[by_winner], loser[by_winner])


def _sorted_pairs(x: Floats, winner: Ints, loser: Ints) -> _Pairs:
    """Pairs whose winners are in ascending order."""
    return _Pairs(x, winner, loser, np.concatenate([[0], np.cumsum(np.bincount(winner, minlength=len(x)))]))


def _chosen(pairs: _Pairs, groups: NDArray[Any], penalties: Floats) -> float:
    """The penalty with the highest held-out log-likelihood; penalties in descending order.

    A pair between two folds is neither trained on nor held out. With one group nothing can choose. Once the likelihood
    falls, smaller penalties overfit the more, and take the longest to fit.
    """
    fold = inner_folds(groups)
    if not fold.any():
        return PENALTY
    parts = []
    for rows_of_part in splits(fold):
        chosen = [rows[pairs.winner] & rows[pairs.loser] for rows in rows_of_part]
        parts.append([_sorted_pairs(pairs.x, pairs.winner[pair], pairs.loser[pair]) for pair in chosen])
    weights = last = [np.zeros(pairs.x.shape[1])] * len(parts)
    losses: list[float] = []
    for penalty in penalties:
        starts = [2 * here - before for here, before in zip(weights, last, strict=True)]  # along the path
        fits = [_fitted(train, penalty, start, reuse=_REUSE) for (train, _), start in zip(parts, starts, strict=True)]
        weights, last = fits, weights
        losses.append(
            sum(float(_log_loss(_margins(held, fit)).sum()) for (_, held), fit in zip(parts, fits, strict=True))
        )
        if len(losses) > 2 and losses[-1] > losses[-2] > losses[-3]:
            break
    return float(penalties[int(np.argmin(losses))])


def _fitted(pairs: _Pairs, penalty: float, start: Floats, *, reuse: float = 0.0) -> Floats:
    """Standardised weights (p,) by Newton's method from `start`.

    The curvature is computed again after a shortened step, and unless the step with the last one gains at most `reuse`
    times the previous gain. Exact to about 1e-8 of the loss with reuse, else to the square of that.
    """
    from scipy.special import expit

    weights, before = start, 0.0
    curvature: Floats | None = None
    margins = _margins(pairs, weights)
    loss = _loss(margins, weights, penalty)
    for _ in range(_STEPS):
        surprise = expit(-margins)
        slope = _slope(pairs, surprise) + penalty * weights
        step = np.zeros_like(slope) if curvature is None else np.linalg.solve(curvature, -slope)
        gain = float(-slope @ step)
        if curvature is None or gain > reuse * before:
            curvature = _curvature(pairs, surprise) + penalty * np.eye(len(weights))
            step = np.linalg.solve(curvature, -slope)
            gain = float(-slope @ step)
        before, share = gain, 1.0
        while True:
            margins = _margins(pairs, weights + share * step)
            after = _loss(margins, weights + share * step, penalty)
            if after <= loss - 0.1 * share * gain or gain < _TOLERANCE:
                break
            share, curvature = share / 2, None
        weights, loss = weights + share * step, after
        if gain < _TOLERANCE:
            break
    return weights


def _margins(pairs: _Pairs, weights: Floats) -> Floats:
    """How far the scores by weights (p,) put the winner above the loser (pairs,)."""
    score = pairs.x @ weights
    margins = score.take(pairs.winner, axis=0)  # whole rows: a third of the time of score[...]
    margins -= score.take(pairs.loser, axis=0)
    return np.asarray(margins)


def _loss(margins: Floats, weights: Floats, penalty: float) -> float:
    return float(_log_loss(margins).sum() / max(1, len(margins)) + penalty / 2 * (weights @ weights))


def _log_loss(margins: Floats) -> Floats:
    """log(1 + exp(-margin)), several times faster than np.logaddexp."""
    return np.asarray(np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0))


def _slope(pairs: _Pairs, surprise: Floats) -> Floats:
    """Slope (p,) of the mean log-loss; surprise (pairs,) is the predicted probability of the other order."""
    n = len(pairs.x)
    by_row = np.bincount(pairs.loser, surprise, n) - np.bincount(pairs.winner, surprise, n)
    return np.asarray(by_row @ pairs.x / max(1, len(surprise)))


def _curvature(pairs: _Pairs, surprise: Floats) -> Floats:
    """Curvature (p, p) of the mean log-loss.

    The sum over pairs is computed as a sum over rows: the curvature is x' L x, with L the Laplacian of the graph of
    pairs weighted by the curvature of each. That needs no array of pairs x columns.
    """
    from scipy.sparse import csr_array

    n = len(pairs.x)
    weight = surprise * (1 - surprise) / max(1, len(surprise))
    degree = np.bincount(pairs.loser, weight, n) + np.bincount(pairs.winner, weight, n)
    joined = csr_array((weight, pairs.loser, pairs.starts), shape=(n, n)) @ pairs.x
    half = pairs.x.T @ (degree[:, np.newaxis] / 2 * pairs.x - joined)
    return np.asarray(half + half.T)
