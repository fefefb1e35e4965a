"""Linear combinations: the best single metric, equal weights, or a regression for human ratings or preferences."""

from __future__ import annotations

import numpy as np

from custodes.combining.methods.method import SMALLEST_SLOPE, Formula, Method, TrainingData
from custodes.stats.arrays import Floats
from custodes.stats.learning import ridge
from custodes.stats.learning.pairwise import pairwise_logistic
from custodes.stats.learning.resampled_ridge import resampled_ridge


def best(training: TrainingData) -> Formula:
    """Return the single metric with the highest objective on the training data."""
    metric_objectives = training.score(training.mean_imputation[0].T)
    best_metric_index = int(np.argmax(np.nan_to_num(metric_objectives, nan=-np.inf)))
    return training.formula_from_weights((np.arange(len(metric_objectives)) == best_metric_index).astype(np.float64))


def equal(training: TrainingData) -> Formula:
    """Return the mean of all normalised metrics with varying scores."""
    has_varying_scores = np.ptp(training.mean_imputation[0], axis=0) > 0
    return training.formula_from_weights(has_varying_scores / max(1, has_varying_scores.sum()))


def linear(training: TrainingData) -> Formula:
    """Return the ridge regression for the human ratings, or for their ranks (see `TrainingData.target`)."""
    return formula_from_line(training, ridge.ridge(training.x, training.target, groups=training.groups))


def refit_linear(training: TrainingData, n_samples: int, rng: np.random.Generator) -> Floats:
    """Return the weights (samples, metrics) of `linear` in bootstrap samples of clusters."""
    clusters, group_of_row = np.unique(training.groups, return_inverse=True)
    n_draws = np.zeros((n_samples, len(clusters)), dtype=np.int64)
    for n_draws_of_sample in n_draws:
        n_draws_of_sample[:] = np.bincount(training.draw_clusters(rng), minlength=len(clusters))
    predicts_ranks = training.target is not training.y
    lines_and_slopes = resampled_ridge(
        training.x, training.y, group_of_row=group_of_row, weights=n_draws, predicts_ranks=predicts_ranks
    )
    return np.array(
        [
            np.prod(_slopes_and_widths(line), axis=0) * (max(slope, SMALLEST_SLOPE) if predicts_ranks else 1.0)
            for line, slope in lines_and_slopes
        ]
    )


def _slopes_and_widths(line: ridge.Linear) -> tuple[Floats, Floats]:
    """Return the slope of each metric, and the width between the limits at which the regression clips its scores.

    Limits outside [0, 1] are moved to 0 or 1. This changes no prediction, because all scores lie in [0, 1]; the model
    file allows no wider bounds.
    """
    lower_limits, upper_limits = np.nan_to_num(np.clip(line.scaling[:2], 0.0, 1.0), nan=0.0)
    limit_widths = np.where(upper_limits > lower_limits, upper_limits - lower_limits, 1.0)
    return np.nan_to_num(line.weights / line.scaling.scale, nan=0.0), limit_widths


def formula_from_line(training: TrainingData, line: ridge.Linear) -> Formula:
    """Return the formula of a regression for the target.

    The limits at which the regression clips scores become bounds of the metrics.
    """
    slopes, limit_widths = _slopes_and_widths(line)
    lower_limits, upper_limits, column_means = np.nan_to_num(np.clip(line.scaling[:3], 0.0, 1.0), nan=0.0)
    return training.rescale_target_formula(
        Formula(
            weights=slopes * limit_widths,
            fill=(column_means - lower_limits) / limit_widths,
            low=lower_limits,
            high=upper_limits,
            intercept=line.intercept - float(((column_means - lower_limits) * slopes).sum()),
        )
    )


def pairwise(training: TrainingData) -> Formula:
    """Return the logistic regression for human preferences between outputs of one item."""
    return training.formula_from_weights(
        pairwise_logistic(training.x, training.y, items=training.items, groups=training.groups)
    )


BEST = Method(
    name="best",
    label="best single metric",
    doc="a + b·x of the single metric with the highest objective",
    family="weights",
    fit=best,
    refits=best,
    fast=True,
    by_default=True,
)
EQUAL = Method(
    name="equal",
    label="mean of all metrics",
    doc="a + b·(mean of all x)",
    family="weights",
    fit=equal,
    refits=equal,
    fast=True,
    by_default=True,
)
RIDGE = Method(
    name="ridge",
    label="ridge regression",
    doc=(
        "a + Σ w·x that minimises mean squared error + penalty · Σ w² (weights per standard deviation). The target "
        "is the ratings, or the ranks of the ratings if the objective is a rank correlation. Scores are clipped at "
        "three standard deviations. The penalty is chosen in inner folds"
    ),
    family="weights",
    fit=linear,
    refits=linear,
    refit_all=refit_linear,
    fast=True,
    by_default=True,
)
PAIRWISE = Method(
    name="pairwise",
    label="logistic on preferences",
    doc=(
        "a + b·Σ w·x, where w is fitted to pairs of outputs of the same item for which annotators have a preference. "
        "The model is P(i preferred to j) = 1 / (1 + exp(−Σ w·(x_i − x_j))). The penalty is as in `ridge`"
    ),
    family="weights",
    fit=pairwise,
    refits=pairwise,
    by_default=True,
)
