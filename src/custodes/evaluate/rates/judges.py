"""Agreement of the labels of a judge with human labels, the alternative annotator test, and notes.

Some notes on the labels of a study and on judges may reverse a conclusion.
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
from custodes.evaluate.rates.estimates import (
    EstimateSettings,
    Interval,
    JudgeLabels,
    JudgeRates,
    judges_of,
    sampling_p_value,
)
from custodes.evaluate.rates.outputs import LabelledOutputs, has_known_positive
from custodes.evaluate.slices import Ratios
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.intervals import student_quantile, wilson_interval
from custodes.stats.rates.alternative_annotator_test import FEWEST_ANNOTATORS, FEWEST_OUTPUTS, Replacement, replacement
from custodes.stats.rates.posterior import Sampling
from custodes.stats.rates.scores import area_under_roc, roc, score_strata

MEASURES = {
    "tpr": "sensitivity: proportion of outputs with a positive human label to which the judge gives the positive label",
    "tnr": "specificity: proportion of outputs with a negative human label to which the judge gives the negative label",
    "ppv": "positive predictive value: proportion of the judge's positive labels whose human label is positive",
    "npv": "negative predictive value: proportion of the judge's negative labels whose human label is negative",
    "accuracy": "proportion of outputs with equal labels of judge and annotators",
    "balanced_accuracy": "mean recall over the human labels",
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

PASSED = 0.5
"""Minimum winning rate with which a judge may replace an annotator (Calderon, Reichart and Dror 2025)."""

SAMPLING_ALPHA = 0.01
"""Level of the test of the hypothesis that the labelled outputs are a random sample."""

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
            (share if name in PROPORTIONS else score)(
                name, doc, name.upper() if len(name) <= 3 else "", interval=True, essential=name in ESSENTIAL
            )
            for name, doc in MEASURES.items()
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


def equal_labels(outputs: LabelledOutputs) -> Ratios:
    """Return the accuracy of the labels of each metric, as a ratio of sums over outputs."""
    judges = list(comparable_judges(outputs))
    numerator, denominator = np.zeros((2, len(judges), len(outputs.system)))
    for k, judge in enumerate(judges):
        rows = np.flatnonzero(outputs.has_human_label & ~np.isnan(judge.evaluated))  # outputs with both labels
        numerator[k, rows] = outputs.gold[rows, judge.evaluated[rows].astype(np.intp)]
        denominator[k, rows] = 1
    return Ratios(
        labels=[(judge.name, "accuracy") for judge in judges],
        numerator=numerator,
        denominator=denominator,
        units=outputs.unit,
    )


def judge_row(
    outputs: LabelledOutputs, judge: JudgeLabels, judge_estimates: JudgeRates, *, confidence: float
) -> dict[str, Any]:
    """Return a row of the table `judges`."""
    measures = judge_estimates.measures(confidence=confidence, ordered=outputs.ordered)
    scores, is_positive, units = _labelled_scores(outputs, judge)
    measures["auc"] = Interval(*area_under_roc(scores, is_positive, units=units, confidence=confidence))
    return {
        "metric": judge.name,
        "label": outputs.words[1] if len(outputs.words) == 2 else "",
        "n_labelled": judge_estimates.n_labelled,
        **{
            key: value
            for name, interval in measures.items()
            for key, value in estimate_with_bounds(name, interval).items()
        },
        "threshold": judge.threshold,
        "human_agreement": outputs.human_agreement,
        "human_alpha": outputs.human_alpha,
        "reason": "" if judge_estimates.n_labelled else "no human labels",
    }


def roc_rows(outputs: LabelledOutputs, judge: JudgeLabels) -> list[dict[str, Any]]:
    """Return the rows of the table `roc`, thinned to `MOST_POINTS` points; empty for a judge without scores."""
    scores, is_positive, _ = _labelled_scores(outputs, judge)
    if not 0 < is_positive.sum() < len(is_positive):
        return []
    curve = roc(scores, is_positive)
    points_above_threshold = np.flatnonzero(curve.threshold >= judge.threshold)
    chosen_index = int(points_above_threshold[-1]) if len(points_above_threshold) else 0
    point_indices = np.unique(
        np.append(np.linspace(0, len(curve.threshold) - 1, MOST_POINTS).astype(np.intp), chosen_index)
    )
    return [
        {
            "metric": judge.name,
            "threshold": curve.threshold[k],
            "tpr": curve.tpr[k],
            "fpr": curve.fpr[k],
            "chosen": bool(k == chosen_index),
        }
        for k in point_indices
    ]


def calibration_rows(outputs: LabelledOutputs, judge: JudgeLabels, *, confidence: float) -> list[dict[str, Any]]:
    """Return the rows of the table `calibration`, with the rate of positive human labels in bins of equal size."""
    from scipy.special import ndtri

    scores, is_positive, _ = _labelled_scores(outputs, judge)
    if not len(scores):
        return []
    bins = score_strata(scores, n_labelled=len(scores))
    _, bin_of_output, n = np.unique(bins, return_inverse=True, return_counts=True)
    mean, rate = (np.bincount(bin_of_output, weights=values) / n for values in (scores, is_positive))
    low, high = wilson_interval(rate, n, quantile=float(ndtri((1 + confidence) / 2)))
    names = ("score", "n_labelled", "human_rate", "human_rate_low", "human_rate_high")
    columns = zip(mean, n, rate, low, high, strict=True)
    return [{"metric": judge.name} | dict(zip(names, row, strict=True)) for row in columns]


def _labelled_scores(outputs: LabelledOutputs, judge: JudgeLabels) -> tuple[Floats, Bools, Ints]:
    """Return the scores, the binary human labels and the clusters of outputs that have a score and a human label."""
    scores = np.full(len(outputs.unit), np.nan) if judge.scores is None else judge.scores
    is_usable = outputs.has_human_label & ~np.isnan(scores)
    return scores[is_usable], outputs.gold[is_usable, 1] > 0.5, outputs.unit[is_usable]


def replacement_rows(
    outputs: LabelledOutputs, *, epsilon: float, alpha: float, confidence: float
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield a row of `replacement`, and the rows of `replacement_annotators`, for each metric.

    A metric that gives scores is left out if the labels have no order. Nothing is yielded if no output has labels of
    two annotators.
    """
    has_several_annotators = np.sum(~np.isnan(outputs.annotated), axis=0) >= 2
    if not has_several_annotators.any():
        return
    rows = outputs.only(has_several_annotators)
    annotators = _numbers(rows, rows.annotated)
    for name, labels, is_score in zip(rows.metrics, rows.judged, rows.is_score, strict=True):
        if is_score and not rows.ordered:
            continue
        judge_numbers = labels if is_score else _numbers(rows, labels)
        test_units = partial(replacement, judge_numbers, annotators, ordered=rows.ordered, epsilon=epsilon, level=alpha)
        test_by_output = test_units(units=np.arange(len(judge_numbers)))
        test_by_cluster = test_units(units=rows.unit) if rows.has_clusters else test_by_output
        yield (
            _judge_row(name, test_by_output, test_by_cluster, rows, epsilon, confidence),
            _annotator_rows(name, test_by_cluster, rows, alpha),
        )


def _numbers(outputs: LabelledOutputs, codes: Floats) -> Floats:
    """Return labels as numbers: the values of ordered labels, the codes of labels without an order."""
    if not outputs.ordered:
        return codes
    values = np.array([float(word) for word in outputs.words])
    return np.where(np.isnan(codes), np.nan, values[np.nan_to_num(codes).astype(np.intp)])


def _judge_row(
    name: str,
    test_by_output: Replacement,
    test: Replacement,
    outputs: LabelledOutputs,
    epsilon: float,
    confidence: float,
) -> dict[str, Any]:
    n_tested = int(np.isfinite(test.p).sum())
    is_enough = n_tested >= FEWEST_ANNOTATORS
    half_width = student_quantile(confidence, len(np.unique(outputs.unit))) * test.error
    probability = test.advantage_probability
    return {
        "metric": name,
        "annotators": n_tested,
        "epsilon": epsilon,
        "winning_rate": test.winning_rate if is_enough else np.nan,
        "may_replace": test.winning_rate >= PASSED if is_enough else None,
        "advantage_probability": probability,
        "advantage_probability_low": max(probability - half_width, 0.0),
        "advantage_probability_high": min(probability + half_width, 1.0),
        "winning_rate_outputs": test_by_output.winning_rate if is_enough else np.nan,
        "reason": ""
        if is_enough
        else f"fewer than {FEWEST_ANNOTATORS} annotators labelled {FEWEST_OUTPUTS} or more outputs that also have "
        "another human label",
    }


def _annotator_rows(name: str, test: Replacement, outputs: LabelledOutputs, alpha: float) -> list[dict[str, Any]]:
    return [
        {
            "metric": name,
            "annotator": annotator,
            "n": int(test.n[k]),
            "advantage": test.advantage[k],
            "difference": test.difference[k],
            "p_adjusted": test.p[k],
            "replaceable": bool(test.p[k] <= alpha),
        }
        for k, annotator in enumerate(outputs.annotators)
        if np.isfinite(test.p[k])
    ]


def label_notes(outputs: LabelledOutputs, positive: str | None) -> list[Note]:
    """Return the notes on the human labels of an aspect."""
    n, n_labelled = int(outputs.number.sum()), int(outputs.has_human_label.sum())
    n_clusters = len(np.unique(outputs.unit[outputs.has_human_label]))
    labels, is_binary = outputs.words, len(outputs.words) == 2
    n_of_label = np.nansum(outputs.gold, axis=0) if n_labelled else np.zeros(len(labels))
    n_rarer = float(n_of_label.min())
    return build_notes(
        (
            "no-human-labels",
            not n_labelled,
            "no output has a human label, so rates are those of the judge and may be wrong; label a random part of "
            "the outputs",
        ),
        (
            "all-labelled",
            n_labelled == n,
            "every output has a human label, so the labels of the judge add hardly any information",
        ),
        (
            "positive-by-order",
            is_binary and positive is None and not has_known_positive(labels),
            f"{labels[-1]!r} counts as the positive label; if it is {labels[0]!r}, give positive={labels[0]!r}",
        ),
        (
            "few-of-a-label",
            bool(n_labelled) and is_binary and n_rarer < FEW_LABELS,
            f"only {n_rarer:.0f} human labels are {labels[int(np.argmin(n_of_label))]!r}, but an estimate of the error "
            f"rates of a judge needs at least {FEW_LABELS}; label more outputs to which a judge gives this label",
        ),
        (
            "few-labelled-clusters",
            outputs.has_clusters and 0 < n_clusters < FEW_CLUSTERS and n_clusters < n_labelled,
            f"human labels come from {n_clusters} clusters; with fewer than {FEW_CLUSTERS}, intervals may be too "
            "narrow",
        ),
        aspect=outputs.aspect,
    )


def rate_notes(outputs: LabelledOutputs, judge: JudgeLabels, rates_of_system: Mapping[str, JudgeRates]) -> list[Note]:
    """Return the notes on strata without human labels, for which the estimate depends only on the prior."""
    unlabelled_share_of_system = {
        name: rates.unlabelled for name, rates in rates_of_system.items() if rates.n_labelled and rates.unlabelled > 0
    }
    share_texts = [
        f"{'under 1%' if share < 0.01 else format(share, '.0%')} of the outputs of {name}"
        for name, share in unlabelled_share_of_system.items()
    ]
    label_text = "a score bin" if judge.scores is not None else "a label of this judge"
    return build_notes(
        (
            "labels-of-a-judge-unchecked",
            bool(share_texts),
            f"{judge.name}: {join_labels(share_texts)} have {label_text} that no human-labelled output of the same "
            "system has; for these outputs, both human labels are assumed to be equally probable, so label some of "
            "these outputs",
        ),
        aspect=outputs.aspect,
    )


def judge_notes(
    outputs: LabelledOutputs,
    judge: JudgeLabels,
    overall_rates: JudgeRates,
    sampling: Sampling,
    method: str,
    calibration: str,
) -> list[Note]:
    """Return the notes on the labels of one judge; `overall_rates` has the estimates for all outputs."""
    has_weights = (outputs.weight != outputs.weight[0]).any()
    p = sampling_p_value(outputs, judge.labels) if sampling == "random" and not has_weights else np.nan
    measures = overall_rates.measures(confidence=0.99, ordered=False)
    is_perfect_judge = overall_rates.n_labelled >= 2 * FEW_CLUSTERS and measures["accuracy"].value == 1
    return build_notes(
        (
            "labelled-part-not-random",
            p < SAMPLING_ALPHA,
            f"the outputs with a human label are not a random sample with respect to the labels of {judge.name} "
            f"(p = {p:.2g}); say how outputs were selected: sampling='by-judge' or 'by-label', or a column of "
            "inclusion probabilities",
        ),
        (
            "judge-equals-human",
            is_perfect_judge,
            f"{judge.name} equals the human label on all {overall_rates.n_labelled} outputs with human labels; check "
            f"that {judge.name} is not a copy of the human labels",
        ),
        (
            "judge-contradicts-human",
            measures["mcc"].high < 0,
            f"the labels of {judge.name} contradict the human labels (MCC {measures['mcc'].value:.2f}); check which "
            "label is positive and whether higher scores are better",
        ),
        (
            "error-rates-not-shared",
            calibration == "shared" and "shared" not in method and len(outputs.systems) > 1,
            f"{judge.name}: no test shows that TPR and TNR of the systems differ by less than {EQUIVALENCE_MARGIN}, so "
            "each system is corrected by the human labels of its outputs alone",
        ),
        aspect=outputs.aspect,
    )
