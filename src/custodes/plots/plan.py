"""Figure: power by margin and number of annotations."""

from __future__ import annotations

from typing import Any

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.evaluate.protocol.plan import Plan
from custodes.plots.choice import select_aspect, title_with_aspect

HEIGHT = 220


def power_curve(
    result: Plan, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Power to find the better system with human ratings alone, by margin and number of annotations of a pair.

    Each number of annotations has a line, with a point for each pair of systems (or assumed margin). The power is exact
    for a single analysis per pair.

    Parameters
    ----------
    result : Plan
        Result of `plan`.
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

    Raises
    ------
    OptionError
        If the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> chart = power_curve(cu.plan(margins=[0.1, 0.3], replications=2))
    >>> len(chart.to_dict()["layer"])
    2
    """
    rows, aspect = select_aspect(result.power, aspect, function_name="power_curve")
    return theme.apply_theme(
        curve(theme.embed_rows(rows)), dark=dark, title=title_with_aspect("Power by margin", aspect), width=width
    )


def curve(data: Any) -> Any:
    """Draw the rows of `Plan.power`."""
    base = alt.Chart(data).transform_calculate(size="abs(datum.margin)")
    encoding_of_channel: dict[str, Any] = {
        "x": alt.X("size:Q", title="Margin of the better system (wins minus losses)", axis=alt.Axis(format="%")),
        "y": alt.Y("power:Q", title="Power", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        "color": alt.Color(
            "annotations:O", title="Annotations of a pair", scale=alt.Scale(scheme="viridis", reverse=True)
        ),
    }
    tooltip = [
        alt.Tooltip("size:Q", format=".0%", title="margin"),
        alt.Tooltip("annotations:Q"),
        alt.Tooltip("power:Q", format=".0%"),
        alt.Tooltip("wrong:Q", format=".1%", title="false decision"),
    ]
    points = base.mark_point(filled=True, size=30, opacity=0.8).encode(**encoding_of_channel, tooltip=tooltip)
    return alt.layer(base.mark_line(opacity=0.5).encode(**encoding_of_channel), points, height=HEIGHT)
