"""Figures of a combined metric: comparison of methods, and weights."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.answers.wording import plural
from custodes.combining.combine import Combine
from custodes.combining.methods import BEST, METHODS
from custodes.combining.trial import STATISTICS
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect

LABELS = {method.name: method.label for method in METHODS.values()}

SINGLE = f"datum.method === '{BEST.name}'"
WEIGHT, IMPORTANCE = "Weight of the normalised metric", "Importance: proportion of the total gain of the splits"
MOST = 25
"""Maximum number of weights in the figure. The figure shows the largest absolute weights, and the number of the
remaining weights."""
CLEAR = ("interval excludes 0", "not significant")
HOLLOW = "rgba(0,114,178,0.08)"


def method_comparison(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH
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
    >>> methods = ["ridge", "best"]
    >>> made = cu.combine(cu.read("demo"), target="fluency", method=methods, repeats=1, resamples=0, unseen="none")
    >>> method_comparison(made).to_dict()["title"]
    'Ways of combining metrics (fluency)'
    """
    return draw_selection(
        partial(methods, objective=result.model.objective),
        "Ways of combining metrics",
        result.comparison,
        "method_comparison",
        size={"width": width},
        target=target,
    )


def axis_of(objective: str) -> str:
    """The title of the axis with the scores."""
    return f"{Combine.table_declarations()['comparison'].column(objective).label} with human ratings, held out"


def methods(data: Any, *, objective: str) -> Any:
    """Draw the rows of `Combine.comparison` of one target."""
    base_chart = (
        alt.Chart(data)
        .transform_filter(f"isValid(datum.{objective})")
        .transform_calculate(what=f"{json.dumps(LABELS)}[datum.method]")
    )
    y_channel = alt.Y("what:N", sort=alt.EncodingSortField(field=objective, op="max", order="descending"))
    colour_channel = alt.ColorValue(theme.BLUE, condition={"test": SINGLE, "value": theme.ORANGE})
    make_x = partial(alt.X, scale=alt.Scale(zero=False, nice=True), title=axis_of(objective))
    return alt.layer(
        base_chart.transform_filter(SINGLE)
        .mark_rule(color=theme.ORANGE, strokeDash=[3, 3])
        .encode(x=make_x(f"{objective}:Q")),
        base_chart.transform_filter(f"isValid(datum.{objective}_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=make_x(f"{objective}_low:Q"), x2=alt.X2(f"{objective}_high:Q"), y=y_channel, color=colour_channel),
        base_chart.mark_point(opacity=1).encode(
            x=make_x(f"{objective}:Q"),
            y=y_channel,
            color=colour_channel,
            tooltip=[
                alt.Tooltip("method:N"),
                *theme.number_tooltips(
                    ".3f", *dict.fromkeys((objective, f"{objective}_low", f"{objective}_high", *STATISTICS))
                ),
                alt.Tooltip("metrics_used:Q", format=".3~g", title="metrics used"),
            ],
        ),
        height=alt.Step(1.3 * theme.ROW),
    )


def combination_weights(
    result: Combine,
    *,
    target: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Weights of metrics in the saved model: the 25 largest weights, and the number of the remaining weights.

    A model that consists only of boosted trees has importances instead of weights. Points are hollow if the interval of
    the weight contains 0. Importances, and weights of methods that are too slow to refit, have no intervals. If no
    weight has an interval, all points are filled.

    Parameters
    ----------
    result : Combine
        Result of `combine`.
    target : str, optional
        Target to draw; required if the result has several targets.
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
    >>> made = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0, unseen="none")
    >>> combination_weights(made).to_dict()["title"]
    'Weights of the combined metric (fluency)'
    """
    metric_weight_rows, target = select_rows(result.weights, "combination_weights", target=target)
    metric_weight_rows = weight_rows(metric_weight_rows)
    return theme.apply_theme(
        weights(
            theme.embed_rows(metric_weight_rows),
            has_intervals=metric_weight_rows["low"].count() > 0,
            axis_title=(IMPORTANCE if METHODS[result.model.method].family == "importances" else WEIGHT),
        ),
        title=title_with_aspect("Weights of the combined metric", target),
        width=width,
    )


def weights(data: Any, *, has_intervals: bool, axis_title: str = WEIGHT) -> Any:
    """Draw the rows of `weight_rows` of one target."""
    base_chart = alt.Chart(data).transform_calculate(
        clear="datum.low > 0 || datum.high < 0 ? '{}' : '{}'".format(*CLEAR)
    )
    metric_channel = alt.Y("metric:N", sort=alt.EncodingSortField(field="place", op="min", order="ascending"))
    defined_chart = base_chart.transform_filter("isValid(datum.value)")
    return alt.layer(
        theme.reference_line(data, x=0),
        defined_chart.transform_filter("isValid(datum.low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=metric_channel),
        defined_chart.mark_point(opacity=1, strokeWidth=1.4).encode(
            x=alt.X("value:Q", title=axis_title),
            y=metric_channel,
            stroke=alt.StrokeValue(theme.BLUE),
            fill=alt.Fill(
                "clear:N",
                title=None,
                scale=alt.Scale(domain=list(CLEAR), range=[theme.BLUE, HOLLOW]),
                legend=alt.Legend(symbolStrokeColor=theme.BLUE, symbolOpacity=1),
            )
            if has_intervals
            else alt.FillValue(theme.BLUE),
            tooltip=[alt.Tooltip("metric:N"), *theme.number_tooltips(".3f", "value", "low", "high")],
        ),
        base_chart.transform_filter("isValid(datum.rest)")
        .mark_text(align="right", fontStyle="italic")
        .encode(x=alt.value("width"), y=metric_channel, text=alt.Text("rest:N")),
        height=alt.Step(theme.ROW),
    )


def weight_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The largest weights of each target, and one row for all smaller weights. The columns are target, metric, value,
    low, high, place and rest; rest is a text on the size of the smaller weights."""
    renamed_rows = table.select(
        *("target", "metric"), value="weight", low="weight_low", high="weight_high", rest=pl.lit(None, pl.String)
    )
    shown_and_other_rows = [renamed_rows.head(0)]
    for (target,), target_rows in renamed_rows.group_by("target", maintain_order=True):
        ordered_rows = target_rows.sort(pl.col("value").abs(), descending=True, maintain_order=True)
        shown_rows = ordered_rows.filter(pl.col("value") != 0).head(MOST)
        omitted_abs_weights = ordered_rows["value"].slice(shown_rows.height).abs()
        shown_and_other_rows.append(shown_rows)
        if len(omitted_abs_weights):
            at_most_text = "at most " if len(omitted_abs_weights) > 1 else ""
            size_text = f"{at_most_text}{omitted_abs_weights[0]:.2g} in size" if omitted_abs_weights[0] else "no weight"
            shown_and_other_rows.append(
                pl.DataFrame(
                    {"target": [target], "metric": [plural(len(omitted_abs_weights), "other")], "rest": [size_text]}
                )
            )
    return pl.concat(shown_and_other_rows, how="diagonal").with_columns(
        place=pl.int_range(pl.len(), dtype=pl.Int64).over("target")
    )
