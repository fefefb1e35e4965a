"""Problems found by checks: a row, the table, and the base class of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from custodes.answers.result import Result
from custodes.answers.tables import label, labels, table


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


def problem_table(doc: str, *, page: str) -> Any:
    """Declare the table of problems; `page` of the documentation explains the rules."""
    return table(
        doc,
        label("severity", "error, warning or info"),
        label("rule", f"stable name of the rule, explained on the page of {page}"),
        label("message", "what was found and what to do", "What"),
        labels("examples", "names concerned", essential=False),
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
