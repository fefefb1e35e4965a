"""Selection of judgements that replace human labels, selection of outputs to label, and alarm if a judge gets worse."""

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
from custodes.evaluate.rates.estimates import sampling_p_value
from custodes.evaluate.rates.judged_outputs import JudgedOutputs, judged_outputs
from custodes.evaluate.rates.judges import SAMPLING_ALPHA
from custodes.evaluate.rates.outputs import KEY, LabelledOutputs, binary_outputs, judge_position, labelled_outputs
from custodes.progress import Progress, silent
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.rates.sample_size import allocation, fewest_labels, rate_shares
from custodes.stats.rates.selective import SPARE, e_values, error_rates, fixed_sequence, upper_bound
from custodes.stats.ratios import ratio

CANDIDATES = 20
"""Number of thresholds that are tested; thresholds are quantiles of the confidence of all outputs."""

CLASSES = (0.1, 0.25, 0.5)
"""Quantiles of the confidence that separate classes, if labels are allocated by expected error."""

UNIFORM = 0.25
"""Proportion of labels that is allocated to classes by size, so that classes with few errors have some labels."""

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
        count("add", "number of outputs to label next", "Label next"),
        label("reason", "reason if no judgement is accepted"),
    )
    candidates: pl.DataFrame = table(
        "One row per threshold, in the order of the tests.",
        label("metric", "name of the judge"),
        score("threshold", "smallest confidence of an accepted judgement"),
        share("accepted", "proportion of outputs whose judgement would be accepted"),
        count("n_labelled", "number of judgements with at least this confidence and a human label", "Human labels"),
        share("disagreement", "among accepted judgements with a human label, proportion that differ from this label"),
        share("disagreement_bound", "upper bound of the disagreement (Clopper–Pearson)", "Upper bound"),
        label("outcome", "`passes`, `fails`, `too few labels`, or `not tested` (after a failure)"),
        essential=False,
    )
    alarm: pl.DataFrame = table(
        "One row per judge, if `threshold` is set: do accepted judgements disagree with human labels too often?",
        label("metric", "name of the judge"),
        count("n_labelled", "number of accepted judgements with a human label", "Human labels"),
        share("disagreement", "among accepted judgements with a human label, proportion that differ from this label"),
        score("e_value", "largest value of the e-process over the labels, in the order of the rows"),
        flag("alarm", "whether the e-process reached 1 / alpha"),
        count("alarm_at", "number of human labels at the alarm"),
    )
    outputs: pl.DataFrame = table(
        "One row per output with a label of the judge.",
        label("item", "the item"),
        label("system", "the system"),
        label("label", "label of the judge; do not show it to annotators"),
        score("certainty", "confidence of the judge"),
        flag("accepted", "whether the judgement is accepted"),
        probability("probability", "probability of having a human label, once the outputs to label next are labelled"),
        flag("label_next", "whether to label the output next"),
        essential=False,
    )


@question(
    "custodes route labels.csv --disagreement 0.1 --table outputs -o routed.csv",
    metric="Name of the judge whose labels may be accepted (default: the only metric that gives labels).",
    signal="Confidence of the judge: a metric with scores, a column, repeats or judges (default: the first available).",
    positive="Label that counts as success (see rates).",
    disagreement="Largest acceptable disagreement of accepted judgements with human labels.",
    threshold="Accept judgements of at least this confidence, and test whether their disagreement with human labels "
    "rises above the acceptable disagreement (default: search for a threshold).",
    audit="Proportion of accepted judgements that annotators also label, as an audit.",
    add="Number of outputs to label, allocated by expected error (default: all that are not accepted, and the audit).",
    confidence="Confidence level of the upper bound of the disagreement.",
    alpha="Probability of a false alarm.",
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
    confidence downwards until the upper bound of the disagreement (Clopper and Pearson) exceeds `disagreement`. The
    probability is at least `confidence` that the true disagreement at the chosen threshold is at most `disagreement`.

    There are four measures of confidence: a score of the judge's positive label, a column such as `judge_confidence`,
    the proportion of equal labels among repeats, and the proportion of judges that give the same label. With a score,
    the confidence is the distance of the score from the threshold that separates the judge's labels.

    The table `outputs` has the probability with which each output has a human label. If you give these probabilities as
    `probability` of items, `rates` estimates the rate from the judge's labels and the human labels.

    If `threshold` is set, no threshold is searched. Human labels of accepted judgements, in the order of the rows, are
    tested against `disagreement` by an e-process, which may be read after each label.

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
        judge_labels = judged_outputs(
            selected_study, two_label_outputs, judge_position(two_label_outputs, metric, verb="route"), signal
        )
        accepted_from, candidates, reason = threshold, list[dict[str, Any]](), ""
        if accepted_from is None:
            accepted_from, candidates, reason = _search_threshold(
                judge_labels, largest_disagreement=disagreement, confidence=confidence
            )
        is_accepted = judge_labels.is_confident(accepted_from)
        strata, n_added = (
            _error_allocation(judge_labels, add)
            if add is not None
            else _audit_allocation(judge_labels, is_accepted, audit)
        )
        label_next, probabilities = _draw_outputs(judge_labels, strata, n_added, aspect_rng)
        tables: dict[str, Any] = {
            "threshold": {
                "metric": judge_labels.metric,
                "signal": judge_labels.signal,
                "n": len(judge_labels.codes),
                **_threshold_columns(judge_labels, accepted_from, confidence=confidence),
                "add": int(label_next.sum()),
                "reason": reason,
            },
            "candidates": candidates,
            "alarm": {}
            if threshold is None
            else _alarm_columns(judge_labels, is_accepted, largest_disagreement=disagreement, alpha=alpha),
            "outputs": {
                "item": judge_labels.outputs.table["item"],
                "system": judge_labels.outputs.table["system"],
                "label": np.array(two_label_outputs.words)[judge_labels.codes],
                "certainty": np.where(np.isfinite(judge_labels.certainty), judge_labels.certainty, np.nan),
                "accepted": is_accepted,
                "probability": probabilities,
                "label_next": label_next,
            },
        }
        return Route.part(outputs.aspect, **tables), [
            *judge_labels.notes,
            *_notes(judge_labels, is_calibrated=threshold is None),
        ]

    parts = labelled_outputs(selected_study, consensus="vote")
    return merge_parts(Route, answer, parts, rng=rng, notes=selected_study.notes, progress=progress, desc="route")


def _threshold_columns(judge_labels: JudgedOutputs, threshold: float, *, confidence: float) -> dict[str, Any]:
    """Return the columns on the judgements with at least this confidence."""
    is_accepted = judge_labels.is_confident(threshold)
    n, n_wrong = (
        float((is_accepted & rows).sum()) for rows in (judge_labels.outputs.has_human_label, judge_labels.wrong)
    )
    return {
        "threshold": threshold if np.isfinite(threshold) else np.nan,
        "accepted": is_accepted.mean(),
        "n_labelled": int(n),
        "disagreement": n_wrong / n if n else np.nan,
        "disagreement_bound": float(upper_bound(np.array(n_wrong), np.array(n), confidence=confidence))
        if n
        else np.nan,
    }


def _search_threshold(
    judge_labels: JudgedOutputs, *, largest_disagreement: float, confidence: float
) -> tuple[float, list[dict[str, Any]], str]:
    """Return the chosen threshold, the rows of the candidates, and a reason if no threshold is chosen (infinity)."""

    def labels_needed(rate: float, n_spare: float = 0.0) -> int | None:
        return fewest_labels(
            lambda n: float(upper_bound(np.array(rate * n + n_spare), np.array(float(n)), confidence=confidence)),
            largest_disagreement,
            most=MOST_LABELS,
        )

    is_labelled, n_least = judge_labels.outputs.has_human_label, labels_needed(0.0, SPARE)
    reject(
        (
            not is_labelled.any(),
            f"route: no judgement of {judge_labels.metric} has a human label; label a random part of at least "
            f"{n_least} outputs",
        ),
        (
            len(np.unique(judge_labels.outputs.weight[is_labelled])) > 1,
            "route: outputs have unequal probabilities of a human label, but the search for a threshold needs labels "
            "of a random part of the outputs; label a random part, or give threshold=NUMBER",
        ),
        error=InputError,
    )
    finite_certainty = judge_labels.certainty[np.isfinite(judge_labels.certainty)]
    thresholds = np.unique(np.quantile(finite_certainty, np.arange(CANDIDATES) / CANDIDATES, method="lower"))[::-1]
    rows = [_threshold_columns(judge_labels, float(level), confidence=confidence) for level in thresholds]
    n = np.array([row["n_labelled"] for row in rows], dtype=np.float64)
    n_wrong = np.nan_to_num(np.array([row["disagreement"] for row in rows])) * n
    is_tested, last_passed = fixed_sequence(np.round(n_wrong), n, most=largest_disagreement, confidence=confidence)
    is_passed = is_tested & (np.array([row["disagreement_bound"] for row in rows]) <= largest_disagreement)
    is_before_test = np.cumsum(is_tested) == 0
    outcome = np.where(
        is_passed, "passes", np.where(is_tested, "fails", np.where(is_before_test, "too few labels", "not tested"))
    )
    rows = [
        {"metric": judge_labels.metric} | row | {"outcome": str(row_outcome)}
        for row, row_outcome in zip(rows, outcome, strict=True)
    ]
    if last_passed >= 0:
        return float(thresholds[last_passed]), rows, ""
    if not is_tested.any():
        reason = (
            f"the test of a threshold needs {n_least} human labels above the threshold; there are only {int(n[-1])}"
        )
    else:
        first_tested = rows[int(np.argmax(is_tested))]
        rate, judgements_text = (
            first_tested["disagreement"],
            f"{first_tested['n_labelled']} labelled judgements with the highest confidence",
        )
        n_more = labels_needed(rate) if rate < largest_disagreement else None
        reason = f"{rate:.1%} of the {judgements_text} differ from the human label" + (
            f"; if the rate stays the same, {n_more} labels would be enough" if n_more else ""
        )
    return np.inf, rows, reason


def _audit_allocation(judge_labels: JudgedOutputs, is_accepted: Bools, audit: float) -> tuple[Ints, Ints]:
    """Return strata by label and acceptance, and the number of outputs to label in each stratum.

    All outputs whose judgement is not accepted are labelled. Of the outputs with an accepted judgement, a part is
    labelled as an audit.
    """
    strata = judge_labels.codes * 2 + is_accepted
    n_unlabelled = np.bincount(strata[~judge_labels.outputs.has_human_label], minlength=4)
    n_audited = np.minimum(n_unlabelled, np.maximum(np.ceil(audit * n_unlabelled), FEWEST)).astype(np.int64)
    return strata, np.where(np.arange(4) % 2, n_audited, n_unlabelled)


def _classes(judge_labels: JudgedOutputs) -> Ints:
    """Return strata by label of the judge and class of confidence."""
    edges = np.quantile(judge_labels.certainty, CLASSES, method="higher")
    return np.asarray(
        judge_labels.codes * (len(CLASSES) + 1) + np.searchsorted(edges, judge_labels.certainty, side="right")
    )


def _error_allocation(judge_labels: JudgedOutputs, add: int) -> tuple[Ints, Ints]:
    """Return strata by label and class of confidence, and the number of outputs to label in each stratum.

    These numbers depend on the expected error (Neyman's allocation).
    """
    strata, shape = _classes(judge_labels), (2, len(CLASSES) + 1)
    n_outputs, n_labelled, n_wrong = (
        np.bincount(strata, weights=rows, minlength=2 * shape[1]).astype(np.float64)
        for rows in (np.ones(len(strata)), judge_labels.outputs.has_human_label, judge_labels.wrong)
    )
    rates = error_rates(n_wrong.reshape(shape), n_labelled.reshape(shape)).ravel()
    weights = n_outputs / n_outputs.sum()
    target_shares = (1 - UNIFORM) * rate_shares(weights, rates) + UNIFORM * weights
    label_counts, n_unlabelled = (counts.astype(np.int64) for counts in (n_labelled, n_outputs - n_labelled))
    n_added = allocation(
        target_shares, n_labelled=label_counts, n_available=n_unlabelled, n=add, least_per_stratum=FEWEST
    )
    n_empty = int(((n_outputs > 0) & (n_labelled + n_added == 0)).sum())
    if n_empty:
        raise OptionError(f"add={add}: {n_empty} classes of confidence would have no human label; increase add")
    return strata, n_added


def _draw_outputs(
    judge_labels: JudgedOutputs, strata: Ints, n_added: Ints, rng: np.random.Generator
) -> tuple[Bools, Floats]:
    """Return the outputs to label next, and the probability with which each output then has a human label.

    The outputs are drawn at random within strata; the order of the rows has no effect.
    """
    is_labelled = judge_labels.outputs.has_human_label
    label_next = np.zeros(len(strata), dtype=bool)
    rank_of_output = (
        judge_labels.outputs.table.select(pl.struct(KEY).rank("ordinal")).to_series().to_numpy().astype(np.intp) - 1
    )
    for stratum in np.unique(strata):
        unlabelled_outputs = np.flatnonzero((strata == stratum) & ~is_labelled)
        unlabelled_outputs = unlabelled_outputs[np.argsort(rank_of_output[unlabelled_outputs])]
        label_next[rng.permutation(unlabelled_outputs)[: n_added[stratum]]] = True
    n_labelled = np.bincount(strata, weights=is_labelled | label_next)
    return label_next, np.asarray(ratio(n_labelled, np.bincount(strata)))[strata]


def _alarm_columns(
    judge_labels: JudgedOutputs, is_accepted: Bools, *, largest_disagreement: float, alpha: float
) -> dict[str, Any]:
    is_wrong = judge_labels.wrong[is_accepted & judge_labels.outputs.has_human_label]
    e_values_so_far = e_values(is_wrong, most=largest_disagreement)
    is_alarm = e_values_so_far >= 1 / alpha
    return {
        "metric": judge_labels.metric,
        "n_labelled": len(is_wrong),
        "disagreement": is_wrong.mean() if len(is_wrong) else np.nan,
        "e_value": e_values_so_far.max(initial=1.0),
        "alarm": bool(is_alarm.any()),
        "alarm_at": int(np.argmax(is_alarm)) + 1 if is_alarm.any() else None,
    }


def _notes(judge_labels: JudgedOutputs, *, is_calibrated: bool) -> list[Note]:
    outputs = judge_labels.outputs
    p = sampling_p_value(outputs, _classes(judge_labels).astype(np.float64)) if is_calibrated else np.nan
    return build_notes(
        (
            "labelled-part-not-random",
            p < SAMPLING_ALPHA,
            "the outputs with a human label are not a random sample with respect to the judge's labels and confidence "
            f"(p = {p:.2g}); the threshold is valid only for a random sample",
        ),
        (
            "clusters-in-plan",
            outputs.has_clusters,
            "outputs share clusters, but the bound treats outputs as independent, so the bound may be too low",
        ),
        aspect=outputs.aspect,
    )
