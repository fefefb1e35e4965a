"""Section: decisions once the errors of a metric are corrected by people's annotations."""

from __future__ import annotations

import polars as pl

from custodes.evaluate.correction import Correction
from custodes.plots.correction import CHANGED, margin_rows, margins
from custodes.reporting.section import ChosenTable, Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.wording import names

TITLE = "Corrected decisions"
ALL = "all"

PAIRS = (
    Column(field="system_a", label="System A"),
    Column(field="system_b", label="System B"),
    Column(field="n_paired", label="Both", kind="int", title="items rated by people and metric"),
    Column(field="n_metric", label="Metric only", kind="int", title="items rated by the metric alone"),
    *(
        Column(field=name, label=label, kind="percent", low=f"{name}_low", high=f"{name}_high", title="corrected")
        for name, label in (("p_win", "A better"), ("p_tie", "Tie"), ("p_loss", "B better"))
    ),
    Column(field="margin", label="Margin", kind="number", low="margin_low", high="margin_high", title="corrected"),
    Column(
        field="theta", label="P(A ahead)", kind="percent", title="theta: probability that A wins more than it loses"
    ),
    Column(field="decision", label="Corrected", title="+ A better, - B better, = not different"),
    Column(field="decision_naive", label="Metric", title="the metric taken at its word"),
    Column(field="decision_human", label="People", title="people's annotations alone"),
    Column(field="note", label="Note"),
)
SHOWN = list(
    dict.fromkeys(
        [
            "aspect",
            "metric",
            "pair",
            *(name for column in PAIRS for name in (column.field, column.low, column.high) if name),
            *(f"margin{end}_{who}" for who in ("naive", "human") for end in ("", "_low", "_high")),
            CHANGED,
            ALL,
        ]
    )
)
"""Columns of the table `corrected` that the page draws from."""


def corrected_rows(result: Correction) -> pl.DataFrame:
    """A row per aspect, metric and pair, with the columns `SHOWN`."""
    return margin_rows(result).with_columns(pl.lit(ALL).alias(ALL)).select(SHOWN)


def correction_section(context: Context) -> Section:
    """What the metric alone, people alone and both together say of every pair."""
    if "correction" in context.absent:
        html = render("absent.html", reason=context.absent["correction"])
        return Section(id="correction", title=TITLE, html=html)
    rows = context.table("corrected")
    metrics = rows["metric"].unique(maintain_order=True).to_list()
    best = context.verdict.best.get(context.aspects[0], "")
    # A reader's choice of rows: the column of that name holds the name in the rows it means.
    where = {"aspect": "{aspect}", "metric": "{corrected}", f"{CHANGED}|{ALL}": "{which}"}
    figure = Figure(
        id="correction-margins",
        title="Margins by {corrected}, by people, and corrected",
        caption="Right of the line: the first system of the pair is better more often than the second. Whisker: "
        "interval. Orange square: the metric taken at its word; blue triangle: people's annotations alone; green dot: "
        "both, with the metric's errors corrected.",
        alt="Three dots with whiskers for every pair of systems; the table below holds the corrected numbers.",
        spec=spec_of(margins(empty_rows()).properties(width="container")),
        table="corrected",
        where=where,
        lines=("pair",),
    )
    table = ChosenTable(
        id="correction-pairs",
        caption="Pairs of systems, corrected by {corrected}",
        table="corrected",
        columns=PAIRS,
        where=where,
    )
    of_best = rows.filter((pl.col("aspect") == context.aspects[0]) & (pl.col("metric") == best))
    html = render(
        "correction.html",
        one_sided=context.one_sided,
        figure=figure,
        table=table,
        metrics=[(name, name) for name in metrics],
        best=best,
        corrected=names(metrics),
        others=len(context.metrics) - len(metrics),
        alone=rows["n_metric"].sum() == 0,
        rows=[(CHANGED, "whose decision changes"), (ALL, "all")],
        which=CHANGED if of_best[CHANGED].is_not_null().any() else ALL,
        notes=[note.message for note in context.results["correction"].notes],
    )
    return Section(id="correction", title=TITLE, html=html, charts=(figure,), tables=(table,))
