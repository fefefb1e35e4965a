"""Tables of judges that give scores: the ROC curve and calibration by bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.evaluate.rates.estimates import JudgeLabels
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.intervals import wilson_interval
from custodes.stats.rates.scores import roc, score_strata

MOST_POINTS = 200
"""Points of a ROC curve in its table."""


def roc_rows(outputs: LabelledOutputs, judge: JudgeLabels) -> dict[str, Any]:
    """Columns of the table `roc`; the curve is thinned to `MOST_POINTS`."""
    scores, positive = _labelled(outputs, judge)
    curve = roc(scores, positive)
    if not len(curve.threshold) or np.isnan(curve.tpr[0] + curve.fpr[0]):
        return {}
    reached = np.flatnonzero(curve.threshold >= judge.threshold)
    chosen = int(reached[-1]) if len(reached) else 0
    places = np.unique(np.append(np.linspace(0, len(curve.threshold) - 1, MOST_POINTS).astype(np.intp), chosen))
    return {
        "metric": judge.name,
        "threshold": curve.threshold[places],
        "tpr": curve.tpr[places],
        "fpr": curve.fpr[places],
        "chosen": places == chosen,
    }


def calibration_rows(outputs: LabelledOutputs, judge: JudgeLabels, *, confidence: float) -> dict[str, Any]:
    """Columns of the table `calibration`: the proportion of positive human labels in bins of equal size."""
    from scipy.special import ndtri

    scores, positive = _labelled(outputs, judge)
    if not len(scores):
        return {}
    bins = score_strata(scores, n_labelled=len(scores))
    present, position, n = np.unique(bins, return_inverse=True, return_counts=True)
    mean, rate = (np.bincount(position, weights=values) / n for values in (scores, positive))
    low, high = wilson_interval(rate, n, quantile=float(ndtri((1 + confidence) / 2)))
    return {
        "metric": [judge.name] * len(present),
        "score": mean,
        "n_labelled": n,
        "human_rate": rate,
        "human_rate_low": low,
        "human_rate_high": high,
    }


def _labelled(outputs: LabelledOutputs, judge: JudgeLabels) -> tuple[Any, Any]:
    """Scores and binary human labels of the outputs with both."""
    if judge.scores is None:
        return np.empty(0), np.empty(0, dtype=bool)
    usable = outputs.labelled & ~np.isnan(judge.scores)
    return judge.scores[usable], outputs.gold[usable, 1] > 0.5
