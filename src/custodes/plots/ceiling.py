"""Figures: prediction of human ratings, information that metrics lack, lasso paths, release dates, and forward
selection."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.errors import InputError
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect

FEATURES = {"metrics": "all metrics", "humans": "other human aspects", "both": "both"}
BOUNDS = {"split_half": "half of the annotators by the other half", "attainable": "a perfect predictor"}
COLOURS = dict(
    zip(
        [*FEATURES.values(), *BOUNDS.values()],
        (theme.ORANGE, theme.BLUE, theme.GREEN, theme.GREY, theme.VERMILION),
        strict=True,
    )
)
LANE = 14
"""Width of a prediction bar in pixels."""
HEIGHT = 260
NAMED = 5
"""Number of labelled metrics on the lasso paths: the metrics with the largest weights. All human aspects are
labelled."""
BESIDE = 14
"""Distance in pixels between the end of the lasso paths and the labels."""
CLEAR = ("interval of the gain above 0", "contains 0, or no interval", "below 0")
FILLS, STROKES = (theme.BLUE, "rgba(0,114,178,0.08)", theme.VERMILION), (theme.BLUE, theme.BLUE, theme.VERMILION)


def prediction_bars(result: Ceiling, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Bars of Kendall's tau-b between human ratings and held-out predictions, for each aspect.

    The predictions are from all metrics, from the other human aspects, and from both. Whiskers are intervals. One tick
    marks how well one half of the annotators predicts the other half. Another tick marks the highest value that a
    perfect predictor can reach with this number of annotators.

    Parameters
    ----------
    result : Ceiling
        Result of `ceiling`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1, aspect="fluency")
    >>> prediction_bars(result).to_dict()["title"]
    'Prediction of human ratings'
    """
    return theme.apply_theme(
        bars(theme.embed_rows(result.prediction), result), title="Prediction of human ratings", width=width
    )


def bars(data: Any, result: Ceiling) -> Any:
    """Draw the rows of `Ceiling.prediction`, with the bounds in the result."""
    feature_sets = [feature_set for feature_set in FEATURES if feature_set in set(result.prediction["features"])]
    bound_names = list(BOUNDS) if result.annotators.height else []
    feature_labels = [FEATURES[feature_set] for feature_set in feature_sets]
    colour_channel = theme.category_colour(
        "what",
        {
            legend_label: COLOURS[legend_label]
            for legend_label in [*feature_labels, *(BOUNDS[bound_name] for bound_name in bound_names)]
        },
        legend=alt.Legend(columns=2, labelLimit=300, symbolOpacity=1),
    )
    target_channel = alt.Y("target:N", sort=None, scale=alt.Scale(paddingInner=0.25))
    lane_channel = alt.YOffset("what:N", sort=feature_labels, scale=alt.Scale(domain=feature_labels))
    base_chart = (
        alt.Chart(data)
        .transform_filter("isValid(datum.kendall)")
        .transform_calculate(what=f"{json.dumps(FEATURES)}[datum.features]")
    )
    declaration_of_table = result.table_declarations()
    annotator_chart = base_chart.transform_filter(f"datum.features === '{feature_sets[0]}'").transform_lookup(
        lookup="target",
        from_=alt.LookupData(
            data=theme.embed_rows(result.annotators),
            key="target",
            fields=[
                column_name
                for bound_name in bound_names
                for column_name in declaration_of_table["annotators"].column(bound_name).names
            ],
        ),
    )
    return alt.layer(
        base_chart.mark_bar(opacity=0.5).encode(
            x=alt.X("kendall:Q", title="Kendall τ-b with human ratings of held-out outputs"),
            y=target_channel,
            yOffset=lane_channel,
            color=colour_channel,
            tooltip=[
                alt.Tooltip("target:N"),
                alt.Tooltip("what:N", title="Predicted from"),
                *theme.column_tooltips(declaration_of_table["prediction"], "kendall"),
            ],
        ),
        base_chart.transform_filter("isValid(datum.kendall_low)")
        .mark_rule(**theme.WHISKER)
        .encode(
            x=alt.X("kendall_low:Q"),
            x2=alt.X2("kendall_high:Q"),
            y=target_channel,
            yOffset=lane_channel,
            color=colour_channel,
        ),
        *(
            annotator_chart.transform_filter(f"isValid(datum.{bound_name})")
            .transform_calculate(what=f"'{BOUNDS[bound_name]}'")
            .mark_tick(thickness=2.5, size=LANE * len(feature_sets), opacity=1)
            .encode(
                x=alt.X(f"{bound_name}:Q"),
                y=target_channel,
                color=colour_channel,
                tooltip=[
                    alt.Tooltip("target:N"),
                    alt.Tooltip("what:N", title="Bound"),
                    *theme.column_tooltips(declaration_of_table["annotators"], bound_name),
                ],
            )
            for bound_name in bound_names
        ),
        height=alt.Step(LANE * (len(feature_sets) + 1), **{"for": "position"}),
    )


def information_ratio(result: Ceiling, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Error of a lasso on metrics and other human aspects, divided by the error of a lasso on metrics alone.

    Values below 1 mean that the other human aspects contain information that the metrics lack. Each aspect has a line
    and a band. `InputError` is raised if annotators rated only one aspect.

    Parameters
    ----------
    result : Ceiling
        Result of `ceiling`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1)
    >>> information_ratio(result).to_dict()["title"]
    'Information in other aspects that metrics lack'
    """
    if result.information.is_empty():
        raise InputError(
            "information_ratio: the figure needs ratings of several aspects, and annotators rated only one aspect"
        )
    return theme.apply_theme(
        ratio_curve(theme.embed_rows(result.information)),
        title="Information in other aspects that metrics lack",
        width=width,
    )


def ratio_curve(data: Any) -> Any:
    """Draw the rows of `Ceiling.information`."""
    base_chart = alt.Chart(data).transform_filter("isValid(datum.mse_ratio)")
    x_channel = _penalty_channel(reverse=True)
    make_y = _y_channels("Error with other human aspects / without")
    colour_channel = alt.Color("target:N", title=None, legend=alt.Legend(symbolOpacity=1))
    return alt.layer(
        theme.reference_line(data, y=1),
        base_chart.transform_filter("isValid(datum.mse_ratio_low)")
        .mark_area(opacity=0.15)
        .encode(x=x_channel, y=make_y("mse_ratio_low:Q"), y2=alt.Y2("mse_ratio_high:Q"), color=colour_channel),
        base_chart.mark_line(point={"opacity": 1, "size": 25}).encode(
            x=x_channel,
            y=make_y("mse_ratio:Q"),
            color=colour_channel,
            tooltip=[
                alt.Tooltip("target:N"),
                *theme.column_tooltips(Ceiling.table_declarations()["information"], "alpha", "mse_ratio", "mse_both"),
            ],
        ),
        height=HEIGHT,
    )


def _y_channels(title: str) -> Callable[[str], alt.Y]:
    """A function that returns the y channel of a column; the title of the axis is horizontal."""
    return partial(alt.Y, scale=alt.Scale(zero=False), axis=alt.Axis(title=title, titleAngle=-90))


def _penalty_channel(**scale_options: Any) -> Any:
    return alt.X(
        "alpha:Q",
        title="Penalty α (stronger ← → weaker)",
        scale=alt.Scale(type="log", nice=False, **scale_options),
        axis=alt.Axis(format="~g", values=[10.0**tick_exponent for tick_exponent in range(-9, 7)], grid=False),
    )


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
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1, aspect="fluency")
    >>> lasso_paths(result, "fluency").to_dict()["title"]
    'Lasso weights of the raters (fluency)'
    """
    lasso_rows, target = select_rows(result.lasso, "lasso_paths", target=target)
    x_channel = _penalty_channel(domain=[lasso_rows["alpha"].max(), lasso_rows["alpha"].min()])
    weight_channel = alt.Y("weight:Q", title="Standardised weight", axis=alt.Axis(titleAngle=-90))
    colour_channel = alt.Color("rater:N", legend=None)
    tooltips = theme.column_tooltips(Ceiling.table_declarations()["lasso"], "rater", "alpha", "weight")
    line_chart, label_chart = (
        alt.Chart(theme.embed_rows(chart_rows)) for chart_rows in (lasso_rows, _labelled_path_ends(lasso_rows))
    )
    is_metric_expression, is_human_expression = (f"datum.kind === '{kind}'" for kind in ("metric", "human"))
    label_channels = {"x": alt.value("width"), "y": alt.Y("label_y:Q"), "text": alt.Text("rater:N")}
    chart = alt.layer(
        line_chart.transform_filter(is_metric_expression)
        .mark_line(color=theme.GREY, opacity=0.6, strokeWidth=1)
        .encode(x=x_channel, y=weight_channel, detail=alt.Detail("rater:N"), tooltip=tooltips),
        line_chart.transform_filter(is_human_expression)
        .mark_line(strokeWidth=2.5)
        .encode(x=x_channel, y=weight_channel, color=colour_channel, tooltip=tooltips),
        label_chart.mark_rule(color=theme.GREY, x2Offset=BESIDE).encode(
            x=x_channel, x2="alpha", y=weight_channel, y2=alt.Y2("label_y:Q")
        ),
        label_chart.transform_filter(is_metric_expression)
        .mark_text(align="left", dx=BESIDE + 2)
        .encode(**label_channels),
        label_chart.transform_filter(is_human_expression)
        .mark_text(align="left", dx=BESIDE + 2, fontWeight="bold")
        .encode(**label_channels, color=colour_channel),
        height=HEIGHT,
    )
    return theme.apply_theme(chart, title=title_with_aspect("Lasso weights of the raters", target), width=width)


def _labelled_path_ends(lasso_rows: pl.DataFrame) -> pl.DataFrame:
    """The ends of the labelled paths of one target, with positions `label_y` at which the labels do not overlap."""
    end_rows = lasso_rows.with_columns(size=pl.col("weight").abs().max().over("rater")).filter(
        pl.col("alpha") == pl.col("alpha").min()
    )
    size_rank = pl.col("size").rank("ordinal", descending=True).over("kind")
    labelled_rows = end_rows.filter((pl.col("size") > 0) & ((pl.col("kind") == "human") | (size_rank <= NAMED)))
    # The axis extends beyond the data.
    label_gap = float(np.ptp(lasso_rows["weight"].to_numpy())) * (1.25 * labels.LINE / HEIGHT)
    return labelled_rows.with_columns(
        label_y=pl.Series(labels.separate_positions(labelled_rows["weight"].to_numpy(), gap=label_gap))
    )


def release_history(result: Ceiling, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Held-out tau-b of predictions from the metrics that were released up to each date.

    Each aspect has a line with whiskers.

    Parameters
    ----------
    result : Ceiling
        Result of `ceiling`.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    InputError
        If the metrics have fewer than two release dates.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1, aspect="fluency")
    >>> release_history(result)
    Traceback (most recent call last):
    custodes.errors.InputError: release_history: fewer than two release dates; add the column date to the raters table
    """
    if result.history.is_empty():
        raise InputError("release_history: fewer than two release dates; add the column date to the raters table")
    return theme.apply_theme(
        release_lines(theme.embed_rows(result.history.with_columns(pl.col("newest").list.join(", "))), result),
        title="Prediction by release date of the metrics",
        width=width,
    )


def release_lines(data: Any, result: Ceiling) -> Any:
    """Draw the rows of `Ceiling.history`, with `newest` as text."""
    x_channel = alt.X("date:O", title=None)
    if result.history["date"].str.contains(r"^\d{4}(-\d\d){0,2}$").all():
        x_channel = alt.X("date:T", title=None, scale=alt.Scale(type="utc", padding=12))
    make_y = _y_channels("Kendall τ-b, held out")
    colour_channel = alt.Color("target:N", title=None, legend=alt.Legend(symbolOpacity=1))
    base_chart = alt.Chart(data).transform_filter("isValid(datum.kendall)")
    return alt.layer(
        base_chart.transform_filter("isValid(datum.kendall_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=x_channel, y=make_y("kendall_low:Q"), y2=alt.Y2("kendall_high:Q"), color=colour_channel),
        base_chart.mark_line(point={"opacity": 1, "size": 40}, opacity=0.85).encode(
            x=x_channel,
            y=make_y("kendall:Q"),
            color=colour_channel,
            tooltip=[
                alt.Tooltip("target:N"),
                alt.Tooltip(x_channel.shorthand, title="until"),
                *theme.column_tooltips(result.table_declarations()["history"], "newest", "kendall"),
            ],
        ),
        height=HEIGHT,
    )


def forward_path(result: Ceiling, target: str, *, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Held-out tau-b in forward selection of metrics.

    At filled blue points, the interval of the gain is above 0. At vermilion points, the interval of the gain is below
    0.

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
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=2, aspect="fluency")
    >>> forward_path(result, "fluency").to_dict()["title"]
    'Forward selection of metrics (fluency)'
    """
    return draw_selection(
        steps, "Forward selection of metrics", result.forward, "forward_path", size={"width": width}, target=target
    )


def steps(data: Any) -> Any:
    """Draw the rows of `Ceiling.forward` of one target."""
    low_expression, high_expression = (
        f"(isValid(datum.gain) ? datum.gain_{bound_suffix} : datum.kendall_{bound_suffix})"
        for bound_suffix in ("low", "high")
    )
    significance_index_expression = (
        f"!isValid({low_expression}) ? 1 : {low_expression} > 0 ? 0 : {high_expression} < 0 ? 2 : 1"
    )
    base_chart = (
        alt.Chart(data)
        .transform_filter("isValid(datum.kendall)")
        .transform_calculate(
            who="datum.step === 0 ? 'in use' : datum.metric",
            clear=f"{list(CLEAR)}[{significance_index_expression}]",
        )
    )
    x_channel = alt.X(
        "who:N",
        sort=alt.EncodingSortField(field="step", op="min", order="ascending"),
        title="Metric added",
        axis=alt.Axis(labelAngle=-40, labelOverlap=False, labelLimit=140),
    )
    make_y = _y_channels("Kendall τ-b, held out")
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
        base_chart.mark_line(opacity=0.5, color=theme.BLUE).encode(x=x_channel, y=make_y("kendall:Q")),
        base_chart.transform_filter("isValid(datum.kendall_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=x_channel, y=make_y("kendall_low:Q"), y2=alt.Y2("kendall_high:Q")),
        base_chart.mark_point(opacity=1, strokeWidth=1.4).encode(
            x=x_channel,
            y=make_y("kendall:Q"),
            stroke=stroke_channel,
            fill=fill_channel,
            tooltip=theme.column_tooltips(
                Ceiling.table_declarations()["forward"], "step", "metric", "kendall", "gain", "chosen"
            ),
        ),
        height=HEIGHT,
    )
