"""Figure: human preferences by preferences of a metric, for one pair of systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.arguments import check_one_of
from custodes.errors import OptionError
from custodes.evaluate.decision_graph import CELLS, OUTCOMES
from custodes.evaluate.favoritism import Favoritism
from custodes.plots.choice import select_rows, title_with_aspect

_TURNED = {cell: "_".join(OUTCOMES[-1 - OUTCOMES.index(outcome)] for outcome in cell.split("_")) for cell in CELLS} | {
    "system_a": "system_b",
    "system_b": "system_a",
}
"""For each column of the table `pairs`, the column that takes its place if the two systems are exchanged."""


def confusion_matrix(
    result: Favoritism,
    metric: str,
    system_a: str,
    system_b: str,
    *,
    aspect: str | None = None,
) -> alt.TopLevelMixin:
    """Table of the nine counts of one metric and one pair of systems.

    Rows are human preferences, and columns are preferences of the metric, both as outcomes of `system_a`. The systems
    can be given in either order.

    Parameters
    ----------
    result : Favoritism
        Result of `favoritism`.
    metric : str
        Metric or judge.
    system_a : str
        First system.
    system_b : str
        Second system.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), resamples=50)
    >>> chart = confusion_matrix(result, "judge", "Aster", "Fir", aspect="fluency")
    """
    metric_pair_rows, aspect, metric = select_rows(result.pairs, "confusion_matrix", aspect=aspect, metric=metric)
    metric_pair_rows = metric_pair_rows.select("system_a", "system_b", *CELLS)
    both_order_rows = pl.concat([metric_pair_rows, metric_pair_rows.rename(_TURNED).select(metric_pair_rows.columns)])
    system_names = both_order_rows["system_a"].unique(maintain_order=True).to_list()
    for system_name in (system_a, system_b):
        check_one_of("confusion_matrix: system", system_name, system_names)
    pair_rows = both_order_rows.filter(system_a=system_a, system_b=system_b)
    if not pair_rows.height:
        raise OptionError(
            f"confusion_matrix: {system_a!r} and {system_b!r} are not a pair of systems in the result; give a "
            "pair of the table pairs"
        )
    return theme.apply_theme(
        matrix(theme.embed_rows(pair_rows)),
        title=title_with_aspect(f"Human ratings and {metric}: {system_a} against {system_b}", aspect),
    )


def matrix(data: Any) -> Any:
    """Draw one row of `Favoritism.pairs`."""
    return outcome_cells(
        data,
        "outcome === 'win' ? datum.system_a + ' better' : outcome === 'tie' ? 'tie' : datum.system_b + ' better'",
        row_title="human ratings",
        column_title="metric",
        reading_expression="datum.row === datum.column ? 'agree' : 'differ'",
        colour_of_reading={"agree": theme.GREEN, "differ": theme.VERMILION},
    )


def outcome_cells(
    data: Any,
    label_expression: str,
    *,
    row_title: str,
    column_title: str,
    reading_expression: str,
    colour_of_reading: Mapping[str, str],
) -> Any:
    """Draw one row with the columns `CELLS`, as a table of three outcomes by three outcomes.

    `label_expression` gives the label of an `outcome`. `reading_expression` gives the reading of a cell from
    `datum.row` and `datum.column`, the positions of its two outcomes.
    """
    outcome_expression_of_axis = {"row": "split(datum.cell, '_')[0]", "column": "split(datum.cell, '_')[1]"}
    base_chart = (
        alt.Chart(data)
        .transform_fold(list(CELLS), as_=["cell", "count"])
        .transform_joinaggregate(total="sum(count)")
        .transform_calculate(
            **{
                axis_name: f"indexof({list(OUTCOMES)}, {outcome_expression})"
                for axis_name, outcome_expression in outcome_expression_of_axis.items()
            },
            **{
                f"{axis_name}_label": re.sub(r"\boutcome\b", outcome_expression, label_expression)
                for axis_name, outcome_expression in outcome_expression_of_axis.items()
            },
            share="datum.total > 0 ? datum.count / datum.total : 0",
        )
        .transform_calculate(reading=reading_expression)
        .encode(
            x=alt.X(
                "column_label:N",
                title=column_title,
                sort=alt.EncodingSortField(field="column", op="min"),
                axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False, labelLimit=100),
            ),
            y=alt.Y(
                "row_label:N",
                title=row_title,
                sort=alt.EncodingSortField(field="row", op="min"),
                axis=alt.Axis(labelLimit=140),
            ),
            tooltip=[
                alt.Tooltip("row_label:N", title=row_title),
                alt.Tooltip("column_label:N", title=column_title),
                alt.Tooltip("count:Q"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return theme.count_cells(
        base_chart, theme.category_colour("reading", colour_of_reading, legend=None), alt.Text("count:Q")
    ).properties(width=alt.Step(104), height=alt.Step(56))
