"""What a section of the report is made of: how its question is asked, its pictures, its tables, and its prose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import polars as pl

from custodes.answers import wording
from custodes.answers.result import Result
from custodes.answers.tables import Column, Table
from custodes.data.study import Study
from custodes.errors import CustodesError, InputError
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.check.rules import SIDED
from custodes.evaluate.verdict.view import leaders
from custodes.plots import alt, theme
from custodes.plots.drawable import drawable
from custodes.reporting.page_limits import PageLimits

TEMPLATES = Path(__file__).parent / "templates"

ONE_SIDED = "sides of a pair are compared here (people always prefer the same one, or it is declared), and not systems."


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture that the page draws from its tables.

    `spec` is Vega-Lite without data, in which the texts `{statistic}` and `{metric}` stand for the reader's choice;
    `table` and `where` say which rows it shows: column to the name of a reader's choice (`{aspect}`), or to a literal
    value. `fields` renames columns and may hold `{statistic}`. Distinct values of the columns `lines` make the lines of
    a picture as wide as the page. One of the `opening` stands below the verdict and not in its section.
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
    opening: bool = False

    def drawn(self, context: Context, choice: Mapping[str, str]) -> dict[str, Any] | None:
        """The picture with its rows, as the page shows it for a choice; None where there is nothing to draw."""

        def filled(text: str) -> str:
            return text.format_map(choice)

        rows = context.table(self.table)
        for columns, values in self.where.items():
            rows = rows.filter(pl.any_horizontal(pl.col(columns.split("|")) == filled(values)))
        if self.fields:
            fields = {to: filled(name) for to, name in self.fields.items()}
            rows = rows.select(**{to: pl.col(name) for to, name in fields.items() if name in rows.columns})
        if rows.is_empty():
            return None
        spec = _replaced(
            self.spec, {"{statistic}": STATISTICS[choice["statistic"]].label, "{metric}": choice["metric"]}
        )
        named = self.title if "{aspect}" in self.title or not choice["aspect"] else f"{self.title} ({{aspect}})"
        width = {"width": theme.PAGE_WIDTH} if spec.get("width") == "container" else {}
        content = {"config": theme.config(theme.LIGHT), "title": filled(named), "datasets": {"rows": rows.to_dicts()}}
        return dict(drawable({**spec, **width, **content}))


def _replaced(spec: Any, words: Mapping[str, str]) -> Any:
    if isinstance(spec, Mapping):
        return {name: _replaced(part, words) for name, part in spec.items()}
    if isinstance(spec, list):
        return [_replaced(part, words) for part in spec]
    return words.get(spec, spec) if isinstance(spec, str) else spec


@dataclass(frozen=True, kw_only=True)
class ChosenTable:
    """A table too long to show whole: the page shows the rows that fit the reader's choices.

    `columns` are shown; by default the essential ones of the table as it is declared.
    """

    id: str
    caption: str
    table: str
    columns: tuple[Column, ...]
    where: Mapping[str, str]


@dataclass(kw_only=True)
class Context:
    """What sections are made from: a study and the answers to what is asked of it, each asked once.

    `options` are those of the report, which reach every question that has an argument of their name; `best` is the
    best metric of each aspect, `extra` holds tables beyond those of results, `absent` says why a question was not
    answered, `left_out` which rows are not carried here, of how many there are in `whole` (None: this is all).
    """

    study: Study
    options: Mapping[str, Any]
    results: dict[str, Result] = field(default_factory=dict)
    extra: dict[str, pl.DataFrame] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    left_out: str = ""
    whole: Context | None = None

    def ask(self, question: Callable[..., Any], **more: Any) -> Any:
        """The answer of this study to a question, with the options of the report that it knows."""
        parameters = inspect.signature(question).parameters
        return question(
            self.study, **{name: value for name, value in self.options.items() if name in parameters} | more
        )

    def carried(self) -> Context:
        """The same with the rows of tables that a page carries."""
        part = PageLimits.of(self.results)
        results = {question: part.result(result) for question, result in self.results.items()}
        extra = {name: part.part(table) for name, table in self.extra.items()}
        return replace(self, results=results, extra=extra, left_out=part.told(), whole=self)

    def table(self, name: str) -> pl.DataFrame:
        """A table by its full name, `question.table`."""
        if name in self.extra:
            return self.extra[name]
        question, _, table = name.partition(".")
        return self.results[question].to_frame(table)

    def declared(self, name: str) -> Table:
        """How a table is declared, by its full name."""
        question, _, table = name.partition(".")
        return self.results[question].declared()[table]

    def notes(self, question: str, *rules: str) -> list[tuple[str | None, str]]:
        """The notes of a result, of rules that begin like one of these (none: of all), with their aspect."""
        all_notes = self.results[question].notes
        return [(note.aspect or None, note.message) for note in all_notes if not rules or note.rule.startswith(rules)]

    @cached_property
    def aspects(self) -> tuple[str, ...]:
        """The aspects that people rated."""
        first = next(name for name in ("agreement", "leaderboard", "rates") if name in self.results)
        of = {"agreement": "agreement.metrics", "leaderboard": "leaderboard.systems", "rates": "rates.rates"}[first]
        return tuple(self.table(of)["aspect"].unique(maintain_order=True))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in the order of the study; none where people are alone."""
        of = next((name for name in ("agreement.metrics", "rates.judges") if name.split(".")[0] in self.results), "")
        if of or self.has_people:
            return tuple(self.table(of)["metric"].unique(maintain_order=True)) if of else ()
        return tuple(self.table("leaderboard.systems")["rater"].unique(maintain_order=True))

    @cached_property
    def has_people(self) -> bool:
        """Whether there are human ratings."""
        return bool(self.table("check.summary")["people"].sum())

    @cached_property
    def best(self) -> dict[str, str]:
        """The metric of each aspect that agrees best with people, where there are any."""
        if "agreement" not in self.results:
            return {}
        first = self.table("agreement.standing").unique("aspect", keep="first", maintain_order=True)
        return dict(first.select("aspect", "metric").iter_rows())

    @cached_property
    def leaders(self) -> dict[str, list[str]]:
        """The best metrics of each aspect, which are not told apart."""
        agreed: Any = self.results["agreement"]
        return leaders(agreed)

    def choice(self, aspect: str, metric: str, statistic: str) -> dict[str, str]:
        """What a reader would have chosen to see this: the first pair of systems, all pairs of a correction."""
        of = ("favoritism.pairs", "leaderboard.pairs", "rates.differences")
        rows = self.table(next(name for name in of if name.split(".")[0] in self.results)).head(1).to_dicts()
        pair = {name: row[name] for row in rows for name in ("system_a", "system_b")}
        return {"aspect": aspect, "metric": metric, "corrected": metric, "statistic": statistic, "which": "all", **pair}

    @property
    def one_sided(self) -> list[str]:
        """Aspects where sides and not systems are compared: people always prefer the same, or it is declared."""
        rows = self.table("check.problems").filter(pl.col("rule").is_in(SIDED))
        return [str(aspect) for aspect in rows["aspect"].unique(maintain_order=True)]


def nothing(context: Context) -> Sequence[Any]:
    """No pictures, or no tables."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section, named after its question (or '' for none): `ask` answers it, `figures` and `tables` are what the
    page draws in it, `build` gives what its template `QUESTION.html` needs beyond those; a section with a `text` needs
    no template: the page shows the text, the pictures, and the `table` that it builds.

    `finding`: the kind of the sentences of the verdict, of which the first opens the section.

    `extra` makes tables that only pictures need. Where `compares_systems`, it says nothing of sides. `alone`: it stands
    in the page of a study without metrics, too; where it has `labels`, in that of a study of labels; where it is
    `of_metrics`, in that of a study without human ratings.
    """

    question: str
    title: str
    build: Callable[[Context], Mapping[str, Any]]
    text: str = ""
    finding: str = ""
    ask: Callable[[Context], Result] | None = None
    figures: Callable[[Context], Sequence[Figure]] = nothing
    tables: Callable[[Context], Sequence[ChosenTable]] = nothing
    extra: Callable[[Context], Mapping[str, pl.DataFrame]] | None = None
    compares_systems: bool = True
    required: bool = False
    alone: bool = False
    labels: bool = False
    of_metrics: bool = False

    def answer(self, context: Context) -> None:
        """Ask the question, or keep why it cannot be answered; raises where no page makes sense without it."""
        if self.ask is None:
            return
        try:
            if self.compares_systems and not self.required and set(context.one_sided) >= set(context.aspects):
                raise InputError(ONE_SIDED)
            context.results[self.question] = self.ask(context)
        except CustodesError as error:
            if self.required:
                raise
            context.absent[self.question] = str(error)
        else:
            context.extra |= self.extra(context) if self.extra else {}

    def drawn(self, context: Context) -> tuple[Sequence[Figure], Sequence[ChosenTable]]:
        """The pictures and tables of chosen rows, none of a question without an answer."""
        if self.question in context.absent:
            return (), ()
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):  # no validation of every part: the same drawings are validated where they are pictures
            return self.figures(context), self.tables(context)

    def html(self, context: Context, figures: Sequence[Figure], tables: Sequence[ChosenTable]) -> str:
        """Prose, with the pictures and tables that are `drawn`."""
        if self.question in context.absent:
            return render("absent.html", reason=context.absent[self.question])
        result = context.results.get(self.question)
        return render(
            "section.html" if self.text else f"{self.question}.html",
            text=self.text,
            one_sided=context.one_sided,
            options=result.provenance.options if result else {},
            figures={figure.id: figure for figure in figures if not figure.opening},
            chosen={table.id: table for table in tables},
            **self.build(context),
        )


@cache
def environment() -> Any:
    """Templates with everything escaped."""
    import jinja2

    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    jinja.filters |= {"number": wording.number, "percent": wording.percent}
    return jinja


def render(template: str, **values: Any) -> str:
    """A template of `templates/` filled in."""
    return str(environment().get_template(template).render(**values))


def spec_of(chart: Any) -> dict[str, Any]:
    """A drawing without data as a specification; the page gives rows, colours and width."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    for name in ("$schema", "config"):
        spec.pop(name, None)
    return spec


def empty_rows() -> Any:
    """The place where the page puts the rows."""
    return alt.NamedData(name="rows")
