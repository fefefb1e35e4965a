"""Is this study sound enough to ask it anything?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import result
from custodes.answers.setting import Setting, selection_of
from custodes.answers.tables import count, flag, label, score, share, table
from custodes.data.looks import STOPPED
from custodes.data.notes import Note
from custodes.data.preferences import HALF
from custodes.data.raters import INCOMPLETE, UNLIKE, UNTOLD
from custodes.data.study import Study
from custodes.evaluate.check import rules
from custodes.evaluate.check.against import SERIOUS_NOTES, compared_problems
from custodes.evaluate.check.held import Held, held_alone, raters_of, summary_of
from custodes.evaluate.check.problems import OfProblems, Problem, columns_of, problem_table
from custodes.evaluate.check.refusals import asked_of, refusals
from custodes.evaluate.check.used import TRUNCATED, mixed_up, used
from custodes.evaluate.comparison import compared
from custodes.evaluate.naming import aspects_as_people, named_alike, people_as_metrics
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent

TOLD = (*SERIOUS_NOTES, "people-as-metrics")
"""Notes that are told as problems of their own."""
WARNED = (
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
    signature, texts that were cut, comparisons that people could not judge, left-out rows. `used`: how each rater
    counts, its cost and signature. `resamples`: sign flips of the test whether a metric runs against people, at the 1 %
    level; with fewer than 99 it is not tested, and a row says so. People or metrics alone are enough: a row says which
    side is missing.

    >>> import custodes as cu
    >>> cu.check(cu.read("demo")).summary["systems"].to_list()[0] > 1
    True
    """
    chosen = study.select(**selection_of(setting), one_side=True)
    if chosen.humans and chosen.metrics:
        comparisons = compared(chosen, setting)
        held, notes = [Held.of(own) for own in comparisons], [note for own in comparisons for note in own.notes]
        lower = {name for name, sign in chosen.raters.direction.items() if sign < 0}
        problems_of = partial(compared_problems, lower=lower, resamples=resamples)
        found = list(each(problems_of, comparisons, rng=np.random.default_rng(rng), progress=progress, desc="check"))
    else:
        held, notes = held_alone(chosen, setting)
        found = [[*rules.few_items(own)] for own in held]
        found[0] += [Problem("warning", note.rule, note.message) for note in notes if note.rule in SERIOUS_NOTES]
    notes = list(dict.fromkeys(notes))
    parts = [
        Check.part(own.aspect, summary=summary_of(own, raters), raters=raters, problems=columns_of(problems))
        for own, first in zip(held, found, strict=True)
        for raters, problems in [(raters_of(chosen, own), [*first, *_of_aspect(own)])]
    ]
    everywhere = columns_of(_of_study(study, chosen, notes))
    return Check.of([*parts, Check.part(used=used(chosen), problems=everywhere)], notes)


def _of_aspect(held: Held) -> Iterator[Problem]:
    yield from (Problem("warning", *own) for own in aspects_as_people(held.aspect, held.people))
    yield from rules.means_of_others(held)
    yield from rules.twins(held)


def _of_study(study: Study, chosen: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """What concerns all aspects; names are compared with those that were not chosen too."""
    yield from rules.missing_side(chosen)
    names = chain(named_alike(study), people_as_metrics(study, set(chosen.metrics)))
    yield from (Problem("warning", *own) for own in names)
    yield from rules.beyond_declared(chosen)
    yield from rules.missing_codes(chosen)
    yield from rules.orders(chosen)
    yield from refusals(asked_of(chosen))
    yield from mixed_up(chosen, notes)
    yield from (Problem(_severity(note.rule), note.rule, note.message) for note in notes if note.rule not in TOLD)


def _severity(rule: str) -> Literal["warning", "info"]:
    return "warning" if rule in WARNED else "info"
