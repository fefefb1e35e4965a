"""Margins of pairs as people see them, and between which ends those of people who look lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import count, difference, share, table
from custodes.data.panel import label_codes
from custodes.evaluate.annotators.material import VERDICTS, AnnotatorAnswers
from custodes.evaluate.edges import PAIR
from custodes.stats.annotator_quality import FEWEST_DOUBLED, careful_margins
from custodes.stats.arrays import Floats

SAYS = (
    "One row per pair of systems that people compared, with several answers to some comparisons: by how much one is"
    " better, as people see it, and between which ends the margin of people who look lies."
)
COLUMNS = (
    *PAIR,
    count("answers", "that count; second opinions do not"),
    difference("margin", "share that prefers system_a less share that prefers system_b, as people see it", "As seen"),
    difference(
        "careful_low",
        "the margin of people who look lies between this and `careful_high`, at `confidence`. Both are null with fewer"
        f" than {FEWEST_DOUBLED} comparisons that several answered; the end far from 0 is null where nearly all might"
        " be guesses",
        "Careful people, lower bound",
    ),
    difference("careful_high", "the other end", "Careful people, upper bound"),
    difference(
        "at_most",
        "the margin if all disagreement were carelessness: honest disagreement makes it too far from 0",
        "If all disagreement were carelessness",
    ),
    share(
        "looked",
        "at least this share of answers looked, all pairs together, at `confidence`; honest disagreement makes it"
        " smaller than it is",
        "Looked, at least",
    ),
)
TABLE = table(SAYS, *COLUMNS, essential=False)


def margin_columns(part: AnnotatorAnswers, second: pl.DataFrame, *, confidence: float) -> dict[str, Any]:
    """The rows of `margins`; `second` are the second opinions of the study, which count for care alone."""
    if part.what != VERDICTS or not part.doubled.any():
        return {}
    answers, tasks = part.answers, part.tasks
    first = primary(part, second)
    made = careful_margins(
        part.value,
        task=answers.task,
        person=answers.worker,
        pair=part.group,
        unit=part.unit[answers.task],
        primary=first,
        confidence=confidence,
    )
    n = np.bincount(part.group[answers.task], first)
    seen = np.bincount(part.group[answers.task], first * part.value)
    _, place = np.unique(part.group, return_index=True)
    return {
        **{name: tasks[name].gather(place).to_list() for name in ("system_a", "system_b")},
        "answers": n,
        "margin": np.divide(seen, n, out=np.full(len(n), np.nan), where=n > 0),
        "careful_low": made.low,
        "careful_high": made.high,
        "at_most": made.margin,
        "looked": np.full(len(n), made.care_low),
    }


def primary(part: AnnotatorAnswers, second: pl.DataFrame) -> Floats:
    """(n,): 1 for an answer that says something of systems, 0 for a second opinion."""
    keys = ["item", "system_a", "system_b"]
    own = second.filter(pl.col("aspect") == part.aspect, pl.col("rater").is_in(list(part.raters)))
    known = part.tasks.with_row_index("_task").join(own.select(*keys, "rater"), on=keys, how="inner")
    if known.is_empty():
        return np.ones(len(part.answers))
    worker = label_codes(known["rater"], part.raters)
    n = len(part.raters)
    again = known["_task"].to_numpy().astype(np.int64) * n + worker
    return (~np.isin(part.answers.task * n + part.answers.worker, again)).astype(np.float64)
