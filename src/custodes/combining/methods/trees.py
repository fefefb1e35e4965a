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
    training: TrainingData, column_indices: NDArray[np.intp], low: Floats | float = 0.0, high: Floats | float = 1.0
) -> Formula:
    """Return trees fitted to the metrics in `column_indices`, whose scores are clipped to limits (metrics,).

    All other columns are set to NaN; columns without values do not affect the trees.
    """
    clipped_scores = np.full_like(training.x, np.nan)
    clipped_scores[:, column_indices] = clip_and_scale(training.x, low, high)[:, column_indices]
    standardised_target, target_mean, target_sd = training.target_standardisation
    trees, importances = boost.fit_trees(clipped_scores, standardised_target, seed=SEED, **boost.SETTINGS)
    has_splits = bool(importances.any())
    return training.rescale_target_formula(
        Formula(
            weights=np.zeros(len(importances)),
            fill=training.mean_imputation[1],
            low=low,
            high=high,
            importance=importances,
            intercept=target_mean,
            trees=trees if has_splits else None,
            share=target_sd if has_splits else 0.0,
        )
    )


def xgboost(training: TrainingData) -> Formula:
    """Return boosted trees on all metrics."""
    return trees_on(training, np.arange(training.x.shape[1]))


def xgboost_pruned(training: TrainingData) -> Formula:
    """Return boosted trees after backward elimination of the least important metrics.

    Held-out folds determine the number of metrics (paper, algorithm 1).
    """

    def score(predicted: Floats, fold_of_row: NDArray[Any]) -> float:
        """Return the mean of the objective over the folds in which the objective is defined."""
        score_of_fold = training.fold_scores(predicted, fold_of_row)
        return float(np.nanmean(score_of_fold)) if np.isfinite(score_of_fold).any() else float("nan")

    standardised_target, fold_of_row = training.target_standardisation[0], training.inner_folds()
    pruning_steps, best_column_indices = boost.prune_columns(
        training.x, standardised_target, fold_of_row, score=score, settings=boost.SETTINGS, seed=SEED
    )
    return replace(trees_on(training, best_column_indices), pruned=pruning_steps)


def fit_blend(training: TrainingData, best_metric_share: float, *, with_trees: bool) -> Formula:
    """Return the weighted mean of the best single metric, ridge regression and boosted trees.

    The weight of the best single metric is `best_metric_share`; ridge regression and boosted trees have half of the
    remaining weight each. If `with_trees` is false, the trees are left out.
    """
    best_metric_formula, ridge_formula = training.learn(BEST)[1], training.learn(RIDGE)[1]
    ridge_lower_limits = np.asarray(ridge_formula.low)
    ridge_limit_widths = np.subtract(ridge_formula.high, ridge_formula.low)
    regressor_share = (1 - best_metric_share) / 2
    linear_formula = replace(
        ridge_formula,
        weights=regressor_share * ridge_formula.weights
        + best_metric_share * best_metric_formula.weights * ridge_limit_widths,
        intercept=regressor_share * ridge_formula.intercept
        + best_metric_share * (best_metric_formula.intercept + float(best_metric_formula.weights @ ridge_lower_limits)),
    )
    if not with_trees:
        return linear_formula
    weighted_column_indices = np.flatnonzero(ridge_formula.weights)
    if not len(weighted_column_indices):
        return best_metric_formula
    trees_formula = trees_on(training, weighted_column_indices, ridge_formula.low, ridge_formula.high)
    return replace(
        linear_formula,
        intercept=linear_formula.intercept + regressor_share * trees_formula.intercept,
        trees=trees_formula.trees,
        share=regressor_share * trees_formula.share,
        importance=trees_formula.importance,
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
    fit=partial(fit_blend, best_metric_share=1 / 3, with_trees=True),
    refits=partial(fit_blend, best_metric_share=1 / 3, with_trees=False),
    mean_of=(BEST, RIDGE, XGBOOST),
    by_default=True,
)
HALF_BLEND = Method(
    name="half-blend",
    label="mean of the best metric and the blend",
    doc="(`best` + `blend`) / 2 (*ours*)",
    family="both",
    fit=partial(fit_blend, best_metric_share=2 / 3, with_trees=True),
    refits=partial(fit_blend, best_metric_share=2 / 3, with_trees=False),
    mean_of=(*[BEST] * 4, RIDGE, XGBOOST),
)
