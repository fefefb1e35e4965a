"""Information in the annotators' other aspects that metrics lack: errors and weights of the lasso along its penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import Target
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats
from custodes.stats.learning.lasso import ALPHAS, lasso_errors, lasso_weights
from custodes.stats.ratios import ratio


def information_columns(target: Target, confidence: float) -> dict[str, Any]:
    """The ratio of errors with and without the annotators' other aspects, along the penalty; empty without other
    aspects."""
    if "both" not in target.columns:
        return {}

    def error(features: str) -> Floats:
        """(1 + B, alphas): error summed over outputs in every resample."""
        squared = lasso_errors(target.x[:, target.columns[features]], target.y, target.fold, alphas=ALPHAS)
        return bootstrap.weighted_sums(
            target.times, bootstrap.unit_sums(squared, units=target.groups, n_units=target.who.design.n_units)
        )

    metrics, both = error("metrics"), error("both")
    return {
        "alpha": ALPHAS,
        **with_interval(
            "mse_ratio", ratio(both, metrics), confidence, clusters=target.n_clusters, bounds=intervals.POSITIVE
        ),
        "mse_metrics": metrics[0] / len(target.y),
        "mse_both": both[0] / len(target.y),
    }


def lasso_columns(target: Target) -> dict[str, Any]:
    """Standardised weights of metrics and other aspects along the penalty, fitted on all outputs."""
    columns = target.columns.get("both", target.columns["metrics"])
    return {
        "alpha": np.repeat(ALPHAS, len(columns)),
        "rater": [target.who.names[i] for i in columns] * len(ALPHAS),
        "kind": [target.who.kinds[i] for i in columns] * len(ALPHAS),
        "weight": lasso_weights(target.x[:, columns], target.y, alphas=ALPHAS),
    }
