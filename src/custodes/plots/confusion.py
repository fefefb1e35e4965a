"""Figure: human preferences by preferences of a metric, for one pair of systems."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.arguments import check_one_of
from custodes.errors import OptionError
from custodes.evaluate.decision_graph import CELLS, OUTCOMES
from custodes.evaluate.favoritism import Favoritism
from custodes.plots.choice import select_aspect, select_rows, title_with_aspect

_TURNED = {cell: "_".join(OUTCOMES[-1 - OUTCOMES.index(outcome)] for outcome in cell.split("_")) for cell in CELLS} | {
    "system_a": "system_b",
    "system_b": "system_a",
}
"""For each column of a pair, its name after the two systems are exchanged."""


def confusion_matrix(
    result: Favoritism,
    metric: str,
    system_a: str,
    system_b: str,
    *,
    aspect: str | None = None,
    dark: bool = False,
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
    dark : bool, default False
        Whether to use colours for a dark background.

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
    function_name = "confusion_matrix"
    rows, aspect = select_aspect(result.confusion, aspect, function_name=function_name)
    rows = select_rows(rows, "metric", metric, function_name=function_name)
    system_names = pl.concat([rows["system_a"], rows["system_b"]]).unique(maintain_order=True).to_list()
    for system_name in (system_a, system_b):
        check_one_of(f"{function_name}: system", system_name, system_names)
    both_directions = pl.concat([rows, rows.rename(_TURNED).select(rows.columns)])
    pair_rows = both_directions.filter(system_a=system_a, system_b=system_b)
    if not pair_rows.height:
        raise OptionError(
            f"{function_name}: {system_a!r} and {system_b!r} are not a pair of systems in the result; give a "
            "pair of the table confusion"
        )
    title = f"Human ratings and {metric}: {system_a} against {system_b}"
    return theme.apply_theme(matrix(theme.embed_rows(pair_rows)), dark=dark, title=title_with_aspect(title, aspect))


def matrix(data: Any) -> Any:
    """Draw one row of `Favoritism.confusion`."""
    expression_of_outcome = {"win": "datum.system_a + ' better'", "tie": "'tie'", "loss": "datum.system_b + ' better'"}
    label_expression_template = (
        "split(datum.cell, '_')[{}] === 'win' ? {win} : split(datum.cell, '_')[{}] === 'tie' ? {tie} : {loss}"
    )
    outcome_index_template = f"indexof({list(OUTCOMES)}, split(datum.cell, '_')[{{}}])"
    base = (
        alt.Chart(data)
        .transform_fold(list(CELLS), as_=["cell", "count"])
        .transform_joinaggregate(total="sum(count)")
        .transform_calculate(
            people=label_expression_template.format(0, 0, **expression_of_outcome),
            metric_says=label_expression_template.format(1, 1, **expression_of_outcome),
            row=outcome_index_template.format(0),
            column=outcome_index_template.format(1),
            share="datum.total > 0 ? datum.count / datum.total : 0",
            right="split(datum.cell, '_')[0] === split(datum.cell, '_')[1] ? 'agree' : 'differ'",
        )
        .encode(
            x=alt.X(
                "metric_says:N",
                title="metric",
                sort=alt.EncodingSortField(field="column", op="min"),
                axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False, labelLimit=100),
            ),
            y=alt.Y(
                "people:N",
                title="human ratings",
                sort=alt.EncodingSortField(field="row", op="min"),
                axis=alt.Axis(labelLimit=140),
            ),
            tooltip=[
                alt.Tooltip("people:N", title="human ratings"),
                alt.Tooltip("metric_says:N", title="metric"),
                alt.Tooltip("count:Q"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    colour = alt.Color(
        "right:N",
        title=None,
        scale=alt.Scale(domain=["agree", "differ"], range=[theme.GREEN, theme.VERMILION]),
        legend=None,
    )
    return theme.count_cells(base, colour, alt.Text("count:Q")).properties(width=alt.Step(104), height=alt.Step(56))
