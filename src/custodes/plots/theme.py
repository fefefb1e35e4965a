"""Common theme of all figures: colours for colour-blind readers, on light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

import custodes.plots.alt as alt
from custodes.answers.tables import Table
from custodes.answers.wording import SMALLEST_P, UNDEFINED
from custodes.plots.drawable import drawable
from custodes.plots.saving import offline

PAGE_WIDTH = 455
"""Text width of an ACL page in points. A pixel of a figure is a point in a saved PDF (72 pixels per inch)."""
COLUMN_WIDTH = 219
"""Column width of an ACL page in points."""

# Okabe and Ito (2008), without black and yellow, which are invisible on one of the two backgrounds.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY = "#8A8F98"

DIVERGING_DOMAIN = (-1.0, -0.001, 0.001, 1.0)
"""Scale from blue (negative) to orange (positive). Colours are transparent at 0, so that they fit any background."""
DIVERGING_RANGE = ("rgba(0,114,178,0.75)", "rgba(0,114,178,0)", "rgba(230,159,0,0)", "rgba(230,159,0,0.75)")

TEXT = 12
"""Minimum font size of a figure in pixels."""

ROW = 18
"""Height in pixels of a row with a label. The height is as small as the text allows, so that 72 metrics fit on a
page."""

WHISKER: dict[str, Any] = {"strokeWidth": 2, "opacity": 1}
"""Style of intervals. At an opacity of 0.6, blue would have a contrast of only 2 to 1 on a dark background; 3 to 1 is
needed for visibility."""


class Ink(NamedTuple):
    """Font, and colours of all parts of a figure except the data."""

    paper: str
    text: str
    muted: str
    rule: str
    font: str


LIGHT = Ink("#ffffff", "#1b1f24", "#59636e", "#dfe3e8", font="Arial, Helvetica, sans-serif")
PAGE_INK = Ink("var(--paper)", "var(--ink)", "var(--muted)", "var(--rule)", font="system-ui, sans-serif")
"""Colours of figures in the report: the colours of the page, which change with light, dark and print mode."""


def config(ink: Ink) -> dict[str, Any]:
    """Vega-Lite configuration of every figure."""
    return {
        "background": ink.paper,
        "font": ink.font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink.text,
            "titleColor": ink.muted,
            "titleFontWeight": "normal",
            "gridColor": ink.rule,
            "domainColor": ink.rule,
            "tickColor": ink.rule,
            "labelFontSize": TEXT,
            "titleFontSize": TEXT,
            "labelLimit": 220,
        },
        "axisX": {"labelFlush": False, "labelOverlap": "greedy", "labelSeparation": 4, "tickCount": 8},
        "axisY": {"title": None, "ticks": False, "domain": False},
        "legend": {
            "labelColor": ink.text,
            "titleColor": ink.muted,
            "titleFontWeight": "normal",
            "labelFontSize": TEXT,
            "titleFontSize": TEXT,
            "orient": "top",
        },
        "title": {"color": ink.text, "subtitleColor": ink.muted, "anchor": "start", "fontSize": 13},
        "text": {"color": ink.text, "fontSize": TEXT},
        "style": {"halo": {"stroke": ink.paper, "strokeWidth": 4, "strokeJoin": "round"}},
        "point": {"filled": True, "size": 60},
        "range": {"category": [BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY]},
    }


def apply_theme(chart: Any, *, title: str, **size: float) -> alt.TopLevelMixin:
    """The chart with the theme, a title and a width or height. Every public function for a figure returns a chart from
    this function."""
    return offline(chart.properties(**size, title=drawable(title)).configure(**config(LIGHT)))


def embed_rows(frame: pl.DataFrame) -> alt.Data:
    """Rows embedded in the chart, so that the file is self-contained."""
    # As a tuple, because Altair copies lists and their entries each time it copies a chart.
    return alt.Data(values=tuple(drawable(frame.to_dicts())))  # type: ignore[no-untyped-call]


def p_value_expression(field: str) -> str:
    """A Vega expression that formats a p-value like `wording.p_value`."""
    p_value_field = f"datum.{field}"
    return (
        f"!isValid({p_value_field}) ? '{UNDEFINED}' : {p_value_field} <= {SMALLEST_P} ? '≤ .001' : "
        f"replace(format({p_value_field}, '.3f'), /^0/, '')"
    )


def column_tooltips(table: Table, *column_names: str) -> list[alt.Tooltip]:
    """Tooltips of columns of a declared table, with the labels of the columns. An estimate includes its interval."""
    return [
        alt.Tooltip(
            f"{column_name}:{'Q' if column.is_number else 'N'}",
            title=column.label + column_name.removeprefix(column.name).replace("_", " "),
            format={"score": ".3~g", "difference": ".3~g", "points": "+.1f", "share": ".0%"}.get(column.kind, ""),
        )
        for column in map(table.column, column_names)
        for column_name in column.names
    ]


def category_colour(field: str, colour_of_value: Mapping[str, str], **options: Any) -> alt.Color:
    """The colours of the values of a field, by default with a legend without title."""
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=alt.Scale(domain=list(colour_of_value), range=list(colour_of_value.values())),
        **options,
    )


def diverging_colour(field: str, saturation: float) -> alt.Color:
    """The colours of a field, from blue to orange. Values beyond -`saturation` and `saturation` have the colours of
    these bounds."""
    return alt.Color(
        f"{field}:Q",
        scale=alt.Scale(
            domain=[bound * saturation for bound in DIVERGING_DOMAIN],
            range=list(DIVERGING_RANGE),
            clamp=True,
            interpolate="rgb",
        ),
        legend=None,
    )


def reference_line(data: Any, **position: float) -> Any:
    """A dashed line at the position `x` or `y`."""
    channels = {"x": alt.XDatum, "y": alt.YDatum}
    return (
        alt.Chart(data)
        .mark_rule(color=GREY, strokeDash=[3, 3])
        .encode(*(channels[axis_name](axis_position) for axis_name, axis_position in position.items()))
    )


def number_tooltips(number_format: str, *fields: str) -> list[alt.Tooltip]:
    """Tooltips of numeric fields."""
    return [alt.Tooltip(f"{field}:Q", format=number_format) for field in fields]


def interval_tooltips(field: str, number_format: str, title: str | None = None) -> list[alt.Tooltip]:
    """Tooltips of an estimate and of the bounds of its interval."""
    return [
        alt.Tooltip(f"{field}{suffix}:Q", format=number_format, title=tooltip_title)
        for suffix, tooltip_title in {"": title or field, "_low": "low", "_high": "high"}.items()
    ]


def names_above(*, angle: int, limit: int) -> Any:
    """The axis above a matrix of systems, with the labels of all systems."""
    return alt.Axis(
        orient="top",
        labelAngle=angle,
        labelOverlap=False,
        title=None,
        labelLimit=limit,
        ticks=False,
        domain=False,
    )


def count_cells(base_chart: Any, colour_channel: alt.Color, count_channel: alt.Text) -> Any:
    """The cells of a table of counts, shaded by the column `share`, each with the count and the proportion."""
    return alt.layer(
        base_chart.mark_rect(cornerRadius=3).encode(
            color=colour_channel,
            opacity=alt.Opacity(
                "share:Q", scale=alt.Scale(domain=[0, 0.6], range=[0.06, 0.75], clamp=True), legend=None
            ),
        ),
        base_chart.mark_text(fontSize=14, fontWeight="bold", dy=-6).encode(text=count_channel),
        base_chart.mark_text(dy=11).encode(text=alt.Text("share:Q", format=".0%")),
    )
