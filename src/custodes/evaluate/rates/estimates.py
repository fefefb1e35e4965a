"""Estimates for one judge on some outputs: joint posterior of labels, rates with bounds, measures of agreement."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict, Unpack

import numpy as np

from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import influence_design_effect
from custodes.stats.intervals import percentile_interval, wilson_interval
from custodes.stats.rates.measures import BINARY, GENERAL, kappa, krippendorff, sensitivity, specificity
from custodes.stats.rates.posterior import (
    NEUTRAL_PRIOR,
    PRIOR,
    LabelCounts,
    Sampling,
    joint_estimate,
    joint_posterior,
    output_influence,
    rate_variance,
)
from custodes.stats.rates.scores import Interval
from custodes.stats.rates.selective import designed_strata
from custodes.stats.ratios import ratio

FEWEST_DESIGNED = 10
"""A stratum is split by inclusion probability only if each part has at least this number of human labels."""


UNSEEN = 0.01
"""Level of the test of the hypothesis that annotators selected outputs regardless of whether the judge gave a label."""

UNDEFINED = Interval(np.nan, np.nan, np.nan)

MEASURE_NAMES = (*BINARY, *GENERAL, "kappa", "alpha")
"""Names of the measures of agreement."""


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
        labelled_indices = np.flatnonzero(self.outputs.has_human_label)
        weighted_labels = (self.outputs.gold[labelled_indices] * self.weights[labelled_indices, np.newaxis]).T
        return LabelCounts(
            unit_sums(weighted_labels, units=self.stratum[labelled_indices], n_units=self.n_strata).T,
            unit_sums(self.totalled * self.outputs.number, units=self.stratum, n_units=self.n_strata),
        )

    @property
    def estimate(self) -> Floats:
        """Joint proportions, (strata, labels)."""
        return joint_estimate(self.counts, sampling=self.sampling)

    def influence(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return, for each row (n,), the influence of one of the row's outputs on a statistic of proportions.

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
        design_effect = cluster_divisor(
            self.outputs, influence, self.confidence, is_labelled=self.outputs.has_human_label
        )
        weight_sums_of_stratum, squared_weight_sums_of_stratum = (
            np.bincount(self.stratum, weights=self.weights**exponent, minlength=self.n_strata)[:, np.newaxis]
            for exponent in (1, 2)
        )
        effective_label_counts = (
            self.counts.labelled
            * np.nan_to_num(ratio(weight_sums_of_stratum, squared_weight_sums_of_stratum))
            / design_effect
        )
        return LabelCounts(effective_label_counts, self.counts.total / design_effect)

    def posterior(self, effective_counts: LabelCounts, *, prior: float = PRIOR) -> Floats:
        """Return the estimate and the posterior draws, (1 + draws, strata, labels), from effective counts."""
        return joint_posterior(effective_counts, sampling=self.sampling, rng=self.rng, prior=prior)

    @cached_property
    def _independent(self) -> Floats:
        return self.posterior(self.effective(np.zeros(len(self.stratum))))

    def values(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return the estimate of a statistic of joint proportions, followed by draws of the statistic, (1 + draws,)."""
        if not self.outputs.has_clusters:
            return statistic(self._independent)
        return statistic(self.posterior(self.effective(self.influence(statistic))))


@dataclass(frozen=True, kw_only=True)
class JudgeRates:
    """Rates of some outputs by one judge and by the annotators.

    Attributes
    ----------
    rate_draws : array of shape (draws,)
        Posterior draws of the corrected rate.
    rate_variance : float
        Posterior variance of the corrected rate.
    unjudged : array of shape (1 + draws, labels)
        Proportion of outputs that have each human label and no label of the judge: estimate and draws.
    pairs : StratifiedLabels or None
        Outputs by the judge's label, for measures of agreement. With random sampling, only the outputs with both labels
        determine the proportions of strata. None if there is no judge.
    influence, human_influence : arrays of shape (n,)
        Influence of each output on the corrected rate, and on the rate by human labels.
    corrected, human, judge : Interval
        Rates of the positive label.
    n, n_labelled : int
        Number of outputs whose rate is estimated, and number of these outputs with a human label.
    n_both_labels, n_unjudged, n_left_out : int
        Number of outputs with both labels; number of outputs without a label of the judge that are included in `n`;
        number of such outputs that are not included in `n`.
    rarer : float
        Number of human labels with the less frequent label.
    judge_n, human_n : float
        Effective number of labels of the judge and of the annotators.
    unlabelled : float
        Proportion of outputs in strata without any human label.
    """

    rate_draws: Floats
    rate_variance: float
    unjudged: Floats
    pairs: StratifiedLabels | None
    influence: Floats
    human_influence: Floats
    corrected: Interval
    human: Interval
    judge: Interval
    n: int
    n_labelled: int
    n_both_labels: int
    n_unjudged: int
    n_left_out: int
    rarer: float
    judge_n: float
    human_n: float
    unlabelled: float

    def with_error_rates(self, pooled: StratifiedLabels, *, confidence: float) -> JudgeRates:
        """Return the rates of the same outputs, corrected by the TPR and TNR of `pooled` (Rogan and Gladen)."""
        if not self.n:
            return self
        effective_judge_counts = self.judge_n * np.array([1 - self.judge.value, self.judge.value])
        effective_label_counts = pooled.effective(pooled.influence(positive_rate)).labelled
        judged_estimate_and_draws = positive_rate(
            joint_posterior(
                LabelCounts(effective_label_counts, effective_judge_counts), sampling="by-label", rng=pooled.rng
            )
        )
        estimate_and_draws = (1 - self.unjudged.sum(axis=1)) * judged_estimate_and_draws + self.unjudged[:, 1]
        return replace(
            self,
            rate_draws=estimate_and_draws[1:],
            rate_variance=float(estimate_and_draws[1:].var()),
            corrected=estimate_interval(estimate_and_draws, confidence),
        )

    @property
    def rate_values(self) -> Floats:
        """Estimate and draws of the corrected rate, (1 + draws,)."""
        return np.append(self.corrected.value, self.rate_draws)

    @property
    def human_variance(self) -> float:
        """Posterior variance of the rate by human labels alone (Jeffreys' prior)."""
        n_positive_labels = self.human_n * self.human.value
        return rate_variance(LabelCounts(np.array([[self.human_n - n_positive_labels, n_positive_labels]]), np.ones(1)))

    def values(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return a measure of agreement followed by its draws, (1 + draws,); NaN without a judge or human labels."""
        return self.pairs.values(statistic) if self.pairs is not None and self.n_both_labels else np.full(2, np.nan)

    @cached_property
    def error_rates(self) -> dict[str, Floats]:
        """Estimate and draws, (1 + draws,) each, of TPR and of TNR."""
        return {"tpr": self.values(sensitivity), "tnr": self.values(specificity)}

    def measures(
        self, *, confidence: float, ordered: bool, names: Collection[str] = MEASURE_NAMES
    ) -> dict[str, Interval]:
        """Return the measures of agreement with these names; measures for two labels are undefined if there are more
        labels."""
        n_distinct_labels = 0 if self.pairs is None else self.pairs.n_strata
        function_of_measure = measure_functions(n_distinct_labels, self.n_both_labels, ordered=ordered)
        return dict.fromkeys(names, UNDEFINED) | {
            measure_name: estimate_interval(self.values(measure_function), confidence)
            for measure_name, measure_function in function_of_measure.items()
            if measure_name in names
        }


def measure_functions(
    n_distinct_labels: int, n_outputs: int, *, ordered: bool
) -> dict[str, Callable[[Floats], Floats]]:
    """Return the measures of agreement for this number of labels.

    Each measure is a function of joint proportions (..., labels, labels) of `n_outputs` outputs.
    """
    return {
        **GENERAL,
        **(BINARY if n_distinct_labels == 2 else {}),
        "kappa": lambda table: kappa(table, ordered=ordered),
        "alpha": lambda table: krippendorff(table, n_outputs, ordered=ordered),
    }


def positive_rate(joint_proportions: Floats) -> Floats:
    """Return the rate of the second human label: (..., strata, labels) -> (...)."""
    return np.asarray(joint_proportions[..., 1].sum(axis=-1))


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
    judge_labels: Floats,
    is_selected_output: Bools | None = None,
    *,
    strata: Ints | None = None,
    only_judged: bool = False,
    **settings: Unpack[EstimateSettings],
) -> JudgeRates:
    """Return the estimates for a judge.

    Outputs without a label of the judge form a further stratum of the corrected rate. Such outputs are left out if
    annotators labelled only outputs with a label of the judge (`has_only_judged`).

    Parameters
    ----------
    outputs : LabelledOutputs
        Outputs with human labels; rates are of the second label, which is the positive label if there are two labels.
    judge_labels : array of shape (n,)
        Code of the judge's label; NaN if there is none.
    is_selected_output : bool array of shape (n,), optional
        Whether an output is one of the outputs whose rates are estimated (default: all outputs).
    strata : int array of shape (n,), optional
        Strata of a judge that gives scores; the strata are used instead of labels.
    only_judged : bool
        Whether to leave out the outputs without a label of the judge in any case.
    **settings
        See `EstimateSettings`.
    """
    sampling, confidence = settings["sampling"], settings["confidence"]
    is_selected = np.ones(len(judge_labels), dtype=bool) if is_selected_output is None else is_selected_output
    is_judged = is_selected & ~np.isnan(judge_labels)
    only_judged = only_judged or has_only_judged(outputs.only(is_selected), judge_labels[is_selected], sampling)
    label_strata = _label_strata(outputs.only(is_judged), judge_labels[is_judged].astype(np.intp), settings)
    is_used_output = is_judged if only_judged else is_selected
    used_outputs, is_judged_output = outputs.only(is_used_output), is_judged[is_used_output]
    has_human_label, label_weights = used_outputs.has_human_label, _label_weights(used_outputs)
    # With 'by-label', outputs with a human label are a separate set, which does not count in the estimated rate.
    is_estimated_output = ~has_human_label if sampling == "by-label" else np.ones(len(has_human_label), dtype=bool)
    n_undivided_strata = label_strata.n_strata if strata is None else int(strata[is_used_output].max(initial=0)) + 1
    label_or_bin_codes = (
        np.nan_to_num(judge_labels[is_used_output]).astype(np.intp) if strata is None else strata[is_used_output]
    )
    undivided_stratum_of_output = np.where(is_judged_output, label_or_bin_codes, n_undivided_strata)
    stratum_of_output = (
        undivided_stratum_of_output
        if sampling == "by-label"
        else designed_strata(
            undivided_stratum_of_output, used_outputs.weight, has_human_label, min_n_labelled=FEWEST_DESIGNED
        )
    )
    rate_strata = StratifiedLabels(
        outputs=used_outputs,
        stratum=stratum_of_output,
        weights=label_weights,
        totalled=is_estimated_output.astype(np.float64),
        n_strata=max(int(stratum_of_output.max(initial=0)) + 1, n_undivided_strata),
        **settings,
    )
    n_labelled, n_both_labels = int(has_human_label.sum()), int(label_strata.outputs.has_human_label.sum())
    n_estimated_outputs, n_judged_outputs = (
        int(used_outputs.number[is_estimated_output & is_included_output].sum())
        for is_included_output in (True, is_judged_output)
    )
    influence = rate_strata.influence(positive_rate)
    unstratified_labels = replace(
        rate_strata, stratum=np.zeros_like(stratum_of_output), n_strata=1, sampling="random", totalled=label_weights
    )
    human_influence = unstratified_labels.influence(positive_rate)
    effective_n_human, effective_n_judged = float(unstratified_labels.effective(human_influence).labelled.sum()), 0.0
    corrected_rate = human_rate = judge_rate = UNDEFINED
    rate_draws, corrected_rate_variance, unjudged_shares = np.full(1, np.nan), np.nan, np.zeros((1, 2))
    stratum_counts = rate_strata.counts
    if n_both_labels and n_estimated_outputs:
        has_divided_strata = rate_strata.n_strata > n_undivided_strata + (not is_judged_output.all())
        prior_weight = NEUTRAL_PRIOR if (has_divided_strata or sampling == "by-judge") and strata is None else PRIOR
        effective_counts = rate_strata.effective(influence)
        joint_estimate_and_draws = rate_strata.posterior(effective_counts, prior=prior_weight)
        is_variance_defined = sampling != "by-label" and len(outputs.words) == 2
        corrected_rate_variance = rate_variance(effective_counts, prior=prior_weight) if is_variance_defined else np.nan
        estimate_and_draws = positive_rate(joint_estimate_and_draws)
        unjudged_shares = joint_estimate_and_draws[:, np.unique(stratum_of_output[~is_judged_output])].sum(axis=1)
        rate_draws, corrected_rate = estimate_and_draws[1:], estimate_interval(estimate_and_draws, confidence)
    if n_labelled and sampling == "random":
        human_rate = _wilson(float(positive_rate(unstratified_labels.estimate)), effective_n_human, confidence)
    is_unlabelled_stratum = stratum_counts.labelled.sum(axis=1) == 0
    if n_judged_outputs:
        is_counted_output = is_estimated_output & is_judged_output
        is_positive_judge_label, output_multiplicities = (
            (judge_labels[is_used_output][is_counted_output] == 1).astype(np.float64),
            used_outputs.number[is_counted_output],
        )
        judge_positive_share = float((is_positive_judge_label * output_multiplicities).sum() / n_judged_outputs)
        effective_n_judged = n_judged_outputs / cluster_divisor(
            used_outputs.only(is_counted_output), is_positive_judge_label - judge_positive_share, confidence
        )
        judge_rate = _wilson(judge_positive_share, effective_n_judged, confidence)
    influences_of_all_outputs = np.zeros((2, len(judge_labels)))
    influences_of_all_outputs[:, is_used_output] = influence, human_influence
    return JudgeRates(
        rate_draws=rate_draws,
        rate_variance=corrected_rate_variance,
        unjudged=unjudged_shares,
        pairs=label_strata,
        influence=influences_of_all_outputs[0],
        human_influence=influences_of_all_outputs[1],
        corrected=corrected_rate,
        human=human_rate,
        judge=judge_rate,
        n=n_estimated_outputs,
        n_labelled=n_labelled,
        n_both_labels=n_both_labels,
        n_unjudged=n_estimated_outputs - n_judged_outputs,
        n_left_out=int(outputs.number[is_selected & ~is_used_output].sum()),
        rarer=float(stratum_counts.labelled.sum(axis=0).min()),
        judge_n=effective_n_judged,
        human_n=effective_n_human,
        unlabelled=0.0
        if sampling == "by-label"
        else float(ratio(stratum_counts.total[is_unlabelled_stratum].sum(), stratum_counts.total.sum())),
    )


def has_only_judged(outputs: LabelledOutputs, judge_labels: Floats, sampling: Sampling) -> bool:
    """Return whether annotators labelled only outputs with a label of the judge; the rates are then of these outputs
    only.

    With random sampling, the result is true if two conditions hold. No output without a label of the judge has a human
    label. The probability that random sampling misses all such outputs is below `UNSEEN`.
    """
    is_judged, has_human_label = ~np.isnan(judge_labels), outputs.has_human_label
    if sampling == "by-label" or is_judged.all():
        return True
    if (has_human_label & ~is_judged).any():
        return False
    judged_share = outputs.number[is_judged].sum() / outputs.number.sum()
    return sampling == "by-judge" or not has_human_label.any() or bool(judged_share ** has_human_label.sum() < UNSEEN)


def _label_weights(outputs: LabelledOutputs) -> Floats:
    """Return the weight of each output with a human label (0 without a human label), with a mean of 1."""
    weights = np.where(outputs.has_human_label, outputs.weight, 0.0)
    return np.nan_to_num(weights * ratio(outputs.has_human_label.sum(), weights.sum()))


def _label_strata(outputs: LabelledOutputs, label_codes: Ints, settings: EstimateSettings) -> StratifiedLabels:
    """Return the outputs with a label of the judge, by this label, for measures of agreement."""
    label_weights, sampling = _label_weights(outputs), settings["sampling"]
    is_counted_output = ~outputs.has_human_label if sampling == "by-label" else np.ones(len(label_weights), dtype=bool)
    label_strata = StratifiedLabels(
        outputs=outputs,
        stratum=label_codes,
        weights=label_weights,
        totalled=label_weights if sampling == "random" else is_counted_output.astype(np.float64),
        n_strata=len(outputs.words),
        **settings,
    )
    if sampling == "by-label" and np.isnan(label_strata.estimate).any():  # no unlabelled output, or judge at chance
        return replace(label_strata, sampling="random", totalled=label_weights)
    return label_strata


def cluster_divisor(
    outputs: LabelledOutputs, influence: Floats, confidence: float, *, is_labelled: Bools | None = None
) -> float:
    """Return the divisor of counts for outputs that share clusters; 1 without shared clusters."""
    if not outputs.has_clusters:
        return 1.0
    design_effect = influence_design_effect(influence, outputs.unit, kind=is_labelled, multiplicity=outputs.number)
    divisor = float(design_effect.divisor(confidence))
    return divisor if np.isfinite(divisor) else float(outputs.number.sum())


def _wilson(rate: float, effective_n: float, confidence: float) -> Interval:
    from scipy.special import ndtri

    low, high = wilson_interval(rate, effective_n, quantile=float(ndtri((1 + confidence) / 2)))
    return Interval(float(rate), float(low), float(high))
