"""Agreement, competence and reliability of the annotators, and their consensus labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.tables import count, flag, label, labels, p_value, probability, score, share, table
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.annotators.annotator_answers import (
    MOST_LABELS,
    SLOT,
    AnnotatorAnswers,
    AnnotatorType,
    annotator_answers,
    persons,
)
from custodes.evaluate.annotators.annotator_statistics import (
    FEW_DOUBLES,
    FEW_TASKS,
    FEWEST,
    FIRST,
    LITTLE,
    NO_AGREEMENT,
    REVERSED,
    SECOND,
    AnnotatorTests,
    add_flags,
    agreement_columns,
    annotator_columns,
    annotator_tests,
)
from custodes.evaluate.annotators.consensus import (
    FEWEST_SHARED,
    Method,
    chosen_method,
    consensus,
    label_columns,
)
from custodes.evaluate.comparable import label_of
from custodes.evaluate.parallel import map_parts
from custodes.progress import Progress, silent
from custodes.stats import bootstrap
from custodes.stats.reliability import FEWEST_ANNOTATORS

ANSWER_TYPE = label("answer_type", "`verdicts` on comparisons, or `ratings` of outputs")
MOST_SHOWN = 20
"""Maximum number of rows per type of answer in the terminal; flagged annotators are always displayed."""
FEW_SHARED = "too few answers shared with other annotators"
ALIKE = "nearly all answers are equal, so the chance level is near 1"
NUMERIC = f"more than {MOST_LABELS} different scores count as numeric ratings, not as labels"


@result
class Annotators(Result):
    """Agreement, competence and consensus of the annotators. See `annotators`."""

    PICTURE = "annotator_competence"

    annotators: pl.DataFrame = table(
        "One row per annotator (or slot) and type of answer.",
        ANSWER_TYPE,
        label("rater", "the annotator"),
        flag("is_person", "whether the annotator is one person, not a slot shared by several persons", essential=False),
        count("answers", "number of tasks (comparisons or outputs) that the annotator answered"),
        count(
            "n_multiply_rated",
            "number of tasks that the annotator and at least one other annotator answered",
            "Multiply rated",
        ),
        score(
            "competence",
            "competence by `dawid-skene` or `mace`: Cohen's kappa with the consensus on shared tasks (1: "
            "always correct, 0: guessing). Null with the method `majority`, and for annotators with "
            f"fewer than {FEWEST_SHARED} shared tasks or fewer than {FEWEST} clusters of shared items",
            "Competence",
            best="high",
        ),
        share(
            "agreement",
            "mean proportion of the other annotators who gave the same answer. Null if there are fewer than "
            f"{FEWEST} clusters of shared items",
            "Others agree",
            interval=True,
            best="high",
        ),
        count("decided", "number of verdicts that prefer one output and have a known order", essential=False),
        share(
            "first_rate",
            "proportion of the verdicts counted in `decided` that prefer the output shown first",
            "First shown",
        ),
        share("tie_rate", "proportion of ties among verdicts", "Ties"),
        score("seconds", "median seconds per verdict, if the file has them", "Seconds"),
        p_value(
            "p_position",
            "p-value of the hypothesis that verdicts do not depend on the order of the two outputs, adjusted for all "
            "tests of the study (Holm)",
            essential=False,
        ),
        p_value(
            "p_careless",
            "p-value of the test for careless answers. The other annotators agree with each other to "
            "some degree on the tasks of this annotator. The null hypothesis is that this annotator agrees with them "
            "at least half as much. Adjusted (Holm) for all tests of the study; null if there is an `untested_reason`",
            essential=False,
        ),
        p_value(
            "p_chance",
            "unadjusted one-sided p-value of the hypothesis that the annotator agrees with the others no more than "
            "random answers do",
            essential=False,
        ),
        label("untested_reason", "why agreement with the other annotators is not tested", essential=False),
        labels("flags", f"findings significant at `alpha`: `{FIRST}`, `{SECOND}`, `{LITTLE}`, `{REVERSED}`", "Flags"),
        label("reason", "why there is no competence", essential=False),
        rows=lambda result: _notable_rows(result.annotators),
    )
    agreement: pl.DataFrame = table(
        "One row per type of answer: number of annotators and their chance-corrected agreement.",
        ANSWER_TYPE,
        count("annotators", "number of annotators with answers"),
        score(
            "effective_annotators",
            "effective number of annotators: this number of annotators with equally many answers would give a rate "
            "or mean the same precision. Null if a rater is a slot",
            "Effective annotators",
        ),
        count("tasks", "number of tasks (comparisons or outputs) with answers"),
        count("n_multiply_rated", "number of tasks that several annotators answered", "Multiply rated"),
        score(
            "alpha_nominal", "Krippendorff's alpha for nominal answers", "Alpha, nominal", interval=True, best="high"
        ),
        score("alpha_ordinal", "Krippendorff's alpha for ordinal answers", "Alpha, ordinal", interval=True),
        score(
            "alpha_interval",
            "Krippendorff's alpha for interval answers (squared differences)",
            "Alpha, interval",
            interval=True,
        ),
        label(
            "reason",
            f"why an alpha is null: fewer than {FEW_DOUBLES} tasks answered by several annotators, or categories "
            "without order",
            essential=False,
        ),
    )
    labels: pl.DataFrame = table(
        "One row per task: the combined label of all annotators.",
        ANSWER_TYPE,
        label("item", "item of the task"),
        label("system_a", "first system of a comparison"),
        label("system_b", "second system of a comparison"),
        label("system", "system of an output"),
        label(
            "label",
            "for a comparison: `win`, `tie` or `loss` of system_a (`tie` if votes are even); for an output: the label "
            "or score (null if votes are even)",
        ),
        probability(
            "probability",
            "probability of the label according to the method; with the method `majority`, the "
            "proportion of votes for the label",
        ),
        probability("p_a", "probability that system_a is better"),
        probability("p_tie", "probability of a tie"),
        probability("p_b", "probability that system_b is better"),
        count("answers", "number of answers to the task"),
        essential=False,
    )


@question(
    "custodes annotators battles.csv --method mace --format csv --table labels",
    method="Model of the annotators (default: auto, which chooses by the number of answers).",
    annotator_type="Whether raters are persons or slots shared by several persons (default: auto).",
)
def annotators(
    study: Study,
    *,
    method: Method = "auto",
    annotator_type: AnnotatorType = "auto",
    human: Patterns = None,
    systems: Patterns = None,
    aspect: Patterns = None,
    group: Patterns = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
) -> Annotators:
    """Agreement, competence and reliability of the annotators, and their consensus labels.

    Notes
    -----
    The study may have verdicts or ratings on a scale; for numeric ratings, alpha uses squared differences. `method`
    'dawid-skene' estimates a confusion matrix for each annotator, 'mace' the probability that the annotator knows the
    label, and 'majority' estimates no model. 'auto' counts the tasks that each annotator shares with other annotators,
    and chooses 'dawid-skene' if the median is at least 20, else 'mace'. For slots, or with too few annotators or shared
    tasks, 'auto' chooses 'majority'. With `annotator_type` 'auto', a rater is a person if the raters table says so. For
    other raters, the names and the overlap of tasks decide (a note gives the result). A slot is a rater that stands for
    several persons; its competence and its own agreement are not estimated.

    An annotator is flagged if a test is significant at `alpha` after Holm adjustment over all tests of the study.
    Intervals are Student's t intervals over resampled clusters of items.

    References
    ----------
    Hovy et al. 2013 (MACE); Dawid and Skene 1979; Krippendorff 2019. The test of agreement is new.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.annotators(cu.read("demo"), aspect="fluency", resamples=50)
    >>> result.agreement["annotators"].item()
    3
    """
    selected_study = study.select(human=human, systems=systems, aspect=aspect, group=group, one_side=True)
    if not selected_study.humans:
        for note in selected_study.notes:
            if note.rule == "annotators-without-ratings":
                raters_text = note.message.partition(":")[0]
                raise InputError(f"{study.name}: {raters_text}; add their ratings, or use the leaderboard of metrics")
        raise OptionError(study.advice_on_annotators())
    answers_of_aspects, answer_notes = annotator_answers(selected_study, selected_study.humans)
    if not answers_of_aspects:
        raise InputError(
            f"{study.name}: the selected annotators gave no score or verdict "
            f"({join_labels(selected_study.humans, limit=3)}); select other annotators"
        )
    person_names, person_notes = persons(selected_study, selected_study.humans, annotator_type)
    columns_tests_and_notes = list(
        map_parts(
            partial(_answer, person_names=person_names, method=method, resamples=resamples, confidence=confidence),
            answers_of_aspects,
            rng=np.random.default_rng(rng),
            progress=progress,
            desc="annotators",
            label=lambda aspect_answers: aspect_answers.aspect + aspect_answers.what,
        )
    )
    add_flags(
        [columns_of_table["annotators"] for columns_of_table, _, _ in columns_tests_and_notes],
        [tests_of_annotators for _, tests_of_annotators, _ in columns_tests_and_notes],
        alpha,
    )
    return Annotators.from_parts(
        [
            Annotators.part(aspect_answers.aspect, **columns_of_table)
            for aspect_answers, (columns_of_table, *_) in zip(answers_of_aspects, columns_tests_and_notes, strict=True)
        ],
        [
            *selected_study.notes,
            *answer_notes,
            *person_notes,
            *(note for *_, aspect_notes in columns_tests_and_notes for note in aspect_notes),
        ],
    )


def _notable_rows(annotator_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of flagged annotators, and of the annotators with the most answers."""
    return annotator_rows.filter(
        (pl.col("flags").list.len() > 0)
        | (pl.col("answers").rank("ordinal", descending=True).over("aspect", "answer_type") <= MOST_SHOWN)
    )


def _answer(
    aspect_answers: AnnotatorAnswers,
    rng: np.random.Generator,
    *,
    person_names: frozenset[str],
    method: Method,
    resamples: int,
    confidence: float,
) -> tuple[dict[str, dict[str, Any]], AnnotatorTests, list[Note]]:
    bootstrap_weights = bootstrap.bootstrap_weights(
        aspect_answers.n_units, resamples if aspect_answers.n_units > 1 else 0, rng
    )
    is_person = np.array([rater in person_names for rater in aspect_answers.raters])
    n_slots = int((~is_person).sum())
    tests_of_annotators = annotator_tests(aspect_answers)
    columns_of_annotators = annotator_columns(
        aspect_answers, tests_of_annotators, is_person, bootstrap_weights=bootstrap_weights, confidence=confidence
    )
    method_name, method_reason = (
        chosen_method(aspect_answers, method, has_slots=bool(n_slots)) if not aspect_answers.continuous else ("", "")
    )
    columns_of_labels, competence = dict[str, Any](), np.full(len(aspect_answers.raters), np.nan)
    reason_of_rater = np.full(len(aspect_answers.raters), NUMERIC)
    if method_name:
        # A separate generator: estimates do not depend on the number of resamples.
        posterior, competence = consensus(aspect_answers, method_name, rng=rng.spawn(1)[0])
        has_few_shared_tasks = (aspect_answers.clusters < FEWEST) | (
            columns_of_annotators["n_multiply_rated"] < FEWEST_SHARED
        )
        reason_of_rater = (
            np.full(len(competence), "majority vote estimates no competence")
            if method_name == "majority"
            else np.select([has_few_shared_tasks, np.isnan(competence)], [FEW_SHARED, ALIKE], "")
        )
        competence = np.where(is_person & ~has_few_shared_tasks, competence, np.nan)
        columns_of_labels = label_columns(aspect_answers, posterior)
    columns_of_annotators |= {"competence": competence, "reason": np.where(is_person, reason_of_rater, SLOT)}
    columns_of_table = {
        "annotators": columns_of_annotators,
        "agreement": agreement_columns(
            aspect_answers, n_slots=n_slots, bootstrap_weights=bootstrap_weights, confidence=confidence
        ),
        "labels": columns_of_labels,
    }
    return (
        columns_of_table,
        tests_of_annotators,
        _notes(aspect_answers, method_name, method_reason, n_slots, columns_of_annotators["untested_reason"].tolist()),
    )


def _notes(
    aspect_answers: AnnotatorAnswers,
    method: str,
    method_reason: str,
    n_slots: int,
    untested_reasons: Sequence[str],
) -> list[Note]:
    aspect_text, n_annotators = f"{label_of(aspect_answers.aspect)}", len(aspect_answers.raters)
    n_multiply_rated_tasks = int(aspect_answers.has_several_answers.sum())
    return build_notes(
        (
            "method",
            bool(method),
            f"labels{'' if method == 'majority' else ' and competence'} from {aspect_answers.what}{aspect_text} use "
            f"{method}, because {method_reason}; all other questions combine annotators by the option aggregate",
        ),
        (
            "numbers",
            aspect_answers.continuous,
            f"{aspect_answers.what}{aspect_text}: {NUMERIC}, so no labels and no competence are estimated",
        ),
        (
            "few-annotators",
            n_annotators < FEWEST_ANNOTATORS and not n_slots,
            f"{aspect_answers.what}{aspect_text}: results describe only "
            f"{'this annotator' if n_annotators == 1 else f'these {n_annotators} annotators'}. Intervals account for "
            "the sampling of items, but not of annotators",
        ),
        (
            "few-doubled",
            n_multiply_rated_tasks if n_multiply_rated_tasks < FEW_DOUBLES else 0,
            f"{aspect_answers.what}{aspect_text}: only {n_multiply_rated_tasks} tasks were answered by several "
            "annotators, which is too few to estimate agreement; have more tasks annotated twice",
        ),
        (
            "none-doubled",
            n_multiply_rated_tasks == 0,
            f"{aspect_answers.what}{aspect_text}: no task has answers of two annotators, so agreement is unknown",
        ),
        (
            "few-triples",
            untested_reasons.count(FEW_TASKS) if n_multiply_rated_tasks else 0,
            f"{aspect_answers.what}{aspect_text}: the agreement of {untested_reasons.count(FEW_TASKS)} annotators is "
            f"not tested, because {FEW_TASKS}. With two answers per task, careless annotators and hard tasks cannot "
            "be distinguished",
        ),
        (
            "no-agreement",
            untested_reasons.count(NO_AGREEMENT),
            f"{aspect_answers.what}{aspect_text}: the data cannot show whether {untested_reasons.count(NO_AGREEMENT)} "
            f"annotators are careless, because {NO_AGREEMENT}",
        ),
        aspect=aspect_answers.aspect,
    )
