"""Problems that checks find: the row of a problem, the table, and the base class of results with problems."""

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
    """Return the problems as columns of the table `problems`."""
    rows = list(problems)
    return {name: [getattr(problem, name) for problem in rows] for name in Problem._fields}


def of_all_aspects(problems: pl.DataFrame) -> pl.DataFrame:
    """Return the problems; problems that differ only in the aspect become one row with all aspects."""
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
    """Return the declaration of the table of problems; `page` names the documentation page that explains the rules."""
    return table(
        doc,
        label("severity", "error, warning or info"),
        label("rule", f"stable name of the rule, explained on the page of {page}"),
        label("message", "description of the problem and advice", "What"),
        labels("examples", "names that the problem concerns", essential=False),
        view=_views,
    )


class OfProblems(Result):
    """A result with a table `problems`."""

    problems: pl.DataFrame

    def told(self) -> Iterator[str]:
        """Return one line if there are no problems; notes are in the table `problems`."""
        return iter(() if self.problems.height else ("no problems found",))

    @property
    def status(self) -> int:
        """Exit status: 1 if there are warnings or errors, otherwise 0."""
        return int(not {"warning", "error"}.isdisjoint(self.problems["severity"]))
