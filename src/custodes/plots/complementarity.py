"""Pictures: how alike people and metrics rank, as a map of distances, as a map of places, and on average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from custodes.errors import InputError
from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots import labels, theme

if TYPE_CHECKING:
    import altair as alt

KINDS = {"human": "people", "metric": "metrics"}
CELL_MIN, CELL_MAX = 5.0, 22.0
"""Pixels of a cell of the heat map: the least that a pointer finds, the most that a small study needs."""
GAP = " "
"""The empty row and column between people and metrics."""
SAME, UNRELATED, OPPOSITE = theme.BLUE, "rgba(0,114,178,0)", theme.VERMILION
ENOUGH = 0.995
"""The curve of explained variance ends where so much is explained."""
NAMED = 25
"""With more raters only people are named on the map of places."""
AVERAGES = {
    "human-human": "people and people",
    "human-metric": "people and metrics",
    "metric-metric": "metrics and metrics",
}
HEIGHT = 240
MARGIN = 45
"""Pixels between the outermost rater of the map of places and its edge."""


def complementarity_map(
    result: Complementarity, *, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Heat map of the distance of every two raters: full blue the same order, blank unrelated, vermilion opposite.

    People stand first, apart from metrics; within both, neighbours rank alike. Raters without a ranking have no row.
    Cells shrink with the number of raters, down to 5 pixels, whatever the width.

    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> complementarity_map(result).to_dict()["title"]
    'Complementarity of every two raters'
    """
    chart = heat_map(theme.inline(result.pairs), result, width=width)
    return theme.themed(chart, dark=dark, title="Complementarity of every two raters")


def heat_map(data: Any, result: Complementarity, *, width: float) -> Any:
    """Rows of `Complementarity.pairs`, in the order of the result. One triangle: the other is its mirror."""
    import altair as alt

    ordered = result.raters.drop_nulls("position").sort("position")
    place = theme.inline(ordered.select("metric", "position"))
    people, metrics = (ordered.filter(kind=kind)["metric"].to_list() for kind in KINDS)
    names = [*people, *([GAP] if people and metrics else []), *metrics]
    cell = min(CELL_MAX, max(CELL_MIN, width / max(1, len(names) - 1)))
    axis: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelFontSize": min(11.0, 0.9 * cell),
        "labelOverlap": False,
    }
    base = alt.Chart(data).transform_filter("isValid(datum.complementarity)")
    for end in ("a", "b"):
        base = base.transform_lookup(
            lookup=f"metric_{end}",
            from_=alt.LookupData(data=place, key="metric", fields=["position"]),
            as_=[f"place_{end}"],
        )
    first = "datum.place_a < datum.place_b"
    return (
        base.transform_filter("isValid(datum.place_a) && isValid(datum.place_b)")
        .transform_calculate(
            row=f"{first} ? datum.metric_b : datum.metric_a", column=f"{first} ? datum.metric_a : datum.metric_b"
        )
        .mark_rect(aria=cell > CELL_MIN)  # twenty thousand spoken labels help nobody
        .encode(
            x=alt.X(
                "column:N", scale=alt.Scale(domain=names[:-1]), axis=alt.Axis(labelAngle=-90, labelLimit=140, **axis)
            ),
            y=alt.Y("row:N", scale=alt.Scale(domain=names[1:]), axis=alt.Axis(labelLimit=180, **axis)),
            color=alt.Color(
                "complementarity:Q",
                title="Complementarity (blank: unrelated)",
                scale=alt.Scale(domain=[0, 0.5, 1], range=[SAME, UNRELATED, OPPOSITE], interpolate="rgb"),
                legend=alt.Legend(gradientLength=180, titleLimit=300, values=[0, 0.5, 1], format="~g"),
            ),
            tooltip=[
                alt.Tooltip("row:N", title="rater"),
                alt.Tooltip("column:N", title="and"),
                alt.Tooltip("complementarity:Q", format=".3f"),
                alt.Tooltip("low:Q", format=".3f"),
                alt.Tooltip("high:Q", format=".3f"),
                alt.Tooltip("n:Q", title="rankings"),
            ],
        )
        .properties(width=alt.Step(cell), height=alt.Step(cell))
    )


def explained_variance(
    result: Complementarity, *, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """How few directions the disagreements of raters have: the variance of principal components, each and together.

    The ranking that all raters share is subtracted first, so this does not say whether they agree. Bars with
    whiskers: the share of each component. Line: all up to it. Dashed grey: the same for raters who rank at random. Grey
    rule: 80 %. Raises `InputError` where no two raters rank everything, so that there are no components.

    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> explained_variance(result).to_dict()["title"]
    'How many directions raters differ in'
    """
    _some(result.components, "explained_variance: no two raters ranked everything, so there are no components")
    chart = variance_curve(theme.inline(result.components)).properties(width=width)
    return theme.themed(chart, dark=dark, title="How many directions raters differ in")


def variance_curve(data: Any) -> Any:
    """Rows of `Complementarity.components`."""
    import altair as alt

    lines = ("raters together", "random rankings together", "each component")
    colour = alt.Color(
        "line:N",
        title=None,
        scale=alt.Scale(domain=list(lines), range=[theme.BLUE, theme.GREY, theme.SKY]),
        legend=alt.Legend(columns=2, symbolOpacity=1),
    )
    base = (
        alt.Chart(data)
        .transform_filter(f"datum.cumulative - datum.explained_variance < {ENOUGH}")
        .transform_filter("datum.explained_variance > 1e-9")
    )
    x = alt.X("component:O", title="Principal component", axis=alt.Axis(labelAngle=0))
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(title="Variance explained", format="%", titleAngle=-90)
    tooltip = [
        alt.Tooltip("component:Q"),
        alt.Tooltip("explained_variance:Q", format=".1%", title="share"),
        alt.Tooltip("low:Q", format=".1%"),
        alt.Tooltip("high:Q", format=".1%"),
        alt.Tooltip("cumulative:Q", format=".1%", title="together"),
        alt.Tooltip("null_cumulative:Q", format=".1%", title="random rankings together"),
    ]
    share = alt.Chart(data).mark_rule(color=theme.GREY).encode(y=alt.datum(SHARE))
    layers = [
        base.transform_calculate(line=f"'{lines[2]}'")
        .mark_bar(width={"band": 0.6}, opacity=0.7)
        .encode(x=x, y=alt.Y("explained_variance:Q", scale=scale, axis=axis), color=colour, tooltip=tooltip),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5, color=theme.BLUE, opacity=0.7)
        .encode(x=x, y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"),
        share,
        base.transform_calculate(line=f"'{lines[1]}'")
        .mark_line(strokeDash=[5, 4])
        .encode(x=x, y="null_cumulative:Q", color=colour),
        base.transform_calculate(line=f"'{lines[0]}'")
        .mark_line(point={"opacity": 1, "size": 45}, opacity=0.9)
        .encode(x=x, y="cumulative:Q", color=colour, tooltip=tooltip),
    ]
    return alt.layer(*layers).properties(height=HEIGHT)


def judges_map(result: Complementarity, *, width: int = theme.PAGE_WIDTH, dark: bool = False) -> alt.TopLevelMixin:
    """Raters on the first two principal components: who ranks alike stands close; colour the cluster, shape the kind.

    One unit is as long across as up. Up to 25 raters are all named, else people only. Raises `InputError` where fewer
    than four raters rank everything, so that nobody has a place.

    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> judges_map(result).to_dict()["title"]
    'Where judges stand'
    """
    _some(result.coordinates, "judges_map: fewer than four raters ranked everything, so nobody has a place")
    chart = places(theme.inline(result.coordinates), result, width=width)
    return theme.themed(chart, dark=dark, title="Where judges stand")


def places(data: Any, result: Complementarity, *, width: float) -> Any:
    """Rows of `Complementarity.coordinates`, with clusters and names from the result."""
    import altair as alt

    frame = result.coordinates
    centre, unit, height = _scaled(frame, width)
    scales = [
        alt.Scale(domain=[middle - side * unit / 2, middle + side * unit / 2], nice=False, zero=False)
        for middle, side in zip(centre, (width, height), strict=True)
    ]
    shares = [*result.components["explained_variance"], 0.0][:2]  # two systems differ in one direction
    axes = [
        alt.Axis(
            title=f"Principal component {k + 1} ({share or 0:.0%} of variance)",
            titleAngle=-90 * k,
            labels=False,
            ticks=False,
            grid=False,
        )
        for k, share in enumerate(shares)
    ]
    kinds = "{" + ", ".join(f"{kind}: '{name}'" for kind, name in KINDS.items()) + "}"
    found = alt.LookupData(data=theme.inline(result.clusters), key="metric", fields=["cluster", "stability"])
    base = (
        alt.Chart(data)
        .transform_lookup(lookup="metric", from_=found)
        .transform_calculate(who=f"{kinds}[datum.kind]")
        .encode(
            x=alt.X("x:Q", scale=scales[0], axis=axes[0]),
            y=alt.Y("y:Q", scale=scales[1], axis=axes[1]),
            color=alt.Color("cluster:N", title="cluster", legend=alt.Legend(symbolOpacity=1)),
            shape=alt.Shape(
                "who:N",
                title=None,
                scale=alt.Scale(domain=list(KINDS.values()), range=["triangle-up", "circle"]),
                legend=alt.Legend(symbolFillColor=theme.GREY, symbolStrokeColor=theme.GREY, symbolOpacity=1),
            ),
            tooltip=[
                alt.Tooltip("metric:N", title="rater"),
                alt.Tooltip("cluster:N"),
                alt.Tooltip("stability:Q", format=".0%", title="of its cluster with it in resamples"),
            ],
        )
    )
    few = frame.height <= NAMED
    metrics, people = (base.transform_filter(f"datum.kind === '{kind}'") for kind in ("metric", "human"))
    names = alt.Chart(theme.inline(_names(frame, centre, unit, width, height)))
    text = names.encode(x=alt.X("x:Q", scale=scales[0]), y=alt.Y("y:Q", scale=scales[1]), text="metric:N")
    return alt.layer(
        metrics.mark_point(opacity=0.85 if few else 0.6, size=70 if few else 40),
        people.mark_point(opacity=1, size=130),
        text.mark_text(style="halo"),
        text.mark_text(),
    ).properties(width=width, height=height)


def _scaled(frame: pl.DataFrame, width: float) -> tuple[list[float], float, float]:
    """The centre of the points, the length of a pixel in their units, and the height that shows them all."""
    ends = frame.select(pl.col("x", "y").min().name.suffix("_low"), pl.col("x", "y").max().name.suffix("_high")).row(
        0, named=True
    )
    across, up = (ends[f"{name}_high"] - ends[f"{name}_low"] for name in ("x", "y"))
    unit = max(across / (width - 2 * MARGIN), up / (width - 2 * MARGIN)) or 1.0
    centre = [(ends[f"{name}_high"] + ends[f"{name}_low"]) / 2 for name in ("x", "y")]
    return centre, unit, max(width / 3, up / unit + 2 * MARGIN)


def _names(frame: pl.DataFrame, centre: Sequence[float], unit: float, width: float, height: float) -> pl.DataFrame:
    """Rows metric, x, y: where the name of each named rater stands."""
    pixels = np.array([width, height]) / 2 + (frame.select("x", "y").to_numpy() - centre) / unit * [1, -1]
    everyone = frame.height <= NAMED
    named = [i for i, kind in enumerate(frame["kind"]) if everyone or kind == "human"]
    texts = [frame["metric"][i] for i in named]
    spots = labels.placed(pixels, named, texts, width=width)
    back = centre + (spots - np.array([width, height]) / 2) * unit * [1, -1]
    return pl.DataFrame(
        {"metric": texts, "x": back[:, 0], "y": back[:, 1]},
        schema={"metric": pl.String, "x": pl.Float64, "y": pl.Float64},
    )


def complementarity_averages(
    result: Complementarity, *, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """The mean complementarity of two people, of a person and a metric, and of two metrics, with intervals.

    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> len(complementarity_averages(result).to_dict()["layer"])
    3
    """
    chart = averages(theme.inline(result.averages)).properties(width=width)
    return theme.themed(chart, dark=dark, title="How differently judges rank")


def averages(data: Any) -> Any:
    """Rows of `Complementarity.averages`."""
    import altair as alt

    called = "{" + ", ".join(f"'{kinds}': '{name}'" for kinds, name in AVERAGES.items()) + "}"
    base = (
        alt.Chart(data)
        .transform_filter("isValid(datum.complementarity)")
        .transform_calculate(between=f"{called}[datum.kinds]")
    )
    who = alt.Y("between:N", sort=list(AVERAGES.values()))
    return alt.layer(
        alt.Chart(data).mark_rule(color=theme.GREY, strokeDash=[3, 3]).encode(x=alt.datum(0.5)),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2, opacity=0.6, color=theme.BLUE)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=who),
        base.mark_point(color=theme.BLUE, opacity=1).encode(
            x=alt.X(
                "complementarity:Q",
                title="Complementarity (dashed: unrelated)",
                scale=alt.Scale(zero=True),
            ),
            y=who,
            tooltip=[
                alt.Tooltip("between:N"),
                alt.Tooltip("complementarity:Q", format=".3f"),
                alt.Tooltip("low:Q", format=".3f"),
                alt.Tooltip("high:Q", format=".3f"),
                alt.Tooltip("pairs:Q"),
            ],
        ),
    ).properties(height=alt.Step(theme.ROW))


def _some(frame: pl.DataFrame, otherwise: str) -> None:
    if frame.is_empty():
        raise InputError(f"{otherwise}; see `left_out`")
