"""Consensus label of each task, and the competence of each annotator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from custodes.errors import OptionError
from custodes.evaluate.annotators.annotator_answers import VERDICTS, AnnotatorAnswers
from custodes.evaluate.comparable import label_of
from custodes.evaluate.decision_graph import OUTCOMES
from custodes.stats import intervals
from custodes.stats.annotator_models import (
    UNKNOWN,
    AnnotatorLabels,
    dawid_skene,
    mace,
    majority_label,
    vote_shares,
)
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio

Method = Literal["auto", "dawid-skene", "mace", "majority"]

ENOUGH = 20
"""With at least this median number of shared answers per annotator, 'auto' estimates confusion matrices (Dawid-Skene).
"""
FEWEST_ANNOTATORS, FEWEST_DOUBLED = 3, 30
"""Minimum number of annotators, and of tasks with several answers, for an estimate of competence."""
LEAST = 5.0
"""Competence is estimated only if at least this number of wrong answers is expected from random answers."""
RESTARTS, ITERATIONS, MOST_STEPS = 10, 50, 100
MOST_RESAMPLES = 100
"""Number of resamples for a standard error. Each resample needs a fit, and more would hardly change the result."""
FEWEST_UNITS = 30
"""An annotator needs this number of clusters of shared items for an interval; with fewer, the coverage is unknown."""
FEWEST_SHARED = 30
"""Minimum number of shared answers for an estimate of competence.

The standard error is .10 to .20 with this number of answers, and .17 to .48 with fewer answers."""
ENOUGH_EACH = 3
"""With at least this median number of answers per task, fewer shared tasks suffice for an interval."""

NOTHING = "majority vote estimates no competence"
BY_MACE = "no interval: intervals of MACE covered the true value in only .76 to .95 of simulations"
FEW_ITEMS = f"no interval: fewer than {FEWEST_UNITS} clusters of items shared with other annotators"
SPARSE = (
    "no interval: half of the shared tasks have only two answers, and half of the annotators share fewer than "
    f"{FEWEST_UNITS} clusters of items"
)


class Consensus(NamedTuple):
    """Consensus labels and competence of the annotators, estimated by `method`.

    `posterior` (tasks, labels) are the probabilities of the labels. `competence` (workers,) has the bounds `low` and
    `high`. `reason` says why there is no competence or no interval, and is empty otherwise.
    """

    method: str
    posterior: Floats
    competence: Floats
    low: Floats
    high: Floats
    reason: str


def chosen_method(aspect_answers: AnnotatorAnswers, method: Method, *, has_slots: bool) -> tuple[str, str]:
    """Return the method to use, and the reason for this choice."""
    n_multiply_rated = int(aspect_answers.has_several_answers.sum())
    if method != "auto":
        if method != "majority" and not n_multiply_rated:
            raise OptionError(
                f"method={method!r}: no task was answered twice{label_of(aspect_answers.aspect)}, so competence "
                "cannot be estimated; use method='majority'"
            )
        return method, "this method was requested"
    if has_slots:
        return "majority", "some raters are slots, which several persons may share"
    if len(aspect_answers.raters) < FEWEST_ANNOTATORS or n_multiply_rated < FEWEST_DOUBLED:
        return "majority", (
            f"there are fewer than {FEWEST_ANNOTATORS} annotators, or fewer than {FEWEST_DOUBLED} tasks answered by "
            "several annotators"
        )
    shared_workers = aspect_answers.answers.worker[aspect_answers.both]
    median_shared = float(np.median(np.bincount(shared_workers, minlength=len(aspect_answers.raters))))
    if median_shared >= ENOUGH:
        return (
            "dawid-skene",
            f"the median annotator shares {median_shared:g} answered tasks with others, and {ENOUGH} are enough",
        )
    return "mace", (
        f"the median annotator shares {median_shared:g} answered tasks with others, and dawid-skene needs {ENOUGH}"
    )


def consensus(
    aspect_answers: AnnotatorAnswers, method: str, *, times: Floats, confidence: float, rng: np.random.Generator
) -> Consensus:
    """Return the consensus of a model that is fitted to tasks with several answers and applied to all tasks.

    `times` (1 + B, units) are bootstrap weights of clusters of items. Competence is Cohen's kappa of an annotator's
    answers with the consensus: 1 for perfect answers, 0 for random answers.
    """
    nan_per_rater = np.full(len(aspect_answers.raters), np.nan)
    if method == "majority":
        shares = vote_shares(aspect_answers.answers)
        return Consensus(method, shares, nan_per_rater, nan_per_rater, nan_per_rater, NOTHING)
    is_multiply_rated = aspect_answers.has_several_answers.astype(np.float64)
    answers = replace(aspect_answers.answers, weight=is_multiply_rated)
    if method == "mace":
        posterior = mace(answers, restarts=RESTARTS, iterations=ITERATIONS, rng=rng).posterior
        return Consensus(
            method, posterior, _kappa(answers, posterior, least_errors=LEAST), nan_per_rater, nan_per_rater, BY_MACE
        )
    model = dawid_skene(answers, iterations=MOST_STEPS)
    competence = _kappa(answers, model.posterior, least_errors=LEAST)
    n_clusters, n_votes = aspect_answers.clusters, answers.n_votes[aspect_answers.has_several_answers]
    if np.median(n_votes) < ENOUGH_EACH and np.median(n_clusters[n_clusters > 0]) < FEWEST_UNITS:
        return Consensus(method, model.posterior, competence, nan_per_rater, nan_per_rater, SPARSE)

    def resampled_competence(resample_counts: Floats) -> Floats:
        weight = is_multiply_rated * resample_counts[aspect_answers.unit]
        weighted_answers = replace(answers, weight=weight)
        fit = dawid_skene(weighted_answers, iterations=ITERATIONS, start=model.posterior)
        return _kappa(weighted_answers, fit.posterior, least_errors=0.0)

    competence_draws = [resampled_competence(resample_counts) for resample_counts in times[1 : 1 + MOST_RESAMPLES]]
    low, high = intervals.cluster_intervals(
        np.stack([competence, *competence_draws]),
        n_clusters,
        confidence=confidence,
        bounds=intervals.CORRELATION,
        fewest=FEWEST_UNITS,
    )
    low, high = (np.where(np.isnan(competence), np.nan, bound) for bound in (low, high))
    return Consensus(method, model.posterior, competence, low, high, "")


def _kappa(answers: AnnotatorLabels, posterior: Floats, *, least_errors: float) -> Floats:
    """(workers,): Cohen's kappa of each annotator with the consensus.

    The value is NaN if neither the annotator nor the consensus varies, or if random answers would give fewer than
    `least_errors` wrong answers.
    """
    confusion = answers.confusion(posterior)
    n_answers = confusion.sum(axis=(1, 2))
    observed_agreement = ratio(np.trace(confusion, axis1=1, axis2=2), n_answers)
    chance_agreement = ratio((confusion.sum(axis=1) * confusion.sum(axis=2)).sum(axis=1), n_answers**2)
    has_enough_errors = (1 - chance_agreement) * n_answers >= max(least_errors, 1e-9)
    return (
        ratio(observed_agreement - chance_agreement, np.where(has_enough_errors, 1 - chance_agreement, 0.0)).round(12)
        + 0.0
    )


def label_columns(aspect_answers: AnnotatorAnswers, model: Consensus) -> dict[str, Any]:
    """Return the columns of the table `labels`."""
    n_answers, label_codes = aspect_answers.answers.n_votes, majority_label(np.nan_to_num(model.posterior))
    is_undecided, is_verdicts = label_codes == UNKNOWN, aspect_answers.what == VERDICTS
    label_index = np.where(is_undecided, OUTCOMES.index("tie") if is_verdicts else 0, label_codes)
    outcome_probabilities = model.posterior.T if is_verdicts else np.full((3, len(n_answers)), np.nan)
    tasks = aspect_answers.tasks
    empty_column = [None] * tasks.height
    return {
        "answer_type": aspect_answers.what,
        "item": tasks["item"].to_list(),
        **{name: tasks[name].to_list() if is_verdicts else empty_column for name in ("system_a", "system_b")},
        "system": empty_column if is_verdicts else tasks["system"].to_list(),
        "label": [
            aspect_answers.words[k] if is_verdicts or not is_undecided_task else None
            for k, is_undecided_task in zip(label_index, is_undecided, strict=True)
        ],
        "probability": np.where(
            is_undecided & ~np.full(len(label_index), is_verdicts),
            np.nan,
            model.posterior[np.arange(len(label_index)), label_index],
        ),
        **dict(zip(("p_a", "p_tie", "p_b"), outcome_probabilities, strict=True)),
        "expected_value": np.full(len(label_index), np.nan)
        if aspect_answers.nominal
        else model.posterior @ np.array(aspect_answers.labels),
        "answers": n_answers,
        "method": model.method,
    }
