"""Problems of a study before annotation starts: texts, interim analyses, annotators and payment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from math import ceil
from pathlib import Path
from statistics import median
from typing import ClassVar, Literal

import msgspec
import numpy as np
import polars as pl

from custodes.annotate import study_file
from custodes.annotate.assignment_policy import cap
from custodes.annotate.forecast import annotator_only
from custodes.annotate.new_study import LOOKS_CUT
from custodes.annotate.plan import StudyPlan, budget_of, rule_of
from custodes.annotate.snapshot import FEW_ANNOTATORS
from custodes.annotate.stored_study import StoredStudy
from custodes.annotate.study_status import snapshot_of_file, study_provenance
from custodes.annotate.text_problems import text_problems
from custodes.annotate.wording import fill_plan_texts
from custodes.annotate.wording.translations import ENGLISH, LANGUAGES
from custodes.answers.result import result
from custodes.answers.tables import count, label, table
from custodes.answers.wording import plural
from custodes.arguments import check_arguments
from custodes.data.notes import Note
from custodes.evaluate.check.rules import Problem, ProblemResult, problem_table
from custodes.evaluate.check.study import ASKED, refusals
from custodes.stats.reliability import FEWEST_ANNOTATORS
from custodes.stats.stopping.allocation import divide_evenly
from custodes.stats.stopping.rules import analyse_tables

SERIOUS = ("outputs-plain", "contexts-plain", "no-boundary", "nothing-to-ask")
"""Notes from the creation of a study that count as warnings. All other notes count as infos."""


@result
class StudyCheck(ProblemResult):
    """Content and problems of an annotation study. See `check`."""

    BY: ClassVar[str] = ""

    summary: pl.DataFrame = table(
        "One row: the study.",
        label("name", "name of the study, from the plan"),
        count("items", "number of items whose outputs are displayed"),
        count("systems", "number of systems that are compared or rated"),
        count("pairs", "number of pairs of systems; if outputs are rated, number of systems"),
        count("questions", "number of possible comparisons (or ratings), summed over all pairs"),
        count("known", "control questions with a known answer: gold, qualification, attention"),
        count("images", "images of items and outputs", essential=False),
        count("answers", "answers to real comparisons", essential=False),
    )
    problems: pl.DataFrame = problem_table(
        "Problems that would waste answers or bias the study.", page="planning a study"
    )


@check_arguments
def check(path: str | Path) -> StudyCheck:
    """Return problems that would bias a study or waste answers, before annotation starts. The study does not change.

    `problems` has the severity (error, warning, info), the rule, a message with advice, and examples. The check covers
    outputs and the plan. Outputs: texts that reveal their author, and systems that differ in formatting or truncation
    (sign tests over items at a joint level of .05 for all pairs). Plan: interim analyses that the planned or current
    annotators cannot complete, too small a budget, too few annotators, a plan that cannot lead to a decision, an open
    link without control questions, payment below the target wage, and a consent text without contact or payment. It
    also repeats the notes from the creation of the study. For a running study, the check also covers comparisons that
    annotators could not judge, including those of incomplete interim analyses. The check does not reveal which system
    leads. Raises `InputError` for files that are not a study.

    >>> import polars as pl, tempfile
    >>> from custodes.annotate.new_study import new
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["As an AI, I agree.", "Yes."]})
    >>> "names-itself" in check(new(texts, Path(tempfile.mkdtemp()) / "study.db")).problems["rule"].to_list()
    True
    """
    study_path = study_file.check(path)
    with tempfile.TemporaryDirectory(prefix="custodes-check-") as temporary_folder, ExitStack() as exit_stack:
        study_copy_path = study_file.copy(study_path, Path(temporary_folder, "study.db"))
        exit_stack.enter_context(study_file.sqlite_errors(study_path))
        connection = exit_stack.enter_context(closing(study_file.connect(study_copy_path, durable=False)))
        stored_study = StoredStudy.read(connection)
        control_kinds = [control_kind for (control_kind,) in connection.execute("SELECT kind FROM gold ORDER BY gold")]
        answer_seconds = [seconds for (seconds,) in connection.execute(_SECONDS) if seconds is not None]
        refusal_frame = pl.DataFrame(connection.execute(_ASKED).fetchall(), schema=ASKED, orient="row", strict=False)
        (n_images,) = connection.execute("SELECT count(*) FROM media").fetchone()
        (n_workers,) = connection.execute("SELECT count(*) FROM worker").fetchone()
    status_snapshot = snapshot_of_file(study_path) if n_workers else None
    problems_from_notes = [
        Problem("warning" if note.rule in SERIOUS else "info", note.rule, note.message)
        for note in dict.fromkeys(stored_study.notes)
        if note.rule != LOOKS_CUT  # the rules below report the current number of items of every pair
    ]
    unsorted_problems = chain(
        text_problems(stored_study.material, stored_study.pairs),
        stopping_problems(stored_study),
        annotator_problems(
            stored_study.plan,
            control_kinds=control_kinds,
            answer_seconds=answer_seconds,
            n_personal_links=status_snapshot.reach.there
            if status_snapshot and stored_study.plan.annotators.recruit == "links"
            else 0,
            notes=status_snapshot.notes if status_snapshot else (),
        ),
        refusals(refusal_frame),
        problems_from_notes,
    )
    rank_of_severity = {"error": 0, "warning": 1, "info": 2}
    problems = sorted(unsorted_problems, key=lambda problem: rank_of_severity[problem.severity])
    summary_values_of_column = {
        "name": [stored_study.plan.name],
        "items": [len(stored_study.material.items)],
        "systems": [len(stored_study.material.systems)],
        "pairs": [len(stored_study.pairs)],
        "questions": [sum(map(len, stored_study.item_orders))],
        "known": [sum(control_kind != "example" for control_kind in control_kinds)],
        "images": [n_images],
        "answers": [status_snapshot.answers if status_snapshot else 0],
    }
    return StudyCheck.from_parts(
        [StudyCheck.part(summary=summary_values_of_column, problems=map(Problem._asdict, problems))],
        (),
        provenance=study_provenance("check", study_path, seed=stored_study.plan.seed),
    )


_SECONDS = """
SELECT coalesce(visible_seconds, server_seconds) FROM judgment j JOIN assignment a ON a.assignment = j.assignment
WHERE a.unit IS NOT NULL
"""

_ASKED = """
SELECT rater, item, system_a, system_b, max(answer IS NULL) FROM answers
WHERE unit IS NOT NULL AND NOT taken_back AND NOT excluded GROUP BY rater, item, system_a, system_b
"""
"""Query of all answers of annotators, including answers of incomplete interim analyses. The query has the columns
`ASKED`."""


Check = tuple[object, Literal["error", "warning", "info"], str, str]
"""Condition, severity, rule and message of a problem. The condition can also be a list of examples, which counts as
true if the list has an entry."""


def _iter_problems(*checks: Check) -> Iterator[Problem]:
    """Iterate over the problems whose condition is true."""
    for condition_or_examples, severity, rule, message in checks:
        if condition_or_examples:
            yield Problem(
                severity, rule, message, condition_or_examples[:5] if isinstance(condition_or_examples, list) else ()
            )


def stopping_problems(study: StoredStudy) -> Iterator[Problem]:
    """Problems of the stopping rule."""
    analysis_sizes = study.plan.stopping.looks
    if study.plan.question.mode == "rate":
        yield from _rating_budget_problems(study.plan, study.item_orders)
        return
    names_and_item_counts = [
        (" and ".join(filter(None, pair)), len(item_order))
        for pair, item_order in zip(study.pairs, study.item_orders, strict=True)
    ]
    max_items = max((n_items for _, n_items in names_and_item_counts), default=0)
    short_pair_names = [pair_name for pair_name, n_items in names_and_item_counts if 0 < n_items < analysis_sizes[0]]
    cut_names_and_item_counts = [
        (pair_name, n_items)
        for pair_name, n_items in names_and_item_counts
        if analysis_sizes[0] <= n_items < analysis_sizes[-1]
    ]
    min_cut_pair_items = min((n_items for _, n_items in cut_names_and_item_counts), default=0)
    yield from _iter_problems(
        (
            short_pair_names,
            "warning",
            "few-items",
            f"{len(short_pair_names)} pairs have fewer items than the first interim analysis needs "
            f"({analysis_sizes[0]}). These pairs are analysed once, with all items; add items, or plan smaller "
            "analyses",
        ),
        (
            [pair_name for pair_name, _ in cut_names_and_item_counts],
            "info",
            LOOKS_CUT,
            f"{len(cut_names_and_item_counts)} pairs have fewer items than the last interim analysis needs "
            f"({analysis_sizes[-1]}); the smallest of these pairs has {min_cut_pair_items} items. The last "
            "analysis of "
            "such a pair uses all items of the pair",
        ),
    )
    yield from _look_problems(study, max_items)
    if max_items:
        yield from _decision_problems(study, max_items)


def _look_problems(study: StoredStudy, max_items: int) -> Iterator[Problem]:
    """Problems if there are too few annotators, or too small a budget, for the interim analyses."""
    annotator_plan, budget = study.plan.annotators, study.plan.stopping.budget
    analysis_sizes = [min(planned_size, max_items) for planned_size in study.plan.stopping.looks]
    max_answers_per_annotator_and_pair = cap(
        annotator_plan, analysis_sizes[-1], annotator_plan.most if annotator_plan.recruit == "links" else None
    )
    n_first_analysis_answers = len(study.pairs) * analysis_sizes[0] * annotator_plan.per_item
    return _iter_problems(
        (
            annotator_plan.most * max_answers_per_annotator_and_pair < analysis_sizes[-1] * annotator_plan.per_item,
            "error",
            "too-few-annotators",
            f"{annotator_plan.most} annotators with at most {max_answers_per_annotator_and_pair} answers each to a "
            f"pair (cap {annotator_plan.cap:g}) cannot give the {analysis_sizes[-1] * annotator_plan.per_item} "
            "answers that the last interim analysis of a pair needs; allow more annotators, or a larger cap",
        ),
        (
            budget is not None and budget < n_first_analysis_answers,
            "error",
            "small-budget",
            f"budget {budget}: the first interim analysis of all {len(study.pairs)} pairs needs "
            f"{n_first_analysis_answers} answers; compare fewer pairs or systems, or increase the budget",
        ),
        _workload_check(study.plan, n_first_analysis_answers, "the first interim analysis of all pairs"),
    )


def _rating_budget_problems(plan: StudyPlan, item_orders: Sequence[Sequence[int]]) -> Iterator[Problem]:
    """Problems if the budget is too small, or annotators are too few, to rate all outputs. `item_orders`: items of each
    system."""
    output_counts_by_system = np.array(list(map(len, item_orders)), dtype=np.int64)
    budget = plan.stopping.budget
    n_needed_answers = int(output_counts_by_system.sum()) * plan.annotators.per_item
    rated_output_counts = divide_evenly(np.asarray(budget_of(plan) or 0), output_counts_by_system).tolist()
    rated_items_of_system = [
        set(item_order[:n_rated_outputs])
        for item_order, n_rated_outputs in zip(item_orders, rated_output_counts, strict=True)
    ]
    coverage_text = (
        f"{sum(rated_output_counts)} are rated; "
        f"{plural(len(set.intersection(*rated_items_of_system)), 'item')}, drawn at random, get "
        "ratings of the outputs of all systems"
    )
    omits_a_system = budget is not None and not all(rated_output_counts)
    return _iter_problems(
        (
            budget is not None and budget < n_needed_answers,
            "error" if omits_a_system else "info",
            "small-budget",
            f"budget {budget}: all {output_counts_by_system.sum()} outputs need {n_needed_answers} answers, so "
            f"{'some systems get none' if omits_a_system else coverage_text}; rate fewer outputs, or increase the "
            "budget",
        ),
        _workload_check(
            plan, n_needed_answers if budget is None else min(n_needed_answers, budget), "the outputs to be rated"
        ),
    )


def _workload_check(plan: StudyPlan, n_needed_answers: int, purpose_text: str) -> Check:
    """Return the check whether the annotators may give as many answers as needed."""
    annotator_plan = plan.annotators
    max_total_answers = annotator_plan.most * annotator_plan.batch * annotator_plan.batches
    return (
        max_total_answers < n_needed_answers,
        "error",
        "little-work",
        f"{annotator_plan.most} annotators with {annotator_plan.batches} batches of {annotator_plan.batch} give "
        f"{max_total_answers} answers, but {n_needed_answers} are needed for {purpose_text}; allow more annotators "
        "or batches",
    )


def _decision_problems(study: StoredStudy, max_items: int) -> Iterator[Problem]:
    """Problem if even unanimous answers would not decide a pair."""
    stopping_rule = rule_of(study.plan, n_pairs=len(study.pairs), max_items=max_items, has_metric=study.has_metric)
    if stopping_rule.estimator.uses_metric or stopping_rule.estimator.needs_items:
        return
    n_last_analysis_answers = stopping_rule.looks[-1]
    decisions, _, _ = analyse_tables(
        stopping_rule,
        annotator_only(np.array([[n_last_analysis_answers, 0, 0]])),
        analysis_index=len(stopping_rule.looks) - 1,
        n_at_last_analysis=np.array([n_last_analysis_answers]),
        items=None,
        is_analysed_pair=np.array([True]),
    )
    if not decisions[0]:
        yield Problem(
            "error",
            "decides-nothing",
            f"even {n_last_analysis_answers} answers that all prefer one system would not decide a pair; plan "
            "more answers (looks, items), or a larger gamma",
        )


SECONDS = 40.0
"""Seconds per answer that are assumed if there are fewer than `FEWEST` timed answers. This is the time at 1.5 answers
per minute (Deriu et al. 2023)."""
FEWEST = 10
"""Minimum number of timed answers. With at least this number, the median time of the answers replaces the assumed
seconds."""


def annotator_problems(
    plan: StudyPlan,
    *,
    control_kinds: Sequence[str],
    answer_seconds: Sequence[float],
    n_personal_links: int,
    notes: Sequence[Note],
) -> Iterator[Problem]:
    """Problems of recruitment and payment. `control_kinds`: kinds of the control questions; `answer_seconds`: measured
    times; `n_personal_links`: number of annotators with personal links; `notes`: notes on current annotators."""
    annotator_plan, payment_plan, study_texts = plan.annotators, plan.money, plan.texts
    n_gold_questions = control_kinds.count("gold")
    max_gold_per_annotator = (
        ceil(annotator_plan.batch * annotator_plan.batches / annotator_plan.gold_every)
        if annotator_plan.gold_every
        else 0
    )
    typical_seconds, seconds_source_text = SECONDS, "assumed; a pilot study measures the real time"
    if len(answer_seconds) >= FEWEST:
        typical_seconds, seconds_source_text = max(median(answer_seconds), 0.1), "the median so far"
    hourly_wage, price_text = payment_plan.price * 3600 / typical_seconds, f"{payment_plan.price:.2f}"
    default_texts = fill_plan_texts(
        msgspec.structs.replace(plan, texts=type(study_texts)(title=study_texts.title, contact=study_texts.contact))
    ).texts
    english_text_keys = ["question"] if plan.question.text == ENGLISH[f"question_{plan.question.mode}"] else []
    english_text_keys += [
        key for key in ("instructions", "consent") if getattr(study_texts, key) == getattr(default_texts, key)
    ]
    return _iter_problems(
        *((True, "warning", note.rule, note.message) for note in notes),
        (
            0 < n_personal_links < FEWEST_ANNOTATORS and not any(note.rule == FEW_ANNOTATORS for note in notes),
            "warning",
            FEW_ANNOTATORS,
            f"{n_personal_links} annotators have a link, so decisions hold only for these annotators. With few "
            "annotators, systems between which the whole population of annotators has no preference are declared "
            "different too often: in 23 % of studies with 3 annotators, 16 % with 5, 10 % with 10 and 8 % with 20; "
            "invite more annotators",
        ),
        (
            annotator_plan.recruit == "open" and not n_gold_questions,
            "warning",
            "no-gold",
            "annotators arrive by an open link and no comparison has a known answer, so only attention checks "
            "detect random answers; give a few dozen comparisons with clear answers as control questions (--gold)",
        ),
        (
            0 < n_gold_questions < max_gold_per_annotator,
            "info",
            "little-gold",
            f"{n_gold_questions} comparisons have known answers, but the plan provides for about "
            f"{max_gold_per_annotator} such questions per annotator; an annotator who has seen all "
            f"{n_gold_questions} gets no more control questions",
        ),
        (
            annotator_plan.worker_id and not payment_plan.price,
            "warning",
            "no-price",
            "annotators come from a platform (worker_id), but the plan has no price. Cost and wage are unknown, and "
            "the pages say that there is no payment; set [money] price (per answer)",
        ),
        (
            0 < hourly_wage < payment_plan.wage,
            "warning",
            "low-pay",
            f"{payment_plan.price:g} {payment_plan.currency} per answer gives {hourly_wage:.2f} per hour at "
            f"{typical_seconds:.0f} s per answer ({seconds_source_text}), below the target wage of "
            f"{payment_plan.wage:g}; pay {payment_plan.wage * typical_seconds / 3600:.2f} per answer",
        ),
        (
            not study_texts.contact.strip(),
            "warning",
            "no-contact",
            "the plan gives annotators no contact for questions; set [texts] contact to an address that is read",
        ),
        (
            study_texts.contact.strip() and study_texts.contact not in study_texts.consent,
            "warning",
            "consent-without-contact",
            "the consent text does not contain the contact; write {contact} in the consent text",
        ),
        (
            payment_plan.price and price_text not in study_texts.consent,
            "warning",
            "consent-without-pay",
            f"the consent text does not state the payment ({price_text} {payment_plan.currency} per answer); write "
            f"{{pay}} in it",
        ),
        (
            english_text_keys and study_texts.language.partition("-")[0].lower() not in LANGUAGES,
            "warning",
            "english-texts",
            f"the language of the study is {study_texts.language}, but these texts are the English defaults: "
            f"{', '.join(english_text_keys)}. Write these texts in the language of the study, and give attention "
            "checks in that language in --gold",
        ),
    )
