"""Figures: complementarity of raters as a heat map, as a map of principal components, and as averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.errors import InputError
from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.drawable import drawable

KINDS = {"human": "human raters", "metric": "metrics"}
CELL_MIN, CELL_NAMED, CELL_MAX = 5.0, 13.0, 22.0
"""Width in pixels of a cell of the heat map: minimum without labels, minimum with labels, and maximum."""
GAP = " "
"""Size of the empty row and column between human raters and metrics, in cells."""
SAME, UNRELATED, OPPOSITE = theme.BLUE, "rgba(0,114,178,0)", theme.VERMILION
ENOUGH = 0.995
"""Cumulative proportion of explained variance at which the curve ends."""
NAMED, NEAREST = 25, 3
"""Maximum number of raters for which the map labels every rater, and number of labelled metrics if there are more
raters.

With more raters, only human raters, the three metrics closest to human raters, and extreme metrics are labelled.
"""
LABELLED = 100
"""Maximum number of raters for which every row of the heat map is labelled."""
AVERAGES = {
    "human-human": "pairs of human aspects",
    "human-metric": "human aspects and metrics",
    "metric-metric": "pairs of metrics",
}
HEIGHT = 240
MARGIN = 45
"""Margin in pixels between the outermost rater and the edge of the map."""


def complementarity_map(result: Complementarity, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Heat map of the complementarity of each pair of raters.

    Blue cells are pairs with similar rankings, blank cells with unrelated rankings, and vermilion cells with opposite
    rankings. Human raters come first, separated from metrics. Human raters and metrics are each ordered by similarity.
    Raters without a ranking are omitted. Cells are smaller if there are more raters, but at least 13 pixels wide. With
    more than 100 raters, cells are at least 5 pixels wide, and only some rows are labelled.

    Parameters
    ----------
    result : Complementarity
        Result of `complementarity`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> complementarity_map(result).to_dict()["title"]
    'Complementarity of each pair of raters'
    """
    return theme.apply_theme(
        heat_map(theme.embed_rows(result.pairs), result, width=width),
        title="Complementarity of each pair of raters",
    )


def heat_map(data: Any, result: Complementarity, *, width: float) -> Any:
    """Draw the rows of `Complementarity.pairs`, in the order of the result. The rows are one triangle of a matrix."""
    ordered_rater_rows = result.raters.drop_nulls("position").sort("position")
    position_lookup = alt.LookupData(
        data=theme.embed_rows(ordered_rater_rows.select("rater", "position")), key="rater", fields=["position"]
    )
    human_raters, metric_raters = (ordered_rater_rows.filter(kind=kind)["rater"].to_list() for kind in KINDS)
    axis_rater_names = drawable([*human_raters, *([GAP] if human_raters and metric_raters else []), *metric_raters])
    is_labelled = len(ordered_rater_rows) <= LABELLED
    cell_width = min(CELL_MAX, max(CELL_NAMED if is_labelled else CELL_MIN, width / max(1, len(axis_rater_names) - 1)))
    axis_options: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelOverlap": False if is_labelled else "greedy",
    }
    is_a_first_expression = "datum.place_a < datum.place_b"
    return (
        alt.Chart(data)
        .transform_filter("isValid(datum.complementarity)")
        .transform_lookup(lookup="rater_a", from_=position_lookup, as_=["place_a"])
        .transform_lookup(lookup="rater_b", from_=position_lookup, as_=["place_b"])
        .transform_filter("isValid(datum.place_a) && isValid(datum.place_b)")
        .transform_calculate(
            row=f"{is_a_first_expression} ? datum.rater_b : datum.rater_a",
            column=f"{is_a_first_expression} ? datum.rater_a : datum.rater_b",
        )
        .mark_rect(aria=is_labelled)  # no labels for screen readers of thousands of cells
        .encode(
            x=alt.X(
                "column:N",
                scale=alt.Scale(domain=axis_rater_names[:-1]),
                axis=alt.Axis(labelAngle=-90, labelLimit=140, **axis_options),
            ),
            y=alt.Y(
                "row:N", scale=alt.Scale(domain=axis_rater_names[1:]), axis=alt.Axis(labelLimit=180, **axis_options)
            ),
            color=alt.Color(
                "complementarity:Q",
                title="Complementarity (blank: unrelated)",
                scale=alt.Scale(domain=[0, 0.5, 1], range=[SAME, UNRELATED, OPPOSITE], interpolate="rgb"),
                legend=alt.Legend(gradientLength=180, titleLimit=300, values=[0, 0.5, 1], format="~g"),
            ),
            tooltip=[
                alt.Tooltip("row:N", title="rater"),
                alt.Tooltip("column:N", title="and"),
                *theme.interval_tooltips("complementarity", ".3f"),
                alt.Tooltip("n:Q", title="rankings"),
            ],
        )
        .properties(width=alt.Step(cell_width), height=alt.Step(cell_width))
    )


def explained_variance(result: Complementarity, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Proportion of variance that each principal component of the rankings explains, and cumulative proportion.

    The ranking that all raters share is subtracted first, so the figure does not show whether raters agree. Bars with
    whiskers show the proportion of each component. The line shows the cumulative proportion. The dashed grey line shows
    the cumulative proportion for raters with random rankings. The solid grey line marks 80 %.

    Parameters
    ----------
    result : Complementarity
        Result of `complementarity`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    InputError
        If no two raters rank all systems, so that there are no components.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> explained_variance(result).to_dict()["title"]
    'Number of dimensions in which raters differ'
    """
    _refuse_empty(
        result.components,
        "explained_variance: fewer than two raters ranked all systems of all items, so there are no components",
    )
    return theme.apply_theme(
        variance_curve(theme.embed_rows(result.components)),
        title="Number of dimensions in which raters differ",
        width=width,
    )


def variance_curve(data: Any) -> Any:
    """Draw the rows of `Complementarity.components`."""
    line_labels = ("cumulative", "cumulative, random rankings", "each component")
    colour_channel = alt.Color(
        "line:N",
        title=None,
        scale=alt.Scale(domain=list(line_labels), range=[theme.BLUE, theme.GREY, theme.SKY]),
        legend=alt.Legend(columns=2, symbolOpacity=1),
    )
    base = (
        alt.Chart(data)
        .transform_filter(f"datum.cumulative - datum.explained_variance < {ENOUGH}")
        .transform_filter("datum.explained_variance > 1e-9")
    )
    x = alt.X("component:O", title="Principal component", axis=alt.Axis(labelAngle=0))
    y_scale, y_axis = alt.Scale(domain=[0, 1]), alt.Axis(title="Variance explained", format="%", titleAngle=-90)
    tooltips = [
        alt.Tooltip("component:Q"),
        *theme.interval_tooltips("explained_variance", ".1%", title="proportion"),
        alt.Tooltip("cumulative:Q", format=".1%", title="cumulative"),
        alt.Tooltip("null_cumulative:Q", format=".1%", title="cumulative, random rankings"),
    ]
    layers = [
        base.transform_calculate(line=f"'{line_labels[2]}'")
        .mark_bar(width={"band": 0.6}, opacity=0.7)
        .encode(
            x=x, y=alt.Y("explained_variance:Q", scale=y_scale, axis=y_axis), color=colour_channel, tooltip=tooltips
        ),
        base.transform_filter("isValid(datum.explained_variance_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(
            x=x,
            y=alt.Y("explained_variance_low:Q", scale=y_scale, axis=y_axis),
            y2=alt.Y2("explained_variance_high:Q"),
        ),
        alt.Chart(data).mark_rule(color=theme.GREY).encode(y=alt.datum(SHARE)),
        base.transform_calculate(line=f"'{line_labels[1]}'")
        .mark_line(strokeDash=[5, 4])
        .encode(x=x, y=alt.Y("null_cumulative:Q"), color=colour_channel),
        base.transform_calculate(line=f"'{line_labels[0]}'")
        .mark_line(point={"opacity": 1, "size": 45}, opacity=0.9)
        .encode(x=x, y=alt.Y("cumulative:Q"), color=colour_channel, tooltip=tooltips),
    ]
    return alt.layer(*layers, height=HEIGHT)


def judges_map(
    result: Complementarity,
    *,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Map of the raters on the first two principal components.

    Raters with similar rankings are close to each other. The colour shows the cluster, and the shape shows the kind of
    rater. Both axes have the same scale. If there are at most 25 raters, every rater is labelled. Otherwise, only human
    raters, the three metrics most similar to human raters, and the extreme metrics are labelled.

    Parameters
    ----------
    result : Complementarity
        Result of `complementarity`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    InputError
        If fewer than four raters rank all systems, so that there are no coordinates.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> judges_map(result).to_dict()["title"]
    'Map of the raters'
    """
    _refuse_empty(
        result.coordinates,
        "judges_map: fewer than four raters ranked all systems of all items, so there are no coordinates",
    )
    return theme.apply_theme(
        places(theme.embed_rows(result.coordinates), result, width=width),
        title="Map of the raters",
    )


def places(data: Any, result: Complementarity, *, width: float, named: Sequence[str] = (), metric: str = "") -> Any:
    """Draw the rows of `Complementarity.coordinates`, with the clusters and names in the result.

    `metric` is always labelled, in bold.
    """
    coordinate_rows = result.coordinates
    label_rows, axis_domains, plot_height = _layout_points(result, width, named)
    scales = [alt.Scale(domain=axis_domain, nice=False, zero=False) for axis_domain in axis_domains]
    variance_shares = [*result.components["explained_variance"], 0.0][:2]  # rankings of two systems have one component
    axes = [
        alt.Axis(
            title=f"Principal component {axis_index + 1} ({variance_share or 0:.0%} of variance)",
            titleAngle=-90 * axis_index,
            labels=False,
            ticks=False,
            grid=False,
        )
        for axis_index, variance_share in enumerate(variance_shares)
    ]
    kind_names_expression = "{" + ", ".join(f"{kind}: '{kind_name}'" for kind, kind_name in KINDS.items()) + "}"
    cluster_lookup = alt.LookupData(
        data=theme.embed_rows(result.clusters), key="rater", fields=["cluster", "stability"]
    )
    chart_with_lookups = (
        alt.Chart(data)
        .transform_lookup(lookup="rater", from_=cluster_lookup)
        .transform_lookup(
            lookup="rater",
            from_=alt.LookupData(data=theme.embed_rows(label_rows), key="rater", fields=list(labels.COLUMNS)),
        )
        .transform_calculate(who=f"{kind_names_expression}[datum.kind]")
    )
    base = chart_with_lookups.encode(
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
            alt.Tooltip("rater:N"),
            alt.Tooltip("cluster:N"),
            alt.Tooltip("stability:Q", format=".0%", title="stability of its cluster in resamples"),
        ],
    )
    has_few_raters = coordinate_rows.height <= NAMED
    metric_chart, human_chart = (base.transform_filter(f"datum.kind === '{kind}'") for kind in ("metric", "human"))
    position_channels = {
        "x": alt.X("x:Q", scale=scales[0], axis=axes[0]),
        "y": alt.Y("y:Q", scale=scales[1], axis=axes[1]),
    }
    is_labelled_expression = f"datum.named || {labels.is_chosen('rater')}"
    return alt.layer(
        metric_chart.mark_point(opacity=0.85 if has_few_raters else 0.6, size=70 if has_few_raters else 40),
        human_chart.mark_point(opacity=1, size=130),
        *labels.layers(chart_with_lookups, "rater", is_labelled_expression, **position_channels),
        params=[labels.metric_parameter(metric)],
        width=width,
        height=plot_height,
    )


def _layout_points(
    result: Complementarity, width: float, named_raters: Sequence[str]
) -> tuple[pl.DataFrame, list[list[float]], float]:
    """The rows of the raters with positions of labels, the ranges of both axes, and the height of the plot."""
    coordinate_rows = result.coordinates
    point_coordinates = coordinate_rows.select("x", "y").to_numpy()
    min_coordinates, max_coordinates = point_coordinates.min(axis=0), point_coordinates.max(axis=0)
    units_per_pixel = (max_coordinates - min_coordinates).max() / (width - 2 * MARGIN) or 1.0  # data units
    plot_size = np.array([width, max(width / 3, (max_coordinates - min_coordinates)[1] / units_per_pixel + 2 * MARGIN)])
    axis_units_per_pixel = units_per_pixel * np.array([1, -1])  # pixels are counted from the upper left corner
    upper_left_corner = (min_coordinates + max_coordinates - plot_size * axis_units_per_pixel) / 2
    rater_names = coordinate_rows["rater"].to_list()
    labelled_indices = (
        list(range(len(rater_names))) if len(rater_names) <= NAMED else _rows_to_label(result, named_raters)
    )
    label_columns = labels.columns(
        (point_coordinates - upper_left_corner) / axis_units_per_pixel / plot_size,
        rater_names,
        labelled_indices,
        height=plot_size[1],
        width=width,
    )
    axis_domains = np.sort([upper_left_corner, upper_left_corner + plot_size * axis_units_per_pixel], axis=0).T.tolist()
    return pl.DataFrame({"rater": rater_names, **label_columns}), axis_domains, float(plot_size[1])


def _rows_to_label(result: Complementarity, named_raters: Sequence[str]) -> list[int]:
    """Row numbers of the raters to label: human raters, and metrics that are named, extreme, or closest to human
    raters."""
    coordinate_rows = result.coordinates
    row_of_rater = {rater_name: row_index for row_index, rater_name in enumerate(coordinate_rows["rater"])}
    is_metric_row = coordinate_rows["kind"].to_numpy() == "metric"
    sorted_metric_rows = (
        result.raters.filter(kind="metric").drop_nulls("with_humans").sort("with_humans", maintain_order=True)
    )
    nearest_metric_names = [rater_name for rater_name in sorted_metric_rows["rater"] if rater_name in row_of_rater][
        :NEAREST
    ]
    named_row_indices = [
        row_of_rater[rater_name] for rater_name in [*named_raters, *nearest_metric_names] if rater_name in row_of_rater
    ]
    extreme_row_indices = [
        row_index
        for axis_name in "xy"
        for row_index in labels.extremes(np.where(is_metric_row, coordinate_rows[axis_name].to_numpy(), np.nan), 1)
    ]
    return list(dict.fromkeys([*np.flatnonzero(~is_metric_row).tolist(), *named_row_indices, *extreme_row_indices]))


def complementarity_averages(result: Complementarity, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Mean complementarity of two human aspects, of a human aspect and a metric, and of two metrics, with intervals.

    Parameters
    ----------
    result : Complementarity
        Result of `complementarity`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> len(complementarity_averages(result).to_dict()["layer"])
    3
    """
    return theme.apply_theme(
        averages(theme.embed_rows(result.averages)), title="Mean complementarity of two raters", width=width
    )


def averages(data: Any) -> Any:
    """Draw the rows of `Complementarity.averages`."""
    labels_expression = (
        "{" + ", ".join(f"'{kind_pair}': '{kind_pair_label}'" for kind_pair, kind_pair_label in AVERAGES.items()) + "}"
    )
    base = (
        alt.Chart(data)
        .transform_filter("isValid(datum.complementarity)")
        .transform_calculate(between=f"{labels_expression}[datum.kinds]")
    )
    kind_pair_channel = alt.Y("between:N", sort=list(AVERAGES.values()))
    return alt.layer(
        alt.Chart(data).mark_rule(color=theme.GREY, strokeDash=[3, 3]).encode(x=alt.datum(0.5)),
        base.transform_filter("isValid(datum.complementarity_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=alt.X("complementarity_low:Q"), x2=alt.X2("complementarity_high:Q"), y=kind_pair_channel),
        base.mark_point(color=theme.BLUE, opacity=1).encode(
            x=alt.X(
                "complementarity:Q",
                title="Complementarity (dashed: unrelated)",
                scale=alt.Scale(zero=True),
            ),
            y=kind_pair_channel,
            tooltip=[
                alt.Tooltip("between:N"),
                *theme.interval_tooltips("complementarity", ".3f"),
                alt.Tooltip("pairs:Q"),
            ],
        ),
        height=alt.Step(theme.ROW),
    )


def _refuse_empty(frame: pl.DataFrame, message: str) -> None:
    if frame.is_empty():
        raise InputError(f"{message}; see the table left_out of the result")
