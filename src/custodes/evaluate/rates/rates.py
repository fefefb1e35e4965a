"""Rates of labels (such as pass rates), corrected for errors of the judge, and compared between systems."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, difference, flag, label, p_value, score, share, table
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, name_aspects
from custodes.data.study import Study
from custodes.errors import OptionError, reject, short_repr
from custodes.evaluate.parallel import merge_parts
from custodes.evaluate.rates.comparisons import (
    add_decisions,
    add_findings,
    difference_rows,
    estimate_with_bounds,
    has_equivalent_rates,
    slice_rows,
)
from custodes.evaluate.rates.estimates import EstimateSettings, JudgeRates
from custodes.evaluate.rates.judge_labels import JudgeLabels, judges_of, parsed_threshold
from custodes.evaluate.rates.judges import (
    FEW_LABELS,
    MEASURES,
    NO_COMMON_OUTPUT,
    calibration_rows,
    comparable_judges,
    confusion_rows,
    judge_notes,
    judge_row,
    judge_table,
    label_notes,
    rate_notes,
    replacement_rows,
    roc_rows,
)
from custodes.evaluate.rates.outputs import Consensus, LabelledOutputs, labelled_outputs, view_of_positive
from custodes.evaluate.slices import no_slice_notes, slices_of
from custodes.progress import Progress, silent
from custodes.stats.rates.posterior import Sampling

Calibration = Literal["within", "shared"]
"""Source of a judge's error rates: the labels of each system alone, or the labels of all systems jointly."""


@result
class Rates(Result):
    """Rates of labels by judges and annotators; see `rates`."""

    PICTURE = "rates"

    rates: pl.DataFrame = table(
        "One row per metric, system and label: how often the label is given.",
        label("metric", "name of the metric; `human` if there is no metric"),
        label("system", "name of the system"),
        label("label", "label whose rate the row gives"),
        count(
            "n",
            "number of outputs whose rate is estimated. Outputs without a label by the metric are included if "
            "annotators labelled some of them. With `sampling='by-label'`, only outputs without a human label",
        ),
        count("n_labelled", "number of outputs with a human label", "Human labels"),
        share("judge_rate", "rate by the metric's labels alone", "Judge's rate", interval=True),
        share(
            "human_rate",
            "rate by human labels alone; null unless `sampling='random'`",
            "Human labels alone",
            interval=True,
        ),
        share(
            "corrected_rate",
            "rate estimated from human labels and metric labels; if there is no metric, from human labels alone",
            "Corrected rate",
            interval=True,
        ),
        label(
            "method",
            "`post-stratified`, `rogan-gladen`, `human labels`, or `rogan-gladen, shared` if systems share error rates",
            essential=False,
        ),
        count(
            "labels_saved",
            "number of additional human labels that would give an interval of the same width without the metric",
            "Labels saved",
        ),
        label("reason", "reason for an undefined or uncertain rate", essential=False),
    )
    judges: pl.DataFrame = judge_table()
    differences: pl.DataFrame = table(
        "One row per metric and pair of systems: which system has the higher rate.",
        label("metric", "name of the metric"),
        label("system_a", "first system of the pair"),
        label("system_b", "second system of the pair"),
        label("label", "label whose rate the row compares"),
        difference(
            "human_difference",
            "difference of the rates by human labels alone; the intervals hold jointly for all pairs and labels",
            "Human labels alone",
            interval=True,
            essential=False,
        ),
        difference(
            "corrected_difference",
            "difference of the corrected rates; the intervals hold jointly for all pairs and labels of the metric",
            "Corrected difference",
            interval=True,
        ),
        p_value(
            "p_adjusted",
            "p-value of the test of equal corrected rates, adjusted for all pairs and labels of the metric "
            "(Bonferroni)",
            "p, all pairs",
        ),
        label(
            "decision",
            "`+` system_a has the higher rate, `-` system_b has the higher rate, `=` no significant difference",
        ),
        difference(
            "tpr_difference",
            "TPR for system_a minus TPR for system_b, with intervals adjusted in the same way as `p_tpr`",
            "TPR difference",
            interval=True,
        ),
        difference(
            "tnr_difference",
            "TNR for system_a minus TNR for system_b, with intervals adjusted in the same way as `p_tnr`",
            "TNR difference",
            interval=True,
        ),
        p_value(
            "p_tpr",
            "p-value of the test of equal TPR, adjusted for all metrics, pairs and both error rates (Bonferroni). "
            "Null if a system has fewer than 10 human labels that are positive",
            "p of TPR",
            essential=False,
        ),
        p_value(
            "p_tnr",
            "p-value of the test of equal TNR, adjusted for all metrics, pairs and both error rates (Bonferroni). "
            "Null if a system has fewer than 10 human labels that are negative",
            "p of TNR",
            essential=False,
        ),
        label(
            "favoured",
            "if `p_tpr` or `p_tnr` is at most alpha, the system that the judge over-rates relative to the other system",
        ),
    )
    slices: pl.DataFrame = table(
        "One row per metric and slice (`by`): comparison of the slice with all other slices combined.",
        label("metric", "name of the metric"),
        label("slice", "value of the column"),
        count(
            "n",
            "number of outputs whose rate is estimated. Outputs without a label by the metric are included if "
            "annotators labelled some of them. With `sampling='by-label'`, only outputs without a human label",
        ),
        count("n_labelled", "number of outputs with a human label", "Human labels"),
        share("corrected_rate", "corrected rate of the positive label", "Corrected rate", interval=True),
        share("tpr", MEASURES["tpr"], "TPR", interval=True),
        share("tnr", MEASURES["tnr"], "TNR", interval=True),
        p_value(
            "p_rate",
            "p-value of the test that the slice and all other slices have equal corrected rates, adjusted for all "
            "metrics, slices and tests (Holm)",
            essential=False,
        ),
        p_value(
            "p_tpr",
            "p-value of the test that the slice and all other slices have equal TPR, adjusted for all metrics, slices "
            "and tests (Holm)",
            essential=False,
        ),
        p_value(
            "p_tnr",
            "p-value of the test that the slice and all other slices have equal TNR, adjusted for all metrics, slices "
            "and tests (Holm)",
            essential=False,
        ),
        label("finding", "quantities in which the slice differs significantly from all other slices"),
    )
    confusion: pl.DataFrame = table(
        "One row per metric and combination of metric label and human label.",
        label("metric", "name of the metric"),
        label("label", "label by the metric"),
        label("human_label", "label by the annotators"),
        score(
            "n",
            "number of human labels, weighted by the inverse inclusion probability; a fraction if consensus='kept'",
        ),
        essential=False,
    )
    replacement: pl.DataFrame = table(
        "Results of the alternative annotator test, if outputs have labels of several annotators: one row per metric.",
        label("metric", "name of the metric"),
        count(
            "annotators",
            "number of annotators who are tested: each labelled 30 or more outputs that also have another human label",
            "Annotators",
        ),
        score("epsilon", "margin by which the metric may be worse than an annotator, in return for its lower cost"),
        share(
            "winning_rate",
            "proportion of annotators whom the metric may replace: the test rejects the hypothesis that the "
            "annotator is better than the metric by epsilon or more. The test treats clusters of items as independent",
            "Winning rate",
        ),
        flag("may_replace", "whether the winning rate is at least .5", "May replace"),
        share(
            "advantage_probability",
            "probability that the metric is at least as close to the other annotators as the replaced annotator is",
            "Advantage probability",
            interval=True,
        ),
        share(
            "winning_rate_outputs",
            "winning rate of the test in Calderon, Reichart and Dror 2025, which treats outputs as independent",
            essential=False,
        ),
        label("reason", "reason for an undefined test", essential=False),
        essential=False,
    )
    replacement_annotators: pl.DataFrame = table(
        "One row per metric and annotator of the alternative annotator test.",
        label("metric", "name of the metric"),
        label("annotator", "the annotator whom the metric would replace"),
        count("n", "number of outputs of this annotator that also have another human label"),
        share(
            "advantage",
            "proportion of outputs for which the metric is at least as close to the other annotators as this "
            "annotator is",
        ),
        difference(
            "difference",
            "`advantage` minus the proportion of outputs for which the annotator is at least as close to "
            "the other annotators as the metric",
        ),
        p_value(
            "p_adjusted",
            "adjusted p-value of the hypothesis that the annotator is better by epsilon or more (Benjamini–Yekutieli)",
        ),
        flag("replaceable", "whether the test rejects the hypothesis that the annotator is better by epsilon or more"),
        essential=False,
    )
    roc: pl.DataFrame = table(
        "ROC curve of each metric that gives scores: one row per metric and threshold.",
        label("metric", "name of the metric"),
        score("threshold", "threshold; outputs with at least this score are positive"),
        share("tpr", "sensitivity at the threshold"),
        share("fpr", "1 - specificity at the threshold"),
        flag("chosen", "whether `rates` uses this threshold"),
        essential=False,
    )
    calibration: pl.DataFrame = table(
        "Calibration of each metric that gives scores: one row per metric and bin of scores.",
        label("metric", "name of the metric"),
        score("score", "mean score of the bin"),
        count("n_labelled", "number of human labels in the bin"),
        share("human_rate", "proportion of positive human labels in the bin", interval=True),
        essential=False,
    )


@question(
    "custodes rates labels.csv --by category",
    accepts_equal_outputs=True,
    by="Column whose values define slices; by=system compares systems.",
    consensus="How to combine labels of several annotators: vote, dawid-skene, or kept (each label counts as the "
    "proportion of annotators who gave it).",
    threshold="Threshold of a judge that gives scores: a number, youden (default), tpr>=R or tnr>=R.",
    calibration="Estimate error rates of the judge within each system, or jointly (shared) if the systems have "
    "equivalent error rates.",
    epsilon="Margin by which a judge may be worse than an annotator: .2 for experts, .15 for trained annotators, .1 "
    "for crowd workers.",
)
def rates(
    study: Study,
    *,
    positive: str | None = None,
    by: str | None = None,
    sampling: Sampling = "random",
    consensus: Consensus = "vote",
    threshold: str | None = None,
    calibration: Calibration = "within",
    epsilon: float = 0.2,
    confidence: float = 0.95,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Selection],
) -> Rates:
    """Estimate how often a judge errs, the corrected rate of each label, and differences between systems.

    Notes
    -----
    The corrected rate is post-stratified: the rate of human labels within each label of the judge is weighted by the
    frequency of the judge's label. Outputs without a label of the judge (or with a label that is neither positive nor
    negative) form a further stratum. If annotators labelled none of these outputs, the rates describe only the other
    outputs, and a note says so. The interval comes from the posterior under Jeffreys' prior; with
    `sampling='by-judge'`, the prior is neutral (pseudo-counts of 1/3). With `sampling='by-label'`, the judge's rate is
    corrected by TPR and TNR (Rogan and Gladen). Clusters of items and inclusion probabilities (columns `cluster` and
    `probability` of items) reduce counts to effective counts. The column `n_outputs` of items is the number of equal
    outputs that an item stands for. Tests of two systems use the same posterior draws as the intervals. P-values and
    intervals of differences of two systems are adjusted by Bonferroni's method, p-values of slices by Holm's method.
    Tests of TPR and TNR have a correction for continuity.

    If outputs have labels of several annotators, the table `replacement` has the alternative annotator test. For each
    annotator, the null hypothesis is that this annotator is closer to the other annotators than the judge is, by
    `epsilon` or more.

    References
    ----------
    Rogan and Gladen 1978; Holt and Smith 1979; Brown, Cai and DasGupta 2001; Kerman 2011 (neutral prior); Fiedler
    2026, arXiv 2605.06939 (differential error); Calderon, Reichart and Dror 2025 (alternative annotator test).

    Examples
    --------
    >>> import custodes as cu, polars as pl
    >>> judge = ["pass", "pass", "pass", "pass", "fail", "fail"]
    >>> human = ["pass", "fail", "pass", None, "fail", None]
    >>> labels = pl.DataFrame({"id": range(6), "judge": judge, "human": human})
    >>> cu.rates(labels).rates["corrected_rate"].round(2).to_list()
    [0.44]
    """
    if not 0 <= epsilon < 1:
        raise OptionError(f"epsilon={short_repr(epsilon)}: must be at least 0 and below 1")
    if threshold is not None:
        parsed_threshold(threshold)
    selected_study = study.select(**setting, one_side=True)
    answer_aspect = partial(
        _answer,
        study=selected_study,
        positive=positive,
        by=by,
        sampling=sampling,
        threshold=threshold,
        calibration=calibration,
        epsilon=epsilon,
        confidence=confidence,
        alpha=alpha,
    )
    outputs_of_aspects = labelled_outputs(selected_study, consensus=consensus)
    reject(
        (
            threshold is not None and not any(aspect_outputs.is_score.any() for aspect_outputs in outputs_of_aspects),
            f"threshold={threshold!r}: {selected_study.name} has no metric that gives scores; leave out threshold",
        ),
        (
            calibration == "shared" and max(len(aspect_outputs.systems) for aspect_outputs in outputs_of_aspects) < 2,
            "calibration='shared' needs at least two systems; leave out calibration if the study has one system",
        ),
        (
            sampling != "random" and not any(aspect_outputs.metrics for aspect_outputs in outputs_of_aspects),
            f"sampling={sampling!r} needs labels of a metric, but {selected_study.name} has only human labels",
        ),
    )
    return merge_parts(
        Rates, answer_aspect, outputs_of_aspects, rng=rng, notes=selected_study.notes, progress=progress, desc="rates"
    )


def _answer(
    outputs: LabelledOutputs,
    rng: np.random.Generator,
    *,
    study: Study,
    positive: str | None,
    by: str | None,
    sampling: Sampling,
    threshold: str | None,
    calibration: Calibration,
    epsilon: float,
    confidence: float,
    alpha: float,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    relabelled_outputs = view_of_positive(outputs, positive)
    is_binary = len(relabelled_outputs.words) == 2
    if sampling == "by-label" and not is_binary:
        raise OptionError(
            f"sampling='by-label' needs two labels, not {len(relabelled_outputs.words)}; name the positive label with "
            "positive=LABEL, so that all others count as negative"
        )
    settings = EstimateSettings(sampling=sampling, confidence=confidence, rng=rng)
    # With more than two labels, scores only form strata, which correct nothing if every output has a human label.
    outputs_for_rates = outputs.drop_scores() if outputs.has_human_label.all() else outputs
    binary_views = (
        [relabelled_outputs] if is_binary else [outputs_for_rates.binarise_labels(word) for word in outputs.words]
    )
    rows_of_table = defaultdict[str, list[dict[str, Any]]](list)
    slices = slices_of(study, relabelled_outputs.table, by) if by and is_binary else ((), np.empty(0, dtype=np.intp))
    notes = label_notes(relabelled_outputs, positive) + no_slice_notes(by or "", slices[1], "outputs", outputs.aspect)
    for binary_view in binary_views:
        for judge in judges_of(binary_view, (threshold or "youden") if is_binary else None):
            rates_of_system, method = _system_estimates(binary_view, judge, settings, calibration, alpha=alpha)
            label_name = binary_view.words[1]
            rows_of_table["rates"] += [
                _rate_row(judge.name, system, label_name, system_rates, method)
                for system, system_rates in rates_of_system.items()
            ]
            notes += rate_notes(binary_view, judge, rates_of_system, sampling)
            rows_of_table["differences"] += difference_rows(
                binary_view,
                judge.name,
                label_name,
                rates_of_system,
                confidence=confidence,
                rng=rng,
                n_distinct_labels=len(binary_views),
            )
            if slices[0]:
                rows_of_table["slices"] += slice_rows(binary_view, judge, slices, settings)
            if is_binary and judge.name != HUMAN:
                overall_rates = judge.threshold_judge.rates(binary_view, **settings)
                rows_of_table["judges"].append(judge_row(binary_view, judge, overall_rates, confidence=confidence))
                rows_of_table["confusion"] += confusion_rows(binary_view, judge.name, overall_rates)
                is_sharing_rejected = calibration == "shared" and "shared" not in method
                notes += judge_notes(
                    binary_view, judge, overall_rates, sampling, is_sharing_rejected=is_sharing_rejected
                )
                rows_of_table["roc"] += roc_rows(binary_view, judge)
                rows_of_table["calibration"] += calibration_rows(binary_view, judge, confidence=confidence)
    for judge in () if is_binary else comparable_judges(relabelled_outputs):
        overall_rates = judge.rates(relabelled_outputs, **settings)
        rows_of_table["judges"].append(judge_row(relabelled_outputs, judge, overall_rates, confidence=confidence))
        rows_of_table["confusion"] += confusion_rows(relabelled_outputs, judge.name, overall_rates)
    for replacement_row, annotator_rows in replacement_rows(
        outputs, epsilon=epsilon, alpha=alpha, confidence=confidence
    ):
        rows_of_table["replacement"].append(replacement_row)
        rows_of_table["replacement_annotators"] += annotator_rows
    rows_of_table["differences"] = list(add_decisions(rows_of_table["differences"], alpha=alpha, confidence=confidence))
    rows_of_table["slices"] = list(add_findings(rows_of_table["slices"], alpha=alpha))
    return Rates.part(outputs.aspect, **rows_of_table), name_aspects(notes)


def _system_estimates(
    outputs: LabelledOutputs, judge: JudgeLabels, settings: EstimateSettings, calibration: Calibration, *, alpha: float
) -> tuple[dict[str, JudgeRates], str]:
    """Return the estimates for each system, and the method; systems share error rates if the rates are equivalent."""
    rates_of_system = judge.rates_by_system(outputs, **settings)
    if (
        calibration == "shared"
        and len(rates_of_system) > 1
        and has_equivalent_rates(list(rates_of_system.values()), alpha=alpha)
        and (pooled_labels := judge.threshold_judge.rates(outputs, **settings).pairs) is not None
    ):
        shared_rates = {
            system: system_rates.with_error_rates(pooled_labels, confidence=settings["confidence"])
            for system, system_rates in rates_of_system.items()
        }
        return shared_rates, "rogan-gladen, shared"
    correction_method = "rogan-gladen" if settings["sampling"] == "by-label" else "post-stratified"
    return rates_of_system, "human labels" if judge.name == HUMAN else correction_method


def _rate_row(metric: str, system: str, label_name: str, system_rates: JudgeRates, method: str) -> dict[str, Any]:
    human_rate, corrected_rate = system_rates.human, system_rates.corrected
    n_saved_labels = np.nan
    if np.isfinite(human_rate.value) and system_rates.rate_variance > 0:
        variance_ratio = system_rates.human_variance / system_rates.rate_variance
        n_saved_labels = system_rates.n_labelled * max(0.0, variance_ratio - 1)
    conditions_and_reasons = (
        (not system_rates.n_labelled, "no human labels"),
        (not system_rates.n_both_labels, NO_COMMON_OUTPUT),
        (
            not system_rates.n,
            "every output has a human label, so there are no other outputs whose rate could be estimated",
        ),
        (np.isnan(corrected_rate.value), "the metric's labels are no better than chance"),
        (
            system_rates.rarer < FEW_LABELS,
            f"fewer than {FEW_LABELS} human labels are positive, or fewer than {FEW_LABELS} are negative",
        ),
        (
            system_rates.unlabelled > 0,
            "for some labels (or score bins) of the metric, no output has a human label",
        ),
    )
    return {
        "metric": metric,
        "system": system,
        "label": label_name,
        "n": system_rates.n,
        "n_labelled": system_rates.n_labelled,
        **estimate_with_bounds("judge_rate", system_rates.judge),
        **estimate_with_bounds("human_rate", human_rate),
        **estimate_with_bounds("corrected_rate", corrected_rate),
        "method": method if system_rates.n_both_labels else "",
        "labels_saved": round(n_saved_labels) if np.isfinite(n_saved_labels) else None,
        "reason": next((reason for is_applicable, reason in conditions_and_reasons if is_applicable), ""),
    }
