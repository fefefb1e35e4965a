"""Boosted trees (paper, section 3.3.2): on all metrics, pruned to few, or averaged with a linear model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.combining.methods.linear import RIDGE
from custodes.combining.methods.method import Formula, Method, TrainingData, narrowed
from custodes.stats.arrays import Floats
from custodes.stats.learning import boost

SEED = 0
"""Seed of XGBoost's row sampling: fixed, so that the same data give the same trees."""


def _boosted(training: TrainingData, x: Floats, columns: NDArray[np.intp]) -> tuple[boost.Trees, Floats]:
    """Fit trees that predict standardised ratings from some columns of x (rows, metrics): trees and importances.

    A column without values does not change the trees.
    """
    values = np.full_like(x, np.nan)
    values[:, columns] = x[:, columns]
    return boost.boosted(values, training.standardised[0], seed=SEED, **boost.SETTINGS)


def trees_on(training: TrainingData, columns: NDArray[np.intp]) -> Formula:
    """Trees on some of the metrics."""
    trees, importance = _boosted(training, training.x, columns)
    splits = bool(importance.any())
    _, mean, spread = training.standardised
    return Formula(
        weights=np.zeros(len(importance)),
        fill=training.filled[1],
        importance=importance,
        intercept=mean,
        trees=trees if splits else None,
        share=spread if splits else 0.0,
    )


def xgboost(training: TrainingData) -> Formula:
    """Boosted trees."""
    return trees_on(training, np.arange(training.x.shape[1]))


def xgboost_pruned(training: TrainingData) -> Formula:
    """Boosted trees with backward elimination of the least important metric; the number is chosen on held-out folds
    (paper, algorithm 1).
    """

    def score(predicted: Floats, fold: NDArray[Any]) -> float:
        """Mean objective over the folds in which it is defined."""
        values = training.fold_scores(predicted, fold)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    y, folds = training.standardised[0], training.inner_folds()
    pruning = boost.pruned(training.x, y, folds, score=score, settings=boost.SETTINGS, seed=SEED)
    return replace(trees_on(training, pruning.best), pruned=pruning.steps)


def half(training: TrainingData) -> Formula:
    """Half of a ridge regression, the linear part of `blend`."""
    whole = training.learn(RIDGE)[1]
    return replace(whole, weights=whole.weights / 2, intercept=whole.intercept / 2)


def blend(training: TrainingData) -> Formula:
    """The mean of ridge regression and boosted trees."""
    line = half(training)
    columns = np.flatnonzero(line.weights)
    if not len(columns):
        return training.learn(RIDGE)[1]
    trees, importance = _boosted(training, narrowed(training.x, line.low, line.high), columns)
    _, mean, spread = training.standardised
    return replace(line, intercept=line.intercept + mean / 2, trees=trees, share=spread / 2, importance=importance)


XGBOOST = Method(
    name="xgboost",
    label="boosted trees",
    doc="100 boosted trees of depth 2, rate .05, each on 80 % of the outputs",
    family="importances",
    fit=xgboost,
    by_default=True,
)
XGBOOST_PRUNED = Method(
    name="xgboost-pruned",
    label="pruned boosted trees",
    doc=("backward elimination of the least important metric; held-out inner folds choose how many stay (algorithm 1)"),
    family="importances",
    fit=xgboost_pruned,
)
BLEND = Method(
    name="blend",
    label="ridge and boosted trees",
    doc="(`ridge` + `xgboost`) / 2 (*ours*)",
    family="both",
    fit=blend,
    refits=half,
    mean_of=(RIDGE, XGBOOST),
    by_default=True,
)
