"""What a section of the report is made of: prose and tables as HTML, pictures as specifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from custodes.evaluate.result import Result
from custodes.reporting import wording
from custodes.reporting.verdict import Verdict

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture that the page draws from its tables.

    `spec` is Vega-Lite without data; `table` and `where` say which rows it shows: column to the name of a reader's
    choice (`{aspect}`), or to a literal value. `fields` renames columns and may hold `{statistic}`. Distinct values of
    the columns `lines` make the lines of a picture as wide as the page.
    """

    id: str
    title: str
    caption: str
    alt: str
    spec: Mapping[str, Any]
    table: str
    where: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: `kind` is text, int, number, percent or p; `low` and `high` make it an interval."""

    field: str
    label: str
    kind: str = "text"
    low: str = ""
    high: str = ""
    title: str = ""
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class ChosenTable:
    """A table too long to show whole: the page shows the rows that fit the reader's choices."""

    id: str
    caption: str
    table: str
    columns: tuple[Column, ...]
    where: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section: its prose and tables, and what the page draws in it."""

    id: str
    title: str
    html: str
    charts: tuple[Figure, ...] = ()
    tables: tuple[ChosenTable, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What sections are made from: results by question, the verdict, names, and tables beyond those of results.

    `absent` says why a question that not every study allows was not asked.
    """

    study: str
    results: Mapping[str, Result]
    verdict: Verdict
    aspects: tuple[str, ...]
    metrics: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    extra: Mapping[str, pl.DataFrame]
    absent: Mapping[str, str]

    def table(self, name: str) -> pl.DataFrame:
        """A table by its full name, `question.table`."""
        if name in self.extra:
            return self.extra[name]
        question, _, table = name.partition(".")
        return self.results[question].tables()[table]

    @property
    def one_sided(self) -> list[str]:
        """Aspects where people always prefer the same side, so that sides and not systems are compared."""
        problems = self.table("check.problems")
        rows = problems.filter(pl.col("rule") == "one-sided-people")
        return [str(aspect) for aspect in rows["aspect"].unique(maintain_order=True)]


SectionMaker = Callable[[Context], Section]


@cache
def environment() -> jinja2.Environment:
    """Templates with everything escaped."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"number": wording.number, "percent": wording.percent}
    return made


def render(template: str, **values: Any) -> str:
    """A template of `templates/` filled in."""
    return environment().get_template(template).render(**values)


def spec_of(chart: Any) -> dict[str, Any]:
    """A drawing without data as a specification; the page gives rows, colours and width."""
    made: dict[str, Any] = chart.to_dict()
    for name in ("$schema", "config"):
        made.pop(name, None)
    return made


def empty_rows() -> Any:
    """The place where the page puts the rows."""
    import altair as alt

    return alt.NamedData(name="rows")
