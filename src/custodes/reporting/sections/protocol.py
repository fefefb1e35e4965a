"""Section: how many annotations the same decisions would have taken."""

from __future__ import annotations

import polars as pl

from custodes.plots.plan import curve as power_curve
from custodes.plots.protocol import MEASURES, curve, line_names
from custodes.reporting.section import Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html

TITLE = "How few annotations would do"
SPREAD = tuple(
    Column(field=name, label=label, kind=kind, title=title)
    for name, label, kind, title in (
        ("correct", "Correct", "percent", "pairs decided as on all annotations"),
        ("correct_sd", "± sd", "percent", "standard deviation over replications"),
        ("self_agreement", "People again", "percent", "how often all annotations, resampled, decide the same"),
        ("self_agreement_sd", "± sd", "percent", "standard deviation over resamples"),
        ("inversion", "Inversion", "percent", "decided the other way round"),
        ("omission", "Omission", "percent", "left open, decided on all annotations"),
        ("insertion", "Insertion", "percent", "decided, open on all annotations"),
        ("kld", "KLD (nats)", "number", "from the outcome on all annotations, mean over pairs"),
        ("null_error", "False", "percent", "false decisions per pair where systems do not differ"),
    )
)
PROTOCOL = (
    Column(field="looks", label="Looks", title="annotations of a pair after which it may be decided"),
    Column(field="annotations", label="Annotations", kind="int", title="in all, mean over replications"),
    Column(field="share", label="Share", kind="percent", title="of the annotations there are, mean over pairs"),
    Column(field="share_sd", label="± sd", kind="percent", title="standard deviation over replications"),
    *SPREAD,
)
PLAN = (
    Column(field="looks", label="Looks", title="annotations of a pair after which it may be decided"),
    Column(field="annotations", label="Annotations a pair", kind="number", title="expected"),
    Column(field="annotations_sd", label="± sd", kind="number", title="standard deviation over simulated studies"),
    Column(field="decided", label="Decided", kind="percent", title="share of pairs"),
    Column(field="correct", label="Correct", kind="percent", title="the better system found, or no difference if none"),
    Column(field="inversion", label="Inversion", kind="percent", title="the worse system found"),
    Column(field="omission", label="Omission", kind="percent", title="a difference not found"),
    Column(field="interval_width", label="Interval", kind="number", title="width of the margin's interval at the end"),
)


def protocol_section(context: Context) -> Section:
    """The protocol replayed with people alone: what a share of the annotations would have decided."""
    if "protocol" in context.absent:
        html = render("absent.html", reason=context.absent["protocol"])
        return Section(id="protocol", title=TITLE, html=html)
    lines = line_names(context.table("protocol.curve"))
    figures = tuple(
        Figure(
            id=f"protocol-{measure}",
            title=MEASURES[measure],
            caption=caption,
            alt=f"Line of {MEASURES[measure]} against annotations; the table below holds where it ends.",
            spec=spec_of(curve(empty_rows(), measure, lines=lines).properties(width="container")),
            table="protocol.curve",
            where={"aspect": "{aspect}"},
        )
        for measure, caption in (
            ("correct", "A point a look: mean over replications. Pairs still open count as not different."),
            ("kld", "How far shares of wins, ties and losses are from those on all annotations."),
        )
    )
    planned: dict[str, object] = {"power": None, "plan": ""}
    if "plan" in context.results:
        power = Figure(
            id="plan-power",
            title="What annotations find",
            caption="By people alone, a pair annotated once: the chance to find the better system. A point a pair of "
            "systems at the margin that this study suggests.",
            alt="Lines of the chance to find the better system against the margin, one for each number of annotations.",
            spec=spec_of(power_curve(empty_rows()).properties(width="container")),
            table="plan.power",
            where={"aspect": "{aspect}"},
        )
        figures = (*figures, power)
        table = table_html(
            context.table("plan.plan"), PLAN, id="plan-table", caption="What a study like this one would take", notes=[]
        )
        planned = {"power": power, "plan": table}
    result = context.results["protocol"]
    frame = (
        context.table("protocol.protocol")
        .join(
            context.table("protocol.reference").select("aspect", "self_agreement", "self_agreement_sd"),
            on="aspect",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("annotations").round().cast(pl.Int64))
    )
    html = render(
        "protocol.html",
        one_sided=context.one_sided,
        options=result.provenance.options,
        figures=figures[: len(MEASURES)],
        **planned,
        table=table_html(
            frame,
            PROTOCOL,
            id="protocol-table",
            caption="Where the protocol ends",
            notes=[note.message for note in result.notes],
        ),
    )
    return Section(id="protocol", title=TITLE, html=html, charts=figures)
