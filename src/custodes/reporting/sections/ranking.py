"""Section: the ranking, and which decisions metrics get wrong."""

from __future__ import annotations

from custodes.evaluate.comparison import HUMAN
from custodes.plots.decisions import stacked_errors
from custodes.plots.ranking import picture
from custodes.reporting.section import ChosenTable, Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html

ERRORS = (
    Column(field="metric", label="Metric"),
    *(
        Column(field=name, label=label, kind="percent", low=f"{name}_low", high=f"{name}_high", title=title)
        for name, label, title in (
            ("correct", "Correct", "decided as people do"),
            ("inversion", "Inversion", "decided the other way round"),
            ("omission", "Omission", "people see a difference, the metric does not"),
            ("insertion", "Insertion", "the metric sees a difference, people do not"),
        )
    ),
    Column(field="kld", label="KLD (nats)", kind="number", low="kld_low", high="kld_high"),
)
CONSENSUS = (
    Column(field="position", label="Place", kind="int"),
    Column(field="system", label="System"),
    Column(field="borda", label="Borda (sum of ranks)", kind="number"),
    Column(field="kemeny", label="Place by Kemeny", kind="int"),
)
DECISIONS = (
    Column(field="system_a", label="System A"),
    Column(field="system_b", label="System B"),
    Column(field="wins", label="A better", kind="int"),
    Column(field="ties", label="Ties", kind="int"),
    Column(field="losses", label="B better", kind="int"),
    Column(field="p_value", label="p", kind="p"),
    Column(field="decision", label="Decision"),
)


def ranking_section(context: Context) -> Section:
    """People's graph beside a metric's, kinds of error, consensus."""
    graphs = [
        Figure(
            id=f"ranking-{who}",
            title=title,
            caption=caption,
            alt=f"Graph of who significantly beats whom, by {title}; the decisions stand in the table below.",
            spec=spec_of(picture(empty_rows()).properties(width="container")),
            table="graph",
            lines=("y",),
            where={"aspect": "{aspect}", "rater": rater},
        )
        for who, title, rater, caption in (
            ("people", "people", HUMAN, "Winners on top; edges that follow from others are left out."),
            (
                "metric",
                "{metric}",
                "{metric}",
                "Dotted: people see no difference. Dashed red: people say the opposite.",
            ),
        )
    ]
    errors = Figure(
        id="ranking-errors",
        title="Decisions of every metric against those of people",
        caption="Share of system pairs. Omission: people see a difference, the metric does not. Insertion: the other "
        "way round. Inversion: opposite decisions.",
        alt="Stacked bars of correct decisions, omissions, insertions and inversions for every metric.",
        spec=spec_of(stacked_errors(empty_rows()).properties(width="container")),
        table="ranking.errors",
        lines=("metric",),
        where={"aspect": "{aspect}"},
    )
    consensus = [
        ChosenTable(
            id=f"consensus-{who}",
            caption=caption,
            table="ranking.consensus",
            columns=CONSENSUS,
            where={"aspect": "{aspect}", "rater": rater},
        )
        for who, caption, rater in (("people", "Order by people", HUMAN), ("metric", "Order by {metric}", "{metric}"))
    ]
    decisions = ChosenTable(
        id="decisions",
        caption="Decisions of {metric}",
        table="ranking.decisions",
        columns=DECISIONS,
        where={"aspect": "{aspect}", "rater": "{metric}"},
    )
    notes = [n.message for n in context.results["ranking"].notes if n.rule in ("self-agreement", "cycle")]
    frame = context.table("ranking.errors").sort("correct", descending=True, nulls_last=True, maintain_order=True)
    html = render(
        "ranking.html",
        one_sided=context.one_sided,
        graphs=graphs,
        errors=errors,
        table=table_html(frame, ERRORS, id="ranking-error-table", caption="Kinds of error", notes=notes),
        consensus=consensus,
        decisions=decisions,
    )
    return Section(
        id="ranking",
        title="Which decisions flip",
        html=html,
        charts=(*graphs, errors),
        tables=(*consensus, decisions),
    )
