"""Margins of pairs as people see them, and as they would be if nobody answered without looking."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import count, score, share, table
from custodes.data.panel import label_codes
from custodes.evaluate.annotators.material import VERDICTS, Said
from custodes.evaluate.edges import PAIR
from custodes.stats.arrays import Floats
from custodes.stats.people.careless import FEWEST, without_careless

SAYS = (
    "One row per pair of systems that people compared, with several answers to some comparisons: by how much one is"
    " better, as people see it and without careless answers."
)
COLUMNS = (
    *PAIR,
    count("answers", "that count; second opinions do not"),
    score("margin", "share that prefers system_a less share that prefers system_b, as people see it", "As seen"),
    score(
        "corrected",
        "the same if every answer looked; disagreement of people who do look is taken for carelessness, too, so it is"
        " at most so far from 0. An end is null where nearly all might be guesses for all that is known",
        "Without careless answers",
        interval=True,
    ),
    share(
        "care",
        "chance that an answer looked, all pairs together, by how far people agree on what several of them answered;"
        f" null with fewer than {FEWEST} such comparisons",
        "Answers that looked",
        interval=True,
    ),
)
TABLE = table(SAYS, *COLUMNS, essential=False)


def margin_columns(said: Said, second: pl.DataFrame, *, confidence: float) -> dict[str, Any]:
    """The rows of `margins`; `second` are the second opinions of the study, which count for care alone."""
    if said.what != VERDICTS or not said.doubled.any():
        return {}
    answers, tasks = said.answers, said.tasks
    first = primary(said, second)
    made = without_careless(
        said.value,
        task=answers.task,
        person=answers.worker,
        pair=said.group,
        unit=said.unit[answers.task],
        primary=first,
        confidence=confidence,
    )
    n = np.bincount(said.group[answers.task], first)
    seen = np.bincount(said.group[answers.task], first * said.value)
    _, place = np.unique(said.group, return_index=True)
    every = np.ones(len(n))
    return {
        **{name: tasks[name].gather(place).to_list() for name in ("system_a", "system_b")},
        "answers": n,
        "margin": np.divide(seen, n, out=np.full(len(n), np.nan), where=n > 0),
        "corrected": made.margin,
        "corrected_low": made.low,
        "corrected_high": made.high,
        "care": every * made.care,
        "care_low": every * made.care_low,
        "care_high": every * made.care_high,
    }


def primary(said: Said, second: pl.DataFrame) -> Floats:
    """(n,): 1 for an answer that says something of systems, 0 for a second opinion."""
    keys = ["item", "system_a", "system_b"]
    own = second.filter(pl.col("aspect") == said.aspect, pl.col("rater").is_in(list(said.raters)))
    known = said.tasks.with_row_index("_task").join(own.select(*keys, "rater"), on=keys, how="inner")
    if known.is_empty():
        return np.ones(len(said.answers))
    worker = label_codes(known["rater"], said.raters)
    n = len(said.raters)
    again = known["_task"].to_numpy().astype(np.int64) * n + worker
    return (~np.isin(said.answers.task * n + said.answers.worker, again)).astype(np.float64)
