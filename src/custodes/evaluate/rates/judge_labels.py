"""Labels of all outputs by each judge; scores become strata, and labels by a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from custodes.data.comparisons import HUMAN
from custodes.evaluate.rates.estimates import UNDEFINED, EstimateSettings, JudgeRates, has_only_judged, judge_rates
from custodes.evaluate.rates.outputs import LabelledOutputs, is_confidence
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.rates.scores import ThresholdTarget, cross_fitted_labels, score_strata

FOLDS = 5
"""Number of folds for cross-fitted thresholds."""


@dataclass(frozen=True, kw_only=True)
class JudgeLabels:
    """Labels of all outputs by a judge, with strata and threshold if the judge gives scores.

    The name `human` means that there is no judge; all outputs form one stratum.
    """

    name: str
    labels: Floats
    evaluated: Floats
    """Labels by the judge; for outputs with a human label, scores become labels by cross-fitted thresholds."""
    strata: Ints | None = None
    scores: Floats | None = None
    threshold: float = np.nan

    def rates(
        self, outputs: LabelledOutputs, is_selected_output: Bools | None = None, **settings: Unpack[EstimateSettings]
    ) -> JudgeRates:
        """Return the rates of the selected outputs (n,), by default of all outputs."""
        judge_rates_of_outputs = judge_rates(
            outputs,
            self.labels,
            is_selected_output,
            strata=self.strata,
            only_judged=has_only_judged(outputs, self.labels, settings["sampling"]),
            **settings,
        )
        if self.name == HUMAN:
            return replace(judge_rates_of_outputs, pairs=None, judge=UNDEFINED, unlabelled=0.0)
        has_no_threshold = self.scores is not None and not np.isfinite(self.threshold)
        return replace(judge_rates_of_outputs, judge=UNDEFINED) if has_no_threshold else judge_rates_of_outputs

    @property
    def threshold_judge(self) -> JudgeLabels:
        """The judge with labels by cross-fitted thresholds, which are used to estimate error rates."""
        return replace(self, labels=self.evaluated, strata=None if self.scores is not None else self.strata)


def judges_of(outputs: LabelledOutputs, threshold: str | None) -> Iterator[JudgeLabels]:
    """Yield each metric as a judge; if there is no metric, yield one judge named `human`.

    Scores that are the confidence of a judge in its label are left out if a metric gives labels.

    `threshold` turns scores into labels and requires two labels. It is a number, or a `ThresholdTarget` by which
    thresholds are cross-fitted. Without `threshold`, scores only form strata.
    """
    if not outputs.metrics:
        same_label = np.zeros(len(outputs.system))
        yield JudgeLabels(name=HUMAN, labels=same_label, evaluated=same_label, strata=same_label.astype(np.intp))
    for metric, labels_or_scores, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
        if is_score and is_confidence(metric) and not outputs.is_score.all():
            continue
        if not is_score:
            yield JudgeLabels(name=metric, labels=labels_or_scores, evaluated=labels_or_scores)
            continue
        has_score = ~np.isnan(labels_or_scores)
        has_score_and_human_label = has_score & outputs.has_human_label
        is_positive_human_label = outputs.gold[has_score_and_human_label, 1] > 0.5
        threshold_or_target = parsed_threshold(threshold) if threshold else np.nan
        cutoff = (
            threshold_or_target.threshold(labels_or_scores[has_score_and_human_label], is_positive_human_label)
            if isinstance(threshold_or_target, ThresholdTarget)
            else threshold_or_target
        )
        judge_labels = np.where(has_score, labels_or_scores >= cutoff, np.nan)  # all negative without a threshold
        cross_fitted = judge_labels.copy()
        if isinstance(threshold_or_target, ThresholdTarget):
            cross_fitted[has_score_and_human_label] = cross_fitted_labels(
                labels_or_scores[has_score_and_human_label],
                is_positive_human_label,
                threshold_or_target,
                fold=outputs.unit[has_score_and_human_label] % FOLDS,
            )
        strata = np.zeros(len(labels_or_scores), dtype=np.intp)
        strata[has_score] = score_strata(labels_or_scores[has_score], n_labelled=int(has_score_and_human_label.sum()))
        yield JudgeLabels(
            name=metric,
            labels=judge_labels,
            evaluated=cross_fitted,
            strata=strata,
            scores=labels_or_scores,
            threshold=cutoff,
        )


def parsed_threshold(threshold_text: str) -> float | ThresholdTarget:
    """Return a threshold as a number, or the target by which a threshold is selected."""
    try:
        number = float(threshold_text)
    except ValueError:
        return ThresholdTarget.parse(threshold_text)
    return number if np.isfinite(number) else ThresholdTarget.parse(threshold_text)
