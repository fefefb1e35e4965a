"""Information that human ratings of other aspects have and metrics lack: lasso errors and weights, by penalty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import PredictedAspect, Target
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats
from custodes.stats.learning.lasso import ALPHAS, lasso_errors, lasso_weights
from custodes.stats.ratios import ratio


def information_columns(target: Target, confidence: float) -> dict[str, Any]:
    """Return the columns of `information`: errors with and without the annotators' other aspects, and the ratio.

    There is a row per penalty. The result is empty if the annotators rated no other aspect."""
    if "both" not in target.columns:
        return {}
    error_sums_of_features = {
        feature_set: bootstrap.unit_sums(
            lasso_errors(target.x[:, target.columns[feature_set]], target.y, target.fold, alphas=ALPHAS),
            units=target.groups,
            n_units=target.who.design.n_units,
        )
        for feature_set in ("metrics", "both")
    }
    return error_columns(error_sums_of_features, target.times, len(target.y), confidence, target.n_clusters)


def error_columns(
    error_sums_of_features: Mapping[str, Floats],
    bootstrap_weights: NDArray[Any],
    n_predictions: int,
    confidence: float,
    n_clusters: int,
) -> dict[str, Any]:
    """Return the columns of `information` from squared errors (alphas, units) for each set of features.

    `bootstrap_weights` (1 + B, units) are weights of the units, and `n_predictions` is the number of predictions."""
    error_sums_with_metrics, error_sums_with_both = (
        bootstrap.weighted_sums(bootstrap_weights, error_sums_of_features[feature_set])
        for feature_set in ("metrics", "both")
    )
    return {
        "alpha": ALPHAS,
        **with_interval(
            "mse_ratio",
            ratio(error_sums_with_both, error_sums_with_metrics),
            confidence,
            clusters=n_clusters,
            bounds=intervals.POSITIVE,
        ),
        "mse_metrics": error_sums_with_metrics[0] / n_predictions,
        "mse_both": error_sums_with_both[0] / n_predictions,
    }


def lasso_columns(target: PredictedAspect, x: Floats, y: Floats) -> dict[str, Any]:
    """Return the columns of `lasso`: standardised weights by penalty, fitted to all rows of `x` (rows, raters)."""
    rater_positions = target.columns.get("both", target.columns["metrics"])
    return {
        "alpha": np.repeat(ALPHAS, len(rater_positions)),
        "rater": [target.who.names[i] for i in rater_positions] * len(ALPHAS),
        "kind": [target.who.kinds[i] for i in rater_positions] * len(ALPHAS),
        "weight": lasso_weights(x[:, rater_positions], y, alphas=ALPHAS),
    }
