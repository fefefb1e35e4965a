"""Section: the ranking, and which decisions metrics get wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.ranking import ranking
from custodes.plots.decisions import stacked_errors
from custodes.plots.ranking import graph_rows, picture
from custodes.reporting.section import ChosenTable, Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import chosen_table, table_html

WINNERS = "Winners on top; edges that follow from others are left out."
DIFFERENT = "Dotted: people see no difference. Dashed red: people say the opposite."
WHO = (("people", HUMAN, "people", WINNERS), ("metric", "{metric}", "{metric}", DIFFERENT))
"""Whose graph and order: the name of the part, the rater, what it is called, what its graph shows."""


def _figures(context: Context) -> Sequence[Figure]:
    graphs = [
        Figure(
            id=f"ranking-{who}",
            title=name,
            caption=caption,
            alt=f"Graph of who significantly beats whom, by {name}; the decisions stand in the table below.",
            spec=spec_of(picture(empty_rows()).properties(width="container")),
            table="graph",
            lines=("y",),
            where={"aspect": "{aspect}", "rater": rater},
        )
        for who, rater, name, caption in WHO
    ]
    return [
        *graphs,
        Figure(
            id="ranking-errors",
            title="Decisions of every metric against those of people",
            caption="Share of system pairs. Omission: people see a difference, the metric does not. Insertion: the "
            "other way round. Inversion: opposite decisions.",
            alt="Stacked bars of correct decisions, omissions, insertions and inversions for every metric.",
            spec=spec_of(stacked_errors(empty_rows()).properties(width="container")),
            table="ranking.errors",
            lines=("metric",),
            where={"aspect": "{aspect}"},
        ),
    ]


def _tables(context: Context) -> Sequence[ChosenTable]:
    def chosen(id: str, caption: str, table: str, rater: str) -> ChosenTable:
        return chosen_table(context, id, caption, f"ranking.{table}", {"aspect": "{aspect}", "rater": rater})

    orders = [chosen(f"consensus-{who}", f"Order by {name}", "consensus", rater) for who, rater, name, _ in WHO]
    return [*orders, chosen("decisions", "Decisions of {metric}", "decisions", "{metric}")]


def _build(context: Context) -> Mapping[str, str]:
    """People's graph beside a metric's, kinds of error, consensus."""
    return {
        "table": table_html(
            context.table("ranking.errors").sort("correct", descending=True, nulls_last=True, maintain_order=True),
            context.declared("ranking.errors").columns,
            id="ranking-error-table",
            caption="Kinds of error",
            notes=context.notes("ranking", "self-agreement", "cycle", "design-effect", "one-cluster"),
        )
    }


RANKING = Section(
    question="ranking",
    title="Which decisions flip",
    ask=lambda context: context.ask(ranking),
    figures=_figures,
    tables=_tables,
    build=_build,
    extra=lambda context: {"graph": graph_rows(context.table("ranking.decisions"))},
    required=True,
)
