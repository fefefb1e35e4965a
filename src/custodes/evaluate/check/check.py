"""Is this study sound enough to ask it anything?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import result
from custodes.answers.setting import Setting, selection_of, settings
from custodes.answers.tables import count, flag, label, score, share, table
from custodes.data.looks import STOPPED
from custodes.data.notes import Note
from custodes.data.preferences import HALF
from custodes.data.raters import INCOMPLETE, UNLIKE, UNTOLD
from custodes.data.study import POOLED, REPEATED, TASTES, Study
from custodes.evaluate.check import rules
from custodes.evaluate.check.against import SERIOUS_NOTES, compared_problems
from custodes.evaluate.check.copies import copied_systems
from custodes.evaluate.check.data_summary import raters_of, summary_of, tie_rates
from custodes.evaluate.check.problems import OfProblems, Problem, columns_of, problem_table
from custodes.evaluate.check.refusals import asked_of, refusals
from custodes.evaluate.check.used import TRUNCATED, mixed_up, used
from custodes.evaluate.comparison import (
    NO_COMPARISON,
    Comparison,
    NotComparableError,
    all_raters,
    compared_by_any,
    compared_on,
    label_of,
    too_few,
)
from custodes.evaluate.naming import named_alike, people_as_metrics
from custodes.evaluate.parallel import each
from custodes.evaluate.people import ScalesDifferError
from custodes.progress import Progress, silent

TOLD = (*SERIOUS_NOTES, "people-as-metrics")
"""Notes that are told as problems of their own."""
WARNED = (
    POOLED,
    REPEATED,
    TASTES,
    "unused-people",
    "place-or-column",
    "item-in-each-row",
    "graded-preference",
    "unused-order",
    rules.SILENT,
    HALF,
    UNLIKE,
    UNTOLD,
    INCOMPLETE,
    TRUNCATED,
    STOPPED,
)
"""Notes that may turn a number round, or leave a side empty."""
SIDED = ("one-sided-people", "sides")
"""Sides are compared and not systems: by what people say, or as the reader of the data declares."""


@result
class Check(OfProblems):
    """What a study holds and what would fool its reader. See `check`."""

    summary: pl.DataFrame = table(
        "One row per aspect.",
        count("items", "items that anybody chosen rated"),
        count("clusters", "groups of items (documents or the like) that are resampled together"),
        count("systems", "systems compared"),
        count("raters", "people and metrics together", essential=False),
        count("people", "people"),
        count("metrics", "metrics and judges"),
        count("ratings", "scores"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "share of item × system × rater cells with a score"),
        count("missing", "cells without one", essential=False),
        share("ties", "share of comparisons on which people, taken together, tie", "People tie"),
        count(
            "unpaired",
            "comparisons of two rated outputs left out because no annotator rated both",
            "Left out",
            essential=False,
        ),
    )
    raters: pl.DataFrame = table(
        "One row per rater and aspect.",
        label("rater", "its name"),
        label("kind", "human or metric"),
        count("items", "of the whole study", essential=False),
        count("systems", "of the whole study", essential=False),
        count("ratings", "scores given"),
        count("verdicts", "pairwise verdicts given"),
        share("coverage", "share of item × system cells that it rated"),
        count("missing", "cells that it did not rate"),
        share("ties", "share of its comparisons that tie; null for one of several people"),
        score("low", "lowest score given", "Lowest"),
        score("high", "highest score given", "Highest"),
        essential=False,
    )
    used: pl.DataFrame = table(
        "One row per rater: how it counts, and what it is.",
        label("rater", "its name"),
        label("kind", "human or metric"),
        flag("higher_is_better", "whether a higher score is the better one"),
        score("lowest", "the lowest score that it can give, as declared"),
        score("highest", "the highest"),
        score("cost", "of an output, as declared"),
        label("cost_unit", "what the cost is counted in"),
        share("truncated", "of outputs of which it saw a part only"),
        label("signature", "everything that may change what it says: library, version, parameters"),
        essential=False,
    )
    problems: pl.DataFrame = problem_table("What would fool a reader.", page="the question")


@question(
    "custodes check ratings.csv --human 'expert*'",
    resamples="Sign flips of the test against people, at least 99; 0: not tested.",
)
def check(
    study: Study,
    *,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Check:
    """What the study holds and what would fool its reader.

    `summary`: items, clusters, systems, raters, ratings, coverage (share of item x system x rater cells rated), missing
    cells and the share of ties among people's comparisons. `raters`: the same for each rater, with its range.
    `problems`: severity (error, warning, info), rule, message and examples; a metric that runs against people
    (its direction may be wrong), near-duplicates, constant raters, few items, one-sided people, metrics or systems
    rated on other items than others, systems without a common item, names that look alike, people who count as metrics
    or are told apart by aspects, means of others, codes for missing values, verdicts in one order, raters of one
    signature, texts that were cut, comparisons that people could not judge, left-out rows, systems that are the
    reference or equal to another one, items that stand several times. `used`: how each rater counts, its cost and
    signature. `resamples`: sign flips of the test whether a metric runs against people, at the 1 % level; with fewer
    than 99 it is not tested, and a row says so. People or metrics alone are enough: a row says which side is missing,
    or why nothing is compared.

    >>> import custodes as cu
    >>> cu.check(cu.read("demo")).summary["systems"].to_list()[0] > 1
    True
    """
    chosen = study.select(**selection_of(setting), one_side=True)
    examined = [_examined(chosen, aspect, setting) for aspect in chosen.aspects]
    notes = [note for own in examined for note in own.notes] or [*chosen.notes]
    lower = {name for name, sign in chosen.raters.direction.items() if sign < 0}
    comparisons = [own.comparison for own in examined if own.compared]
    problems_of = partial(compared_problems, lower=lower, resamples=resamples)
    against = list(each(problems_of, comparisons, rng=np.random.default_rng(rng), progress=progress, desc="check"))[
        ::-1
    ]
    found = [[*own.problems, *(against.pop() if own.compared else ())] for own in examined]
    notes = list(dict.fromkeys(notes))
    parts = [own.part(chosen, problems) for own, problems in zip(examined, found, strict=True)]
    everywhere = columns_of(_of_study(study, chosen, notes))
    return Check.of([*parts, Check.part(used=used(chosen), problems=everywhere)], notes)


@dataclass(frozen=True, kw_only=True)
class _Examined:
    """One aspect: whether people are `compared` with metrics, and the problems if not; `comparable` is False where
    annotators rate on different scales."""

    comparison: Comparison
    compared: bool
    comparable: bool
    notes: Sequence[Note]
    problems: Sequence[Problem]

    def part(self, chosen: Study, problems: Sequence[Problem]) -> dict[str, pl.DataFrame]:
        """The tables of the aspect."""
        own = self.comparison
        ties = tie_rates(own, comparable=self.comparable)
        raters = raters_of(chosen, own, ties)
        return Check.part(
            own.aspect,
            summary=summary_of(own, raters, ties, comparable=self.comparable),
            raters=raters,
            problems=columns_of([*problems, *rules.means_of_others(own), *rules.twins(own)]),
        )


def _examined(chosen: Study, aspect: str, setting: Setting) -> _Examined:
    several, problems = len(chosen.systems) > 1, []
    if chosen.humans and chosen.metrics and several:
        try:
            made = compared_on(chosen, aspect, setting)
            return _Examined(comparison=made, compared=True, comparable=True, notes=made.notes, problems=())
        except (NotComparableError, ScalesDifferError) as error:
            problems.append(nothing_compared(error))
    alone, notes, comparable = list[Problem](), list(chosen.notes), True
    try:
        (own,) = compared_by_any(chosen, settings(setting), [aspect])
        notes += own.notes
        if not len(own.preferences):
            alone.append(nothing_compared(f"{NO_COMPARISON}{label_of(aspect)}"))
    except ScalesDifferError as error:
        own, comparable = all_raters(chosen, aspect, setting), False
        alone.append(nothing_compared(error))
    problems = [*(problems or alone if several else ()), *rules.few_items(own)]
    problems += [Problem("warning", note.rule, note.message) for note in notes if note.rule in SERIOUS_NOTES]
    return _Examined(comparison=own, compared=False, comparable=comparable, notes=notes, problems=problems)


def nothing_compared(why: object) -> Problem:
    """The problem of an aspect without any comparison."""
    return Problem("error", "nothing-compared", str(why))


def _of_study(study: Study, chosen: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """What concerns all aspects; names are compared with those that were not chosen too."""
    yield from rules.missing_side(chosen)
    if len(chosen.systems) < 2:
        yield nothing_compared(too_few(chosen, "a comparison needs two"))
    names = chain(named_alike(study), people_as_metrics(study, set(chosen.metrics)))
    yield from (Problem("warning", *own) for own in names)
    yield from rules.beyond_declared(chosen)
    yield from rules.missing_codes(chosen)
    yield from rules.orders(chosen)
    yield from copied_systems(chosen)
    yield from refusals(asked_of(chosen))
    yield from mixed_up(chosen, notes)
    yield from (Problem(_severity(note.rule), note.rule, note.message) for note in notes if note.rule not in TOLD)


def _severity(rule: str) -> Literal["warning", "info"]:
    return "warning" if rule in WARNED else "info"
