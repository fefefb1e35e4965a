"""Boosted trees (paper, section 3.3.2): on all metrics, pruned to few metrics, or averaged with linear methods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.combining.methods.linear import BEST, RIDGE
from custodes.combining.methods.method import Formula, Method, TrainingData, clip_and_scale
from custodes.stats.arrays import Floats
from custodes.stats.learning import boost

SEED = 0
"""Seed of XGBoost's row sampling; it is fixed, so that the same data give the same trees."""


def trees_on(
    training: TrainingData, columns: NDArray[np.intp], low: Floats | float = 0.0, high: Floats | float = 1.0
) -> Formula:
    """Return trees fitted to the metrics in `columns`, whose scores are clipped to limits (metrics,).

    All other columns are set to NaN; columns without values do not affect the trees.
    """
    values = np.full_like(training.x, np.nan)
    values[:, columns] = clip_and_scale(training.x, low, high)[:, columns]
    target, mean, standard_deviation = training.target_standardisation
    trees, importance = boost.fit_trees(values, target, seed=SEED, **boost.SETTINGS)
    has_splits = bool(importance.any())
    formula = Formula(
        weights=np.zeros(len(importance)),
        fill=training.mean_imputation[1],
        low=low,
        high=high,
        importance=importance,
        intercept=mean,
        trees=trees if has_splits else None,
        share=standard_deviation if has_splits else 0.0,
    )
    return training.rescale_target_formula(formula)


def xgboost(training: TrainingData) -> Formula:
    """Return boosted trees on all metrics."""
    return trees_on(training, np.arange(training.x.shape[1]))


def xgboost_pruned(training: TrainingData) -> Formula:
    """Return boosted trees after backward elimination of the least important metrics.

    Held-out folds determine the number of metrics (paper, algorithm 1).
    """

    def score(predicted: Floats, fold: NDArray[Any]) -> float:
        """Return the mean of the objective over the folds in which the objective is defined."""
        values = training.fold_scores(predicted, fold)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    scaled_target, folds = training.target_standardisation[0], training.inner_folds()
    pruning = boost.prune_columns(training.x, scaled_target, folds, score=score, settings=boost.SETTINGS, seed=SEED)
    return replace(trees_on(training, pruning.best), pruned=pruning.steps)


def fit_blend(training: TrainingData, share: float, *, with_trees: bool) -> Formula:
    """Return the weighted mean of the best single metric, ridge regression and boosted trees.

    The weight of the best single metric is `share`; ridge regression and boosted trees have half of the remaining
    weight each. If `with_trees` is false, the trees are left out.
    """
    best_single, ridge_formula = training.learn(BEST)[1], training.learn(RIDGE)[1]
    low, width = np.asarray(ridge_formula.low), np.subtract(ridge_formula.high, ridge_formula.low)
    other_share = (1 - share) / 2
    formula = replace(
        ridge_formula,
        weights=other_share * ridge_formula.weights + share * best_single.weights * width,
        intercept=other_share * ridge_formula.intercept
        + share * (best_single.intercept + float(best_single.weights @ low)),
    )
    if not with_trees:
        return formula
    columns = np.flatnonzero(ridge_formula.weights)
    if not len(columns):
        return best_single
    trees = trees_on(training, columns, ridge_formula.low, ridge_formula.high)
    return replace(
        formula,
        intercept=formula.intercept + other_share * trees.intercept,
        trees=trees.trees,
        share=other_share * trees.share,
        importance=trees.importance,
    )


XGBOOST = Method(
    name="xgboost",
    label="boosted trees",
    doc="100 boosted trees of depth 2, rate .05, each on 80 % of the outputs; the target is that of `ridge`",
    family="importances",
    fit=xgboost,
    by_default=True,
)
XGBOOST_PRUNED = Method(
    name="xgboost-pruned",
    label="pruned boosted trees",
    doc=(
        "backward elimination of the least important metric; held-out inner folds determine how many metrics "
        "remain (algorithm 1)"
    ),
    family="importances",
    fit=xgboost_pruned,
)
BLEND = Method(
    name="blend",
    label="best metric, ridge and boosted trees",
    doc="(`best` + `ridge` + `xgboost`) / 3 (*ours*)",
    family="both",
    fit=partial(fit_blend, share=1 / 3, with_trees=True),
    refits=partial(fit_blend, share=1 / 3, with_trees=False),
    mean_of=(BEST, RIDGE, XGBOOST),
    by_default=True,
)
HALF_BLEND = Method(
    name="half-blend",
    label="mean of the best metric and the blend",
    doc="(`best` + `blend`) / 2 (*ours*)",
    family="both",
    fit=partial(fit_blend, share=2 / 3, with_trees=True),
    refits=partial(fit_blend, share=2 / 3, with_trees=False),
    mean_of=(*[BEST] * 4, RIDGE, XGBOOST),
)
