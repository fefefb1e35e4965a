"""Out-of-fold predictions, and their rank agreement with the target in every bootstrap resample.

Several functions share these arrays. `target` (items, systems) is the target of each output, NaN if not rated. If each
model has its own target, the shape is (m, items, systems). `predictions` (m, items, systems) are the predictions of m
models. `fold` (items, systems) is the fold of each output, -1 for outputs that are not used. `units` (items,) is the
resampling unit of each item, and `weights` (B, units) are the bootstrap weights of the units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, round_for_sorting
from custodes.stats.learning.folds import splits
from custodes.stats.ratios import mean_of_defined

Predictor = Callable[[Floats], Floats]
Fit = Callable[[Floats, Floats, NDArray[Any]], Predictor]
# A statistic of human scores (items, systems) and predictions (m, items, systems) in every resample, (B, m).
ResampledStatistic = Callable[..., Floats]


def predict_out_of_fold(
    x: Floats,
    y: Floats,
    fold: Ints,
    *,
    groups: NDArray[Any],
    fit: Fit,
) -> Floats:
    """Out-of-fold predictions: x (rows, p), y, fold and groups (rows,) -> (rows,).

    `fit` takes x, y and groups of the training rows and returns a function that predicts from x. Rows with fold -1 are
    not used for training, and their prediction is NaN. The caller must ensure that there are at least two folds.

    >>> def mean(x, y, groups):
    ...     return lambda held: np.full(len(held), y.mean())
    >>> y, fold = np.array([1.0, 3.0, 8.0, 9.0]), np.array([0, 0, 1, -1])
    >>> predict_out_of_fold(np.zeros((4, 1)), y, fold, groups=np.arange(4), fit=mean).tolist()
    [8.0, 8.0, 2.0, nan]
    """
    predictions = np.full(len(y), np.nan)
    for is_training, is_held_out in splits(fold):
        predictions[is_held_out] = fit(x[is_training], y[is_training], groups[is_training])(x[is_held_out])
    return predictions


def round_predictions(predictions: Floats) -> Floats:
    """Predictions (..., rows) of several models, rounded so that outputs with equal features tie on any processor.

    Thirteen digits are kept. Further digits depend on the processor. With fewer digits, different predictions from
    metrics with heavy tails would tie.

    >>> round_predictions(np.array([[0.1 + 0.2, 0.3, 1.0]])).tolist()
    [[0.3, 0.3, 1.0]]
    """
    predictions_by_model = predictions.reshape(-1, predictions.shape[-1])
    return np.reshape(
        [round_for_sorting(model_predictions, 13) for model_predictions in predictions_by_model], predictions.shape
    )


def fold_statistics(
    statistic: ResampledStatistic,
    target: Floats,
    predictions: Floats,
    fold: Ints,
    *,
    units: Ints,
    weights: NDArray[Any],
) -> Floats:
    """A statistic over the outputs of each fold: (folds, B, m), NaN where it is undefined.

    The statistic is undefined if the target or the predictions are constant in the resample, or if there are no
    predictions. Outputs of different folds are never compared, because their predictions come from different models.
    """
    fold_numbers = np.unique(fold[fold >= 0])
    statistics = np.full((len(fold_numbers), len(weights), len(predictions)), np.nan)
    for statistics_of_fold, fold_number in zip(statistics, fold_numbers, strict=True):
        item_indices_of_fold = np.flatnonzero((fold == fold_number).any(axis=1))
        human_scores = np.where(fold[item_indices_of_fold] == fold_number, target[..., item_indices_of_fold, :], np.nan)
        # only the clusters of this fold are needed
        unit_indices_of_fold, unit_of_item = np.unique(units[item_indices_of_fold], return_inverse=True)
        statistics_of_fold[:] = statistic(
            human_scores,
            predictions[:, item_indices_of_fold],
            units=unit_of_item,
            weights=weights[:, unit_indices_of_fold],
        )
    return statistics


def held_out_statistic(
    statistic: ResampledStatistic,
    target: Floats,
    predictions: Floats,
    fold: Ints,
    *,
    units: Ints,
    weights: NDArray[Any],
) -> Floats:
    """A statistic over the outputs of a fold, averaged over the folds where it is defined: (B, m).

    The result is NaN if the statistic is undefined in all folds; see `fold_statistics`.

    >>> from functools import partial
    >>> from custodes.stats.pooled_correlation import pooled_correlation
    >>> target = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    >>> fold = np.array([[0, 0], [0, 0], [1, 1]])
    >>> predictions = np.array([[[1.0, 3.0], [2.0, 4.0], [9.0, 8.0]]])
    >>> design = {"units": np.arange(3), "weights": np.ones((1, 3))}
    >>> kendall = partial(pooled_correlation, "kendall")
    >>> held_out_statistic(kendall, target, predictions, fold, **design).round(3).tolist()
    [[-0.167]]

    Source: Colombo et al. 2023, Section 4 (Kendall's tau on the held-out part).
    """
    return mean_of_defined(fold_statistics(statistic, target, predictions, fold, units=units, weights=weights), axis=0)
