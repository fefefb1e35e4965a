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
    errors = {
        features: bootstrap.unit_sums(
            lasso_errors(target.x[:, target.columns[features]], target.y, target.fold, alphas=ALPHAS),
            units=target.groups,
            n_units=target.who.design.n_units,
        )
        for features in ("metrics", "both")
    }
    return error_columns(errors, target.times, len(target.y), confidence, target.n_clusters)


def error_columns(
    errors: Mapping[str, Floats], times: NDArray[Any], n: int, confidence: float, clusters: int
) -> dict[str, Any]:
    """Return the columns of `information` from squared errors (alphas, units) for each set of features.

    `times` (1 + B, units) are the bootstrap weights of the units, and `n` is the number of predictions."""
    errors_with_metrics, errors_with_both = (
        bootstrap.weighted_sums(times, errors[features]) for features in ("metrics", "both")
    )
    return {
        "alpha": ALPHAS,
        **with_interval(
            "mse_ratio",
            ratio(errors_with_both, errors_with_metrics),
            confidence,
            clusters=clusters,
            bounds=intervals.POSITIVE,
        ),
        "mse_metrics": errors_with_metrics[0] / n,
        "mse_both": errors_with_both[0] / n,
    }


def lasso_columns(target: PredictedAspect, x: Floats, y: Floats) -> dict[str, Any]:
    """Return the columns of `lasso`: standardised weights by penalty, fitted to all rows of `x` (rows, raters)."""
    columns = target.columns.get("both", target.columns["metrics"])
    return {
        "alpha": np.repeat(ALPHAS, len(columns)),
        "rater": [target.who.names[i] for i in columns] * len(ALPHAS),
        "kind": [target.who.kinds[i] for i in columns] * len(ALPHAS),
        "weight": lasso_weights(x[:, columns], y, alphas=ALPHAS),
    }
