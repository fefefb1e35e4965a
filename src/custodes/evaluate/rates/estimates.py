"""Estimates of one judge on some outputs: joint posterior of labels, rates with bounds, measures of agreement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Floats, Ints
from custodes.stats.intervals import percentile_interval, wilson_interval
from custodes.stats.rates.measures import BINARY, GENERAL, Weighting, kappa, krippendorff
from custodes.stats.rates.posterior import (
    JointPosterior,
    LabelCounts,
    Sampling,
    influence_design_effect,
    joint_posterior,
    rate_influence,
)
from custodes.stats.rates.scores import ThresholdTarget, cross_fitted_labels, score_strata
from custodes.stats.ratios import ratio

FOLDS = 5
"""Folds of the cross-fitted threshold."""


class Interval(NamedTuple):
    """An estimate with its bounds."""

    value: float
    low: float
    high: float


UNDEFINED = Interval(np.nan, np.nan, np.nan)


@dataclass(frozen=True, kw_only=True)
class JudgeRates:
    """What one judge says of some outputs, beside the annotators.

    Attributes
    ----------
    counts : LabelCounts
        Without clusters, weighted by inclusion.
    posterior : JointPosterior
        Of the joint proportions, all outputs used.
    agreement : JointPosterior
        Of the labels of judge and annotators, (labels, labels), for measures of agreement; where outputs were labelled
        at random, from those with both labels alone.
    influence, human_influence : arrays of shape (n,)
        Of each output on the corrected rate and on the rate by human labels.
    corrected, human, judge : Interval
        Rates of the positive label.
    n_judged, n_labelled : int
        Outputs with a label by the judge, and with both labels.
    human_n : float
        Effective number of human labels.
    """

    counts: LabelCounts
    posterior: JointPosterior
    agreement: JointPosterior
    influence: Floats
    human_influence: Floats
    corrected: Interval
    human: Interval
    judge: Interval
    n_judged: int
    n_labelled: int
    human_n: float

    @property
    def rate_draws(self) -> Floats:
        """Posterior draws of the corrected rate."""
        return np.asarray(self.posterior.draws[:, :, 1].sum(axis=1))

    @property
    def rarer(self) -> float:
        """Number of human labels of the rarer kind."""
        return float(self.counts.labelled.sum(axis=0).min())

    def with_error_rates(
        self, pooled: JudgeRates, *, confidence: float, rng: np.random.Generator, **_: object
    ) -> JudgeRates:
        """The same outputs corrected by the TPR and TNR of `pooled` (Rogan and Gladen)."""
        positive = self.judge.value * self.n_judged
        total = np.array([self.n_judged - positive, positive])
        posterior = joint_posterior(LabelCounts(pooled.counts.labelled, total), sampling="by-label", rng=rng)
        return replace(self, posterior=posterior, corrected=bounded(posterior.values[:, :, 1].sum(axis=1), confidence))

    def measures(self, *, confidence: float, ordered: bool) -> dict[str, Interval]:
        """Measures of agreement; those of two labels are undefined with more."""
        values = self.agreement.values
        square = values.shape[1] == values.shape[2]
        weighting: Weighting = "quadratic" if ordered else "none"
        undefined = dict.fromkeys((*BINARY, *GENERAL, "kappa", "alpha"), UNDEFINED)
        if not square or not self.n_labelled:
            return undefined
        n = float(self.counts.labelled.sum())
        draws = {name: measure(values) for name, measure in GENERAL.items()}
        draws |= {"kappa": kappa(values, weighting=weighting), "alpha": krippendorff(values, n, ordered=ordered)}
        if values.shape[2] == 2:
            draws |= {name: measure(values) for name, measure in BINARY.items()}
        return undefined | {name: bounded(column, confidence) for name, column in draws.items()}


def bounded(values: Floats, confidence: float) -> Interval:
    """The estimate (first) with the central interval of the draws, which contains it; undefined where it is."""
    if not np.isfinite(values[0]):
        return UNDEFINED
    low, high = percentile_interval(values[1:], confidence=confidence)
    return Interval(float(values[0]), float(np.fmin(low, values[0])), float(np.fmax(high, values[0])))


def judge_rates(
    outputs: LabelledOutputs,
    labels: Floats,
    *,
    strata: Ints | None = None,
    sampling: Sampling,
    confidence: float,
    rng: np.random.Generator,
) -> JudgeRates:
    """Estimates of a judge with two human labels, or with the labels themselves.

    Parameters
    ----------
    outputs : LabelledOutputs
        With two labels, the second positive; with more, rates are of the second.
    labels : array of shape (n,)
        Code of the judge's label; NaN: none.
    strata : int array of shape (n,), optional
        Strata of a judge that gives scores, instead of its labels.
    """
    k = len(outputs.words)
    judged = ~np.isnan(labels)
    rows, codes = outputs.only(judged), labels[judged].astype(np.intp)
    stratum = codes if strata is None or sampling == "by-label" else strata[judged]
    n_strata = k if stratum is codes else int(stratum.max(initial=0)) + 1
    counts = _counts(stratum, rows.gold, rows.weight, n_strata)
    corrected, human = rate_influence(stratum, rows.gold, rows.weight, counts, column=1)
    effect, human_effect = (_divisor(rows, part, confidence) for part in (corrected, human))
    kish = _kish(rows.weight[rows.labelled])
    posterior = joint_posterior(
        LabelCounts(counts.labelled / (effect * kish), counts.total / effect), sampling=sampling, rng=rng
    )
    pairs = _counts(codes, rows.gold, rows.weight, k)
    total = np.asarray(pairs.labelled.sum(axis=1)) if sampling == "random" else pairs.total
    agreement = joint_posterior(
        LabelCounts(pairs.labelled / (effect * kish), total / effect), sampling=sampling, rng=rng
    )
    n_labelled = int(rows.labelled.sum())
    human_rate = judge = UNDEFINED
    human_n = n_labelled / (human_effect * kish)
    if n_labelled and sampling == "random":
        value = counts.labelled[:, 1].sum() / counts.labelled.sum()
        human_rate = _wilson(value, human_n, confidence)
    if len(codes):
        positive = (codes == 1).astype(np.float64)
        judge_effect = _divisor(rows, positive - positive.mean(), confidence, by_label=False)
        judge = _wilson(float(positive.mean()), len(codes) / judge_effect, confidence)
    full = np.zeros((2, len(judged)))
    full[:, judged] = corrected, human
    return JudgeRates(
        counts=counts,
        posterior=posterior,
        agreement=agreement,
        influence=full[0],
        human_influence=full[1],
        corrected=bounded(posterior.values[:, :, 1].sum(axis=1), confidence) if n_labelled else UNDEFINED,
        human=human_rate,
        judge=judge,
        n_judged=int(judged.sum()),
        n_labelled=n_labelled,
        human_n=human_n,
    )


def _counts(stratum: Ints, gold: Floats, weight: Floats, n_strata: int) -> LabelCounts:
    """Weighted counts of human labels in each stratum, their sum the number of labelled outputs, and of all outputs."""
    has_value = ~np.isnan(gold[:, 0])
    weights = gold[has_value] * (weight[has_value] * ratio(has_value.sum(), weight[has_value].sum()))[:, np.newaxis]
    labelled = [np.bincount(stratum[has_value], weights=part, minlength=n_strata) for part in weights.T]
    return LabelCounts(
        np.stack(labelled, axis=1).astype(np.float64), np.bincount(stratum, minlength=n_strata).astype(np.float64)
    )


def _kish(weights: Floats) -> float:
    """Design effect of unequal weights (Kish 1965)."""
    return float(len(weights) * (weights**2).sum() / weights.sum() ** 2) if len(weights) else 1.0


def _divisor(outputs: LabelledOutputs, influence: Floats, confidence: float, *, by_label: bool = True) -> float:
    """What counts are divided by because outputs share clusters; 1 where they do not."""
    if not outputs.clustered:
        return 1.0
    kind = outputs.labelled if by_label else None
    divisor = float(influence_design_effect(influence, outputs.unit, kind=kind).divisor(confidence))
    return divisor if np.isfinite(divisor) else float(len(influence))


def _wilson(value: float, n: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    low, high = wilson_interval(value, n, quantile=float(ndtri((1 + confidence) / 2)))
    return Interval(float(value), float(low), float(high))


@dataclass(frozen=True, kw_only=True)
class JudgeLabels:
    """A judge's labels of all outputs, with the strata and the threshold of a judge that gives scores."""

    name: str
    labels: Floats
    evaluated: Floats
    """The labels by cross-fitted thresholds where the output has a human label."""
    strata: Ints | None
    scores: Floats | None
    threshold: float


def judges_of(outputs: LabelledOutputs, threshold: str) -> Iterator[JudgeLabels]:
    """Each judge of outputs with two labels.

    Scores become labels by a number or by a cross-fitted `ThresholdTarget`; with `threshold` '' they only form strata.
    """
    for name, values, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
        if not is_score:
            yield JudgeLabels(name=name, labels=values, evaluated=values, strata=None, scores=None, threshold=np.nan)
            continue
        has_value = ~np.isnan(values)
        usable = has_value & outputs.labelled
        positive = outputs.gold[usable, 1] > 0.5
        at = _number(threshold) if threshold else np.nan
        evaluated = np.full(len(values), np.nan)
        if at is None:
            target = ThresholdTarget.parse(threshold)
            at = target.threshold(values[usable], positive)
            evaluated[has_value] = values[has_value] >= at
            evaluated[usable] = cross_fitted_labels(values[usable], positive, target, fold=outputs.unit[usable] % FOLDS)
        else:
            evaluated[has_value] = values[has_value] >= at
        labels = np.where(has_value, values >= at, np.nan)  # all negative without a threshold
        strata = np.zeros(len(values), dtype=np.intp)
        strata[has_value] = score_strata(values[has_value], n_labelled=int(usable.sum()))
        yield JudgeLabels(name=name, labels=labels, evaluated=evaluated, strata=strata, scores=values, threshold=at)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def sampling_p_value(outputs: LabelledOutputs, labels: Floats) -> float:
    """P-value of 'the judge's labels are as frequent inside the labelled part as outside', the smallest over labels.

    A z-test with the variance by clusters, Bonferroni over labels; NaN where all outputs are labelled or none is.
    """
    from scipy.special import ndtr

    judged = ~np.isnan(labels)
    inside, units = outputs.labelled[judged], outputs.unit[judged]
    if inside.all() or not inside.any():
        return np.nan
    values = labels[judged]
    distinct = np.unique(values)
    p_values = []
    for value in distinct[1:] if len(distinct) == 2 else distinct:
        equal = (values == value).astype(np.float64)
        influence = (equal - equal.mean()) * np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
        effect = float(influence_design_effect(influence, units).effect) if outputs.clustered else 1.0
        error = np.sqrt((influence**2).sum() * effect)
        p_values.append(2 * float(ndtr(-abs(influence.sum()) / error)) if error > 0 else 1.0)
    return float(min(1.0, min(p_values) * len(p_values)))
