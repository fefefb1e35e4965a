"""Notes on the labels of a study and on judges, in particular notes that may reverse a conclusion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.evaluate.rates.comparisons import EQUIVALENCE_MARGIN
from custodes.evaluate.rates.estimates import JudgeLabels, JudgeRates, sampling_p_value
from custodes.evaluate.rates.outputs import LabelledOutputs, has_known_positive
from custodes.stats.rates.posterior import Sampling

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
    is_opposite = measures["mcc"].high < 0
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
            is_opposite,
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
