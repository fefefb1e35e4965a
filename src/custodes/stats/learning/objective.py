"""Agreement of many predictions with one target: Kendall, Spearman, Pearson, or accuracy over pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums, weighted_sums
from custodes.stats.correlation import ROWS
from custodes.stats.ratios import ratio

Objective = Literal["kendall", "spearman", "pearson", "accuracy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
RANK_CORRELATIONS: tuple[Objective, ...] = ("kendall", "spearman")


def objective(kind: Objective, target: Floats, *, items: Ints) -> Callable[[Floats], Floats]:
    """Return a function that computes the agreement of predictions with a target.

    Parameters
    ----------
    kind
        'kendall' (tau-b), 'spearman' and 'pearson' are computed over all rows. 'accuracy' is computed over the pairs of
        rows of one item that have different targets. It is the proportion of these pairs that are predicted in the
        right order, where a predicted tie is wrong.
    target
        Finite values (rows,).
    items
        The item of each row (rows,).

    Returns
    -------
    :
        A function of predictions (m, rows) that returns their agreement (m,). A correlation is NaN if the target or the
        prediction is constant. An accuracy is NaN if no item has different targets. Both are NaN if the prediction is
        not entirely finite.

    References
    ----------
    Winata et al. (2024), "MetaMetrics", Section 3.2 (the calibration function); Kendall (1945) for ties.

    Examples
    --------
    >>> agreement = objective("kendall", np.array([1.0, 2.0, 3.0]), items=np.zeros(3, dtype=int))
    >>> agreement(np.array([[1.0, 3.0, 2.0], [4.0, 5.0, 6.0], [7.0, 7.0, 7.0]])).round(3).tolist()
    [0.333, 1.0, nan]
    """
    better_rows, worse_rows = ordered_pairs(target, items) if kind == "accuracy" else (items[:0], items[:0])
    n_pairs = np.array(len(better_rows))

    def agreement(predictions: Floats) -> Floats:
        agreements = np.full(len(predictions), np.nan)
        finite_indices = np.flatnonzero(np.isfinite(predictions).all(axis=1))
        for chunk_slice in chunks(len(finite_indices), 4 * max(len(target), len(better_rows))):  # fits the cache
            chunk_indices = finite_indices[chunk_slice]
            finite_predictions = predictions[chunk_indices]
            agreements[chunk_indices] = (
                ratio((finite_predictions[:, better_rows] > finite_predictions[:, worse_rows]).sum(axis=1), n_pairs)
                if kind == "accuracy"
                else ROWS[kind](finite_predictions, target)
            )
        return agreements

    return agreement


def ordered_pairs(target: Floats, items: Ints, *, tie: float = 0.0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of rows of one item with different targets.

    Parameters
    ----------
    target
        Values (rows,).
    items
        The item of each row (rows,).
    tie
        Targets that differ by at most this value count as equal.

    Returns
    -------
    :
        The row with the higher target and the row with the lower target of each pair, (pairs,) each.

    Examples
    --------
    >>> [rows.tolist() for rows in ordered_pairs(np.array([1.0, 3.0, 3.0, 9.0]), np.array([0, 0, 0, 1]))]
    [[1, 2], [0, 0]]
    """
    item_order = np.argsort(items, kind="stable")
    sorted_items = items[item_order]
    pairs_by_lag = [
        item_order[np.add.outer([0, lag], np.flatnonzero(sorted_items[lag:] == sorted_items[:-lag]))]
        for lag in range(1, int(np.unique(items, return_counts=True)[1].max(initial=0)))
    ]
    row_pairs = np.concatenate([np.empty((2, 0), dtype=np.intp), *pairs_by_lag], axis=1)
    differences = np.subtract(*target[row_pairs])
    higher_rows, lower_rows = np.where(differences > 0, row_pairs, row_pairs[::-1])[:, np.abs(differences) > tie]
    return higher_rows, lower_rows


def ordering_accuracy(human_scores: Floats, metric_scores: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Proportion of pairs (two outputs of one item) that are predicted in the human order, in every resample.

    Parameters
    ----------
    human_scores, metric_scores
        Human scores (items, systems) and predictions (m, items, systems); NaN = not rated.
    units, weights
        The resampling unit of each item (items,), and bootstrap weights of units (B, units).

    Returns
    -------
    :
        Proportions (B, m) of the pairs without a human tie. A predicted tie is wrong. The proportion is NaN if
        there is no pair without a human tie.

    Examples
    --------
    >>> human, metric = np.array([[1.0, 2.0, 2.0]]), np.array([[[1.0, 3.0, 1.0]]])
    >>> ordering_accuracy(human, metric, units=np.arange(1), weights=np.ones((1, 1))).tolist()
    [[0.5]]
    """
    rated_output_indices = np.flatnonzero(np.isfinite(human_scores))
    item_of_output = rated_output_indices // human_scores.shape[1]
    better_outputs, worse_outputs = ordered_pairs(human_scores.ravel()[rated_output_indices], item_of_output)
    predictions = metric_scores.reshape(len(metric_scores), -1)[:, rated_output_indices]
    predicted_differences = predictions[:, better_outputs] - predictions[:, worse_outputs]
    correct_and_defined_masks = np.stack([predicted_differences > 0, ~np.isnan(predicted_differences)])
    correct_and_defined_counts = weighted_sums(
        weights,
        unit_sums(correct_and_defined_masks, units=units[item_of_output[better_outputs]], n_units=weights.shape[1]),
    )
    return ratio(correct_and_defined_counts[:, 0], correct_and_defined_counts[:, 1])
