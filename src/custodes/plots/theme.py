"""One look for all pictures: colours that colour-blind readers can tell apart, on light and on dark paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

import custodes.plots.alt as alt
from custodes.answers.tables import Table
from custodes.answers.wording import SMALLEST_P, UNDEFINED
from custodes.plots.drawable import drawable
from custodes.plots.notebook import offline

PAGE_WIDTH = 455
"""Text width of an ACL page in points; a saved PDF has 72 of a picture's pixels to the inch."""
COLUMN_WIDTH = 219
"""Width of one column of it."""

# Okabe and Ito (2008), without black and yellow, which vanish on one of the two backgrounds.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY = "#8A8F98"

DIVERGING_DOMAIN = (-1.0, -0.001, 0.001, 1.0)
"""Blue for against, orange for in favour, nothing at 0: transparent, so that it is right on any background."""
DIVERGING_RANGE = ("rgba(0,114,178,0.75)", "rgba(0,114,178,0)", "rgba(230,159,0,0)", "rgba(230,159,0,0.75)")

TEXT = 12
"""Pixels of the smallest text in a picture."""

ROW = 18
"""Pixels of a row of labels: as tight as the text allows, so that 72 metrics fit a tall page."""

WHISKER: dict[str, Any] = {"strokeWidth": 2, "opacity": 1}
"""Intervals are drawn in full colour: blue at six tenths is lost on dark paper (2 to 1, where 3 to 1 can be seen)."""


@dataclass(frozen=True, kw_only=True)
class Ink:
    """Colours of everything that is not data."""

    paper: str
    text: str
    muted: str
    rule: str
    font: str = "Arial, Helvetica, sans-serif"


LIGHT = Ink(paper="#ffffff", text="#1b1f24", muted="#59636e", rule="#dfe3e8")
DARK = Ink(paper="#14171a", text="#e6e8eb", muted="#a3abb5", rule="#3a4048")
PAGE_INK = Ink(
    paper="var(--paper)",
    text="var(--ink)",
    muted="var(--muted)",
    rule="var(--rule)",
    font="system-ui, sans-serif",
)
"""For the report: the page's own colours, which change with light, dark and print."""


def config(ink: Ink) -> dict[str, Any]:
    """The Vega-Lite configuration of every picture."""
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


def themed(chart: Any, *, dark: bool, title: str) -> alt.TopLevelMixin:
    """The chart with the look and a title; what every public picture returns."""
    properties = {"title": drawable(title)} if title else {}
    return offline(chart.properties(**properties).configure(**config(DARK if dark else LIGHT)))


def inline(frame: pl.DataFrame) -> alt.Data:
    """Rows inside the chart, so that the file is whole."""
    return alt.Data(values=drawable(frame.to_dicts()))  # type: ignore[no-untyped-call]


def p_told(field: str) -> str:
    """The expression that writes a p-value as `wording.p_value` does."""
    value = f"datum.{field}"
    formatted = f"replace(format({value}, '.3f'), /^0/, '')"
    return f"!isValid({value}) ? '{UNDEFINED}' : {value} <= {SMALLEST_P} ? '≤ .001' : {formatted}"


def tips(table: Table, *names: str) -> list[alt.Tooltip]:
    """What a mark says of itself: columns of a declared table by their labels, an estimate with its interval."""
    return [
        alt.Tooltip(
            f"{name}:{'Q' if column.is_number else 'N'}",
            title=column.label + name.removeprefix(column.name).replace("_", " "),
            format={"score": ".3~g", "difference": ".3~g", "points": "+.1f", "share": ".0%"}.get(column.kind, ""),
        )
        for column in map(table.column, names)
        for name in column.names
    ]


def names_above(*, angle: int, limit: int) -> Any:
    """The axis of a matrix of systems: every name, above it."""
    return alt.Axis(
        orient="top",
        labelAngle=angle,
        labelOverlap=False,
        title=None,
        labelLimit=limit,
        ticks=False,
        domain=False,
    )
