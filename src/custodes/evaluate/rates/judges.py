"""Agreement of the labels of a judge with human labels, the alternative annotator test, and notes.

Some of the notes report problems that may reverse a conclusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from custodes.answers.tables import count, label, score, share, table
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.evaluate.rates.comparisons import EQUIVALENCE_MARGIN, estimate_with_bounds
from custodes.evaluate.rates.estimates import EstimateSettings, JudgeRates
from custodes.evaluate.rates.judge_labels import SAMPLING_ALPHA, JudgeLabels, judges_of, sampling_test
from custodes.evaluate.rates.outputs import LabelledOutputs, has_known_positive, values_of_codes
from custodes.evaluate.slices import Ratios
from custodes.stats.arrays import Floats, Ints
from custodes.stats.intervals import student_quantile, wilson_interval
from custodes.stats.rates.alternative_annotator_test import FEWEST_ANNOTATORS, FEWEST_OUTPUTS, Replacement, replacement
from custodes.stats.rates.posterior import Sampling
from custodes.stats.rates.scores import area_under_roc, roc, score_strata

MEASURES = {
    "tpr": "sensitivity: proportion of outputs with a positive human label to which the judge gives the positive label",
    "tnr": "specificity: proportion of outputs with a negative human label to which the judge gives the negative label",
    "ppv": "positive predictive value: proportion of the judge's positive labels whose human label is positive",
    "npv": "negative predictive value: proportion of the judge's negative labels whose human label is negative",
    "accuracy": "proportion of outputs to which judge and annotators give the same label",
    "balanced_accuracy": "balanced accuracy: recall, averaged over the human labels",
    "f1": "F1 of the positive label; mean over labels if there are more than two",
    "mcc": "Matthews correlation coefficient",
    "kappa": "Cohen's kappa; quadratic weights for ordered labels",
    "ac1": "Gwet's AC1",
    "alpha": "Krippendorff's alpha of judge and human labels",
    "auc": "area under the ROC curve of a judge that gives scores",
}
PROPORTIONS = ("tpr", "tnr", "ppv", "npv", "accuracy", "balanced_accuracy", "f1", "auc")
ESSENTIAL = ("tpr", "tnr", "accuracy", "kappa")


MOST_POINTS = 200
"""Maximum number of points of a ROC curve in the table `roc`."""

NO_COMMON_OUTPUT = "no output has both a label of the metric and a human label"

PASSED = 0.5
"""Minimum winning rate with which a judge may replace an annotator (Calderon, Reichart and Dror 2025)."""

MOST_OUTSIDE = 0.05
"""Scores may be on the scale of the labels if at most this proportion of them lies outside the range of labels."""

FEW_LABELS = 3
"""Minimum number of human labels of the less frequent class; with fewer labels, intervals are too narrow."""

FEW_CLUSTERS = 40
"""Minimum number of labelled clusters; with fewer clusters, intervals are too narrow."""

WARNINGS = (
    "no-human-labels",
    "labelled-part-not-random",
    "judge-equals-human",
    "judge-contradicts-human",
    "few-of-a-label",
    "few-labelled-clusters",
    "labels-of-a-judge-unchecked",
    "outputs-left-out",
    "positive-by-order",
    "threshold-outside-scores",
)
"""Rules of the notes that may reverse a conclusion."""


def judge_table() -> Any:
    """Return the declaration of the table `judges`."""
    return table(
        "One row per metric: agreement of its labels with human labels.",
        label("metric", "name of the metric"),
        label("label", "the positive label; empty if there are more than two labels"),
        count("n_labelled", "number of outputs with labels by metric and annotators", "Human labels"),
        *(
            (share if measure_name in PROPORTIONS else score)(
                measure_name,
                description,
                measure_name.upper() if len(measure_name) <= 3 else "",
                interval=True,
                essential=measure_name in ESSENTIAL,
            )
            for measure_name, description in MEASURES.items()
        ),
        score(
            "threshold",
            "threshold of the scores; the judge's label is positive for scores of at least this value",
            essential=False,
        ),
        share("human_agreement", "probability that two annotators of an output agree", "Annotators agree"),
        score("human_alpha", "Krippendorff's alpha of the annotators", essential=False),
        label("reason", "reason for undefined measures", essential=False),
    )


def comparable_judges(outputs: LabelledOutputs) -> Iterator[JudgeLabels]:
    """Yield the metrics to compare with human labels; with more than two labels, only metrics that give labels."""
    is_binary = len(outputs.words) == 2
    for judge in judges_of(outputs, "youden" if is_binary else None):
        if judge.name != HUMAN and (is_binary or judge.scores is None):
            yield judge


def judge_rows(outputs: LabelledOutputs, settings: EstimateSettings) -> list[dict[str, Any]]:
    """Return the rows of the table `judges`."""
    return [
        judge_row(outputs, judge, judge.threshold_judge.rates(outputs, **settings), confidence=settings["confidence"])
        for judge in comparable_judges(outputs)
    ]


def label_accuracies(outputs: LabelledOutputs) -> Ratios:
    """Return the accuracy of the labels of each metric, as a ratio of sums over outputs."""
    judges = list(comparable_judges(outputs))
    agreement_with_human, has_both_labels = np.zeros((2, len(judges), len(outputs.system)))
    for judge_index, judge in enumerate(judges):
        output_indices = np.flatnonzero(outputs.has_human_label & ~np.isnan(judge.evaluated))  # with both labels
        agreement_with_human[judge_index, output_indices] = outputs.gold[
            output_indices, judge.evaluated[output_indices].astype(np.intp)
        ]
        has_both_labels[judge_index, output_indices] = 1
    return Ratios(
        labels=[(judge.name, "accuracy") for judge in judges],
        numerator=agreement_with_human,
        denominator=has_both_labels,
        units=outputs.unit,
    )


def judge_row(
    outputs: LabelledOutputs, judge: JudgeLabels, judge_rates: JudgeRates, *, confidence: float
) -> dict[str, Any]:
    """Return a row of the table `judges`."""
    estimate_of_measure = judge_rates.measures(confidence=confidence, ordered=outputs.ordered)
    scores, positive_shares, cluster_codes = _labelled_scores(outputs, judge)
    estimate_of_measure["auc"] = area_under_roc(scores, positive_shares, units=cluster_codes, confidence=confidence)
    return {
        "metric": judge.name,
        "label": outputs.words[1] if len(outputs.words) == 2 else "",
        "n_labelled": judge_rates.n_both_labels,
        **{
            column_name: estimate_or_bound
            for measure, interval in estimate_of_measure.items()
            for column_name, estimate_or_bound in estimate_with_bounds(measure, interval).items()
        },
        "threshold": judge.threshold,
        "human_agreement": outputs.human_agreement,
        "human_alpha": outputs.human_alpha,
        "reason": ""
        if judge_rates.n_both_labels
        else NO_COMMON_OUTPUT
        if judge_rates.n_labelled
        else "no human labels",
    }


def confusion_rows(outputs: LabelledOutputs, metric: str, overall_rates: JudgeRates) -> list[dict[str, Any]]:
    """Return the rows of the table `confusion`."""
    if overall_rates.pairs is None:
        return []
    return [
        {
            "metric": metric,
            "label": judge_label,
            "human_label": human_label,
            "n": overall_rates.pairs.counts.labelled[judge_code, human_code],
        }
        for judge_code, judge_label in enumerate(outputs.words)
        for human_code, human_label in enumerate(outputs.words)
    ]


def roc_rows(outputs: LabelledOutputs, judge: JudgeLabels) -> list[dict[str, Any]]:
    """Return the rows of the table `roc`, thinned to `MOST_POINTS` points; empty for a judge without scores."""
    scores, positive_shares, _ = _labelled_scores(outputs, judge)
    if not 0 < positive_shares.sum() < len(positive_shares):
        return []
    roc_curve = roc(scores, positive_shares)
    indices_above_threshold = np.flatnonzero(roc_curve.threshold >= judge.threshold)
    chosen_point_index = int(indices_above_threshold[-1]) if len(indices_above_threshold) else 0
    point_indices = np.unique(
        np.append(np.linspace(0, len(roc_curve.threshold) - 1, MOST_POINTS).astype(np.intp), chosen_point_index)
    )
    return [
        {
            "metric": judge.name,
            "threshold": roc_curve.threshold[point_index],
            "tpr": roc_curve.tpr[point_index],
            "fpr": roc_curve.fpr[point_index],
            "chosen": bool(point_index == chosen_point_index),
        }
        for point_index in point_indices
    ]


def calibration_rows(outputs: LabelledOutputs, judge: JudgeLabels, *, confidence: float) -> list[dict[str, Any]]:
    """Return the rows of the table `calibration`, with the rate of positive human labels in bins of equal size."""
    from scipy.special import ndtri

    labelled_scores, positive_shares, _ = _labelled_scores(outputs, judge)
    if not len(labelled_scores):
        return []
    _, bin_of_output, n_outputs_of_bin = np.unique(
        score_strata(labelled_scores, n_labelled=len(labelled_scores)), return_inverse=True, return_counts=True
    )
    mean_scores, positive_rates = (
        np.bincount(bin_of_output, weights=scores_or_labels) / n_outputs_of_bin
        for scores_or_labels in (labelled_scores, positive_shares)
    )
    lower_bounds, upper_bounds = wilson_interval(
        positive_rates, n_outputs_of_bin, quantile=float(ndtri((1 + confidence) / 2))
    )
    column_names = ("score", "n_labelled", "human_rate", "human_rate_low", "human_rate_high")
    bin_rows = zip(mean_scores, n_outputs_of_bin, positive_rates, lower_bounds, upper_bounds, strict=True)
    return [{"metric": judge.name} | dict(zip(column_names, bin_row, strict=True)) for bin_row in bin_rows]


def _labelled_scores(outputs: LabelledOutputs, judge: JudgeLabels) -> tuple[Floats, Floats, Ints]:
    """Return scores, human labels (proportion of the positive label) and clusters of outputs with score and label."""
    scores = np.full(len(outputs.unit), np.nan) if judge.scores is None else judge.scores
    has_score_and_human_label = outputs.has_human_label & ~np.isnan(scores)
    return (
        scores[has_score_and_human_label],
        outputs.gold[has_score_and_human_label, 1],
        outputs.unit[has_score_and_human_label],
    )


def replacement_rows(
    outputs: LabelledOutputs, *, epsilon: float, alpha: float, confidence: float
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield a row of `replacement`, and the rows of `replacement_annotators`, for each metric.

    A metric that gives scores is left out in two cases: the labels have no order, or more than `MOST_OUTSIDE` of its
    scores are outside the range of the labels. Nothing is yielded if no output has labels of two annotators.
    """
    is_multiply_labelled = np.sum(~np.isnan(outputs.annotated), axis=0) >= 2
    if not is_multiply_labelled.any():
        return
    multiply_labelled_outputs = outputs.only(is_multiply_labelled)
    annotator_label_numbers = _numbers(multiply_labelled_outputs, multiply_labelled_outputs.annotated)
    for metric, labels_or_scores, is_score in zip(
        multiply_labelled_outputs.metrics,
        multiply_labelled_outputs.judged,
        multiply_labelled_outputs.is_score,
        strict=True,
    ):
        if is_score and not (
            multiply_labelled_outputs.ordered and _on_scale(multiply_labelled_outputs, labels_or_scores)
        ):
            continue
        judge_label_numbers = labels_or_scores if is_score else _numbers(multiply_labelled_outputs, labels_or_scores)
        test_replacement = partial(
            replacement,
            judge_label_numbers,
            annotator_label_numbers,
            ordered=multiply_labelled_outputs.ordered,
            epsilon=epsilon,
            level=alpha,
        )
        test_by_output = test_replacement(units=np.arange(len(judge_label_numbers)))
        test_by_cluster = (
            test_replacement(units=multiply_labelled_outputs.unit)
            if multiply_labelled_outputs.has_clusters
            else test_by_output
        )
        yield (
            _judge_row(metric, test_by_output, test_by_cluster, multiply_labelled_outputs, epsilon, confidence),
            _annotator_rows(metric, test_by_cluster, multiply_labelled_outputs, alpha),
        )


def _on_scale(outputs: LabelledOutputs, scores: Floats) -> bool:
    """Return whether scores may be on the scale of the ordered labels, so that their distances to labels are errors."""
    label_numbers = _numbers(outputs, np.arange(len(outputs.words), dtype=np.float64))
    is_outside = (scores < label_numbers.min()) | (scores > label_numbers.max())
    return bool(is_outside.sum() <= MOST_OUTSIDE * np.isfinite(scores).sum())


def _numbers(outputs: LabelledOutputs, label_codes: Floats) -> Floats:
    """Return labels as numbers: the values of ordered labels, the codes of labels without an order."""
    if not outputs.ordered:
        return label_codes
    return values_of_codes(label_codes, np.array([float(label) for label in outputs.words]))


def _judge_row(
    metric: str,
    test_by_output: Replacement,
    test_by_cluster: Replacement,
    outputs: LabelledOutputs,
    epsilon: float,
    confidence: float,
) -> dict[str, Any]:
    n_tested_annotators = int(np.isfinite(test_by_cluster.p).sum())
    has_enough_annotators = n_tested_annotators >= FEWEST_ANNOTATORS
    interval_half_width = student_quantile(confidence, len(np.unique(outputs.unit))) * test_by_cluster.error
    advantage_probability = test_by_cluster.advantage_probability
    return {
        "metric": metric,
        "annotators": n_tested_annotators,
        "epsilon": epsilon,
        "winning_rate": test_by_cluster.winning_rate if has_enough_annotators else np.nan,
        "may_replace": test_by_cluster.winning_rate >= PASSED if has_enough_annotators else None,
        "advantage_probability": advantage_probability,
        "advantage_probability_low": max(advantage_probability - interval_half_width, 0.0),
        "advantage_probability_high": min(advantage_probability + interval_half_width, 1.0),
        "winning_rate_outputs": test_by_output.winning_rate if has_enough_annotators else np.nan,
        "reason": ""
        if has_enough_annotators
        else f"fewer than {FEWEST_ANNOTATORS} annotators labelled {FEWEST_OUTPUTS} or more outputs that also have "
        "another human label",
    }


def _annotator_rows(
    metric: str, replacement_test: Replacement, outputs: LabelledOutputs, alpha: float
) -> list[dict[str, Any]]:
    return [
        {
            "metric": metric,
            "annotator": annotator,
            "n": int(replacement_test.n[annotator_index]),
            "advantage": replacement_test.advantage[annotator_index],
            "difference": replacement_test.difference[annotator_index],
            "p_adjusted": replacement_test.p[annotator_index],
            "replaceable": bool(replacement_test.p[annotator_index] <= alpha),
        }
        for annotator_index, annotator in enumerate(outputs.annotators)
        if np.isfinite(replacement_test.p[annotator_index])
    ]


def label_notes(outputs: LabelledOutputs, positive: str | None) -> list[Note]:
    """Return the notes on the human labels of an aspect, and a note if the positive label of two labels is guessed."""
    n_outputs, n_labelled = int(outputs.number.sum()), int(outputs.has_human_label.sum())
    n_clusters = len(np.unique(outputs.unit[outputs.has_human_label]))
    label_names, is_binary = outputs.words, len(outputs.words) == 2
    n_outputs_of_label = np.nansum(outputs.gold, axis=0) if n_labelled else np.zeros(len(label_names))
    n_rarer_label = float(n_outputs_of_label.min())
    rarer_label = label_names[int(np.argmin(n_outputs_of_label))]
    few_labels_text = (
        f"only {n_rarer_label:.3g} human labels are {rarer_label!r}"
        if n_rarer_label
        else f"no human label is {rarer_label!r}"
    )
    notes = build_notes(
        (
            "positive-by-order",
            is_binary and positive is None and not has_known_positive(label_names),
            f"it is unknown which label is positive, so {label_names[-1]!r}, the last in order, counts as positive; if "
            f"{label_names[0]!r} is positive, give positive={label_names[0]!r}",
        ),
        (
            "no-human-labels",
            not n_labelled,
            "no output has a human label, so rates are estimated from the judge's labels alone and may be wrong; "
            "label a random part of the outputs",
        ),
        (
            "all-labelled",
            n_labelled == n_outputs and bool(outputs.metrics),
            "every output has a human label, so the labels of the judge add hardly any information"
            f"{'' if is_binary or not outputs.is_score.any() else '; scores are not used without a positive label'}",
        ),
        (
            "few-of-a-label",
            bool(n_labelled) and is_binary and n_rarer_label < FEW_LABELS,
            f"{few_labels_text}, but an estimate of the error rates of a judge needs at least {FEW_LABELS}; label more "
            "outputs to which a judge gives this label",
        ),
        (
            "few-labelled-clusters",
            outputs.has_clusters and 0 < n_clusters < FEW_CLUSTERS and n_clusters < n_labelled,
            f"human labels come from {n_clusters} clusters; with fewer than {FEW_CLUSTERS}, intervals may be too "
            "narrow",
        ),
        aspect=outputs.aspect,
    )
    return [*outputs.notes, *notes]


def rate_notes(
    outputs: LabelledOutputs, judge: JudgeLabels, rates_of_system: Mapping[str, JudgeRates], sampling: Sampling
) -> list[Note]:
    """Return two kinds of notes. Strata without human labels have an estimate that depends only on the prior. Outputs
    without a label of the judge count in rates or are left out (see `rates`)."""
    unlabelled_share_texts = [
        f"{'under 1%' if system_rates.unlabelled < 0.01 else format(system_rates.unlabelled, '.0%')} of the outputs of "
        f"{system}"
        for system, system_rates in rates_of_system.items()
        if system_rates.n_both_labels and system_rates.unlabelled > 0
    ]
    left_out_texts, unjudged_texts = (
        [
            f"{n_outputs} of {int(outputs.number[outputs.system == outputs.systems.index(system)].sum())} outputs of "
            f"{system}"
            for system, n_outputs in n_outputs_of_system.items()
            if n_outputs
        ]
        for n_outputs_of_system in (
            {system: system_rates.n_left_out for system, system_rates in rates_of_system.items()},
            {system: system_rates.n_unjudged for system, system_rates in rates_of_system.items()},
        )
    )
    stratum_text = "a score bin" if judge.scores is not None else "a label of this judge"
    if unjudged_texts:
        stratum_text += " (or no label)"
    reason_text = (
        "because sampling='by-label' needs a label of the judge for every output"
        if sampling == "by-label"
        else "because annotators labelled none of these outputs; let annotators label a random part of these outputs"
    )
    return build_notes(
        (
            "labels-of-a-judge-unchecked",
            bool(unlabelled_share_texts),
            f"{judge.name}: {join_labels(unlabelled_share_texts)} have {stratum_text} that no human-labelled output "
            "of the same system has. For these outputs, both human labels are assumed to be equally probable; label "
            "some of these outputs",
        ),
        (
            "outputs-left-out",
            bool(left_out_texts),
            f"{judge.name} gives no usable label to {join_labels(left_out_texts)}; the rates are only those of the "
            f"other outputs, {reason_text}",
        ),
        (
            "outputs-without-judge-label",
            bool(unjudged_texts),
            f"{judge.name} gives no usable label to {join_labels(unjudged_texts)}; these outputs count in human and "
            "corrected rates, but not in the judge's rate and in measures such as TPR",
        ),
        aspect=outputs.aspect,
    )


def judge_notes(
    outputs: LabelledOutputs,
    judge: JudgeLabels,
    overall_rates: JudgeRates,
    sampling: Sampling,
    *,
    is_sharing_rejected: bool = False,
) -> list[Note]:
    """Return the notes on the labels of one judge; `overall_rates` has the estimates for all outputs.

    `is_sharing_rejected` tells whether systems should share error rates that are not shown to be equivalent.
    """
    sampling_p, _, system_text = sampling_test(outputs, [judge], sampling, by_system=True)
    estimate_of_measure = overall_rates.measures(confidence=0.99, ordered=False, names=("accuracy", "mcc"))
    scores = np.empty(0) if judge.scores is None else judge.scores[~np.isnan(judge.scores)]
    distinct_labels = np.unique(judge.labels[~np.isnan(judge.labels)])
    has_only_one_label = scores.size > 0 and np.isfinite(judge.threshold) and len(distinct_labels) == 1
    is_perfect_judge = overall_rates.n_both_labels >= 2 * FEW_CLUSTERS and estimate_of_measure["accuracy"].value == 1
    return build_notes(
        (
            "labelled-part-not-random",
            sampling_p < SAMPLING_ALPHA,
            f"the outputs{system_text} with a human label are not a random sample with respect to the labels of "
            f"{judge.name} (p = {sampling_p:.2g}); say how outputs were selected: sampling='by-judge' or 'by-label', "
            "or a column of inclusion probabilities",
        ),
        (
            "threshold-outside-scores",
            has_only_one_label,
            f"the threshold {judge.threshold:g} gives all outputs the same label; scores of {judge.name} lie between "
            f"{scores.min(initial=np.inf):g} and {scores.max(initial=-np.inf):g}, so give a threshold between these",
        ),
        (
            "judge-equals-human",
            is_perfect_judge,
            f"{judge.name} equals the human label on all {overall_rates.n_both_labels} outputs with human labels; "
            f"check that {judge.name} is not a copy of the human labels",
        ),
        (
            "judge-contradicts-human",
            estimate_of_measure["mcc"].high < 0,
            f"the labels of {judge.name} contradict the human labels (MCC {estimate_of_measure['mcc'].value:.2f}); "
            "check which label is positive and whether higher scores are better",
        ),
        (
            "error-rates-not-shared",
            is_sharing_rejected and len(outputs.systems) > 1,
            f"{judge.name}: no test shows that TPR and TNR of the systems differ by less than {EQUIVALENCE_MARGIN}. "
            "Each system is therefore corrected by the human labels of its outputs alone",
        ),
        aspect=outputs.aspect,
    )
