"""Section: rankings of systems, and errors in the decisions of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.evaluate.ranking import ranking
from custodes.plots.ranking import graph_rows, has_too_many_systems, picture, stacked_errors, table, table_rows
from custodes.reporting.section import Context, Figure, Section, SelectionTable, empty_rows, spec_of
from custodes.reporting.tables import build_selection_table, table_html

WINNERS = (
    "Better systems are on top. A line between two systems is left out if a path of other lines already leads down "
    "from one to the other. "
    "Systems whose wins form a cycle share a point (A ~ B)."
)
DIFFERENT = (
    "Dotted: human ratings show no significant difference. Dashed red: human ratings show the opposite difference."
)
SIGNS = (
    "+: the system in the row is significantly better. −: the system in the column is significantly "
    "better. The best systems by human ratings are first."
)
SHADES = (
    "Orange: human ratings show no significant difference. Red: human ratings show the opposite "
    "difference. Grey: only human ratings show a significant difference."
)
RATER_KINDS = (("human", HUMAN, "human ratings", WINNERS, SIGNS), ("metric", "{metric}", "{metric}", DIFFERENT, SHADES))
"""Parts of the section, by rater: name of the part, rater, displayed name, captions of the graph and of the table."""


def _figures(context: Context) -> Sequence[Figure]:
    is_crowded = has_too_many_systems(context.table("ranking.decisions"))
    chart = table(empty_rows()) if is_crowded else picture(empty_rows()).properties(width="container")
    decision_figures = [
        Figure(
            id=f"ranking-{id_suffix}",
            title=f"Decisions by {rater_name}",
            caption=table_caption if is_crowded else graph_caption,
            alt=f"{'Table' if is_crowded else 'Graph'} of significant differences by {rater_name}; the table below has "
            "all decisions.",
            spec=spec_of(chart),
            table="graph",
            lines=() if is_crowded else ("y",),
            where={"aspect": "{aspect}", "rater": rater},
        )
        for id_suffix, rater, rater_name, graph_caption, table_caption in RATER_KINDS
    ]
    return [
        *decision_figures,
        Figure(
            id="ranking-errors",
            title="Decisions of each metric compared with human decisions",
            caption="Proportion of pairs of systems. Omission: the metric misses a difference that human "
            "ratings show. Insertion: only the metric shows a difference. Inversion: opposite "
            "decisions.",
            alt="Stacked bars of correct decisions, omissions, insertions and inversions for every metric.",
            spec=spec_of(stacked_errors(empty_rows()), width="container"),
            table="ranking.errors",
            lines=("metric",),
            where={"aspect": "{aspect}"},
        ),
    ]


def _tables(context: Context) -> Sequence[SelectionTable]:
    return [
        build_selection_table(
            context,
            "decisions",
            "Decisions of {metric}",
            "ranking.decisions",
            {"aspect": "{aspect}", "rater": "{metric}"},
        )
    ]


def _graph(context: Context) -> pl.DataFrame:
    """The rows of the figures of decisions."""
    decision_rows = context.table("ranking.decisions")
    return table_rows(decision_rows) if has_too_many_systems(decision_rows) else graph_rows(decision_rows)


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template, with the table of kinds of error for each metric."""
    return {
        "many": has_too_many_systems(context.table("ranking.decisions")),
        "table": table_html(
            context.table("ranking.errors").sort("correct", descending=True, nulls_last=True, maintain_order=True),
            context.table_declaration("ranking.errors").columns,
            id="ranking-error-table",
            caption="Kinds of error",
            notes=context.notes("ranking", "self-agreement", "design-effect", "one-cluster"),
        ),
    }


RANKING = Section(
    question="ranking",
    title="Rankings and decision errors",
    finding="decisions",
    ask=lambda context: context.ask(ranking),
    figures=_figures,
    tables=_tables,
    build=_build,
    extra=lambda context: {"graph": _graph(context)},
    required=True,
)
