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
        rows = np.flatnonzero(self.outputs.has_human_label)
        weighted_labels = (self.outputs.gold[rows] * self.weights[rows, np.newaxis]).T
        label_counts = [
            np.bincount(self.stratum[rows], weights=column, minlength=self.n_strata) for column in weighted_labels
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
            np.bincount(self.stratum, weights=self.weights**k, minlength=self.n_strata)[:, np.newaxis] for k in (1, 2)
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
        values = positive_rate(joint_posterior(counts, sampling="by-label", rng=pooled.rng).values)
        return replace(self, rate_draws=values[1:], corrected=estimate_interval(values, confidence))

    def values(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return a measure of agreement followed by its draws, (1 + draws,); NaN without a judge or human labels."""
        return self.pairs.values(statistic) if self.pairs is not None and self.n_labelled else np.full(2, np.nan)

    @cached_property
    def error_rates(self) -> tuple[Floats, Floats]:
        """Estimate and draws of TPR, and of TNR, (1 + draws,) each."""
        return self.values(sensitivity), self.values(specificity)

    def measures(self, *, confidence: float, ordered: bool) -> dict[str, Interval]:
        """Return the measures of agreement; measures for two labels are undefined if there are more labels."""
        undefined = dict.fromkeys((*BINARY, *GENERAL, "kappa", "alpha"), UNDEFINED)
        if self.pairs is None or not self.n_labelled:
            return undefined
        functions = measure_functions(self.pairs.n_strata, self.n_labelled, ordered=ordered)
        return undefined | {
            name: estimate_interval(self.values(measure), confidence) for name, measure in functions.items()
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


def estimate_interval(values: Floats, confidence: float) -> Interval:
    """Return the estimate (first value) with the central interval of the draws, extended to contain the estimate.

    If the estimate is undefined, the bounds are undefined.
    """
    if not np.isfinite(values[0]):
        return UNDEFINED
    low, high = percentile_interval(values[1:], confidence=confidence)
    return Interval(float(values[0]), float(np.fmin(low, values[0])), float(np.fmax(high, values[0])))


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
    is_judged = ~np.isnan(labels)
    judged_outputs, codes = outputs.only(is_judged), labels[is_judged].astype(np.intp)
    has_label = judged_outputs.has_human_label
    weights = np.where(has_label, judged_outputs.weight, 0.0)
    weights = np.nan_to_num(weights * ratio(has_label.sum(), weights.sum()))
    # With 'by-label', outputs with a human label are a separate set, which does not count in the estimated rate.
    is_estimated = ~has_label if sampling == "by-label" else np.ones(len(codes), dtype=bool)
    label_strata = StratifiedLabels(
        outputs=judged_outputs,
        stratum=codes,
        weights=weights,
        totalled=weights if sampling == "random" else is_estimated.astype(np.float64),
        n_strata=len(outputs.words),
        **settings,
    )
    stratified = replace(label_strata, totalled=is_estimated.astype(np.float64))
    if sampling != "by-label":
        initial_strata = codes if strata is None else strata[is_judged]
        stratum = designed_strata(initial_strata, judged_outputs.weight, has_label, fewest=FEWEST_DESIGNED)
        minimum = len(outputs.words) if strata is None else 1
        stratified = replace(stratified, stratum=stratum, n_strata=max(int(stratum.max(initial=0)) + 1, minimum))
    if sampling == "by-label" and np.isnan(label_strata.estimate).any():  # no other outputs, or no better than chance
        label_strata = replace(label_strata, sampling="random", totalled=weights)
    n_judged, n_labelled = int(judged_outputs.number[is_estimated].sum()), int(has_label.sum())
    influence = stratified.influence(positive_rate)
    unstratified = replace(stratified, stratum=np.zeros_like(codes), n_strata=1, sampling="random", totalled=weights)
    human_influence = unstratified.influence(positive_rate)
    human_n, judge_n = float(unstratified.effective(human_influence).labelled.sum()), 0.0
    corrected_rate = human_rate = judge_rate = UNDEFINED
    rate_draws = np.full(1, np.nan)
    counts = stratified.counts
    if n_labelled and n_judged:
        is_designed = stratified.n_strata > label_strata.n_strata or sampling == "by-judge"
        prior = NEUTRAL_PRIOR if is_designed and strata is None else PRIOR
        values = positive_rate(stratified.posterior(stratified.effective(influence), prior=prior).values)
        rate_draws, corrected_rate = values[1:], estimate_interval(values, confidence)
    if n_labelled and sampling == "random":
        human_rate = _wilson(float(positive_rate(unstratified.estimate)), human_n, confidence)
    is_unlabelled_stratum = counts.labelled.sum(axis=1) == 0
    if n_judged:
        is_positive, n_outputs = (codes[is_estimated] == 1).astype(np.float64), judged_outputs.number[is_estimated]
        rate = float((is_positive * n_outputs).sum() / n_judged)
        judge_n = n_judged / _divisor(judged_outputs.only(is_estimated), is_positive - rate, confidence)
        judge_rate = _wilson(rate, judge_n, confidence)
    full_influence = np.zeros((2, len(is_judged)))
    full_influence[:, is_judged] = influence, human_influence
    return JudgeRates(
        rate_draws=rate_draws,
        pairs=label_strata,
        influence=full_influence[0],
        human_influence=full_influence[1],
        corrected=corrected_rate,
        human=human_rate,
        judge=judge_rate,
        n_judged=n_judged,
        n_labelled=n_labelled,
        rarer=float(counts.labelled.sum(axis=0).min()),
        judge_n=judge_n,
        human_n=human_n,
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
    effect = influence_design_effect(influence, outputs.unit, kind=is_labelled, number=outputs.number)
    divisor = float(effect.divisor(confidence))
    return divisor if np.isfinite(divisor) else float(outputs.number.sum())


def _wilson(value: float, n: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    low, high = wilson_interval(value, n, quantile=float(ndtri((1 + confidence) / 2)))
    return Interval(float(value), float(low), float(high))


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
        self, outputs: LabelledOutputs, rows: Bools | None = None, **settings: Unpack[EstimateSettings]
    ) -> JudgeRates:
        """Return the rates of the outputs in `rows` (n,), by default of all outputs."""
        labels = self.labels if rows is None else np.where(rows, self.labels, np.nan)
        judge_estimates = judge_rates(outputs, labels, strata=self.strata, **settings)
        if self.name == HUMAN:
            return replace(judge_estimates, pairs=None, judge=UNDEFINED, unlabelled=0.0)
        has_no_threshold = self.scores is not None and not np.isfinite(self.threshold)
        return replace(judge_estimates, judge=UNDEFINED) if has_no_threshold else judge_estimates

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
    for name, values, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
        if not is_score:
            yield JudgeLabels(name=name, labels=values, evaluated=values)
            continue
        has_value = ~np.isnan(values)
        is_usable = has_value & outputs.has_human_label
        is_positive = outputs.gold[is_usable, 1] > 0.5
        target = parsed_threshold(threshold) if threshold else np.nan
        cutoff = target.threshold(values[is_usable], is_positive) if isinstance(target, ThresholdTarget) else target
        labels = np.where(has_value, values >= cutoff, np.nan)  # all negative without a threshold
        evaluated = labels.copy()
        if isinstance(target, ThresholdTarget):
            evaluated[is_usable] = cross_fitted_labels(
                values[is_usable], is_positive, target, fold=outputs.unit[is_usable] % FOLDS
            )
        strata = np.zeros(len(values), dtype=np.intp)
        strata[has_value] = score_strata(values[has_value], n_labelled=int(is_usable.sum()))
        yield JudgeLabels(name=name, labels=labels, evaluated=evaluated, strata=strata, scores=values, threshold=cutoff)


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

    is_judged = ~np.isnan(labels)
    is_labelled, units, number = outputs.has_human_label[is_judged], outputs.unit[is_judged], outputs.number[is_judged]
    if is_labelled.all() or not is_labelled.any():
        return np.nan
    n_outside = number[~is_labelled].sum()
    values = labels[is_judged]
    distinct_labels = np.unique(values)
    p_values = []
    for value in distinct_labels[1:] if len(distinct_labels) == 2 else distinct_labels:
        has_label = (values == value).astype(np.float64)
        mean = (has_label * number).sum() / number.sum()
        influence = (has_label - mean) * np.where(is_labelled, 1 / is_labelled.sum(), -1 / n_outside)
        effect = float(influence_design_effect(influence, units, number=number).effect) if outputs.has_clusters else 1.0
        error = np.sqrt((influence**2 * number).sum() * effect)
        p_values.append(2 * float(ndtr(-abs((influence * number).sum()) / error)) if error > 0 else 1.0)
    return float(min(1.0, min(p_values) * len(p_values)))
