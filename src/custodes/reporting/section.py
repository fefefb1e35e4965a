"""Sections of the report: question, figures, tables and text."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import polars as pl

from custodes.answers import wording
from custodes.answers.result import Result
from custodes.answers.tables import Column, Table
from custodes.data.study import Study
from custodes.errors import CustodesError, InputError
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.check.rules import SIDED
from custodes.evaluate.verdict.overall import candidate
from custodes.evaluate.verdict.view import AspectResults, leaders
from custodes.plots import alt, theme
from custodes.plots.drawable import drawable
from custodes.reporting.page_limits import PageLimits

ResultT = TypeVar("ResultT", bound=Result)

TEMPLATES = Path(__file__).parent / "templates"

ONE_SIDED = (
    "the study compares the two sides of a pair, not systems: annotators always prefer the same "
    "side, or the systems are defined as sides (such as chosen and rejected)."
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure drawn by the page from its tables.

    `spec`: Vega-Lite without data; the reader's selection replaces the texts `{statistic}` and `{metric}`. `table`: the
    full name of the table. `where` selects the rows to draw. It maps a column (or `a|b` for either of two columns) to a
    selection (`{aspect}`) or a literal value. `fields`: a mapping from new names to columns; the names of columns can
    contain `{statistic}`. `lines`: columns whose distinct values each take one row of the figure; such a figure is as
    wide as the page. `opening`: whether the figure is displayed below the verdict instead of in its section.
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

    def build_content(self, context: Context, choice: Mapping[str, str]) -> dict[str, Any] | None:
        """The specification of the figure with the rows of a selection; None if the selection has no rows."""

        def fill(text: str) -> str:
            return text.format_map(choice)

        figure_rows = context.table(self.table)
        for column_names_joined_by_bar, required_value_template in self.where.items():
            figure_rows = figure_rows.filter(
                pl.any_horizontal(pl.col(column_names_joined_by_bar.split("|")) == fill(required_value_template))
            )
        if self.fields:
            figure_rows = figure_rows.select(
                **{
                    field_name: pl.col(fill(column_name_template))
                    for field_name, column_name_template in self.fields.items()
                    if fill(column_name_template) in figure_rows.columns
                }
            )
        if figure_rows.is_empty():
            return None
        spec_text = json.dumps(self.spec)
        for placeholder, replacement in (
            ("{statistic}", STATISTICS[choice["statistic"]].label),
            ("{metric}", choice["metric"]),
        ):
            spec_text = spec_text.replace(json.dumps(placeholder), json.dumps(replacement))
        spec: dict[str, Any] = json.loads(spec_text)
        title = self.title if "{aspect}" in self.title or not choice["aspect"] else f"{self.title} ({{aspect}})"
        if spec.get("width") == "container":
            spec["width"] = theme.PAGE_WIDTH
        spec |= {
            "config": theme.config(theme.LIGHT),
            "title": fill(title),
            "datasets": {"rows": figure_rows.to_dicts()},
        }
        return dict(drawable(spec))


@dataclass(frozen=True, kw_only=True)
class SelectionTable:
    """A long table. The page displays only the rows of the reader's selection.

    `table`: the name of the table. `columns`: the displayed columns. `where`: the selection of rows, as in `Figure`.
    """

    id: str
    caption: str
    table: str
    columns: tuple[Column, ...]
    where: Mapping[str, str]


@dataclass(kw_only=True)
class Context:
    """Input of the sections: a study and the results of its questions. Each result is computed once.

    `options`: options of the report, which are passed to every question with an argument of the same name. `best`: the
    best metric of each aspect. `extra`: tables that are not in a result. `absent`: for each question without an answer,
    the reason. `whole`: the context with all rows, if this context is a copy for the page (otherwise None).
    `left_out`: sentences on the omitted rows.
    """

    study: Study
    options: Mapping[str, Any]
    results: dict[str, Result] = field(default_factory=dict)
    extra: dict[str, pl.DataFrame] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    left_out: str = ""
    whole: Context | None = None

    def ask(self, question: Callable[..., ResultT], **more_options: Any) -> ResultT:
        """The result of a question for this study, with the options of the report that the question accepts."""
        return question(
            self.study,
            **{
                option_name: self.options[option_name]
                for option_name in inspect.signature(question).parameters.keys() & self.options.keys()
            }
            | more_options,
        )

    def copy_with_page_rows(self) -> Context:
        """A copy with only the rows of tables that are on the page."""
        page_limits = PageLimits.from_results(self.results)
        return replace(
            self,
            results={question: page_limits.result(result) for question, result in self.results.items()},
            extra={table_name: page_limits.part(table) for table_name, table in self.extra.items()},
            left_out=page_limits.note(),
            whole=self,
        )

    def table(self, full_name: str) -> pl.DataFrame:
        """A table by its full name, `question.table`."""
        if full_name in self.extra:
            return self.extra[full_name]
        question, _, table_name = full_name.partition(".")
        return self.results[question].to_frame(table_name)

    def first_table(self, *full_names: str) -> pl.DataFrame:
        """The first of the given tables whose question is answered."""
        return self.table(next(full_name for full_name in full_names if full_name.partition(".")[0] in self.results))

    def table_declaration(self, full_name: str) -> Table:
        """The declaration of a table by its full name, `question.table`."""
        question, _, table_name = full_name.partition(".")
        return self.results[question].table_declarations()[table_name]

    def essential_columns(self, full_name: str) -> list[Column]:
        """The essential columns of a table, by its full name."""
        return [column for column in self.table_declaration(full_name).columns if column.essential]

    @property
    def aspect_suffix(self) -> str:
        """Text at the end of the title of a figure that shows one aspect; '' if the ratings have no aspects."""
        return " ({aspect})" if any(self.aspects) else ""

    def notes(self, question: str, *rules: str) -> list[tuple[str | None, str]]:
        """The notes of a result, each with its aspect.

        If `rules` are given, only notes whose rule begins with one of these texts are included.
        """
        return [
            (note.aspect or None, note.message)
            for note in self.results[question].notes
            if not rules or note.rule.startswith(rules)
        ]

    @cached_property
    def aspects(self) -> tuple[str, ...]:
        """The aspects of the human ratings."""
        return tuple(
            self.first_table("agreement.metrics", "leaderboard.systems", "rates.rates")["aspect"].unique(
                maintain_order=True
            )
        )

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order of the study; there are none in a study with annotators only."""
        rater_rows = self.first_table("agreement.metrics", "rates.judges", "leaderboard.systems")
        if "metric" not in rater_rows.columns and self.has_people:
            return ()
        return tuple(rater_rows["metric" if "metric" in rater_rows.columns else "rater"].unique(maintain_order=True))

    @cached_property
    def has_people(self) -> bool:
        """Whether the study has human ratings."""
        return bool(self.table("check.summary")["humans"].sum())

    @cached_property
    def best(self) -> dict[str, str]:
        """The metric that agrees best with human ratings on each aspect, if there are metrics."""
        if "agreement" not in self.results:
            return {}
        return dict(
            self.table("agreement.standing")
            .unique("aspect", keep="first", maintain_order=True)
            .select("aspect", "metric")
            .iter_rows()
        )

    @cached_property
    def first_metric(self) -> str:
        """The metric that the page shows first: the metric that the summary recommends for all aspects.

        Without such a recommendation, this is the best metric of the first aspect.
        """
        first_aspect_metric = self.best.get(self.aspects[0], "")
        if len(self.aspects) < 2 or not self.best:
            return first_aspect_metric
        aspect_results_list = [AspectResults((self.whole or self).results, aspect) for aspect in self.aspects]
        return candidate(aspect_results_list) or first_aspect_metric

    @cached_property
    def leaders(self) -> dict[str, list[str]]:
        """The metrics in the top group of each aspect: none is significantly worse than the best metric."""
        agreement_result: Any = self.results["agreement"]
        return leaders(agreement_result)

    def choice(self, aspect: str, metric: str, statistic: str) -> dict[str, str]:
        """The selection for a saved figure: the given aspect, metric and statistic, the first pair of systems, and all
        corrected pairs."""
        pair_rows = self.first_table("favoritism.pairs", "leaderboard.pairs", "rates.differences")
        return {
            "aspect": aspect,
            "metric": metric,
            "corrected": metric,
            "statistic": statistic,
            "which": "all",
            **{column_name: pair_rows[column_name][0] for column_name in ("system_a", "system_b") if pair_rows.height},
        }

    @cached_property
    def one_sided_aspects(self) -> list[str]:
        """Aspects that compare the sides of a pair, not systems: annotators always prefer the same side, or the systems
        are defined as sides (such as chosen and rejected)."""
        problem_rows = self.table("check.problems").filter(pl.col("rule").is_in(SIDED))
        return [str(aspect) for aspect in problem_rows["aspect"].unique(maintain_order=True)]


Page = Literal["both", "humans", "metrics", "labels"]
"""Kinds of pages: for a study with human ratings and metrics, with human ratings alone, with metrics alone, or of
labels."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the report about a question.

    `ask` computes the result of the question. The page displays `figures` and `tables`. `build` returns all other
    values that the template `QUESTION.html` needs. A section with a `text` needs no template: the page displays the
    text, the figures, and the `table` among the values of `build`.

    `finding`: type of verdict sentences; the first sentence of this type opens the section. `extra`: a function that
    computes further tables for the page. `compares_systems`: whether the section applies only to a study that compares
    systems, not sides of a pair. `required`: whether the page needs the result.

    `pages`: the kinds of pages with this section.
    """

    question: str
    title: str
    build: Callable[[Context], Mapping[str, Any]]
    text: str = ""
    finding: str = ""
    ask: Callable[[Context], Result] | None = None
    figures: Callable[[Context], Sequence[Figure]] = lambda context: ()
    tables: Callable[[Context], Sequence[SelectionTable]] = lambda context: ()
    extra: Callable[[Context], Mapping[str, pl.DataFrame]] | None = None
    compares_systems: bool = True
    required: bool = False
    pages: tuple[Page, ...] = ("both",)

    def answer(self, context: Context) -> None:
        """Compute the result, or store the reason why it is missing. If the page needs the result, raise the error."""
        if self.ask is None:
            return
        try:
            if self.compares_systems and not self.required and set(context.one_sided_aspects) >= set(context.aspects):
                raise InputError(ONE_SIDED)
            context.results[self.question] = self.ask(context)
        except CustodesError as error:
            if self.required:
                raise
            context.absent[self.question] = str(error).removeprefix(f"{context.study.name}: ")
        else:
            context.extra |= self.extra(context) if self.extra else {}

    def build_content(self, context: Context) -> tuple[Sequence[Figure], Sequence[SelectionTable]]:
        """Figures and tables that depend on the reader's selection; none if the question is not answered."""
        if self.question in context.absent:
            return (), ()
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):  # the same charts are validated when they are saved as figures
            return self.figures(context), self.tables(context)

    def html(self, context: Context, figures: Sequence[Figure], tables: Sequence[SelectionTable]) -> str:
        """HTML of the section, with the figures and tables that `build_content` returned."""
        if self.question in context.absent:
            return render("absent.html", reason=context.absent[self.question])
        result = context.results.get(self.question)
        return render(
            "section.html" if self.text else f"{self.question}.html",
            text=self.text,
            one_sided=context.one_sided_aspects,
            options=result.provenance.options if result else {},
            figures={figure.id: figure for figure in figures if not figure.opening},
            chosen={table.id: table for table in tables},
            **self.build(context),
        )


@cache
def environment() -> Any:
    """The environment of the templates, with autoescaping."""
    import jinja2

    template_environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template_environment.filters |= {"number": wording.number, "percent": wording.percent}
    return template_environment


def render(template: str, **values: Any) -> str:
    """The text of a template in `templates/` with these values."""
    return str(environment().get_template(template).render(**values))


def spec_of(chart: Any, **properties: Any) -> dict[str, Any]:
    """The specification of a chart without rows and colours, with these properties. The page adds rows and colours."""
    spec: dict[str, Any] = chart.to_dict(validate=False) | properties
    for property_name in ("$schema", "config"):
        spec.pop(property_name, None)
    return spec


def empty_rows() -> Any:
    """An empty frame in place of the rows of a chart."""
    return alt.NamedData(name="rows")
