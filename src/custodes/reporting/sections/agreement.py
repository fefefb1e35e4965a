"""Section: who agrees with people."""

from __future__ import annotations

import polars as pl

from custodes.evaluate.agreement import COMPARED, STATISTICS
from custodes.plots.agreement import LABELS, intervals
from custodes.reporting.section import ChosenTable, Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html

MAIN = ("sample_accuracy", "pairwise_accuracy", "kendall_item", "kendall_system", "pearson_global", "acc_eq", "spa")
"""Statistics shown at first; the others on demand."""

COMPARISONS = (
    Column(field="metric_a", label="Metric"),
    Column(field="metric_b", label="Against"),
    Column(field="difference", label="Difference", kind="number", low="low", high="high"),
    Column(field="p_value", label="p", kind="p", title="permutation test, not corrected for multiplicity"),
)


def agreement_section(context: Context) -> Section:
    """A statistic of the reader's choice with intervals, the whole table, and who can be told apart."""
    metrics = context.table("agreement.metrics")
    columns = [Column(field="metric", label="Metric"), Column(field="n", label="n", kind="int", title="comparisons")]
    for name in (*MAIN, *(other for other in STATISTICS if other not in MAIN)):
        wide = Column(
            field=name,
            label=LABELS[name],
            kind="number",
            low=f"{name}_low",
            high=f"{name}_high",
            title=name,
            more=name not in MAIN,
        )
        columns.append(wide)
    notes = [note.message for note in context.results["agreement"].notes]
    figure = Figure(
        id="agreement-intervals",
        title="Agreement with people, by metric",
        caption="Dot: the estimate. Whisker: its interval from resampled items. Grey bar: what a metric that knows "
        "nothing would get.",
        alt="Dot-and-whisker plot of the chosen statistic for every metric, best first; the table below holds the "
        "same numbers.",
        spec=spec_of(intervals(empty_rows(), label="{statistic}").properties(width="container")),
        table="chance",
        lines=("metric",),
        where={"aspect": "{aspect}"},
        fields={
            "metric": "metric",
            "value": "{statistic}",
            "low": "{statistic}_low",
            "high": "{statistic}_high",
            "chance": "{statistic}_chance",
        },
    )
    compared = context.table("agreement.comparisons")
    told = compared["statistic"].unique(maintain_order=True).to_list() if compared.height else []
    tables: tuple[ChosenTable, ...] = ()
    if told:
        tables = (
            ChosenTable(
                id="agreement-comparisons",
                caption="The chosen metric against every other one",
                table="agreement.comparisons",
                columns=COMPARISONS,
                where={"aspect": "{aspect}", "statistic": "{compared}", "metric_a|metric_b": "{metric}"},
            ),
        )
    shown = [name for name in STATISTICS if metrics[name].is_not_null().any()]
    default = "kendall_item" if "kendall_item" in shown and _several_systems(context) else "sample_accuracy"
    html = render(
        "agreement.html",
        figure=figure,
        statistics=[(name, LABELS[name]) for name in shown],
        default=default,
        compared=[(name, LABELS[name]) for name in COMPARED if name in told],
        default_compared=default if default in told else (told or [""])[0],
        table=table_html(
            metrics.sort(default, descending=True, nulls_last=True, maintain_order=True),
            columns,
            id="agreement-metrics",
            caption="Every statistic of agreement",
            notes=notes,
        ),
        tables=tables,
    )
    return Section(id="agreement", title="Who agrees with people", html=html, charts=(figure,), tables=tables)


def _several_systems(context: Context) -> bool:
    systems = context.table("favoritism.systems")
    return bool(systems.select(pl.col("system").n_unique()).item() > 2)
