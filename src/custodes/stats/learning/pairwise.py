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
"""Penalties of the regression, for columns that are scaled to a standard deviation of 1 within items."""

_CONSTANT = 1e-12  # a range below this proportion of the values is rounding error
_TIE = 1e-9  # smaller differences, relative to the range of human ratings, are rounding errors of means
_STEPS = 100  # maximum number of Newton steps; about five are needed
_REUSE = 1 / 16  # on a path, the Hessian is reused while a step gains at most this fraction of the previous gain
_FACTORS = 512  # number of factors between 1 and 2 whose product is finite
_TOLERANCE = 1e-8  # gain of mean log-loss by the last step; about the square of this gain remains


class _Pairs(NamedTuple):
    """Decided pairs of outputs, in the order of `winner`.

    `winner` and `loser` (pairs,) are the rows of `x` with the two outputs of each pair. `x` (rows, p) is centred within
    items and standardised.
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
    winner_rows, loser_rows = ordered_pairs(y, items, tie=_TIE * rating_range)
    if not len(winner_rows):
        return np.zeros(x.shape[1])
    # The penalty does not depend on a rotation, and the weights lie in the space of the rows. With more columns than
    # rows, coordinates in this space are far fewer: 500 columns and 200 rows take a twentieth of the time.
    row_space_basis = (
        np.linalg.svd(standardised_x, full_matrices=False)[2]
        if standardised_x.shape[1] > standardised_x.shape[0]
        else None
    )
    pair_order = np.argsort(winner_rows, kind="stable")
    decided_pairs = _Pairs(
        standardised_x if row_space_basis is None else standardised_x @ row_space_basis.T,
        winner_rows[pair_order],
        loser_rows[pair_order],
    )
    penalty = (
        float(penalties[0]) if len(penalties) == 1 else _select_penalty(decided_pairs, groups, np.sort(penalties)[::-1])
    )
    weights = next(_path(decided_pairs, [penalty], np.zeros(decided_pairs.x.shape[1])))
    return np.nan_to_num((weights if row_space_basis is None else weights @ row_space_basis) / column_sd, nan=0.0)


def _standardise_columns(x: Floats, items: Ints) -> tuple[Floats, Floats]:
    """The standardised columns, and the standard deviation of each column (p,), NaN if the column is constant.

    Columns are centred within items and divided by their standard deviation. Missing values count as the mean of the
    column. Centring does not change any difference, and it keeps sums precise.
    """
    is_present_value = ~np.isnan(x)
    column_means = np.where(is_present_value, x, 0.0).sum(axis=0) / np.maximum(is_present_value.sum(axis=0), 1)
    filled_x = np.where(is_present_value, x, column_means)
    item_of_row, item_sizes = np.unique(items, return_inverse=True, return_counts=True)[1:]
    centred_x = (
        filled_x - (unit_sums(filled_x.T, units=item_of_row, n_units=len(item_sizes)) / item_sizes).T[item_of_row]
    )
    largest_deviation = np.abs(centred_x).max(axis=0, initial=0.0)
    is_varying_column = largest_deviation > _CONSTANT * np.abs(filled_x).max(axis=0, initial=0.0)
    largest_deviation_or_one = np.where(
        is_varying_column, largest_deviation, 1.0
    )  # squares of values up to 1 neither overflow nor underflow
    column_sd = np.where(
        is_varying_column,
        largest_deviation_or_one * np.sqrt(((centred_x / largest_deviation_or_one) ** 2).mean(axis=0)),
        np.nan,
    )
    return np.nan_to_num(centred_x / column_sd, nan=0.0), column_sd


def _select_penalty(pairs: _Pairs, groups: NDArray[Any], penalties: Floats) -> float:
    """Penalty with the highest held-out log-likelihood, given penalties in descending order.

    Pairs between two folds are left out. With one group, no penalty can be selected, and `PENALTY` is returned. The
    search stops when the likelihood has fallen twice in a row: smaller penalties would overfit even more, and they take
    longest to fit.
    """
    fold_of_row = inner_folds(groups)
    if not fold_of_row.any():
        return PENALTY
    weight_iterators, held_out_pairs_by_fold = [], []
    for row_masks in splits(fold_of_row):
        pair_masks = [is_row_in_part[pairs.winner] & is_row_in_part[pairs.loser] for is_row_in_part in row_masks]
        training_pairs, held_out_pairs = (
            _Pairs(pairs.x, pairs.winner[is_pair_in_part], pairs.loser[is_pair_in_part])
            for is_pair_in_part in pair_masks
        )
        weight_iterators.append(
            _path(training_pairs, penalties.tolist(), np.zeros(pairs.x.shape[1]), reuse_threshold=_REUSE)
        )
        held_out_pairs_by_fold.append(held_out_pairs)
    held_out_losses: list[float] = []
    for weights_by_fold in zip(*weight_iterators, strict=True):
        held_out_losses.append(
            sum(
                _log_loss(held_out_pairs, weights)[0]
                for held_out_pairs, weights in zip(held_out_pairs_by_fold, weights_by_fold, strict=True)
            )
        )
        if len(held_out_losses) > 2 and held_out_losses[-1] > held_out_losses[-2] > held_out_losses[-3]:
            break
    return float(penalties[int(np.argmin(held_out_losses))])


def _path(
    pairs: _Pairs, penalties: Sequence[float], weights: Floats, *, reuse_threshold: float = 0.0
) -> Iterator[Floats]:
    """Yield the standardised weights (p,) for each penalty, by Newton's method from `weights`.

    The first step for each further penalty is taken with the gradient and the Hessian of the previous penalty. A
    Hessian is reused only if a full step gains at most `reuse_threshold` times the previous gain; otherwise it is
    recomputed. With reuse, the result is accurate to about 1e-8 of the loss. Without reuse, the result is accurate to
    about 1e-16 of the loss.
    """
    n_outputs, n_pairs, previous_penalty = len(pairs.x), max(1, len(pairs.winner)), 0.0
    hessian: Floats | None = None
    for penalty in penalties:
        ridge_matrix = penalty * np.eye(len(weights))
        if hessian is not None:  # at the previous weights, the gradient was 0
            weights = weights + np.linalg.solve(hessian + ridge_matrix, (previous_penalty - penalty) * weights)
        previous_penalty, expected_gain = penalty, np.inf
        loss_sum, p_reversed_order = _log_loss(pairs, weights)
        for _ in range(_STEPS):
            score_gradient_of_output = np.bincount(pairs.loser, p_reversed_order, n_outputs) - np.bincount(
                pairs.winner, p_reversed_order, n_outputs
            )
            gradient = score_gradient_of_output @ pairs.x / n_pairs + penalty * weights
            newton_step = None if hessian is None else np.linalg.solve(hessian + ridge_matrix, -gradient)
            if newton_step is None or -gradient @ newton_step > reuse_threshold * expected_gain:
                hessian = _hessian(pairs, p_reversed_order)
                newton_step = np.linalg.solve(hessian + ridge_matrix, -gradient)
            expected_gain = float(-gradient @ newton_step)
            if expected_gain < _TOLERANCE:
                weights = weights + newton_step
                break
            penalised_loss, step_length = loss_sum / n_pairs + penalty / 2 * (weights @ weights), 1.0
            while True:
                new_weights = weights + step_length * newton_step
                loss_sum, p_reversed_order = _log_loss(pairs, new_weights)
                if (
                    loss_sum / n_pairs + penalty / 2 * (new_weights @ new_weights)
                    <= penalised_loss - 0.1 * step_length * expected_gain
                ):
                    break
                step_length, hessian = step_length / 2, None
            weights = new_weights
        yield weights


def _log_loss(pairs: _Pairs, weights: Floats) -> tuple[float, Floats]:
    """Sum of the log-loss over pairs, and the predicted probability of the reversed order of each pair (pairs,)."""
    output_scores = pairs.x @ weights
    pair_margins = output_scores.take(pairs.winner) - output_scores.take(pairs.loser)
    exp_negative_margins = np.exp(-np.abs(pair_margins))
    # log(1 + exp(-margin)); the logarithm of a product is many times faster than the sum of logarithms.
    products_of_factor_chunks = np.multiply.reduceat(
        1 + exp_negative_margins, np.arange(0, len(exp_negative_margins), _FACTORS)
    )
    log_loss_sum = float(np.log(products_of_factor_chunks).sum() - np.minimum(pair_margins, 0.0).sum())
    return log_loss_sum, np.where(pair_margins > 0, exp_negative_margins, 1.0) / (1 + exp_negative_margins)


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
    row_pointers: Ints = np.append(0, np.cumsum(np.bincount(pairs.winner, minlength=n_outputs)))
    weighted_loser_sums = (
        csr_array((pair_curvatures, pairs.loser, row_pointers), shape=(n_outputs, n_outputs)) @ pairs.x
    )
    half_hessian = pairs.x.T @ (curvature_sum_of_output[:, np.newaxis] / 2 * pairs.x - weighted_loser_sums)
    return np.asarray(half_hessian + half_hessian.T)
