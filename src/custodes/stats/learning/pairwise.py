"""Weights of a linear score that predicts the preferred output of an item, by logistic regression on pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.folds import inner_folds, splits
from custodes.stats.learning.objective import ordered_pairs
from custodes.stats.learning.ridge import PENALTY
from custodes.stats.ratios import mean_of_defined

PENALTIES = np.logspace(1, -4, 11)
"""Penalties of the regression, for columns that are scaled to a standard deviation of 1 within items."""

_CONSTANT = 1e-12  # a range below this proportion of the values is rounding error
_TIE = 1e-9  # smaller differences, relative to the range of human ratings, are rounding errors of means
_STEPS = 100  # maximum number of Newton steps; about five are needed
_TOLERANCE = 1e-8  # gain of mean log-loss by the last step; about the square of this gain remains
_ROUGH = 1e-4  # the same for the selection of the penalty


class _Pairs(NamedTuple):
    """Decided pairs of outputs, in the order of `winner`.

    `winner` and `loser` (pairs,) are the rows of `x` with the two outputs of each pair. `x` (rows, p) is centred within
    items and standardised.
    """

    x: Floats
    winner: Ints
    loser: Ints

    def select(self, is_selected: Bools) -> _Pairs:
        """The pairs that a mask (pairs,) selects."""
        return _Pairs(self.x, self.winner[is_selected], self.loser[is_selected])


def pairwise_logistic(
    x: Floats, y: Floats, *, items: Ints, groups: NDArray[Any], penalties: Floats = PENALTIES
) -> Floats:
    """Fit weights such that the score x @ weights predicts the preferred output of a pair: x (rows, p) -> (p,).

    `y` (rows,) is the human rating, NaN if not rated. `items` (rows,) define which outputs are compared. `groups`
    (rows,) are kept whole in cross-validation. In the model, P(a preferred to b) = 1 / (1 + exp(-(x_a - x_b) @
    weights)). All pairs of an item have equal weight. Human ties are left out. With a coarse rating scale, many
    different outputs tie; counting ties as half wins would then shrink the weights. On SummEval, where up to 67 % of
    pairs tie, leaving out ties changes the held-out tau-b by at most .004.

    The fit minimises mean log-loss + penalty / 2 * (sum of squared weights). Columns are divided by their standard
    deviation within items, and missing values are replaced by the mean of the column. The penalty with the highest
    log-likelihood over inner folds is selected. There are five inner folds, or fewer if there are fewer groups. Groups
    are assigned to folds in turn, in sorted order. The search starts with the largest penalty and stops when the
    likelihood has fallen twice in a row. Among equally good penalties, the largest is selected. With one group, the
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
    standardised_x, column_sd = _standardise_columns(x, items)
    rating_range = np.fmax.reduce(y, initial=-np.inf) - np.fmin.reduce(y, initial=np.inf)
    winners, losers = ordered_pairs(y, items, tie=_TIE * rating_range)
    if not len(winners):
        return np.zeros(x.shape[1])
    # The penalty does not depend on a rotation, and the weights lie in the space of the rows. With more columns than
    # rows, coordinates in this space are far fewer: 500 columns and 200 rows take a twentieth of the time.
    is_wide = standardised_x.shape[1] > standardised_x.shape[0]
    basis = np.linalg.svd(standardised_x, full_matrices=False)[2] if is_wide else np.eye(x.shape[1])
    pair_order = np.argsort(winners, kind="stable")
    pairs = _Pairs(standardised_x @ basis.T, winners[pair_order], losers[pair_order])
    penalty = float(penalties[0]) if len(penalties) == 1 else _select_penalty(pairs, groups, np.sort(penalties)[::-1])
    return np.nan_to_num(_fit(pairs, penalty, np.zeros(len(basis))) @ basis / column_sd, nan=0.0)


def _standardise_columns(x: Floats, items: Ints) -> tuple[Floats, Floats]:
    """The standardised columns, and the standard deviation of each column (p,), NaN if the column is constant.

    Columns are centred within items and divided by their standard deviation. Missing values count as the mean of the
    column. Centring does not change any difference, and it keeps sums precise.
    """
    filled_x = np.where(np.isnan(x), mean_of_defined(x, axis=0), x)
    item_of_row, item_sizes = np.unique(items, return_inverse=True, return_counts=True)[1:]
    item_means = (unit_sums(filled_x.T, units=item_of_row, n_units=len(item_sizes)) / item_sizes).T
    centred_x = filled_x - item_means[item_of_row]
    largest = np.abs(centred_x).max(axis=0, initial=0.0)
    largest = np.where(largest > _CONSTANT * np.abs(filled_x).max(axis=0, initial=0.0), largest, np.nan)
    # squares of values up to 1 neither overflow nor underflow
    column_sd = largest * np.sqrt(((centred_x / largest) ** 2).mean(axis=0))
    return np.nan_to_num(centred_x / column_sd, nan=0.0), column_sd


def _select_penalty(pairs: _Pairs, groups: NDArray[Any], penalties: Floats) -> float:
    """Penalty with the highest held-out log-likelihood, given penalties in descending order.

    Pairs between two folds are left out. With one group, no penalty can be selected, and `PENALTY` is returned. The
    search stops when the likelihood has fallen twice in a row: smaller penalties would overfit even more, and they take
    longest.
    """
    fold_of_row = inner_folds(groups)
    if not fold_of_row.any():
        return PENALTY
    parts_of_folds = [
        [pairs.select(is_row_in_part[pairs.winner] & is_row_in_part[pairs.loser]) for is_row_in_part in row_masks]
        for row_masks in splits(fold_of_row)
    ]
    weights_of_folds, losses = [np.zeros(pairs.x.shape[1])] * len(parts_of_folds), []
    for penalty in penalties.tolist():
        weights_of_folds = [
            _fit(training_pairs, penalty, weights, tolerance=_ROUGH)
            for (training_pairs, _), weights in zip(parts_of_folds, weights_of_folds, strict=True)
        ]
        losses.append(
            sum(
                _log_loss(held_out_pairs, weights)[0]
                for (_, held_out_pairs), weights in zip(parts_of_folds, weights_of_folds, strict=True)
            )
        )
        if len(losses) > 2 and losses[-1] > losses[-2] > losses[-3]:
            break
    return float(penalties[int(np.argmin(losses))])


def _fit(pairs: _Pairs, penalty: float, weights: Floats, *, tolerance: float = _TOLERANCE) -> Floats:
    """The standardised weights (p,), by Newton's method from `weights`; a step that overshoots is halved."""
    n_outputs, n_pairs = len(pairs.x), max(1, len(pairs.winner))
    log_loss, p_reversed_order = _log_loss(pairs, weights)
    for _ in range(_STEPS):
        score_gradient_of_output = np.bincount(pairs.loser, p_reversed_order, n_outputs) - np.bincount(
            pairs.winner, p_reversed_order, n_outputs
        )
        gradient = score_gradient_of_output @ pairs.x / n_pairs + penalty * weights
        step = np.linalg.solve(_hessian(pairs, p_reversed_order) + penalty * np.eye(len(weights)), -gradient)
        penalised_loss, least_gain = (
            log_loss / n_pairs + penalty / 2 * (weights @ weights),
            -0.1 * float(gradient @ step),
        )
        weights = weights + step
        if least_gain < 0.1 * tolerance:
            break
        log_loss, p_reversed_order = _log_loss(pairs, weights)
        while log_loss / n_pairs + penalty / 2 * (weights @ weights) > penalised_loss - least_gain:
            step, least_gain = step / 2, least_gain / 2
            weights = weights - step
            log_loss, p_reversed_order = _log_loss(pairs, weights)
    return weights


def _log_loss(pairs: _Pairs, weights: Floats) -> tuple[float, Floats]:
    """Sum of the log-loss over pairs, and the predicted probability of the reversed order of each pair (pairs,)."""
    output_scores = pairs.x @ weights
    margins = output_scores.take(pairs.winner) - output_scores.take(pairs.loser)
    exp_margins = np.exp(-np.abs(margins))
    loss = float(np.log1p(exp_margins).sum() - np.minimum(margins, 0.0).sum())
    return loss, np.where(margins > 0, exp_margins, 1.0) / (1 + exp_margins)


def _hessian(pairs: _Pairs, p_reversed_order: Floats) -> Floats:
    """Hessian (p, p) of the mean log-loss.

    The sum over pairs is computed as a sum over rows. The Hessian is x' L x, where L is the Laplacian of the graph of
    pairs, and the weight of each pair is its curvature. So no array of pairs x columns is needed.
    """
    from scipy.sparse import csr_array

    n_outputs = len(pairs.x)
    pair_curvatures = p_reversed_order * (1 - p_reversed_order) / max(1, len(p_reversed_order))
    curvature_sum_of_output = np.bincount(pairs.loser, pair_curvatures, n_outputs) + np.bincount(
        pairs.winner, pair_curvatures, n_outputs
    )
    row_pointers = np.append(0, np.cumsum(np.bincount(pairs.winner, minlength=n_outputs)))
    curvatures = csr_array((pair_curvatures, pairs.loser, row_pointers), shape=(n_outputs, n_outputs))
    half_hessian = pairs.x.T @ (curvature_sum_of_output[:, np.newaxis] / 2 * pairs.x - curvatures @ pairs.x)
    return np.asarray(half_hessian + half_hessian.T)
