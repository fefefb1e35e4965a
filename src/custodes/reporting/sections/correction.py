"""Section: decisions after the errors of a metric are corrected with human annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import polars as pl

from custodes.answers.tables import Column, label
from custodes.answers.wording import names
from custodes.errors import InputError
from custodes.evaluate.correction import Correction, correction
from custodes.plots.correction import CHANGED, margin_rows, margins
from custodes.reporting.section import Context, Figure, Section, SelectionTable, empty_rows, spec_of
from custodes.reporting.tables import columns_with_values

ALL = "all"
MOST_CORRECTED = 3
"""Maximum number of corrected metrics, because sampling takes seconds per metric.

The best metric of every aspect is always corrected, even if this gives more metrics than the maximum.
"""

# The reader selects `changed` or `all`. Each is also a column, which contains its own name in the rows to display.
WHERE = {"aspect": "{aspect}", "metric": "{corrected}", f"{CHANGED}|{ALL}": "{which}"}

MARGINS = tuple(f"margin{end}_{who}" for who in ("naive", "human") for end in ("", "_low", "_high"))


def _columns() -> tuple[Column, ...]:
    """The columns of the estimator, and columns of the decisions by the metric alone and by human ratings alone."""
    declared_columns = [
        column
        for column in Correction.table_declarations()["pairs"].columns
        if column.essential or column.kind == "share"
    ]
    insertion_index = [column.name for column in declared_columns].index("decision") + 1
    return tuple(
        column
        for column in [
            *declared_columns[:insertion_index],
            *[
                label("decision_naive", "by the metric alone", "Decision, metric alone"),
                label("decision_human", "by human ratings alone", "Decision, human ratings alone"),
            ],
            *declared_columns[insertion_index:],
        ]
        if column.name not in ("metric", "estimator")
    )


def _corrected_rows(context: Context) -> pl.DataFrame:
    """The rows to display, one for each aspect, metric and pair."""
    result: Any = context.results["correction"]
    pair_rows = margin_rows(result).with_columns(pl.lit(ALL).alias(ALL))
    column_names = [column_name for column in _columns() for column_name in column.names]
    return pair_rows.select(*dict.fromkeys(["aspect", "metric", "pair", *column_names, *MARGINS, CHANGED, ALL]))


def corrected_metrics(best: Sequence[str], leaders: Sequence[Sequence[str]]) -> list[str]:
    """The best metric of every aspect, then metrics not significantly worse than the best one, up to
    `MOST_CORRECTED`."""
    ranked_metrics = [metric for rank_metrics in zip_longest(*leaders) for metric in rank_metrics if metric]
    return list(dict.fromkeys([*best, *ranked_metrics]))[: max(MOST_CORRECTED, len(set(best)))]


def _ask(context: Context) -> Correction:
    metric_names = corrected_metrics(list(context.best.values()), list(context.leaders.values()))
    if not metric_names:
        raise InputError("no metric can be ranked by agreement, so no metric is corrected")
    return context.ask(correction, metrics=metric_names)


def _figures(context: Context) -> Sequence[Figure]:
    return [
        Figure(
            id="correction-margins",
            title="Margins by {corrected}, by human ratings, and corrected",
            caption="Right of the line, the first system wins more often. Whisker: interval. Orange square: "
            "the metric alone. Blue triangle: human ratings alone. Green dot: both together, with "
            "the errors of the metric corrected.",
            alt="Three dots with whiskers for every pair of systems; the table below holds the corrected numbers.",
            spec=spec_of(margins(empty_rows()), width="container"),
            table="corrected",
            where=WHERE,
            lines=("pair",),
        )
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template, for decisions by the metric alone, by human ratings alone, and after correction."""
    corrected_rows = context.table("corrected")
    metrics = corrected_rows["metric"].unique(maintain_order=True).to_list()
    first_aspect = context.aspects[0]
    first_metric = context.first_metric if context.first_metric in metrics else context.best.get(first_aspect, "")
    first_metric_rows = corrected_rows.filter(aspect=first_aspect, metric=first_metric)
    return {
        "metrics": [(metric, metric) for metric in metrics],
        "best": first_metric,
        "corrected": names(metrics),
        "most": MOST_CORRECTED,
        "others": len((context.whole or context).metrics) - len(metrics),
        "alone": corrected_rows["n_metric"].sum() == 0,
        "rows": [(CHANGED, "where correction changes the metric’s decision"), (ALL, "all")],
        "which": CHANGED if first_metric_rows[CHANGED].is_not_null().any() else ALL,
        "notes": context.notes("correction"),
    }


CORRECTION = Section(
    question="correction",
    title="Correction of metric errors",
    ask=_ask,
    figures=_figures,
    tables=lambda context: [
        SelectionTable(
            id="correction-pairs",
            caption="Pairs of systems, corrected by {corrected}",
            table="corrected",
            columns=columns_with_values(_columns(), context.table("corrected")),
            where=WHERE,
        )
    ],
    build=_build,
    extra=lambda context: {"corrected": _corrected_rows(context)},
)
