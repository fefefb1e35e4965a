"""Selection of judgements that replace human labels, selection of outputs to label, and a warning if a judge gets
worse."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, flag, label, probability, score, share, table
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, reject, short_repr
from custodes.evaluate.parallel import merge_parts
from custodes.evaluate.rates.judge_labels import SAMPLING_ALPHA, sampling_p_value
from custodes.evaluate.rates.judged_outputs import JudgedOutputs, judged_outputs
from custodes.evaluate.rates.outputs import (
    LabelledOutputs,
    binary_outputs,
    draw_within_strata,
    judge_position,
    labelled_outputs,
)
from custodes.progress import Progress, silent
from custodes.stats.arrays import Bools, Ints
from custodes.stats.rates.sample_size import allocation, fewest_labels, rate_shares
from custodes.stats.rates.selective import SPARE, e_values, error_rates, fixed_sequence, upper_bound
from custodes.stats.ratios import ratio

CANDIDATES = 20
"""Number of thresholds that are tested; thresholds are quantiles of the confidence of all outputs."""

CLASSES = (0.1, 0.25, 0.5)
"""Quantiles of the confidence, which divide the outputs into classes. The classes are used if labels are allocated by
expected error."""

UNIFORM = 0.25
"""Proportion of labels that is allocated in proportion to the size of classes, so that classes with few errors also
have some labels."""

FEWEST = 10
"""Minimum number of human labels for each class and label of the judge, if there are enough outputs."""

MOST_LABELS = 10**6


@result
class Route(Result):
    """Threshold of confidence above which judgements are accepted, and outputs to label; see `route`."""

    threshold: pl.DataFrame = table(
        "One row per judge: the threshold, and the disagreement of accepted judgements with human labels.",
        label("metric", "name of the judge"),
        label("signal", "measure of the judge's confidence"),
        count("n", "number of outputs with a label of the judge", "Outputs"),
        score("threshold", "smallest confidence of an accepted judgement"),
        share("accepted", "proportion of outputs whose judgement is accepted"),
        count("n_labelled", "number of accepted judgements with a human label", "Human labels"),
        share("disagreement", "among accepted judgements with a human label, proportion that differ from this label"),
        share("disagreement_bound", "upper bound of the disagreement (Clopper–Pearson)", "Upper bound"),
        score(
            "e_value",
            "with `threshold`: largest value of an e-process for the hypothesis that the disagreement exceeds the "
            "acceptable value. An e-process is evidence that may be read after each label. It uses the human labels "
            "of accepted judgements in the order of the rows",
        ),
        flag(
            "alarm",
            "with `threshold`: whether the e-process reached 1 / alpha; null without human labels of accepted outputs",
        ),
        count("add", "number of outputs to label next", "Label next"),
        label("reason", "reason if no judgement is accepted"),
    )
    outputs: pl.DataFrame = table(
        "One row per output with a label of the judge.",
        label("item", "the item"),
        label("system", "the system"),
        score("certainty", "confidence of the judge"),
        flag("accepted", "whether the judgement is accepted"),
        probability("probability", "probability of having a human label, once the outputs to label next are labelled"),
        flag("label_next", "whether to label the output next"),
        essential=False,
    )


@question(
    "custodes route labels.csv --disagreement 0.1 --table outputs -o routed.csv",
    metric="Name of the judge whose labels may be accepted (default: the only metric that gives labels).",
    signal=(
        "Measure of the judge's confidence: a metric with scores, a column, `repeats` or `judges`. `repeats` is the "
        "agreement of repeated labels, and `judges` is the agreement of judges. The default is the first available "
        "measure."
    ),
    disagreement="Largest acceptable disagreement of accepted judgements with human labels.",
    threshold="Accept judgements of at least this confidence, and test whether their disagreement with human labels "
    "rises above the acceptable disagreement (default: search for a threshold).",
    audit="Proportion of outputs with an accepted judgement that annotators also label, as an audit.",
    add="Number of outputs to label, allocated by expected error (default: all outputs whose judgement is not "
    "accepted, and the audited outputs).",
    confidence="Confidence level of the upper bound of the disagreement.",
    alpha="Probability of a false alarm (with threshold).",
)
def route(
    study: Study,
    *,
    metric: str | None = None,
    signal: str | None = None,
    positive: str | None = None,
    disagreement: float = 0.1,
    threshold: float | None = None,
    audit: float = 0.05,
    add: int | None = None,
    confidence: float = 0.95,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Selection],
) -> Route:
    """Accept judgements of high confidence, leave other judgements to annotators, and warn if the judge gets worse.

    Notes
    -----
    The outputs with human labels must be a random part of the outputs. Thresholds are tested from the highest
    confidence downwards until the upper bound of the disagreement (Clopper and Pearson) exceeds `disagreement`. With a
    probability of at least `confidence`, the true disagreement at the chosen threshold is at most `disagreement`.

    There are four measures of confidence: a score of the judge's positive label, a column such as `judge_confidence`,
    the proportion of equal labels among repeats, and the proportion of judges that give the same label. With a score,
    the confidence is the distance of the score from the threshold that separates the judge's labels.

    The table `outputs` has the probability with which each output has a human label. If you give these probabilities as
    `probability` of items, `rates` estimates the rate from the judge's labels and the human labels.

    If `threshold` is set, no threshold is searched. Instead, an e-process tests whether the accepted judgements differ
    from their human labels more often than `disagreement`. The labels are read in the order of the rows, and the
    e-process may be read after each label.

    References
    ----------
    Clopper and Pearson 1934; Jung, Brahman and Choi 2025, arXiv 2407.18370; Zrnic and Candès 2024, arXiv 2403.03208;
    Ville 1939.

    Examples
    --------
    >>> import custodes as cu, numpy as np, polars as pl
    >>> judge, human = np.repeat(["pass", "fail"], 500), np.repeat(["pass", "fail"], 500)
    >>> human[::10] = np.where(human[::10] == "pass", "fail", "pass")
    >>> sure = np.where(np.arange(1000) % 10, 0.9, 0.6)
    >>> labels = pl.DataFrame({"id": range(1000), "judge": judge, "judge_confidence": sure, "human": human})
    >>> cu.route(labels, disagreement=0.05).threshold.select("threshold", "accepted", "disagreement").row(0)
    (0.9, 0.9, 0.0)
    """
    if threshold is not None and not np.isfinite(threshold):
        raise OptionError(f"threshold={short_repr(threshold)}: must be a number")
    selected_study = study.select(**setting, one_side=True)

    def answer(outputs: LabelledOutputs, aspect_rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        two_label_outputs = binary_outputs(outputs, positive, verb="route")
        labels_and_confidence = judged_outputs(
            selected_study, two_label_outputs, judge_position(two_label_outputs, metric, verb="route"), signal
        )
        confidence_threshold, reason_text = (
            _search_threshold(labels_and_confidence, largest_disagreement=disagreement, confidence=confidence)
            if threshold is None
            else (threshold, "")
        )
        is_accepted_output = labels_and_confidence.is_confident(confidence_threshold)
        is_wrong_label = labels_and_confidence.wrong[is_accepted_output & labels_and_confidence.outputs.has_human_label]
        n_labelled, n_wrong = len(is_wrong_label), int(is_wrong_label.sum())
        is_alarm_tested = threshold is not None and n_labelled > 0
        largest_e_value = (
            np.nan if not is_alarm_tested else e_values(is_wrong_label, max_disagreement=disagreement).max(initial=1.0)
        )
        stratum_of_output, n_added_of_stratum = (
            _error_allocation(labels_and_confidence, add)
            if add is not None
            else _audit_allocation(labels_and_confidence, is_accepted_output, audit)
        )
        is_labelled_next = draw_within_strata(
            labels_and_confidence.outputs, stratum_of_output, n_added_of_stratum, aspect_rng
        )
        n_labelled_of_stratum = np.bincount(
            stratum_of_output, weights=labels_and_confidence.outputs.has_human_label | is_labelled_next
        )
        label_probabilities = ratio(n_labelled_of_stratum, np.bincount(stratum_of_output))[stratum_of_output]
        columns_of_table: dict[str, Any] = {
            "threshold": {
                "metric": labels_and_confidence.metric,
                "signal": labels_and_confidence.signal,
                "n": len(labels_and_confidence.codes),
                "threshold": confidence_threshold if np.isfinite(confidence_threshold) else np.nan,
                "accepted": is_accepted_output.mean(),
                "n_labelled": n_labelled,
                "disagreement": n_wrong / n_labelled if n_labelled else np.nan,
                "disagreement_bound": _bound(n_wrong, n_labelled, confidence) if n_labelled else np.nan,
                "e_value": largest_e_value,
                "alarm": bool(largest_e_value >= 1 / alpha) if is_alarm_tested else None,
                "add": int(is_labelled_next.sum()),
                "reason": reason_text,
            },
            "outputs": {
                "item": labels_and_confidence.outputs.table["item"],
                "system": labels_and_confidence.outputs.table["system"],
                "certainty": np.where(
                    np.isfinite(labels_and_confidence.certainty), labels_and_confidence.certainty, np.nan
                ),
                "accepted": is_accepted_output,
                "probability": label_probabilities,
                "label_next": is_labelled_next,
            },
        }
        return Route.part(outputs.aspect, **columns_of_table), [
            *two_label_outputs.notes,
            *labels_and_confidence.notes,
            *_notes(
                labels_and_confidence,
                is_calibrated=threshold is None,
                n_unjudged=len(outputs.system) - len(labels_and_confidence.codes),
            ),
        ]

    return merge_parts(
        Route,
        answer,
        labelled_outputs(selected_study, consensus="vote"),
        rng=rng,
        notes=selected_study.notes,
        progress=progress,
        desc="route",
    )


def _bound(n_wrong: float, n_labelled: float, confidence: float) -> float:
    return float(upper_bound(np.array(n_wrong), np.array(n_labelled), confidence=confidence))


def _search_threshold(
    judge_labels: JudgedOutputs, *, largest_disagreement: float, confidence: float
) -> tuple[float, str]:
    """Return the chosen threshold and ''. If no threshold is chosen, return infinity and the reason."""

    def labels_needed(error_rate: float, n_spare_errors: float = 0.0) -> int | None:
        return fewest_labels(
            lambda n: _bound(error_rate * n + n_spare_errors, float(n), confidence),
            largest_disagreement,
            max_n_labels=MOST_LABELS,
        )

    has_human_label, n_needed_labels = judge_labels.outputs.has_human_label, labels_needed(0.0, SPARE)
    reject(
        (
            not has_human_label.any(),
            f"route: no judgement of {judge_labels.metric} has a human label; label a random part of at least "
            f"{n_needed_labels} outputs",
        ),
        (
            len(np.unique(judge_labels.outputs.weight[has_human_label])) > 1,
            "route: outputs have unequal probabilities of a human label, but the search for a threshold needs labels "
            "of a random part of the outputs; label a random part, or give threshold=NUMBER",
        ),
        error=InputError,
    )
    known_confidences = judge_labels.certainty[np.isfinite(judge_labels.certainty)]
    thresholds = np.unique(np.quantile(known_confidences, np.arange(CANDIDATES) / CANDIDATES, method="lower"))[::-1]
    n_wrong, n_labelled = (
        np.array([(judge_labels.is_confident(threshold) & is_counted).sum() for threshold in thresholds], dtype=float)
        for is_counted in (judge_labels.wrong, has_human_label)
    )
    is_tested_threshold, last_passed_index = fixed_sequence(
        n_wrong, n_labelled, max_disagreement=largest_disagreement, confidence=confidence
    )
    if last_passed_index >= 0:
        return float(thresholds[last_passed_index]), ""
    if not is_tested_threshold.any():
        return np.inf, (
            f"the test of a threshold needs {n_needed_labels} human labels above the threshold; there are only "
            f"{int(n_labelled[-1])}"
        )
    first_tested_index = int(np.argmax(is_tested_threshold))
    disagreement_rate = float(n_wrong[first_tested_index] / n_labelled[first_tested_index])
    n_enough_labels = labels_needed(disagreement_rate) if disagreement_rate < largest_disagreement else None
    return np.inf, (
        f"{disagreement_rate:.1%} of the {int(n_labelled[first_tested_index])} labelled judgements with the highest "
        "confidence differ from the human label"
        + (f"; if the rate stays the same, {n_enough_labels} labels would be enough" if n_enough_labels else "")
    )


def _audit_allocation(
    judge_labels: JudgedOutputs, is_accepted_output: Bools, audited_share: float
) -> tuple[Ints, Ints]:
    """Return strata by label and acceptance, and the number of outputs to label in each stratum.

    All outputs whose judgement is not accepted are labelled. Of the outputs with an accepted judgement, a part is
    labelled as an audit.
    """
    stratum_of_output = judge_labels.codes * 2 + is_accepted_output
    n_unlabelled_of_stratum = np.bincount(stratum_of_output[~judge_labels.outputs.has_human_label], minlength=4)
    n_audited_of_stratum = np.minimum(
        n_unlabelled_of_stratum, np.maximum(np.ceil(audited_share * n_unlabelled_of_stratum), FEWEST)
    ).astype(np.int64)
    return stratum_of_output, np.where(np.arange(4) % 2, n_audited_of_stratum, n_unlabelled_of_stratum)


def _classes(judge_labels: JudgedOutputs) -> Ints:
    """Return strata by label of the judge and class of confidence."""
    class_edges = np.quantile(judge_labels.certainty, CLASSES, method="higher")
    return np.asarray(
        judge_labels.codes * (len(CLASSES) + 1) + np.searchsorted(class_edges, judge_labels.certainty, side="right")
    )


def _error_allocation(judge_labels: JudgedOutputs, n_added: int) -> tuple[Ints, Ints]:
    """Return strata by label and class of confidence, and the number of outputs to label in each stratum.

    The number of outputs to label depends on the expected error (Neyman's allocation).
    """
    stratum_of_output, stratum_shape = _classes(judge_labels), (2, len(CLASSES) + 1)
    n_outputs_of_stratum, labelled_counts, n_wrong_of_stratum = (
        np.bincount(stratum_of_output, weights=is_counted_output, minlength=2 * stratum_shape[1]).astype(np.float64)
        for is_counted_output in (
            np.ones(len(stratum_of_output)),
            judge_labels.outputs.has_human_label,
            judge_labels.wrong,
        )
    )
    error_rate_of_stratum = error_rates(
        n_wrong_of_stratum.reshape(stratum_shape), labelled_counts.reshape(stratum_shape)
    ).ravel()
    stratum_shares = n_outputs_of_stratum / n_outputs_of_stratum.sum()
    target_shares = (1 - UNIFORM) * rate_shares(stratum_shares, error_rate_of_stratum) + UNIFORM * stratum_shares
    n_labelled_of_stratum, n_unlabelled_of_stratum = (
        float_counts.astype(np.int64) for float_counts in (labelled_counts, n_outputs_of_stratum - labelled_counts)
    )
    n_added_of_stratum = allocation(
        target_shares,
        n_labelled=n_labelled_of_stratum,
        n_available=n_unlabelled_of_stratum,
        n_to_add=n_added,
        least_per_stratum=FEWEST,
    )
    n_unlabelled_strata = int(((n_outputs_of_stratum > 0) & (labelled_counts + n_added_of_stratum == 0)).sum())
    if n_unlabelled_strata:
        raise OptionError(
            f"add={n_added}: {n_unlabelled_strata} classes of confidence would have no human label; increase add"
        )
    return stratum_of_output, n_added_of_stratum


def _notes(judge_labels: JudgedOutputs, *, is_calibrated: bool, n_unjudged: int) -> list[Note]:
    outputs = judge_labels.outputs
    sampling_p = sampling_p_value(outputs, _classes(judge_labels).astype(np.float64)) if is_calibrated else np.nan
    return build_notes(
        (
            "labelled-part-not-random",
            sampling_p < SAMPLING_ALPHA,
            "the outputs with a human label are not a random sample with respect to the judge's labels and "
            f"confidence (p = {sampling_p:.2g}). The threshold is valid only for a random sample",
        ),
        (
            "outputs-without-judge-label",
            n_unjudged,
            f"{n_unjudged} outputs have no usable label of {judge_labels.metric} and are not in the table outputs; let "
            "annotators label all of them",
        ),
        (
            "clusters-in-plan",
            outputs.has_clusters,
            "outputs share clusters, but the bound treats outputs as independent, so the bound may be too low",
        ),
        aspect=outputs.aspect,
    )
