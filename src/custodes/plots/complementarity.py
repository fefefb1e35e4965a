"""Figures: complementarity of raters as a heat map, as a map of principal components, and as averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.data.panel import label_codes
from custodes.errors import InputError
from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.choice import select_rows
from custodes.plots.drawable import drawable
from custodes.stats.ordination import leaf_order

KINDS = ("human", "metric")
SHAPES = ("human raters", "metrics")
"""Texts in the legend of shapes, one for each kind of rater."""
CELL_MIN, CELL_NAMED, CELL_MAX = 5.0, 13.0, 22.0
"""Width in pixels of a cell of the heat map: minimum without labels, minimum with labels, and maximum."""
GAP = " "
"""Label of the empty row and column between human raters and metrics."""
SAME, UNRELATED, OPPOSITE = theme.BLUE, "rgba(0,114,178,0)", theme.VERMILION
ENOUGH = 0.995
"""Cumulative proportion of explained variance at which the curve ends."""
NAMED, NEAREST = 25, 3
"""Maximum number of raters for which the map labels every rater; and number of metrics to label if there are more
raters.

With more raters, only human raters, the three metrics closest to human raters, and extreme metrics are labelled.
"""
LABELLED = 100
"""Maximum number of raters for which every row of the heat map is labelled."""
AVERAGES = {
    "human-human": "pairs of human-rated aspects",
    "human-metric": "human-rated aspects and metrics",
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
    """Draw the rows of `Complementarity.pairs`: one triangle of a matrix, in which similar raters are adjacent."""
    human_raters, metric_raters = (_raters_by_similarity(result, kind) for kind in KINDS)
    ordered_rater_rows = pl.DataFrame({"rater": [*human_raters, *metric_raters]}).with_row_index("position")
    position_lookup = alt.LookupData(data=theme.embed_rows(ordered_rater_rows), key="rater", fields=["position"])
    axis_rater_names = drawable([*human_raters, *([GAP] if human_raters and metric_raters else []), *metric_raters])
    has_all_labels = len(ordered_rater_rows) <= LABELLED
    cell_width = min(
        CELL_MAX, max(CELL_NAMED if has_all_labels else CELL_MIN, width / max(1, len(axis_rater_names) - 1))
    )
    axis_options: dict[str, Any] = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelOverlap": (False if has_all_labels else "greedy"),
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
        .mark_rect(aria=has_all_labels)  # no labels for screen readers of thousands of cells
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


def _raters_by_similarity(result: Complementarity, kind: str) -> list[str]:
    """The raters of a kind that have a ranking, in an order in which similar raters are adjacent."""
    rows_with_ranking = result.raters.filter(pl.any_horizontal(pl.col("with_humans", "with_metrics").is_not_null()))
    # Sorted, so that tied distances do not depend on the order of input.
    rater_names = sorted(rows_with_ranking.filter(kind=kind)["rater"])
    pair_rows = result.pairs.filter(kind_a=kind, kind_b=kind).drop_nulls("complementarity")
    indices_a, indices_b = (label_codes(pair_rows[column_name], rater_names) for column_name in ("rater_a", "rater_b"))
    distance_matrix = np.full((len(rater_names), len(rater_names)), np.nan)
    distance_matrix[indices_a, indices_b] = distance_matrix[indices_b, indices_a] = pair_rows["complementarity"]
    return [rater_names[rater_index] for rater_index in leaf_order(distance_matrix)]


def explained_variance(result: Complementarity, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Proportion of variance that each principal component of the rankings explains, and cumulative proportion.

    The ranking that all raters share is subtracted first, so the figure does not show whether raters agree. Bars show
    the proportion of each component. The line shows the cumulative proportion. The dashed grey line shows the
    cumulative proportion for raters with random rankings. The solid grey line marks 80 %.

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
    if result.components.is_empty():
        raise InputError(
            "explained_variance: fewer than two raters ranked all systems of all items, so there are no components; "
            "see the table left_out of the result"
        )
    return theme.apply_theme(
        variance_curve(theme.embed_rows(result.components)),
        title="Number of dimensions in which raters differ",
        width=width,
    )


def variance_curve(data: Any) -> Any:
    """Draw the rows of `Complementarity.components`."""
    line_labels = ("cumulative", "cumulative, random rankings", "each component")
    colour_channel = theme.category_colour(
        "line",
        dict(zip(line_labels, (theme.BLUE, theme.GREY, theme.SKY), strict=True)),
        legend=alt.Legend(columns=2, symbolOpacity=1),
    )
    base_chart = (
        alt.Chart(data)
        .transform_filter(f"datum.cumulative - datum.explained_variance < {ENOUGH}")
        .transform_filter("datum.explained_variance > 1e-9")
    )
    x_channel = alt.X("component:O", title="Principal component", axis=alt.Axis(labelAngle=0))
    tooltips = [
        alt.Tooltip("component:Q"),
        alt.Tooltip("explained_variance:Q", format=".1%", title="proportion"),
        alt.Tooltip("cumulative:Q", format=".1%", title="cumulative"),
        alt.Tooltip("null_cumulative:Q", format=".1%", title="cumulative, random rankings"),
    ]
    return alt.layer(
        base_chart.transform_calculate(line=f"'{line_labels[2]}'")
        .mark_bar(width={"band": 0.6}, opacity=0.7)
        .encode(
            x=x_channel,
            y=alt.Y(
                "explained_variance:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="Variance explained", format="%", titleAngle=-90),
            ),
            color=colour_channel,
            tooltip=tooltips,
        ),
        alt.Chart(data).mark_rule(color=theme.GREY).encode(y=alt.YDatum(SHARE)),
        base_chart.transform_calculate(line=f"'{line_labels[1]}'")
        .mark_line(strokeDash=[5, 4])
        .encode(x=x_channel, y=alt.Y("null_cumulative:Q"), color=colour_channel),
        base_chart.transform_calculate(line=f"'{line_labels[0]}'")
        .mark_line(point={"opacity": 1, "size": 45}, opacity=0.9)
        .encode(x=x_channel, y=alt.Y("cumulative:Q"), color=colour_channel, tooltip=tooltips),
        height=HEIGHT,
    )


def judges_map(
    result: Complementarity,
    *,
    named: str | Sequence[str] = (),
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Map of the raters on the first two principal components.

    Raters with similar rankings are close to each other. The colour shows the cluster, and the shape shows the kind of
    rater. Both axes have the same scale. If there are at most 25 raters, every rater is labelled. Otherwise, only human
    raters, the three metrics most similar to human raters, the extreme metrics, and the raters in `named` are labelled.

    Parameters
    ----------
    result : Complementarity
        Result of `complementarity`.
    named : str or sequence of str, default ()
        Further raters to label.
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
    OptionError
        If a name is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> judges_map(result).to_dict()["title"]
    'Map of the raters'
    """
    coordinate_rows = result.coordinates.drop_nulls("x")
    if coordinate_rows.is_empty():
        raise InputError(
            "judges_map: fewer than four raters ranked all systems of all items, so there are no coordinates; see the "
            "table left_out of the result"
        )
    named_raters = [named] if isinstance(named, str) else list(named)
    for rater_name in named_raters:
        select_rows(coordinate_rows, "judges_map", rater=rater_name)
    point_coordinates = coordinate_rows.select("x", "y").to_numpy()
    min_coordinates, max_coordinates = point_coordinates.min(axis=0), point_coordinates.max(axis=0)
    units_per_pixel = (max_coordinates - min_coordinates).max() / (width - 2 * MARGIN) or 1.0
    plot_size = np.array([width, max(width / 3, (max_coordinates - min_coordinates)[1] / units_per_pixel + 2 * MARGIN)])
    half_extent = plot_size * units_per_pixel / 2
    centre = (min_coordinates + max_coordinates) / 2
    variance_shares = [*result.components["explained_variance"], 0.0][:2]  # rankings of two systems have one component
    x_channel, y_channel = (
        channel_class(
            f"{axis_name}:Q",
            scale=alt.Scale(domain=[axis_centre - half_range, axis_centre + half_range], nice=False, zero=False),
            axis=alt.Axis(
                title=f"Principal component {component_number} ({variance_share:.0%} of variance)",
                titleAngle=90 - 90 * component_number,
                labels=False,
                ticks=False,
                grid=False,
            ),
        )
        for channel_class, axis_name, component_number, axis_centre, half_range, variance_share in zip(
            (alt.X, alt.Y), "xy", (1, 2), centre, half_extent, variance_shares, strict=True
        )
    )
    base_chart = alt.Chart(
        theme.embed_rows(
            coordinate_rows.with_columns(
                **labels.columns(
                    (point_coordinates - centre) / (2 * half_extent) * [1, -1] + 0.5,  # from the upper left corner
                    coordinate_rows["rater"].to_list(),
                    _raters_to_label(result, coordinate_rows, named_raters),
                    height=plot_size[1],
                    width=width,
                )
            )
        )
    ).transform_calculate(who=f"datum.kind === 'human' ? '{SHAPES[0]}' : '{SHAPES[1]}'")
    point_chart = base_chart.encode(
        x=x_channel,
        y=y_channel,
        color=alt.Color("cluster:N", title="cluster", legend=alt.Legend(symbolOpacity=1)),
        shape=alt.Shape(
            "who:N",
            title=None,
            scale=alt.Scale(domain=list(SHAPES), range=["triangle-up", "circle"]),
            legend=alt.Legend(symbolFillColor=theme.GREY, symbolStrokeColor=theme.GREY, symbolOpacity=1),
        ),
        tooltip=[alt.Tooltip("rater:N"), alt.Tooltip("cluster:N")],
    )
    metric_chart, human_chart = (point_chart.transform_filter(f"datum.kind === '{kind}'") for kind in KINDS[::-1])
    metric_mark_options: dict[str, Any] = (
        {"opacity": 0.85, "size": 70} if coordinate_rows.height <= NAMED else {"opacity": 0.6, "size": 40}
    )
    return theme.apply_theme(
        alt.layer(
            metric_chart.mark_point(**metric_mark_options),
            human_chart.mark_point(opacity=1, size=130),
            *labels.layers(base_chart, "rater", "datum.named", x=x_channel, y=y_channel),
            params=[labels.metric_parameter()],
            width=width,
            height=plot_size[1],
        ),
        title="Map of the raters",
    )


def _raters_to_label(result: Complementarity, coordinate_rows: pl.DataFrame, named_raters: Sequence[str]) -> list[int]:
    """Row numbers of the raters to label: all raters if there are few. Otherwise, human raters are labelled, and
    metrics that are named, extreme, or closest to human raters."""
    if coordinate_rows.height <= NAMED:
        return list(range(coordinate_rows.height))
    rater_names, is_metric_row = coordinate_rows["rater"].to_list(), coordinate_rows["kind"].to_numpy() == "metric"
    metric_rows = result.raters.filter(pl.col("rater").is_in(rater_names), kind="metric").drop_nulls("with_humans")
    closest_metric_names = metric_rows.sort("with_humans", maintain_order=True)["rater"].head(NEAREST)
    x_extreme_indices, y_extreme_indices = (
        labels.extremes(np.where(is_metric_row, coordinate_rows[axis].to_numpy(), np.nan), 1) for axis in "xy"
    )
    return list(
        dict.fromkeys(
            [
                *np.flatnonzero(~is_metric_row).tolist(),
                *(rater_names.index(rater_name) for rater_name in [*named_raters, *closest_metric_names]),
                *x_extreme_indices,
                *y_extreme_indices,
            ]
        )
    )


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
    base_chart = (
        alt.Chart(data)
        .transform_filter("isValid(datum.complementarity)")
        .transform_calculate(between=f"{AVERAGES}[datum.kinds]")
    )
    kind_pair_channel = alt.Y("between:N", sort=list(AVERAGES.values()))
    return alt.layer(
        theme.reference_line(data, x=0.5),
        base_chart.transform_filter("isValid(datum.complementarity_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=alt.X("complementarity_low:Q"), x2=alt.X2("complementarity_high:Q"), y=kind_pair_channel),
        base_chart.mark_point(color=theme.BLUE, opacity=1).encode(
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
