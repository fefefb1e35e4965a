"""Weights of a linear score that says which of two outputs of an item people prefer: logistic regression on pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, require
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import PENALTY

PENALTIES = np.logspace(1, -4, 11)
"""Penalties, relative to a column whose standard deviation within items is 1."""

_INNER = 5  # folds that choose the penalty
_CONSTANT = 1e-12  # a spread below this share of the size is rounding
_TIE = 1e-9  # of the range of people's ratings; a mean of several can carry float noise
_STEPS = 100  # of Newton; about five are needed
_TOLERANCE = 1e-8  # of the mean log-loss that a step can gain; the step taken then leaves about the square of it
_CERTAIN = 700.0  # a margin above which exp overflows and nothing pulls
_SMALL = 1e-9  # the gain where shared curvature stops: a step leaves a hundredth of it, not the square


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
    found = _fitted(pairs, np.ones(len(pairs.winner)), penalty, np.zeros(pairs.x.shape[1]))
    return np.nan_to_num((found if axes is None else found @ axes) / scale, nan=0.0)


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
    order = np.argsort(items, kind="stable")
    item = items[order]
    longest = int(np.unique(items, return_counts=True)[1].max(initial=0))
    apart = [(np.flatnonzero(item[k:] == item[: len(item) - k]), k) for k in range(1, longest)]
    first = np.concatenate([order[at] for at, _ in apart] or [order[:0]])
    second = np.concatenate([order[at + k] for at, k in apart] or [order[:0]])
    margin = y[first] - y[second]
    decided = np.abs(margin) > _TIE * (np.fmax.reduce(y, initial=-np.inf) - np.fmin.reduce(y, initial=np.inf))
    winner, loser = (np.where(margin > 0, *sides)[decided] for sides in ((first, second), (second, first)))
    by_winner = np.argsort(winner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(winner, minlength=len(y)))])
    return _Pairs(z, winner[by_winner], loser[by_winner], starts)


def _chosen(pairs: _Pairs, groups: NDArray[Any], penalties: Floats) -> float:
    """The penalty with the highest held-out log-likelihood; penalties in descending order.

    A pair between two folds is neither trained on nor held out. With one group nothing can choose. Once the likelihood
    falls, smaller penalties overfit the more, and are the dearest to fit.
    """
    group = np.unique(groups, return_inverse=True)[1]
    if not group.any():
        return PENALTY
    parts = splits(group % _INNER)
    trained, kept = (
        np.stack([own[pairs.winner] & own[pairs.loser] for own in side], axis=1).astype(np.float64)
        for side in zip(*parts, strict=True)
    )
    at_once = _AtOnce.of(pairs, trained, [np.flatnonzero(held) for _, held in parts])
    weights = last = np.zeros((pairs.x.shape[1], len(parts)))
    missed = np.full(len(penalties), np.inf)
    for k, penalty in enumerate(penalties):
        weights, last = at_once.fitted(float(penalty), 2 * weights - last if k > 1 else weights), weights
        missed[k] = np.vdot(kept, _log_loss(_margins(pairs, weights)))
        if k > 1 and missed[k] > missed[k - 1] > missed[k - 2]:
            break
    return float(penalties[int(np.argmin(missed))])


class _AtOnce(NamedTuple):
    """Fits without each fold, all at once: `times` (pairs, folds) how often a pair is present, its sums being 1.

    Newton's method with a curvature that the folds share: that at the mean of their weights, less the held-out rows'
    part. It is near enough to each fold's own for steps that shrink the error by a factor each, at a fifth of the work;
    slopes are exact, so the weights are.
    """

    pairs: _Pairs
    times: Floats
    held: list[NDArray[np.intp]]
    incidence: Any  # (rows, pairs): 1 for the loser, -1 for the winner

    @classmethod
    def of(cls, pairs: _Pairs, trained: Floats, held: list[NDArray[np.intp]]) -> _AtOnce:
        """The fits that see the pairs of `trained` (pairs, folds), 1 or 0, and not the rows of `held`."""
        from scipy.sparse import csr_array

        n, each = len(pairs.winner), np.arange(len(pairs.winner))
        ends = np.concatenate([pairs.loser, pairs.winner]), np.concatenate([each, each])
        incidence = csr_array((np.repeat([1.0, -1.0], n), ends), shape=(len(pairs.x), n))
        return cls(pairs, trained / np.maximum(trained.sum(axis=0), 1.0), held, incidence)

    def fitted(self, penalty: float, start: Floats) -> Floats:
        """The weights (p, folds) of the least loss without each fold, from `start`."""
        weights, before = start, np.full(start.shape[1], np.inf)
        inverse = np.linalg.inv(self._curvatures(start.mean(axis=1)) + penalty * np.eye(len(start)))
        for _ in range(_STEPS):
            pull = self.times / (1 + np.exp(np.minimum(_margins(self.pairs, weights), _CERTAIN)))
            slope = self.pairs.x.T @ (self.incidence @ pull) + penalty * weights
            step = -np.einsum("fpq,qf->pf", inverse, slope)
            gain = -np.einsum("pf,pf->f", slope, step)
            if not ((gain >= 0) & (gain <= before / 2)).all():
                break
            weights, before = weights + step, gain
            if (gain < _SMALL).all():
                return np.asarray(weights)
        # What is too far from a parabola is left to Newton's method proper.
        own = zip(self.times.T, start.T, strict=True)
        return np.stack([_fitted(self.pairs, count, penalty, first) for count, first in own], axis=1)

    def _curvatures(self, weights: Floats) -> Floats:
        """The curvature of the log-loss at weights (p,), for every fold (folds, p, p): all rows but those held out."""
        total = (self.times > 0).sum(axis=0)
        bend = _bend(_margins(self.pairs, weights))
        rows = _laplacian(self.pairs, bend)
        whole = self.pairs.x.T @ rows
        halves = np.stack([whole - self.pairs.x[own].T @ rows[own] for own in self.held])
        return np.asarray((halves + halves.swapaxes(1, 2)) / np.maximum(total, 1)[:, np.newaxis, np.newaxis])


def _fitted(pairs: _Pairs, count: Floats, penalty: float, start: Floats) -> Floats:
    """Standardised weights (p,) by Newton's method from `start`; count (pairs,) is how often a pair is present."""
    count = count / max(1.0, float(count.sum()))
    weights = start
    margins = _margins(pairs, weights)
    loss = _loss(margins, count, weights, penalty)
    for _ in range(_STEPS):
        slope, curvature = _derivatives(pairs, margins, count)
        slope = slope + penalty * weights
        step = np.linalg.solve(curvature + penalty * np.eye(len(weights)), -slope)
        gain = float(-slope @ step)
        share = 1.0
        while True:
            margins = _margins(pairs, weights + share * step)
            after = _loss(margins, count, weights + share * step, penalty)
            if after <= loss - 0.1 * share * gain or gain < _TOLERANCE:
                break
            share /= 2
        weights, loss = weights + share * step, after
        if gain < _TOLERANCE:
            break
    return weights


def _margins(pairs: _Pairs, weights: Floats) -> Floats:
    """How far the scores by weights (p, ...) put the winner above the loser (pairs, ...)."""
    score = pairs.x @ weights
    apart = score.take(pairs.winner, axis=0)  # whole rows: a third of the time of score[...]
    apart -= score.take(pairs.loser, axis=0)
    return np.asarray(apart)


def _loss(margins: Floats, count: Floats, weights: Floats, penalty: float) -> float:
    return float(count @ _log_loss(margins) + penalty / 2 * (weights @ weights))


def _log_loss(margins: Floats) -> Floats:
    """log(1 + exp(-margin)), several times faster than np.logaddexp."""
    return np.asarray(np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0))


def _bend(margins: Floats) -> Floats:
    """The curvature of each pair's log-loss in its margin (pairs,)."""
    small = np.exp(-np.abs(margins))
    return np.asarray(small / (1 + small) ** 2)


def _laplacian(pairs: _Pairs, bend: Floats) -> Floats:
    """Half of the curvature but for a product: L x / 2 (rows, p), L the Laplacian of the graph of pairs weighted by
    `bend` (pairs,), with its edges counted at the winner alone.

    Sums over pairs of differences are taken as sums over rows (x' L x), which needs no array of pairs x columns.
    """
    from scipy.sparse import csr_array

    n_rows = len(pairs.x)
    degree = np.bincount(pairs.winner, bend, n_rows) + np.bincount(pairs.loser, bend, n_rows)
    met = csr_array((bend, pairs.loser, pairs.starts), shape=(n_rows, n_rows)) @ pairs.x
    return np.asarray(degree[:, np.newaxis] / 2 * pairs.x - met)


def _derivatives(pairs: _Pairs, margins: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Slope (p,) and curvature (p, p) of the log-loss."""
    from scipy.special import expit

    n_rows = len(pairs.x)
    surprise = expit(-margins)
    pull = count * surprise
    by_row = np.bincount(pairs.loser, pull, n_rows) - np.bincount(pairs.winner, pull, n_rows)
    half = pairs.x.T @ _laplacian(pairs, pull * (1 - surprise))
    return by_row @ pairs.x, half + half.T
