"""Labels of all outputs by each judge; scores become strata, and labels by a threshold. Test of random sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from custodes.data.comparisons import HUMAN
from custodes.evaluate.rates.estimates import UNDEFINED, EstimateSettings, JudgeRates, has_only_judged, judge_rates
from custodes.evaluate.rates.outputs import LabelledOutputs, is_confidence
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.clusters import influence_design_effect
from custodes.stats.rates.posterior import Sampling
from custodes.stats.rates.scores import ThresholdTarget, cross_fitted_labels, score_strata

FOLDS = 5
"""Number of folds for cross-fitted thresholds."""

SAMPLING_ALPHA = 0.01
"""Level of the test of the hypothesis that the labelled outputs are a random sample."""


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
        estimated_rates = judge_rates(
            outputs,
            self.labels,
            is_selected_output,
            strata=self.strata,
            only_judged=has_only_judged(outputs, self.labels, settings["sampling"]),
            **settings,
        )
        if self.name == HUMAN:
            return replace(estimated_rates, pairs=None, judge=UNDEFINED, unlabelled=0.0)
        has_no_threshold = self.scores is not None and not np.isfinite(self.threshold)
        return replace(estimated_rates, judge=UNDEFINED) if has_no_threshold else estimated_rates

    def rates_by_system(self, outputs: LabelledOutputs, **settings: Unpack[EstimateSettings]) -> dict[str, JudgeRates]:
        """Return the rates of the outputs of each system, with influences of all outputs (0 for other systems)."""
        return {
            system: self.rates(outputs, outputs.system == system_code, **settings)
            for system_code, system in enumerate(outputs.systems)
        }

    @property
    def threshold_judge(self) -> JudgeLabels:
        """The judge with labels by cross-fitted thresholds, which are used to estimate error rates."""
        return replace(self, labels=self.evaluated, strata=None if self.scores is not None else self.strata)


def judges_of(outputs: LabelledOutputs, threshold: str | None) -> Iterator[JudgeLabels]:
    """Yield each metric as a judge; if there is no metric, yield one judge named `human`.

    If a metric gives labels, scores that are the confidence of a judge in its label are left out.

    `threshold` turns scores into labels and requires two labels. `threshold` is a number, or a `ThresholdTarget` by
    which thresholds are cross-fitted. Without `threshold`, scores only form strata.
    """
    if not outputs.metrics:
        constant_labels = np.zeros(len(outputs.system))
        yield JudgeLabels(
            name=HUMAN, labels=constant_labels, evaluated=constant_labels, strata=constant_labels.astype(np.intp)
        )
    for metric, labels_or_scores, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
        if is_score and is_confidence(metric) and not outputs.is_score.all():
            continue
        if not is_score:
            yield JudgeLabels(name=metric, labels=labels_or_scores, evaluated=labels_or_scores)
            continue
        has_score = ~np.isnan(labels_or_scores)
        has_score_and_human_label = has_score & outputs.has_human_label
        positive_shares = outputs.gold[has_score_and_human_label, 1]
        threshold_or_target = parsed_threshold(threshold) if threshold else np.nan
        cutoff = (
            threshold_or_target.threshold(labels_or_scores[has_score_and_human_label], positive_shares)
            if isinstance(threshold_or_target, ThresholdTarget)
            else threshold_or_target
        )
        judge_labels = np.where(has_score, labels_or_scores >= cutoff, np.nan)  # all 0 if the cutoff is NaN
        cross_fitted_judge_labels = judge_labels.copy()
        if isinstance(threshold_or_target, ThresholdTarget):
            cross_fitted_judge_labels[has_score_and_human_label] = cross_fitted_labels(
                labels_or_scores[has_score_and_human_label],
                positive_shares,
                threshold_or_target,
                fold=outputs.unit[has_score_and_human_label] % FOLDS,
            )
        score_stratum_codes = np.zeros(len(labels_or_scores), dtype=np.intp)
        score_stratum_codes[has_score] = score_strata(
            labels_or_scores[has_score], n_labelled=int(has_score_and_human_label.sum())
        )
        yield JudgeLabels(
            name=metric,
            labels=judge_labels,
            evaluated=cross_fitted_judge_labels,
            strata=score_stratum_codes,
            scores=labels_or_scores,
            threshold=cutoff,
        )


def parsed_threshold(threshold_text: str) -> float | ThresholdTarget:
    """Return a threshold as a number, or the target by which a threshold is selected."""
    try:
        cutoff = float(threshold_text)
    except ValueError:
        return ThresholdTarget.parse(threshold_text)
    return cutoff if np.isfinite(cutoff) else ThresholdTarget.parse(threshold_text)


def sampling_test(
    outputs: LabelledOutputs, judges: Sequence[JudgeLabels], sampling: Sampling, *, by_system: bool
) -> tuple[float, str, str]:
    """Test whether the outputs with a human label are a random sample of all outputs. With `by_system`, each system is
    tested separately, because systems may have different proportions of labelled outputs.

    Returns the smallest p-value of `sampling_p_value`, adjusted for the number of systems (Bonferroni), the name of the
    judge with this p-value, and ` of SYSTEM` (or an empty text). The p-value is NaN if a random sample is not assumed:
    if `sampling` is not 'random', or if inclusion probabilities differ.
    """
    if sampling != "random" or (outputs.weight != outputs.weight[0]).any():
        return np.nan, "", ""
    group_texts_and_masks = [("", np.ones(len(outputs.system), dtype=bool))]
    if by_system and len(outputs.systems) > 1:
        group_texts_and_masks = [
            (f" of {system}", outputs.system == system_code) for system_code, system in enumerate(outputs.systems)
        ]
    p_judge_text_tuples = [
        (
            len(group_texts_and_masks) * sampling_p_value(outputs.only(is_group_output), judge.labels[is_group_output]),
            judge.name,
            group_text,
        )
        for group_text, is_group_output in group_texts_and_masks
        for judge in judges
    ]
    return min(p_judge_text_tuples, key=lambda test: float(np.nan_to_num(test[0], nan=1)))


def sampling_p_value(outputs: LabelledOutputs, judge_labels: Floats) -> float:
    """Return the p-value of the test that each label of the judge is equally frequent with and without human labels.

    If annotators labelled outputs without a label of the judge, the missing label counts as a further label. Each label
    is tested by Fisher's exact test, with counts divided by the design effect of clusters. The smallest p-value over
    labels is adjusted by Bonferroni's method. The result is NaN if all outputs, or no outputs, have human labels.
    """
    judge_labels = (
        judge_labels if has_only_judged(outputs, judge_labels, "random") else np.nan_to_num(judge_labels, nan=-1.0)
    )
    judged_outputs, known_judge_labels = outputs.only(~np.isnan(judge_labels)), judge_labels[~np.isnan(judge_labels)]
    has_human_label, output_multiplicities = judged_outputs.has_human_label, judged_outputs.number
    if has_human_label.all() or not has_human_label.any():
        return np.nan
    # The two groups are the outputs without and with a human label.
    n_outputs_by_group = np.bincount(has_human_label, weights=output_multiplicities)
    distinct_labels = np.unique(known_judge_labels)
    p_values = []
    for label in distinct_labels[1:] if len(distinct_labels) == 2 else distinct_labels:
        has_this_label = known_judge_labels == label
        n_with_label_by_group = np.bincount(has_human_label, weights=output_multiplicities * has_this_label)
        label_residuals = has_this_label - n_with_label_by_group.sum() / output_multiplicities.sum()
        influence = (
            label_residuals * np.where(has_human_label, 1, -1) / n_outputs_by_group[has_human_label.astype(np.intp)]
        )
        design_effect = influence_design_effect(
            influence, judged_outputs.unit, multiplicity=output_multiplicities
        ).effect
        effective_table = np.stack([n_with_label_by_group, n_outputs_by_group - n_with_label_by_group]) / np.nan_to_num(
            design_effect, nan=1.0
        )
        p_values.append(fisher_p_value(effective_table.round()))
    return float(min(1.0, min(p_values) * len(p_values)))


def fisher_p_value(table: Floats) -> float:
    """Return the two-sided p-value of Fisher's exact test of a table (2, 2) of counts.

    >>> round(fisher_p_value(np.array([[8, 2], [1, 5]])), 4)  # as scipy.stats.fisher_exact
    0.035
    """
    from scipy.special import gammaln

    (first_row_total, _), (first_column_total, _), grand_total = table.sum(axis=1), table.sum(axis=0), table.sum()
    upper_left_counts = np.arange(
        max(0, first_row_total + first_column_total - grand_total), min(first_row_total, first_column_total) + 1
    )
    cell_counts = np.stack(
        [
            upper_left_counts,
            first_row_total - upper_left_counts,
            first_column_total - upper_left_counts,
            grand_total - first_row_total - first_column_total + upper_left_counts,
        ]
    )
    log_probabilities = -gammaln(cell_counts + 1).sum(axis=0)
    probabilities = np.exp(log_probabilities - log_probabilities.max())
    observed_probability = probabilities[int(table[0, 0] - upper_left_counts[0])]
    return float(probabilities[probabilities <= observed_probability * (1 + 1e-7)].sum() / probabilities.sum())
