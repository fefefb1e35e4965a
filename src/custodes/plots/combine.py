"""Figures of a combined metric: comparison of methods, weights, costs, pruning, and favoritism."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.combining.combine import Combine
from custodes.combining.methods import BEST, METHODS
from custodes.combining.trial import STATISTICS
from custodes.errors import InputError
from custodes.plots.choice import select_aspect, title_with_aspect
from custodes.plots.favoritism import MEAN, accuracy_encoding

LABELS = {method.name: method.label for method in METHODS.values()}
"""Displayed names of the methods of combining, by method."""

COLOURS = (theme.ORANGE, theme.SKY, theme.BLUE, theme.GREEN, theme.VERMILION, theme.PURPLE)
SHAPES = ("circle", "diamond")
SINGLE = f"datum.method === '{BEST.name}'"
WEIGHT, IMPORTANCE = "Weight of the normalised metric", "Importance: proportion of the gain of all splits"
MOST = 25
"""Maximum number of weights in the figure. The largest absolute weights are shown, and the number of the others."""
CLEAR = ("interval excludes 0", "not significant")
KEPT = ("kept", "not kept")
HOLLOW = "rgba(0,114,178,0.08)"
HEIGHT = 240
LOG_AXIS_RATIO = 50.0
"""Ratio of the largest to the smallest total cost above which the cost axis is logarithmic."""
NARROWEST = 230
"""Width in pixels of a plot on a phone. The labels of the cost curve are placed for this width."""


def method_comparison(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of the objective on held-out outputs for each method of combining, the highest first.

    The dashed line is the best single metric, which is selected on the training data.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> made = cu.combine(cu.read("demo"), target="fluency", method=["ridge", "best"], repeats=1, resamples=0)
    >>> method_comparison(made).to_dict()["title"]
    'Ways of combining metrics (fluency)'
    """
    rows, target = select_aspect(result.comparison, target, function_name="method_comparison", column_name="target")
    return theme.apply_theme(
        methods(theme.embed_rows(rows), objective=objective_of(result)),
        dark=dark,
        title=title_with_aspect("Ways of combining metrics", target),
        width=width,
    )


def objective_of(result: Combine) -> str:
    """The objective of the fit, whose scores the figures show."""
    return result.model.objective


def axis_of(objective: str) -> str:
    """The title of the axis with the scores."""
    return f"{Combine.table_declarations()['comparison'].column(objective).label} with human ratings, held out"


def methods(data: Any, *, objective: str) -> Any:
    """Draw the rows of `Combine.comparison` of one target."""
    base = _add_method_labels(alt.Chart(data).transform_filter(f"isValid(datum.{objective})"))
    y = alt.Y("what:N", sort=alt.EncodingSortField(field=objective, op="max", order="descending"))
    colour_channel = alt.condition(SINGLE, alt.value(theme.ORANGE), alt.value(theme.BLUE))
    make_x = partial(alt.X, scale=alt.Scale(zero=False, nice=True), title=axis_of(objective))
    low_name, high_name = f"{objective}_low", f"{objective}_high"
    tooltips = [
        alt.Tooltip("method:N"),
        *theme.number_tooltips(".3f", *dict.fromkeys((objective, low_name, high_name, *STATISTICS))),
        alt.Tooltip("metrics_used:Q", format=".3~g", title="metrics used"),
    ]
    return alt.layer(
        base.transform_filter(SINGLE)
        .mark_rule(color=theme.ORANGE, strokeDash=[3, 3])
        .encode(x=make_x(f"{objective}:Q")),
        base.transform_filter(f"isValid(datum.{low_name})")
        .mark_rule(**theme.WHISKER)
        .encode(x=make_x(f"{low_name}:Q"), x2=alt.X2(f"{high_name}:Q"), y=y, color=colour_channel),
        base.mark_point(opacity=1).encode(x=make_x(f"{objective}:Q"), y=y, color=colour_channel, tooltip=tooltips),
        height=alt.Step(1.3 * theme.ROW),
    )


def combination_weights(
    result: Combine,
    *,
    target: str | None = None,
    width: int = theme.PAGE_WIDTH,
    dark: bool = False,
) -> alt.TopLevelMixin:
    """Weights of metrics in the saved model: the 25 largest weights, and the number of the remaining weights.

    A model that consists only of boosted trees has importances instead of weights.

    Hollow points have an interval that contains 0. Importances have no intervals. Weights of methods that are too slow
    to refit have no intervals either. If no weight has an interval, all points are filled.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> made = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0)
    >>> combination_weights(made).to_dict()["title"]
    'Weights of the combined metric (fluency)'
    """
    rows, target = select_aspect(result.weights, target, function_name="combination_weights", column_name="target")
    rows = weight_rows(rows)
    label = IMPORTANCE if METHODS[result.model.method].family == "importances" else WEIGHT
    chart = weights(theme.embed_rows(rows), has_intervals=rows["low"].count() > 0, label=label)
    return theme.apply_theme(
        chart, dark=dark, title=title_with_aspect("Weights of the combined metric", target), width=width
    )


def weights(data: Any, *, has_intervals: bool, label: str = WEIGHT) -> Any:
    """Draw the rows of `weight_rows` of one target."""
    base = alt.Chart(data).transform_calculate(clear="datum.low > 0 || datum.high < 0 ? '{}' : '{}'".format(*CLEAR))
    metric_channel = alt.Y("metric:N", sort=alt.EncodingSortField(field="place", op="min", order="ascending"))
    defined_chart = base.transform_filter("isValid(datum.value)")
    return alt.layer(
        alt.Chart(data).mark_rule(color=theme.GREY, strokeDash=[3, 3]).encode(x=alt.datum(0)),
        defined_chart.transform_filter("isValid(datum.low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=metric_channel),
        defined_chart.mark_point(opacity=1, strokeWidth=1.4).encode(
            x=alt.X("value:Q", title=label),
            y=metric_channel,
            stroke=alt.value(theme.BLUE),
            fill=_fill_channel("clear", CLEAR) if has_intervals else alt.value(theme.BLUE),
            tooltip=[alt.Tooltip("metric:N"), *theme.number_tooltips(".3f", "value", "low", "high")],
        ),
        base.transform_filter("isValid(datum.rest)")
        .mark_text(align="right", fontStyle="italic")
        .encode(x=alt.value("width"), y=metric_channel, text=alt.Text("rest:N")),
        height=alt.Step(theme.ROW),
    )


def weight_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The largest weights of each target, and one row for all smaller weights. Columns are target, metric, value, low,
    high, place and rest (a text on the size of the smaller weights)."""
    rows = table.select(
        "target", "metric", value="weight", low="weight_low", high="weight_high", rest=pl.lit(None, pl.String)
    )
    frames = [rows.head(0)]
    for (target,), target_rows in rows.group_by("target", maintain_order=True):
        ordered_rows = target_rows.sort(pl.col("value").abs(), descending=True, maintain_order=True)
        shown_rows = ordered_rows.filter(pl.col("value") != 0).head(MOST)
        n_omitted_metrics = target_rows.height - shown_rows.height
        frames.append(shown_rows)
        if n_omitted_metrics:
            largest_omitted_weight, omits_several = abs(ordered_rows["value"][shown_rows.height]), n_omitted_metrics > 1
            omitted_size_text = (
                f"{'at most ' if omits_several else ''}{largest_omitted_weight:.2g} in size"
                if largest_omitted_weight
                else "no weight"
            )
            omission_columns = {
                "target": [target],
                "metric": [f"{n_omitted_metrics} other{'s' if omits_several else ''}"],
                "rest": [omitted_size_text],
            }
            frames.append(pl.DataFrame(omission_columns))
    return pl.concat(frames, how="diagonal").with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("target"))


def cost_curve(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Held-out objective by budget, with metrics added to ridge regression in the order of gain per cost.

    The line has a step for each added metric, labelled with the name of the metric. The band shows intervals. If the
    raters have no costs, each metric costs 1. `OptionError` is raised if the target is unknown.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
    >>> made = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0)
    >>> cost_curve(made).to_dict()["title"]
    'Agreement by cost (fluency)'
    """
    rows, target = select_aspect(result.path, target, function_name="cost_curve", column_name="target")
    return theme.apply_theme(
        costs(theme.embed_rows(cost_rows(rows)), log=has_wide_cost_range(rows), objective=objective_of(result)),
        dark=dark,
        title=title_with_aspect("Agreement by cost", target),
        width=width,
    )


def costs(data: Any, *, log: bool, objective: str) -> Any:
    """Draw the rows of `cost_rows` of one target."""
    base = (
        alt.Chart(data)
        .transform_filter("isValid(datum.score)")
        .transform_calculate(top="isValid(datum.score_high) ? datum.score_high : datum.score")
    )
    cost_scale = alt.Scale(type="log", nice=False, padding=8) if log else alt.Scale(zero=True, nice=False, padding=8)
    x = alt.X("total_cost:Q", title="Budget: total cost", scale=cost_scale, axis=alt.Axis(format="~g", grid=not log))
    make_y = partial(alt.Y, scale=alt.Scale(zero=False), axis=alt.Axis(title=axis_of(objective), titleAngle=-90))
    y_channels = {"y": make_y("score_low:Q"), "y2": "score_high:Q"}
    tooltips = [
        alt.Tooltip("step:Q"),
        alt.Tooltip("metric:N", title="added"),
        alt.Tooltip("cost:Q", format=".3~g"),
        alt.Tooltip("total_cost:Q", format=".3~g", title="total cost"),
        *theme.number_tooltips(".3f", "score", "score_low", "score_high"),
        alt.Tooltip("chosen:Q", format=".0%", title="folds that select the metric within this cost"),
    ]
    interval_chart = base.transform_filter("isValid(datum.score_low)")
    label_angle = alt.expr(f"width < {labels.NARROW} ? 270 : 315")
    return alt.layer(
        interval_chart.mark_area(opacity=0.15, interpolate="step-after", color=theme.BLUE).encode(x=x, **y_channels),
        interval_chart.mark_rule(opacity=1, color=theme.BLUE).encode(x=x, **y_channels),
        base.mark_rule(color=theme.GREY, opacity=0.5).encode(
            x=x, x2=alt.X2("name_x:Q"), y=make_y("top:Q"), y2=alt.Y2("name_y:Q")
        ),
        base.mark_line(opacity=0.8, interpolate="step-after", color=theme.BLUE).encode(x=x, y=make_y("score:Q")),
        base.mark_point(opacity=1, size=35, color=theme.BLUE).encode(x=x, y=make_y("score:Q"), tooltip=tooltips),
        base.mark_text(align="left", angle=label_angle, dx=3, dy=-2, limit=150).encode(
            x=alt.X("name_x:Q", scale=cost_scale), y=make_y("name_y:Q"), text=alt.Text("metric:N")
        ),
        height=HEIGHT,
    )


def has_wide_cost_range(path_rows: pl.DataFrame) -> bool:
    """Whether the range of total costs needs a logarithmic axis."""
    total_costs = path_rows["total_cost"].to_numpy()
    return bool(total_costs.size and total_costs.max() > LOG_AXIS_RATIO * total_costs.min())


def cost_rows(path_rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the path, with positions of labels (name_x and name_y) above the curve and without overlap."""
    is_log_scale = has_wide_cost_range(path_rows)
    frames = [path_rows.head(0).with_columns(name_x=pl.lit(0.0), name_y=pl.lit(0.0))]
    for _, target_rows in path_rows.group_by("target", maintain_order=True):
        total_costs = target_rows["total_cost"].to_numpy()
        x_positions = np.log10(total_costs) if is_log_scale else total_costs
        x_span = x_positions.max() - (x_positions.min() if is_log_scale else 0.0)
        label_x_positions = labels.separate_positions(
            x_positions, gap=x_span * min(labels.LINE / NARROWEST, 1 / max(1, len(x_positions) - 1))
        )
        scores_and_bounds = target_rows.select("score", "score_low", "score_high").to_numpy()
        defined_scores = scores_and_bounds[np.isfinite(scores_and_bounds)]
        label_y = float(defined_scores.max() + 0.08 * np.ptp(defined_scores)) if defined_scores.size else None
        label_x_series = pl.Series(10.0**label_x_positions if is_log_scale else label_x_positions)
        frames.append(target_rows.with_columns(name_x=label_x_series, name_y=pl.lit(label_y, dtype=pl.Float64)))
    return pl.concat(frames)


def pruning_curve(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Held-out objective by number of metrics in backward elimination; a filled point marks the selected number.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
    InputError
        If no method of the result prunes metrics.
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> made = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0)
    >>> pruning_curve(made)
    Traceback (most recent call last):
    custodes.errors.InputError: pruning_curve: no metric was pruned; call combine with method='xgboost-pruned'
    """
    if result.pruning.is_empty():
        raise InputError("pruning_curve: no metric was pruned; call combine with method='xgboost-pruned'")
    rows, target = select_aspect(result.pruning, target, function_name="pruning_curve", column_name="target")
    return theme.apply_theme(
        pruning_line(theme.embed_rows(rows), objective=objective_of(result)),
        dark=dark,
        title=title_with_aspect("Backward elimination of metrics", target),
        width=width,
    )


def pruning_line(data: Any, *, objective: str) -> Any:
    """Draw the rows of `Combine.pruning` of one target."""
    base = (
        alt.Chart(data)
        .transform_filter("isValid(datum.score)")
        .transform_window(
            rank="row_number()",
            sort=[alt.SortField("score", order="descending"), alt.SortField("metrics", order="ascending")],
        )
        .transform_calculate(kept="datum.rank === 1 ? '{}' : '{}'".format(*KEPT))
    )
    x = alt.X(
        "metrics:Q", title="Metrics in the model", scale=alt.Scale(zero=False, padding=10), axis=alt.Axis(format="d")
    )
    y = alt.Y("score:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=axis_of(objective), titleAngle=-90))
    tooltips = [
        alt.Tooltip("metrics:Q"),
        *theme.number_tooltips(".3f", "score"),
        alt.Tooltip("removed:N", title="removed next"),
    ]
    return alt.layer(
        base.mark_line(opacity=0.5, color=theme.BLUE).encode(x=x, y=y),
        base.mark_point(opacity=1, strokeWidth=1.4).encode(
            x=x, y=y, stroke=alt.value(theme.BLUE), fill=_fill_channel("kept", KEPT), tooltip=tooltips
        ),
        height=HEIGHT,
    )


def accuracy_and_favoritism(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Sample accuracy and mean |Favi-Score| of the errors of each method of combining, on held-out outputs.

    If a method makes fewer errors, the mean |Favi-Score| is larger by chance alone.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
    InputError
        If the result has no favoritism, for example because the human ratings are verdicts.
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> made = cu.combine(cu.read("demo"), target="fluency", method=["ridge", "best"], repeats=1, resamples=0)
    >>> accuracy_and_favoritism(made).to_dict()["title"]
    'Favoritism and accuracy (fluency)'
    """
    if result.favoritism.is_empty():
        raise InputError("accuracy_and_favoritism: the result has no favoritism of the methods; see its notes")
    rows, target = select_aspect(
        result.favoritism, target, function_name="accuracy_and_favoritism", column_name="target"
    )
    return theme.apply_theme(
        favoritism_points(theme.embed_rows(rows), result),
        dark=dark,
        title=title_with_aspect("Favoritism and accuracy", target),
        width=width,
    )


def favoritism_points(data: Any, result: Combine) -> Any:
    """Draw the rows of `Combine.favoritism` of one target, with the methods in the result."""
    label_colour_shape_rows = [
        (method_label, COLOURS[style_index % len(COLOURS)], SHAPES[style_index // len(COLOURS)])
        for style_index, (method_name, method_label) in enumerate(LABELS.items())
        if method_name in result.favoritism["method"]
    ]
    method_labels, colours, shapes = (list(style_column) for style_column in zip(*label_colour_shape_rows, strict=True))
    legend_options: dict[str, Any] = {"title": None, "legend": alt.Legend(columns=2, labelLimit=200, symbolOpacity=1)}
    colour_channel = alt.Color("what:N", scale=alt.Scale(domain=method_labels, range=colours), **legend_options)
    shape_channel = alt.Shape("what:N", scale=alt.Scale(domain=method_labels, range=shapes), **legend_options)
    point_chart, x, tooltips = accuracy_encoding(data, "method")
    base = _add_method_labels(point_chart)
    make_y = partial(alt.Y, scale=alt.Scale(zero=True), axis=alt.Axis(title=MEAN, titleAngle=-90))
    return alt.layer(
        base.transform_filter("isValid(datum.mean_abs_favi_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=x, y=make_y("mean_abs_favi_low:Q"), y2=alt.Y2("mean_abs_favi_high:Q"), color=colour_channel),
        base.mark_point(opacity=1).encode(
            x=x, y=make_y("mean_abs_favi:Q"), color=colour_channel, shape=shape_channel, tooltip=tooltips
        ),
        height=HEIGHT,
    )


def _add_method_labels(chart: Any) -> Any:
    """The chart with an additional column `what`, which holds the displayed name of the method."""
    return chart.transform_calculate(what=f"{json.dumps(LABELS)}[datum.method]")


def _fill_channel(field: str, readings: tuple[str, str]) -> Any:
    """The scale that maps the first of the readings to filled points and the second to hollow points."""
    return alt.Fill(
        f"{field}:N",
        title=None,
        scale=alt.Scale(domain=list(readings), range=[theme.BLUE, HOLLOW]),
        legend=alt.Legend(symbolStrokeColor=theme.BLUE, symbolOpacity=1),
    )
