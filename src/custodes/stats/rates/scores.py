"""Scores of a judge against binary human labels: ROC curve, AUC, thresholds, calibration, strata.

The human label of an output is the proportion of its annotators with the positive label: 1, 0, or .5 for a tie. An
output with the proportion p counts as p positive and 1 - p negative outputs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from custodes.errors import OptionError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.clusters import influence_design_effect
from custodes.stats.intervals import student_quantile
from custodes.stats.ratios import ratio

FEWEST_IN_BIN = 25
"""Minimum number of human labels per stratum of scores; with 10, the coverage of intervals was .86 at a rate of .1."""

MOST_BINS = 5

ROUNDING = 1e-12
"""Rounding error of a rate."""


class Interval(NamedTuple):
    """Estimate with a lower and an upper bound."""

    value: float
    low: float
    high: float


class Roc(NamedTuple):
    """ROC curve with thresholds (k,), highest first.

    `tpr` and `fpr` (k,) are the proportions of positive and of negative outputs whose score reaches the threshold.
    """

    threshold: Floats
    tpr: Floats
    fpr: Floats


def area_under_roc(scores: Floats, positive_share: Floats, *, units: Ints, confidence: float) -> Interval:
    """Return the area under the ROC curve, with an interval that is computed on the logit scale.

    The area is the probability that a positive output has a higher score than a negative output; ties count half.

    Parameters
    ----------
    scores, positive_share, units : arrays of shape (n,)
        Score, human label and cluster of each labelled output.
    confidence : float

    Returns
    -------
    Interval
        NaN if all outputs have the same label. If the scores separate the labels, the lower bound is the exact bound
        for zero errors among the outputs of the rarer label (rule of three).

    Examples
    --------
    >>> area_under_roc(
    ...     np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0, 1, 1]), units=np.arange(4), confidence=0.95
    ... ).value
    0.75

    References
    ----------
    DeLong, DeLong and Clarke-Pearson 1988; Obuchowski 1997 (clusters).
    """
    from scipy.special import expit, logit

    shares_of_label = np.stack([positive_share, 1 - positive_share])
    n_positive, n_negative = shares_of_label.sum(axis=1)
    if not n_positive or not n_negative:
        return Interval(np.nan, np.nan, np.nan)
    _, level_of_output = np.unique(scores, return_inverse=True)
    n_at_level = np.array([np.bincount(level_of_output, weights=shares) for shares in shares_of_label])
    # Positive, and negative, outputs with a lower score; a tie counts half.
    n_positive_below, n_negative_below = (n_at_level.cumsum(axis=1) - n_at_level / 2)[:, level_of_output]
    correct_order_rates = np.stack([n_negative_below / n_negative, 1 - n_positive_below / n_positive])
    area = float(positive_share @ correct_order_rates[0] / n_positive)
    influence_of_output = (shares_of_label * (correct_order_rates - area) / [[n_positive], [n_negative]]).sum(axis=0)
    variance_factor = float(influence_design_effect(influence_of_output, units).divisor(confidence))
    standard_error = float(np.sqrt((influence_of_output**2).sum() * variance_factor))
    if not 0 < area < 1 or not standard_error:
        half_width = 1 - ((1 - confidence) / 2) ** (1 / min(n_positive, n_negative))
        return Interval(area, max(area - half_width, 0.0), min(area + half_width, 1.0))
    half_width = student_quantile(confidence, min(n_positive, n_negative)) * standard_error / (area * (1 - area))
    return Interval(area, float(expit(logit(area) - half_width)), float(expit(logit(area) + half_width)))


def roc(scores: Floats, positive_share: Floats) -> Roc:
    """Return the ROC curve; the judge's label is positive if the score reaches the threshold.

    >>> roc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0, 1, 1])).tpr.tolist()
    [0.5, 0.5, 1.0, 1.0]

    References
    ----------
    Fawcett 2006.
    """
    score_order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[score_order]
    last_index_of_score = np.append(np.flatnonzero(np.diff(sorted_scores)), len(sorted_scores) - 1)
    tpr, fpr = (
        ratio(np.cumsum(shares[score_order])[last_index_of_score], shares.sum())
        for shares in (positive_share, 1 - positive_share)
    )
    return Roc(sorted_scores[last_index_of_score], tpr, fpr)


class ThresholdTarget(NamedTuple):
    """Criterion for choosing a threshold.

    With the rate `youden`, the threshold has the largest TPR + TNR. With `tpr`, the threshold has the largest TNR at
    which the TPR is at least `least`. With `tnr`, the threshold has the largest TPR at which the TNR is at least
    `least`.
    """

    rate: str
    least: float

    @classmethod
    def parse(cls, text: str) -> ThresholdTarget:
        """Return the target that a text such as `youden` or `tpr>=0.9` describes.

        >>> ThresholdTarget.parse("tpr>=0.9")
        ThresholdTarget(rate='tpr', least=0.9)
        """
        if text == "youden":
            return cls("youden", 0.0)
        match = re.fullmatch(r"(tpr|tnr)>=(0?\.\d+|1|1\.0)", text.replace(" ", ""))
        if not match:
            raise OptionError(
                f"threshold={text!r} is not allowed; give a number, youden, tpr>=R or tnr>=R, with R from 0 to 1"
            )
        return cls(match[1], float(match[2]))

    def threshold(self, scores: Floats, positive_share: Floats) -> float:
        """Return the best threshold for these outputs; NaN if all outputs have the same label."""
        roc_curve = roc(scores, positive_share)
        rates = {"tpr": roc_curve.tpr, "tnr": 1 - roc_curve.fpr}
        criterion_of_threshold = rates["tpr"] + rates["tnr"]
        if np.isnan(criterion_of_threshold).any() or not len(criterion_of_threshold):
            return np.nan
        if self.rate != "youden":
            required_rates = rates.pop(self.rate)
            (maximised_rates,) = rates.values()
            criterion_of_threshold = np.where(
                required_rates >= self.least - ROUNDING, 1 + maximised_rates, required_rates - 1
            )
        best_index = int(np.argmax(criterion_of_threshold >= criterion_of_threshold.max() - ROUNDING))
        return float(roc_curve.threshold[best_index : best_index + 2].mean())


def cross_fitted_labels(scores: Floats, positive_share: Floats, target: ThresholdTarget, *, fold: Ints) -> Floats:
    """Return the judge's label (1.0 or 0.0) of each output (n,), by the threshold chosen on the remaining folds.

    The selection of the threshold therefore does not bias the rates of these labels.
    """
    judge_labels = np.full(len(scores), np.nan)
    for held_out_fold in np.unique(fold):
        is_training = fold != held_out_fold
        threshold = target.threshold(scores[is_training], positive_share[is_training])
        judge_labels[~is_training] = np.where(np.isnan(threshold), np.nan, scores[~is_training] >= threshold)
    return judge_labels


def score_strata(scores: Floats, *, n_labelled: int) -> Ints:
    """Return the stratum (n,) of each output, by the judge's scores (n,).

    There are at most five strata, of equal size and with about 25 or more human labels each.

    >>> score_strata(np.arange(6.0), n_labelled=75).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    n_bins = int(np.clip(n_labelled // FEWEST_IN_BIN, 1, MOST_BINS))
    bin_edges = np.quantile(scores, np.arange(1, n_bins) / n_bins) if len(scores) else np.empty(0)
    return np.searchsorted(np.unique(bin_edges), scores, side="right")
