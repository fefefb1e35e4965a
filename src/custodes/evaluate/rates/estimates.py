"""Estimates for one judge on some outputs: joint posterior of labels, rates with bounds, measures of agreement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from custodes.data.comparisons import HUMAN
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.clusters import influence_design_effect
from custodes.stats.intervals import percentile_interval, wilson_interval
from custodes.stats.rates.measures import BINARY, GENERAL, Weighting, kappa, krippendorff, sensitivity, specificity
from custodes.stats.rates.posterior import (
    NEUTRAL_PRIOR,
    PRIOR,
    JointPosterior,
    LabelCounts,
    Sampling,
    joint_estimate,
    joint_posterior,
    output_influence,
)
from custodes.stats.rates.scores import ThresholdTarget, cross_fitted_labels, score_strata
from custodes.stats.rates.selective import designed_strata
from custodes.stats.ratios import ratio

FOLDS = 5
"""Number of folds for cross-fitted thresholds."""

FEWEST_DESIGNED = 10
"""Minimum number of human labels in each part of a stratum that is divided by inclusion probability."""


class Interval(NamedTuple):
    """Estimate with a lower and an upper bound."""

    value: float
    low: float
    high: float


UNDEFINED = Interval(np.nan, np.nan, np.nan)


class EstimateSettings(TypedDict):
    """How outputs were selected for human labels, confidence of the bounds, and random generator of the draws."""

    sampling: Sampling
    confidence: float
    rng: np.random.Generator


@dataclass(frozen=True, kw_only=True)
class StratifiedLabels:
    """Outputs with a label of a judge, by stratum, for statistics of label counts.

    Attributes
    ----------
    outputs : LabelledOutputs
        The outputs with a label of the judge.
    stratum : int array of shape (n,)
        The judge's label, or the bin of its score.
    weights : array of shape (n,)
        Weight of each output with a human label, 0 without a human label. The sum is the number of labelled outputs.
    totalled : array of shape (n,)
        Weight of each output in the proportion of its stratum.
    n_strata : int
    sampling : {'random', 'by-judge', 'by-label'}
    confidence : float
    rng : numpy.random.Generator
    """

    outputs: LabelledOutputs
    stratum: Ints
    weights: Floats
    totalled: Floats
    n_strata: int
    sampling: Sampling
    confidence: float
    rng: np.random.Generator

    @cached_property
    def counts(self) -> LabelCounts:
        """Weighted counts of human labels, and of all outputs, in each stratum."""
        labelled_row_indices = np.flatnonzero(self.outputs.has_human_label)
        weighted_labels = (self.outputs.gold[labelled_row_indices] * self.weights[labelled_row_indices, np.newaxis]).T
        label_counts = [
            np.bincount(self.stratum[labelled_row_indices], weights=label_weights, minlength=self.n_strata)
            for label_weights in weighted_labels
        ]
        output_weights = self.totalled * self.outputs.number
        output_counts = np.bincount(self.stratum, weights=output_weights, minlength=self.n_strata)
        return LabelCounts(np.stack(label_counts, axis=1).astype(np.float64), output_counts.astype(np.float64))

    @property
    def estimate(self) -> Floats:
        """Joint proportions, (strata, labels)."""
        return joint_estimate(self.counts, sampling=self.sampling)

    @property
    def all_outputs_view(self) -> StratifiedLabels:
        """The same human labels, with stratum proportions from all outputs that have a label of the judge."""
        return self if self.sampling == "by-label" else replace(self, totalled=np.ones(len(self.stratum)))

    def influence(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return the influence (n,) of one equal output of each row on a statistic of proportions.

        The proportions have the shape (..., strata, labels).
        """
        return output_influence(
            lambda counts: statistic(joint_estimate(counts, sampling=self.sampling)),
            self.counts,
            stratum=self.stratum,
            labels=self.outputs.gold,
            labelled_weights=self.weights,
            total_weights=self.totalled,
        )

    def effective(self, influence: Floats) -> LabelCounts:
        """Return the counts divided by the design effect of shared clusters and of unequal weights (Kish 1965)."""
        design_effect = _divisor(self.outputs, influence, self.confidence, is_labelled=self.outputs.has_human_label)
        weight_sums, squared_weight_sums = (
            np.bincount(self.stratum, weights=self.weights**exponent, minlength=self.n_strata)[:, np.newaxis]
            for exponent in (1, 2)
        )
        effective_labels = self.counts.labelled * np.nan_to_num(ratio(weight_sums, squared_weight_sums)) / design_effect
        return LabelCounts(effective_labels, self.counts.total / design_effect)

    def posterior(self, counts: LabelCounts, *, prior: float = PRIOR) -> JointPosterior:
        """Return the joint posterior of effective counts."""
        return joint_posterior(counts, sampling=self.sampling, rng=self.rng, prior=prior)

    @cached_property
    def _independent(self) -> JointPosterior:
        return self.posterior(self.effective(np.zeros(len(self.stratum))))

    def values(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return the estimate of a statistic of joint proportions, followed by draws of the statistic, (1 + draws,)."""
        if not self.outputs.has_clusters:
            return statistic(self._independent.values)
        return statistic(self.posterior(self.effective(self.influence(statistic))).values)


@dataclass(frozen=True, kw_only=True)
class JudgeRates:
    """Rates of some outputs by one judge and by the annotators.

    Attributes
    ----------
    rate_draws : array of shape (draws,)
        Posterior draws of the corrected rate.
    pairs : StratifiedLabels or None
        Outputs by the judge's label, for measures of agreement. With random sampling, stratum proportions come from
        outputs with both labels. None if there is no judge.
    influence, human_influence : arrays of shape (n,)
        Influence of each output on the corrected rate, and on the rate by human labels.
    corrected, human, judge : Interval
        Rates of the positive label.
    n_judged, n_labelled : int
        Number of outputs whose rate is estimated, and number of outputs with both labels.
    rarer : float
        Number of human labels with the less frequent label.
    judge_n, human_n : float
        Effective number of labels of the judge and of the annotators.
    unlabelled : float
        Proportion of outputs in strata without any human label.
    """

    rate_draws: Floats
    pairs: StratifiedLabels | None
    influence: Floats
    human_influence: Floats
    corrected: Interval
    human: Interval
    judge: Interval
    n_judged: int
    n_labelled: int
    rarer: float
    judge_n: float
    human_n: float
    unlabelled: float

    def with_error_rates(self, pooled: StratifiedLabels, *, confidence: float) -> JudgeRates:
        """Return the rates of the same outputs, corrected by the TPR and TNR of `pooled` (Rogan and Gladen)."""
        if not self.n_judged:
            return self
        judge_counts = self.judge_n * np.array([1 - self.judge.value, self.judge.value])
        effective_labels = pooled.effective(pooled.influence(positive_rate)).labelled
        counts = LabelCounts(effective_labels, judge_counts)
        estimate_and_draws = positive_rate(joint_posterior(counts, sampling="by-label", rng=pooled.rng).values)
        return replace(
            self, rate_draws=estimate_and_draws[1:], corrected=estimate_interval(estimate_and_draws, confidence)
        )

    def values(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return a measure of agreement followed by its draws, (1 + draws,); NaN without a judge or human labels."""
        return self.pairs.values(statistic) if self.pairs is not None and self.n_labelled else np.full(2, np.nan)

    @cached_property
    def error_rates(self) -> tuple[Floats, Floats]:
        """Estimate and draws of TPR, and of TNR, (1 + draws,) each."""
        return self.values(sensitivity), self.values(specificity)

    def measures(self, *, confidence: float, ordered: bool) -> dict[str, Interval]:
        """Return the measures of agreement; measures for two labels are undefined if there are more labels."""
        undefined_measures = dict.fromkeys((*BINARY, *GENERAL, "kappa", "alpha"), UNDEFINED)
        if self.pairs is None or not self.n_labelled:
            return undefined_measures
        measure_of_name = measure_functions(self.pairs.n_strata, self.n_labelled, ordered=ordered)
        return undefined_measures | {
            name: estimate_interval(self.values(measure), confidence) for name, measure in measure_of_name.items()
        }


def measure_functions(n_labels: int, n: int, *, ordered: bool) -> dict[str, Callable[[Floats], Floats]]:
    """Return the measures of agreement for this number of labels.

    Each measure is a function of joint proportions (..., labels, labels) of `n` outputs.
    """
    weighting: Weighting = "quadratic" if ordered else "none"
    return {
        **GENERAL,
        **(BINARY if n_labels == 2 else {}),
        "kappa": lambda table: kappa(table, weighting=weighting),
        "alpha": lambda table: krippendorff(table, n, ordered=ordered),
    }


def positive_rate(joint: Floats) -> Floats:
    """Return the rate of the second human label: (..., strata, labels) -> (...)."""
    return np.asarray(joint[..., 1].sum(axis=-1))


def estimate_interval(estimate_and_draws: Floats, confidence: float) -> Interval:
    """Return the estimate (first value) with the central interval of the draws, extended to contain the estimate.

    If the estimate is undefined, the bounds are undefined.
    """
    if not np.isfinite(estimate_and_draws[0]):
        return UNDEFINED
    low, high = percentile_interval(estimate_and_draws[1:], confidence=confidence)
    return Interval(
        float(estimate_and_draws[0]),
        float(np.fmin(low, estimate_and_draws[0])),
        float(np.fmax(high, estimate_and_draws[0])),
    )


def judge_rates(
    outputs: LabelledOutputs,
    labels: Floats,
    *,
    strata: Ints | None = None,
    **settings: Unpack[EstimateSettings],
) -> JudgeRates:
    """Return the estimates for a judge.

    Parameters
    ----------
    outputs : LabelledOutputs
        Outputs with human labels; rates are of the second label, which is the positive label if there are two labels.
    labels : array of shape (n,)
        Code of the judge's label; NaN if there is none.
    strata : int array of shape (n,), optional
        Strata of a judge that gives scores; the strata are used instead of labels.
    **settings
        See `EstimateSettings`.
    """
    sampling, confidence = settings["sampling"], settings["confidence"]
    is_judged_output = ~np.isnan(labels)
    judged_outputs, label_codes = outputs.only(is_judged_output), labels[is_judged_output].astype(np.intp)
    has_human_label = judged_outputs.has_human_label
    weights = np.where(has_human_label, judged_outputs.weight, 0.0)
    weights = np.nan_to_num(weights * ratio(has_human_label.sum(), weights.sum()))
    # With 'by-label', outputs with a human label are a separate set, which does not count in the estimated rate.
    is_estimated_output = ~has_human_label if sampling == "by-label" else np.ones(len(label_codes), dtype=bool)
    label_strata = StratifiedLabels(
        outputs=judged_outputs,
        stratum=label_codes,
        weights=weights,
        totalled=weights if sampling == "random" else is_estimated_output.astype(np.float64),
        n_strata=len(outputs.words),
        **settings,
    )
    strata_of_rate = replace(label_strata, totalled=is_estimated_output.astype(np.float64))
    if sampling != "by-label":
        undivided_strata = label_codes if strata is None else strata[is_judged_output]
        stratum = designed_strata(undivided_strata, judged_outputs.weight, has_human_label, fewest=FEWEST_DESIGNED)
        fewest_strata = len(outputs.words) if strata is None else 1
        strata_of_rate = replace(
            strata_of_rate, stratum=stratum, n_strata=max(int(stratum.max(initial=0)) + 1, fewest_strata)
        )
    if sampling == "by-label" and np.isnan(label_strata.estimate).any():  # no other outputs, or no better than chance
        label_strata = replace(label_strata, sampling="random", totalled=weights)
    n_judged, n_labelled = int(judged_outputs.number[is_estimated_output].sum()), int(has_human_label.sum())
    influence = strata_of_rate.influence(positive_rate)
    unstratified = replace(
        strata_of_rate, stratum=np.zeros_like(label_codes), n_strata=1, sampling="random", totalled=weights
    )
    human_influence = unstratified.influence(positive_rate)
    effective_n_human, effective_n_judged = float(unstratified.effective(human_influence).labelled.sum()), 0.0
    corrected_rate = human_rate = judge_rate = UNDEFINED
    rate_draws = np.full(1, np.nan)
    counts = strata_of_rate.counts
    if n_labelled and n_judged:
        is_designed = strata_of_rate.n_strata > label_strata.n_strata or sampling == "by-judge"
        prior = NEUTRAL_PRIOR if is_designed and strata is None else PRIOR
        estimate_and_draws = positive_rate(
            strata_of_rate.posterior(strata_of_rate.effective(influence), prior=prior).values
        )
        rate_draws, corrected_rate = estimate_and_draws[1:], estimate_interval(estimate_and_draws, confidence)
    if n_labelled and sampling == "random":
        human_rate = _wilson(float(positive_rate(unstratified.estimate)), effective_n_human, confidence)
    is_unlabelled_stratum = counts.labelled.sum(axis=1) == 0
    if n_judged:
        is_positive_label, n_equal_outputs = (
            (label_codes[is_estimated_output] == 1).astype(np.float64),
            judged_outputs.number[is_estimated_output],
        )
        positive_share = float((is_positive_label * n_equal_outputs).sum() / n_judged)
        effective_n_judged = n_judged / _divisor(
            judged_outputs.only(is_estimated_output), is_positive_label - positive_share, confidence
        )
        judge_rate = _wilson(positive_share, effective_n_judged, confidence)
    influence_of_all_outputs = np.zeros((2, len(is_judged_output)))
    influence_of_all_outputs[:, is_judged_output] = influence, human_influence
    return JudgeRates(
        rate_draws=rate_draws,
        pairs=label_strata,
        influence=influence_of_all_outputs[0],
        human_influence=influence_of_all_outputs[1],
        corrected=corrected_rate,
        human=human_rate,
        judge=judge_rate,
        n_judged=n_judged,
        n_labelled=n_labelled,
        rarer=float(counts.labelled.sum(axis=0).min()),
        judge_n=effective_n_judged,
        human_n=effective_n_human,
        unlabelled=0.0
        if sampling == "by-label"
        else float(ratio(counts.total[is_unlabelled_stratum].sum(), counts.total.sum())),
    )


def _divisor(
    outputs: LabelledOutputs, influence: Floats, confidence: float, *, is_labelled: Bools | None = None
) -> float:
    """Return the divisor of counts for outputs that share clusters; 1 without shared clusters."""
    if not outputs.has_clusters:
        return 1.0
    design_effect = influence_design_effect(influence, outputs.unit, kind=is_labelled, number=outputs.number)
    divisor = float(design_effect.divisor(confidence))
    return divisor if np.isfinite(divisor) else float(outputs.number.sum())


def _wilson(rate: float, effective_n: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    low, high = wilson_interval(rate, effective_n, quantile=float(ndtri((1 + confidence) / 2)))
    return Interval(float(rate), float(low), float(high))


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
        labels = self.labels if is_selected_output is None else np.where(is_selected_output, self.labels, np.nan)
        judge_rates_of_outputs = judge_rates(outputs, labels, strata=self.strata, **settings)
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

    `threshold` turns scores into labels and requires two labels. It is a number, or a `ThresholdTarget` by which
    thresholds are cross-fitted. Without `threshold`, scores only form strata.
    """
    if not outputs.metrics:
        same_label = np.zeros(len(outputs.system))
        yield JudgeLabels(name=HUMAN, labels=same_label, evaluated=same_label, strata=same_label.astype(np.intp))
    for metric, labels_or_scores, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
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


def sampling_p_value(outputs: LabelledOutputs, labels: Floats) -> float:
    """Return the p-value of the test that each label of the judge is equally frequent with and without human labels.

    The test is a z-test with the variance by clusters. The smallest p-value over labels is adjusted by Bonferroni's
    method. NaN if all outputs, or no outputs, have human labels.
    """
    from scipy.special import ndtr

    is_judged_output = ~np.isnan(labels)
    has_human_label, cluster_codes, n_equal_outputs = (
        outputs.has_human_label[is_judged_output],
        outputs.unit[is_judged_output],
        outputs.number[is_judged_output],
    )
    if has_human_label.all() or not has_human_label.any():
        return np.nan
    n_without_human_label = n_equal_outputs[~has_human_label].sum()
    judge_labels = labels[is_judged_output]
    distinct_labels = np.unique(judge_labels)
    p_values = []
    for label in distinct_labels[1:] if len(distinct_labels) == 2 else distinct_labels:
        has_this_label = (judge_labels == label).astype(np.float64)
        label_share = (has_this_label * n_equal_outputs).sum() / n_equal_outputs.sum()
        influence = (has_this_label - label_share) * np.where(
            has_human_label, 1 / has_human_label.sum(), -1 / n_without_human_label
        )
        design_effect = (
            float(influence_design_effect(influence, cluster_codes, number=n_equal_outputs).effect)
            if outputs.has_clusters
            else 1.0
        )
        standard_error = np.sqrt((influence**2 * n_equal_outputs).sum() * design_effect)
        p_values.append(
            2 * float(ndtr(-abs((influence * n_equal_outputs).sum()) / standard_error)) if standard_error > 0 else 1.0
        )
    return float(min(1.0, min(p_values) * len(p_values)))
