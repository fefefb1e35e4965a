"""Figure: types of error in the decisions of each metric."""

from __future__ import annotations

from typing import Any

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.evaluate.ranking import Ranking
from custodes.plots.choice import select_aspect, title_with_aspect

COLOURS = {"correct": theme.GREEN, "omission": theme.SKY, "insertion": theme.ORANGE, "inversion": theme.VERMILION}


def error_types(
    result: Ranking, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Stacked bars of the decisions of each metric on pairs of systems.

    A bar shows the proportion of pairs with the same decision as the annotators, and the proportions of the three types
    of error.

    Parameters
    ----------
    result : Ranking
        Result of `ranking`.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.
    dark : bool, default False
        Whether to use colours for a dark background.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> chart = error_types(cu.ranking(cu.read("demo"), resamples=0), aspect="fluency")
    >>> chart.to_dict()["mark"]["type"]
    'bar'
    """
    rows, aspect = select_aspect(result.errors, aspect, function_name="error_types")
    return theme.apply_theme(
        stacked_errors(theme.embed_rows(rows)),
        dark=dark,
        width=width,
        title=title_with_aspect("Decisions compared with human decisions", aspect),
    )


def stacked_errors(data: Any) -> Any:
    """Draw the rows of `Ranking.errors`."""
    decision_kinds: Any = list(COLOURS)
    return (
        alt.Chart(data)
        .transform_filter("isValid(datum.correct)")
        .transform_calculate(right="datum.correct")
        .transform_fold(decision_kinds, as_=["kind", "share"])
        .transform_calculate(place=f"indexof({decision_kinds}, datum.kind)")
        .mark_bar(size=theme.ROW - 5)
        .encode(
            x=alt.X(
                "share:Q",
                stack="zero",
                title="Proportion of system pairs",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            y=alt.Y("metric:N", sort=alt.EncodingSortField(field="right", op="max", order="descending")),
            color=theme.category_colour("kind", COLOURS, sort=decision_kinds),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("metric:N"),
                alt.Tooltip("kind:N", title="decision"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(height=alt.Step(theme.ROW))
    )
