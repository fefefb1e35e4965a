"""Figures: lasso paths of the raters, and forward selection of metrics."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.plots.choice import select_rows, title_with_aspect

HEIGHT = 260
NAMED = 5
"""Number of labelled metrics on the lasso paths: those with the largest weights. Human aspects are all labelled."""
BESIDE = 14
"""Distance in pixels between the end of the lasso paths and the labels."""
PENALTY = "Penalty α (stronger ← → weaker)"
CLEAR = ("interval of the gain above 0", "contains 0, or no interval", "below 0")
FILLS, STROKES = (theme.BLUE, "rgba(0,114,178,0.08)", theme.VERMILION), (theme.BLUE, theme.BLUE, theme.VERMILION)


def lasso_paths(result: Ceiling, target: str, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Lasso weights of metrics (grey) and of other human aspects (coloured), by decreasing penalty.

    A rater that enters the model early and keeps a large weight contains information that the other raters lack. Human
    aspects and the metrics with the largest weights are labelled.

    Parameters
    ----------
    result : Ceiling
        Result of `ceiling`.
    target : str
        Aspect to draw.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1)
    >>> lasso_paths(result, "fluency").to_dict()["title"]
    'Lasso weights of the raters (fluency)'
    """
    return theme.apply_theme(
        paths(theme.embed_rows(select_rows(result.lasso, "target", target, function_name="lasso_paths")), result),
        title=title_with_aspect("Lasso weights of the raters", target),
        width=width,
    )


def paths(data: Any, result: Ceiling) -> Any:
    """Draw the rows of `Ceiling.lasso` of one target, with positions of labels that are computed from the result."""
    smallest_alpha, largest_alpha = (float(result.lasso["alpha"].min()), float(result.lasso["alpha"].max()))  # type: ignore[arg-type]
    x = alt.X(
        "alpha:Q",
        title=PENALTY,
        scale=alt.Scale(type="log", domain=[largest_alpha, smallest_alpha], nice=False),
        axis=power_of_ten_axis(),
    )
    weight_channel = alt.Y("weight:Q", title="Standardised weight", axis=alt.Axis(titleAngle=-90))
    colour_channel = alt.Color("rater:N", legend=None)
    tooltips = theme.column_tooltips(result.table_declarations()["lasso"], "rater", "alpha", "weight")
    base = alt.Chart(data)
    is_metric_expression, is_human_expression = (f"datum.kind === '{kind}'" for kind in ("metric", "human"))
    labelled_line_chart = (
        base.transform_calculate(key="datum.target + '\\n' + datum.rater")
        .transform_joinaggregate(least="min(alpha)")
        .transform_filter("datum.alpha === datum.least")
        .transform_lookup(
            lookup="key",
            from_=alt.LookupData(data=theme.embed_rows(path_names(result)), key="key", fields=["name_y"]),
        )
        .transform_filter("isValid(datum.name_y)")
    )
    label_channels = {"x": alt.value("width"), "y": alt.Y("name_y:Q"), "text": alt.Text("rater:N")}
    return alt.layer(
        base.transform_filter(is_metric_expression)
        .mark_line(color=theme.GREY, opacity=0.6, strokeWidth=1)
        .encode(x=x, y=weight_channel, detail=alt.Detail("rater:N"), tooltip=tooltips),
        base.transform_filter(is_human_expression)
        .mark_line(strokeWidth=2.5)
        .encode(x=x, y=weight_channel, color=colour_channel, tooltip=tooltips),
        labelled_line_chart.mark_rule(color=theme.GREY, x2Offset=BESIDE).encode(
            x=x, x2="alpha", y=weight_channel, y2=alt.Y2("name_y:Q")
        ),
        labelled_line_chart.transform_filter(is_metric_expression)
        .mark_text(align="left", dx=BESIDE + 2)
        .encode(**label_channels),
        labelled_line_chart.transform_filter(is_human_expression)
        .mark_text(align="left", dx=BESIDE + 2, fontWeight="bold")
        .encode(**label_channels, color=colour_channel),
        height=HEIGHT,
    )


def path_names(result: Ceiling) -> pl.DataFrame:
    """Positions of the labels of the lasso paths without overlap.

    The columns are key (target, line break, rater) and name_y.
    """
    path_end_rows = (
        result.lasso.drop_nulls("weight")
        .with_columns(
            size=pl.col("weight").abs().max().over("target", "rater"),
            gap=(pl.col("weight").max() - pl.col("weight").min()).over("target")
            * (1.25 * labels.LINE / HEIGHT),  # the axis extends beyond the data
        )
        .filter(pl.col("alpha") == pl.col("alpha").min())
    )
    size_rank_expression = pl.col("size").rank("ordinal", descending=True).over("target", "kind")
    labelled_end_rows = path_end_rows.filter(
        (pl.col("size") > 0) & ((pl.col("kind") == "human") | (size_rank_expression <= NAMED))
    )
    label_y_positions_of_target = [
        labels.separate_positions(target_end_rows["weight"].to_numpy(), gap=float(target_end_rows["gap"][0]))
        for _, target_end_rows in labelled_end_rows.group_by("target", maintain_order=True)
    ]
    return labelled_end_rows.select(
        key=pl.format("{}\n{}", "target", "rater"),
        name_y=pl.Series(np.concatenate([*label_y_positions_of_target, np.empty(0)])),
    )


def forward_path(result: Ceiling, target: str, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Held-out tau-b in forward selection of metrics.

    Filled blue points are steps whose interval of the gain is above 0. For vermilion points, this interval is below 0.

    Parameters
    ----------
    result : Ceiling
        Result of `ceiling`.
    target : str
        Aspect to draw.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=2)
    >>> forward_path(result, "fluency").to_dict()["title"]
    'Forward selection of metrics (fluency)'
    """
    return theme.apply_theme(
        steps(theme.embed_rows(select_rows(result.forward, "target", target, function_name="forward_path"))),
        title=title_with_aspect("Forward selection of metrics", target),
        width=width,
    )


def steps(data: Any) -> Any:
    """Draw the rows of `Ceiling.forward` of one target."""
    low_expression, high_expression = (
        f"(isValid(datum.gain) ? datum.gain_{bound_name} : datum.kendall_{bound_name})"
        for bound_name in ("low", "high")
    )
    significance_index_expression = (
        f"!isValid({low_expression}) ? 1 : {low_expression} > 0 ? 0 : {high_expression} < 0 ? 2 : 1"
    )
    base = (
        alt.Chart(data)
        .transform_filter("isValid(datum.kendall)")
        .transform_calculate(
            who="datum.step === 0 ? 'in use' : datum.metric",
            clear=f"{list(CLEAR)}[{significance_index_expression}]",
        )
    )
    x = alt.X(
        "who:N",
        sort=alt.EncodingSortField(field="step", op="min", order="ascending"),
        title="Metric added",
        axis=alt.Axis(labelAngle=-40, labelOverlap=False, labelLimit=140),
    )
    make_y = partial(alt.Y, scale=alt.Scale(zero=False), axis=alt.Axis(title="Kendall τ-b, held out", titleAngle=-90))
    tooltips = theme.column_tooltips(
        Ceiling.table_declarations()["forward"], "step", "metric", "kendall", "gain", "chosen"
    )
    fill_channel, stroke_channel = (
        channel_class(
            "clear:N",
            title=None,
            scale=alt.Scale(domain=list(CLEAR), range=list(colours)),
            legend=alt.Legend(symbolOpacity=1, labelLimit=300),
        )
        for channel_class, colours in ((alt.Fill, FILLS), (alt.Stroke, STROKES))
    )
    return alt.layer(
        base.mark_line(opacity=0.5, color=theme.BLUE).encode(x=x, y=make_y("kendall:Q")),
        base.transform_filter("isValid(datum.kendall_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=x, y=make_y("kendall_low:Q"), y2=alt.Y2("kendall_high:Q")),
        base.mark_point(opacity=1, strokeWidth=1.4).encode(
            x=x, y=make_y("kendall:Q"), stroke=stroke_channel, fill=fill_channel, tooltip=tooltips
        ),
        height=HEIGHT,
    )


def power_of_ten_axis() -> Any:
    """An axis with ticks at powers of ten."""
    return alt.Axis(format="~g", values=[10.0**exponent for exponent in range(-9, 7)], grid=False)
