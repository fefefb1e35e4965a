"""Consensus label of each task, and the competence of each annotator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from custodes.errors import OptionError
from custodes.evaluate.annotators.annotator_answers import VERDICTS, AnnotatorAnswers
from custodes.evaluate.comparable import label_of
from custodes.evaluate.decision_graph import OUTCOMES
from custodes.stats.annotator_models import (
    UNKNOWN,
    AnnotatorLabels,
    dawid_skene,
    mace,
    majority_label,
    vote_shares,
)
from custodes.stats.arrays import Floats
from custodes.stats.rates.measures import kappa
from custodes.stats.ratios import ratio

Method = Literal["auto", "dawid-skene", "mace", "majority"]

ENOUGH = 20
"""If the median number of shared answers per annotator is at least this number, 'auto' estimates confusion matrices
(Dawid-Skene).
"""
FEWEST_ANNOTATORS, FEWEST_DOUBLED = 3, 30
"""Minimum number of annotators, and of tasks with several answers, for an estimate of competence."""
LEAST = 5.0
"""Minimum expected number of errors of an annotator who answers at random. Below this number, competence is not
estimated."""
RESTARTS, ITERATIONS, MOST_STEPS = 10, 50, 100
FEWEST_SHARED = 30
"""Minimum number of shared answers for an estimate of competence.

The standard error is .10 to .20 with this number of answers, and .17 to .48 with fewer answers."""


def chosen_method(aspect_answers: AnnotatorAnswers, method: Method, *, has_slots: bool) -> tuple[str, str]:
    """Return the method to use, and the reason for this choice."""
    n_multiply_rated_tasks = int(aspect_answers.has_several_answers.sum())
    if method != "auto":
        if method != "majority" and not n_multiply_rated_tasks:
            raise OptionError(
                f"method={method!r}: no task was answered twice{label_of(aspect_answers.aspect)}, so competence "
                "cannot be estimated; use method='majority'"
            )
        return method, "this method was requested"
    if has_slots:
        return "majority", "some raters are slots, which several persons may share"
    if len(aspect_answers.raters) < FEWEST_ANNOTATORS or n_multiply_rated_tasks < FEWEST_DOUBLED:
        return "majority", (
            f"there are fewer than {FEWEST_ANNOTATORS} annotators, or fewer than {FEWEST_DOUBLED} tasks answered by "
            "several annotators"
        )
    workers_of_shared_answers = aspect_answers.answers.worker[aspect_answers.is_shared_answer]
    median_n_shared_tasks = np.median(np.bincount(workers_of_shared_answers, minlength=len(aspect_answers.raters)))
    return "dawid-skene" if median_n_shared_tasks >= ENOUGH else "mace", (
        f"annotators share a median of {median_n_shared_tasks:g} answered tasks with other annotators, and "
        "dawid-skene needs "
        f"{ENOUGH} shared tasks"
    )


def consensus(aspect_answers: AnnotatorAnswers, method: str, *, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the probabilities (tasks, labels) of the labels, and the competence (workers,) of the annotators.

    Models are fitted to tasks with several answers and applied to all tasks. Competence is Cohen's kappa of an
    annotator's answers with the consensus: 1 for perfect answers, 0 for random answers.
    """
    if method == "majority":
        return vote_shares(aspect_answers.answers), np.full(len(aspect_answers.raters), np.nan)
    answers = replace(aspect_answers.answers, weight=aspect_answers.has_several_answers.astype(np.float64))
    posterior = (
        mace(answers, restarts=RESTARTS, iterations=ITERATIONS, rng=rng).posterior
        if method == "mace"
        else dawid_skene(answers, iterations=MOST_STEPS)
    )
    return posterior, _kappa(answers, posterior)


def _kappa(answers: AnnotatorLabels, posterior: Floats) -> Floats:
    """Cohen's kappa of each annotator with the consensus, (workers,).

    The value is NaN if random answers would give fewer than `LEAST` wrong answers.
    """
    confusion_matrices = answers.confusion(posterior)
    n_answers_of_rater = confusion_matrices.sum(axis=(1, 2))
    expected_agreements = ratio(
        (confusion_matrices.sum(axis=1) * confusion_matrices.sum(axis=2)).sum(axis=1), n_answers_of_rater
    )
    return (
        np.where(n_answers_of_rater - expected_agreements >= LEAST, kappa(confusion_matrices), np.nan).round(12) + 0.0
    )


def label_columns(aspect_answers: AnnotatorAnswers, posterior: Floats) -> dict[str, Any]:
    """Return the columns of the table `labels`."""
    majority_label_codes = majority_label(np.nan_to_num(posterior))
    is_undecided_task, has_verdicts = majority_label_codes == UNKNOWN, aspect_answers.what == VERDICTS
    label_code_of_task = np.where(is_undecided_task, OUTCOMES.index("tie") if has_verdicts else 0, majority_label_codes)
    has_no_label = is_undecided_task & (not has_verdicts)
    probabilities = posterior[np.arange(len(label_code_of_task)), label_code_of_task]
    p_a, p_tie, p_b = posterior.T if has_verdicts else (None, None, None)
    task_table = aspect_answers.tasks
    return {
        "answer_type": aspect_answers.what,
        "item": task_table["item"],
        "system_a": task_table["system_a"] if has_verdicts else None,
        "system_b": task_table["system_b"] if has_verdicts else None,
        "system": None if has_verdicts else task_table["system"],
        "label": [
            None if is_missing else aspect_answers.words[label_code]
            for label_code, is_missing in zip(label_code_of_task, has_no_label, strict=True)
        ],
        "probability": np.where(has_no_label, np.nan, probabilities),
        "p_a": p_a,
        "p_tie": p_tie,
        "p_b": p_b,
        "answers": aspect_answers.answers.n_votes,
    }
