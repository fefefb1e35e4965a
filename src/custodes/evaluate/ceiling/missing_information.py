"""What people's other aspects know that the metrics do not: errors and weights of the lasso along its penalty."""

from __future__ import annotations

import numpy as np
import polars as pl

from custodes.evaluate.ceiling.prediction_target import Target
from custodes.evaluate.result import columns
from custodes.stats.learning import lasso
from custodes.stats.resampling import resample


def information_table(target: Target, confidence: float) -> pl.DataFrame:
    """What people's other aspects know that the metrics do not: the ratio of errors along the penalty."""
    sets = target.columns
    alphas = lasso.ALPHAS if "both" in sets else lasso.ALPHAS[:0]
    error = {}
    for name in ("metrics", "both"):
        own = sets.get(name, sets["metrics"])
        squared = lasso.lasso_errors(target.x[:, own], target.y, target.fold, alphas=alphas)
        by_unit = resample.unit_sums(squared, units=target.groups, n_units=target.who.n_units)
        error[name] = resample.weighted_sums(target.weights, by_unit)
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample without an output that people rated
        ratio = np.where(error["metrics"] > 0, error["both"] / error["metrics"], np.nan)
    low, high = resample.percentile_interval(ratio[1:], confidence=confidence)
    frame = columns(
        {
            "alpha": alphas,
            "mse_ratio": ratio[0],
            "low": low,
            "high": high,
            "mse_metrics": error["metrics"][0] / len(target.y),
            "mse_both": error["both"][0] / len(target.y),
        }
    )
    return frame.insert_column(0, pl.Series("target", [target.aspect] * len(alphas), dtype=pl.String))


def lasso_table(target: Target) -> pl.DataFrame:
    """Standardised weights of metrics and other aspects along the penalty, fitted on everything."""
    who, sets = target.who, target.columns
    own = sets.get("both", sets["metrics"])
    weights = lasso.lasso_weights(target.x[:, own], target.y, alphas=lasso.ALPHAS)
    n = len(lasso.ALPHAS)
    return columns(
        {
            "target": [target.aspect] * weights.size,
            "alpha": np.repeat(lasso.ALPHAS, len(own)),
            "metric": [who.names[i] for i in own] * n,
            "kind": [who.kinds[i] for i in own] * n,
            "weight": weights,
        }
    )
