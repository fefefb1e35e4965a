"""Prediction of the rank sums of systems that are left out of the fit.

A rank sum is represented by a win rate: the proportion of the opponents that a system beats, averaged over items, where
a tie counts half. With complete data, the win rate is (rank sum / items - 1) / (number of opponents). The opponents are
the systems of the training part. The scores of a system that is left out therefore affect neither the features nor the
target of the other systems.

Several functions share these arrays. `wins` (..., N, N) are results of `win_matrix`. `features` (p, N, N) and `target`
(N, N) are results of `win_matrix`. `weights` (B, N) are bootstrap weights of systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.learning.heldout import Fit
from custodes.stats.ranks import difference_signs
from custodes.stats.ratios import mean_of_defined, ratio

_DIGITS = 10
"""Number of significant digits to which predictions are rounded before they are compared."""


def win_matrix(scores: Floats, *, item_weights: Floats | None = None) -> Floats:
    """Proportion of items in which each system beats each opponent: scores (raters, items, N) -> (raters, N, N).

    A tie counts half. The proportion is NaN on the diagonal, and for two systems without a common item.

    >>> win_matrix(np.array([[[3.0, 1.0], [2.0, 2.0]]])).tolist()
    [[[nan, 0.75], [0.25, nan]]]
    """
    weight_of_item = np.ones(scores.shape[1]) if item_weights is None else item_weights
    is_rated_output = np.isfinite(scores)
    win_proportions = np.full((len(scores), scores.shape[2], scores.shape[2]), np.nan)
    for system in range(scores.shape[2]):
        is_rated_pair = is_rated_output[:, :, [system]] & is_rated_output
        score_difference_signs = np.where(is_rated_pair, difference_signs(scores[:, :, [system]], scores), 0)
        n_compared_items = np.einsum("i,rin->rn", weight_of_item, is_rated_pair)
        win_proportions[:, system] = ratio(
            n_compared_items + np.einsum("i,rin->rn", weight_of_item, score_difference_signs), 2 * n_compared_items
        )
    diagonal_indices = np.arange(scores.shape[2])
    win_proportions[:, diagonal_indices, diagonal_indices] = np.nan
    return win_proportions


def win_rates(wins: Floats, opponents: NDArray[Any]) -> Floats:
    """Win rate of every system against the `opponents` (positions), except against itself: (..., N, N) -> (..., N).

    >>> win_rates(np.array([[np.nan, 0.75, 1.0], [0.25, np.nan, 0.5], [0.0, 0.5, np.nan]]), np.array([0, 1])).tolist()
    [0.75, 0.25, 0.25]
    """
    return mean_of_defined(np.moveaxis(wins[..., opponents], -1, 0), axis=0)


def predicted_orders(features: Floats, target: Floats, fit: Fit) -> NDArray[np.int8]:
    """Predicted order of each pair of systems, by a model fitted to all systems except the pair: (pairs,).

    Pairs are in the order of `np.triu_indices`. The predicted order is 1 if the first system of the pair has the higher
    predicted rank sum, and -1 if the second system has it. It is 0 if the predictions are equal.

    References
    ----------
    Airola et al. 2011, leave-pair-out cross-validation.
    """
    orders = [
        difference_signs(*round_for_sorting(_predict_held_out(features, target, system_pair, fit)[0], _DIGITS))
        for system_pair in combinations(range(len(target)), 2)
    ]
    return np.array(orders, dtype=np.int8)


def held_out_errors(features: Floats, target: Floats, fit: Fit) -> tuple[Floats, Floats]:
    """Squared errors of two predictions of each system's win rate.

    The first prediction comes from a model that is fitted to all other systems. Its errors are (N,), or (models, N) if
    `fit` fits several models. The second prediction is the mean win rate of these systems; its errors are (N,).
    """
    errors = []
    for system in range(len(target)):
        predictions, (win_rate,), mean_training_win_rate = _predict_held_out(features, target, (system,), fit)
        errors.append((predictions[..., 0] - win_rate, mean_training_win_rate - win_rate))
    errors_of_model, errors_of_mean = (np.stack(array, axis=-1) for array in zip(*errors, strict=True))
    return errors_of_model**2, errors_of_mean**2


def _predict_held_out(
    features: Floats, target: Floats, held_out_systems: Sequence[int], fit: Fit
) -> tuple[Floats, Floats, float]:
    """Predictions (..., held) and win rates (held,) of systems left out of the fit, and the mean win rate of the
    remaining systems."""
    training_systems = np.setdiff1d(np.arange(len(target)), held_out_systems)
    feature_win_rates, target_win_rates = win_rates(features, training_systems).T, win_rates(target, training_systems)
    return (
        fit(feature_win_rates[training_systems], target_win_rates[training_systems], training_systems)(
            feature_win_rates[list(held_out_systems)]
        ),
        target_win_rates[list(held_out_systems)],
        float(target_win_rates[training_systems].mean()),
    )


def order_agreement(orders: NDArray[Any], true_orders: NDArray[Any], *, weights: NDArray[Any]) -> Floats:
    """Kendall's tau-b between predicted orders of pairs (m, pairs) and true orders (pairs,), in every resample: (B, m).

    The weight of a pair is the product of the weights of its two systems. tau-b is NaN if all true orders or all
    predicted orders are ties.

    >>> order_agreement(np.array([[1, 1, -1]]), np.array([1, 1, 1]), weights=np.ones((1, 3))).round(3).tolist()
    [[0.333]]
    """
    first_systems, second_systems = np.triu_indices(weights.shape[1], 1)
    # Products of weights of one byte would overflow.
    pair_weights = np.asarray(weights, dtype=np.float64)[:, first_systems] * weights[:, second_systems]
    tau_denominators = np.sqrt((pair_weights @ (orders.T != 0)) * (pair_weights @ (true_orders != 0))[:, np.newaxis])
    return ratio(pair_weights @ (orders * true_orders).T, tau_denominators)
