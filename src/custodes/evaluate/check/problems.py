"""Problems found by checks: a row, the table, and the base class of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from custodes.answers.result import Result
from custodes.answers.tables import View, label, labels, table
from custodes.answers.views import parts, titled


class Problem(NamedTuple):
    """A row of the table `problems`."""

    severity: Literal["error", "warning", "info"]
    rule: str
    message: str
    examples: Sequence[str] = ()


def columns_of(problems: Iterable[Problem]) -> dict[str, list[Any]]:
    """Problems as columns."""
    rows = list(problems)
    return {name: [getattr(problem, name) for problem in rows] for name in Problem._fields}


def of_all_aspects(problems: pl.DataFrame) -> pl.DataFrame:
    """The problems; those that differ only in the aspect are one row with all their aspects."""
    if "aspect" not in problems.columns or problems.is_empty():
        return problems
    joined = problems.with_columns(pl.col("examples").list.join("\n")).group_by(
        *[name for name in problems.columns if name != "aspect"], maintain_order=True
    )
    rows = joined.agg(pl.col("aspect").unique(maintain_order=True).str.join(", "))
    return rows.with_columns(pl.col("examples").str.split("\n")).select(problems.columns)


def _views(problems: pl.DataFrame) -> Iterator[View]:
    rows = of_all_aspects(problems)
    header = ("severity", "rule", "message")
    for part, of_part in parts(rows, "aspect" if "aspect" in rows.columns else ""):
        cells = tuple(of_part.select(header).iter_rows())
        yield View(title=titled("problems", part), header=header, labels=("Severity", "Rule", "What"), rows=cells)


def problem_table(doc: str, *, page: str) -> Any:
    """Declare the table of problems; `page` of the documentation explains the rules."""
    return table(
        doc,
        label("severity", "error, warning or info"),
        label("rule", f"stable name of the rule, explained on the page of {page}"),
        label("message", "description of the problem and advice", "What"),
        labels("examples", "names concerned", essential=False),
        view=_views,
    )


class OfProblems(Result):
    """A result with a table `problems`."""

    problems: pl.DataFrame

    def told(self) -> Iterator[str]:
        """One line if there are no problems; `problems` holds the notes."""
        return iter(() if self.problems.height else ("no problems found",))

    @property
    def status(self) -> int:
        """Exit status: 1 with warnings or errors, else 0."""
        return int(not {"warning", "error"}.isdisjoint(self.problems["severity"]))
