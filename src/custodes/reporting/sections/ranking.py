"""Section: ranking of systems, and decision errors of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.evaluate.ranking import ranking
from custodes.plots.decisions import stacked_errors
from custodes.plots.ranking import crowded, graph_rows, picture, table, table_rows
from custodes.reporting.section import ChosenTable, Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import chosen_table, table_html

WINNERS = "Better systems on top; implied edges are left out."
DIFFERENT = "Dotted: no significant difference by human ratings. Dashed red: the opposite by human ratings."
SIGNS = "+: the row’s system is significantly better; −: the column’s. Best by human ratings first."
SHADES = "Orange: no difference by human ratings. Red: the opposite. Grey: a difference by human ratings only."
WHO = (("human", HUMAN, "human ratings", WINNERS, SIGNS), ("metric", "{metric}", "{metric}", DIFFERENT, SHADES))
"""Graphs and orders by rater: the name of the part, the rater, its displayed name, captions of its graph and table."""


def _figures(context: Context) -> Sequence[Figure]:
    many = crowded(context.table("ranking.decisions"))
    drawn = table(empty_rows()) if many else picture(empty_rows()).properties(width="container")
    graphs = [
        Figure(
            id=f"ranking-{who}",
            title=name,
            caption=of_table if many else of_graph,
            alt=f"{'Table' if many else 'Graph'} of significant differences by {name}; the table below has all.",
            spec=spec_of(drawn),
            table="graph",
            lines=() if many else ("y",),
            where={"aspect": "{aspect}", "rater": rater},
        )
        for who, rater, name, of_graph, of_table in WHO
    ]
    return [
        *graphs,
        Figure(
            id="ranking-errors",
            title="Decisions of each metric compared with human decisions",
            caption="Proportion of system pairs. Omission: a human difference that the metric misses. Insertion: a "
            "difference by the metric only. Inversion: opposite decisions.",
            alt="Stacked bars of correct decisions, omissions, insertions and inversions for every metric.",
            spec=spec_of(stacked_errors(empty_rows()), width="container"),
            table="ranking.errors",
            lines=("metric",),
            where={"aspect": "{aspect}"},
        ),
    ]


def _tables(context: Context) -> Sequence[ChosenTable]:
    def chosen(id: str, caption: str, table: str, rater: str) -> ChosenTable:
        return chosen_table(context, id, caption, f"ranking.{table}", {"aspect": "{aspect}", "rater": rater})

    orders = [chosen(f"consensus-{who}", f"Order by {name}", "consensus", rater) for who, rater, name, *_ in WHO]
    return [*orders, chosen("decisions", "Decisions of {metric}", "decisions", "{metric}")]


def _graph(context: Context) -> pl.DataFrame:
    """Rows of the figures of decisions."""
    rows = context.table("ranking.decisions")
    return table_rows(rows) if crowded(rows) else graph_rows(rows)


def _build(context: Context) -> Mapping[str, Any]:
    """Human graph and that of a metric, types of error, consensus."""
    return {
        "many": crowded(context.table("ranking.decisions")),
        "table": table_html(
            context.table("ranking.errors").sort("correct", descending=True, nulls_last=True, maintain_order=True),
            context.declared("ranking.errors").columns,
            id="ranking-error-table",
            caption="Kinds of error",
            notes=context.notes("ranking", "self-agreement", "cycle", "design-effect", "one-cluster"),
        ),
    }


RANKING = Section(
    question="ranking",
    title="Rankings and decision errors",
    finding="flips",
    ask=lambda context: context.ask(ranking),
    figures=_figures,
    tables=_tables,
    build=_build,
    extra=lambda context: {"graph": _graph(context)},
    required=True,
)
