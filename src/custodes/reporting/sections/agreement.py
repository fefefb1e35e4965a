"""Section: agreement of metrics with human ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custodes.evaluate.agreement.agreement import agreement, by_standing
from custodes.evaluate.agreement.differences import CHOOSING
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.plots.agreement import add_chance_levels, intervals
from custodes.reporting.section import Context, Figure, Section, SelectionTable, empty_rows, spec_of
from custodes.reporting.tables import build_selection_table, table_html


def _figures(context: Context) -> Sequence[Figure]:
    return [
        Figure(
            id="agreement-intervals",
            title="Agreement with human ratings",
            caption="Dot: estimate. Whisker: interval from resampled items. Grey bar: chance level. Metrics that "
            "share a letter do not differ significantly.",
            alt="Dot-and-whisker plot of the chosen statistic for every metric, the best metric first; the "
            "table below holds the same numbers.",
            spec=spec_of(intervals(empty_rows(), axis_title="{statistic}"), width="container"),
            table="chance",
            lines=("metric",),
            where={"aspect": "{aspect}"},
            fields={
                "metric": "metric",
                "value": "{statistic}",
                "low": "{statistic}_low",
                "high": "{statistic}_high",
                "chance": "{statistic}_chance",
                "group": "{statistic}_group",
            },
        )
    ]


def _tables(context: Context) -> Sequence[SelectionTable]:
    selection_table = build_selection_table(
        context,
        "agreement-comparisons",
        "Differences of the chosen metric from every other metric",
        "agreement.comparisons",
        {"aspect": "{aspect}", "statistic": "{compared}", "metric_a|metric_b": "{metric}"},
    )
    return [selection_table] if context.table("agreement.comparisons").height else []


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: the table of all statistics, and the statistics that the reader can select."""
    metric_rows = context.table("agreement.metrics")
    compared_statistics = (
        context.table("agreement.comparisons")
        .drop_nulls("difference")["statistic"]
        .unique(maintain_order=True)
        .to_list()
    )
    default_statistic = str(context.table("agreement.standing")["statistic"].mode().first() or CHOOSING)
    return {
        "statistics": [
            (statistic_name, statistic.label)
            for statistic_name, statistic in STATISTICS.items()
            if metric_rows[statistic_name].is_not_null().any()
        ],
        "default": default_statistic,
        "compared": [
            (statistic_name, statistic.label)
            for statistic_name, statistic in STATISTICS.items()
            if statistic_name in compared_statistics
        ],
        "default_compared": default_statistic
        if default_statistic in compared_statistics
        else (compared_statistics or [""])[0],
        "table": table_html(
            by_standing(metric_rows, context.table("agreement.standing")),
            context.table_declaration("agreement.metrics").columns,
            id="agreement-metrics",
            caption="Every statistic of agreement",
            notes=context.notes("agreement"),
        ),
    }


AGREEMENT = Section(
    question="agreement",
    title="Agreement with human ratings",
    finding="trust",
    ask=lambda context: context.ask(agreement),
    figures=_figures,
    tables=_tables,
    build=_build,
    extra=lambda context: {
        "chance": add_chance_levels(context.table("agreement.metrics"), context.table("agreement.standing"))
    },
    required=True,
)
