"""Figures: favoritism of one metric, of all metrics, and by accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

import custodes.plots.alt as alt
import custodes.plots.labels as labels
import custodes.plots.theme as theme
from custodes.evaluate.favoritism import Favoritism
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect

CLEAR = {"interval excludes 0": theme.BLUE, "not significant": "rgba(0,114,178,0.08)"}
HEIGHT = 300
PAD = 24
"""Margin in pixels between the outermost points and the edges of the scatter plot."""
ALL_NAMED, ENDS = 12, 2
"""Maximum number of metrics for which every metric is labelled; and number of metrics to label at each end of both axes
if there are more metrics."""
ACCURACIES = ["Accuracy against human decisions", "circles: comparisons; squares: pairs of systems"]
SATURATION = 30
"""Points of win rate from which the colours of the partiality map are saturated."""
AXIS = "Favi-Score: errors against the system ← 0 → errors for the system"


def favoritism_by_system(
    result: Favoritism,
    metric: str,
    *,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Favi-Scores of each system by one metric, with a point per opponent and a box plot.

    The most favoured system is first. Points are filled if the interval of the Favi-Score excludes 0.

    Parameters
    ----------
    result : Favoritism
        Result of `favoritism`.
    metric : str
        Metric or judge.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the metric or the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), resamples=50)
    >>> favoritism_by_system(result, "selfeval", aspect="fluency").to_dict()["title"]
    'Favi-Scores by selfeval (fluency)'
    """
    return draw_selection(
        favoritism_box_plot,
        "Favi-Scores by {metric}",
        result.pairs,
        "favoritism_by_system",
        size={"width": width},
        aspect=aspect,
        metric=metric,
    )


def favoritism_box_plot(data: Any) -> Any:
    """Draw the rows of `Favoritism.pairs` of one metric. Each pair is drawn for both of its systems."""
    side_sign_expression = "datum.side === 'system_a' ? 1 : -1"
    side_chart = (
        alt.Chart(data)
        .transform_filter("isValid(datum.favi)")
        .transform_fold(["system_a", "system_b"], as_=["side", "system"])
        .transform_calculate(
            favi_turned=f"({side_sign_expression}) * datum.favi",
            opponent="datum.side === 'system_a' ? datum.system_b : datum.system_a",
            clear="datum.favi_low > 0 || datum.favi_high < 0 ? '{}' : '{}'".format(*CLEAR),
        )
        .transform_joinaggregate(
            centre="mean(favi_turned)",
            middle="median(favi_turned)",
            q1="q1(favi_turned)",
            q3="q3(favi_turned)",
            least="min(favi_turned)",
            most="max(favi_turned)",
            groupby=["system"],
        )
    )
    system_chart = side_chart.transform_window(row="row_number()", groupby=["system"]).transform_filter(
        "datum.row === 1"
    )
    system_channel = alt.Y("system:N", sort=alt.EncodingSortField(field="centre", op="max", order="descending"))
    favi_scale = alt.Scale(domain=[-2, 2])
    return alt.layer(
        theme.reference_line(data, x=0),
        system_chart.mark_rule(color=theme.GREY, opacity=0.8).encode(
            x=alt.X("least:Q", scale=favi_scale), x2=alt.X2("most:Q"), y=system_channel
        ),
        system_chart.mark_bar(color=theme.GREY, opacity=0.3, size=12).encode(
            x=alt.X("q1:Q", scale=favi_scale), x2=alt.X2("q3:Q"), y=system_channel
        ),
        system_chart.mark_tick(color=theme.ORANGE, thickness=3, size=13, opacity=1).encode(
            x=alt.X("middle:Q", scale=favi_scale), y=system_channel
        ),
        side_chart.mark_point(size=34, strokeWidth=1.4, opacity=0.95).encode(
            x=alt.X("favi_turned:Q", scale=favi_scale, axis=alt.Axis(title=AXIS, values=[-2, -1, 0, 1, 2])),
            y=system_channel,
            stroke=alt.StrokeValue(theme.BLUE),
            fill=alt.Fill(
                "clear:N",
                title=None,
                scale=alt.Scale(domain=list(CLEAR), range=list(CLEAR.values())),
                legend=alt.Legend(symbolStrokeColor=theme.BLUE, symbolOpacity=1),
            ),
            tooltip=[
                alt.Tooltip("system:N"),
                alt.Tooltip("opponent:N", title="against"),
                alt.Tooltip("favi_turned:Q", format=".2f", title="Favi-Score"),
                alt.Tooltip("clear:N", title="significance"),
                alt.Tooltip("note:N"),
            ],
        ),
        height=alt.Step(22),
    )


def partiality_map(result: Favoritism, *, aspect: str | None = None) -> alt.TopLevelMixin:
    """Heat map of the partiality of each metric to each system, in percentage points of win rate.

    Orange cells are favoured systems, and blue cells are disfavoured systems. Bold numbers with a star are significant
    after adjustment for all metrics and systems. A question mark means that the partiality is inconclusive. Colours are
    saturated at -30 and 30 points.

    Parameters
    ----------
    result : Favoritism
        Result of `favoritism`.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), resamples=50)
    >>> len(partiality_map(result, aspect="fluency").to_dict()["layer"])
    3
    """
    return draw_selection(partial_map, "Partiality", result.partiality, "partiality_map", aspect=aspect)


def partial_map(data: Any) -> Any:
    """Draw the rows of `Favoritism.partiality`.

    Rows are metrics, sorted by the largest |partiality|; columns are systems, sorted by the mean.
    """
    is_significant_expression = "datum.finding === 'favoured' || datum.finding === 'disfavoured'"
    base_chart = (
        alt.Chart(data)
        .transform_calculate(
            words="isValid(datum.partiality) ? "
            f"format(datum.partiality, '+.0f') + ({is_significant_expression} ? '*' : '') : '?'",
            p_text=theme.p_value_expression("p_adjusted"),
            size="abs(datum.partiality)",
        )
        .transform_joinaggregate(largest="max(size)", groupby=["metric"])
        .transform_joinaggregate(centre="mean(partiality)", groupby=["system"])
        .encode(
            x=alt.X(
                "system:N",
                sort=alt.EncodingSortField(field="centre", op="max", order="descending"),
                axis=theme.names_above(angle=-45, limit=120),
            ),
            y=alt.Y("metric:N", sort=alt.EncodingSortField(field="largest", op="max", order="descending")),
        )
    )
    tooltips = [
        alt.Tooltip("metric:N"),
        alt.Tooltip("system:N"),
        *theme.interval_tooltips("partiality", "+.1f", title="points of win rate"),
        alt.Tooltip("p_text:N", title="adjusted p"),
        alt.Tooltip("finding:N"),
        alt.Tooltip("reason:N"),
        alt.Tooltip("rank_human:Q", title="rank by human ratings"),
        alt.Tooltip("rank:Q", title="rank by the metric"),
        alt.Tooltip("rank_without:Q", title="rank without partiality"),
    ]
    return alt.layer(
        base_chart.transform_filter("isValid(datum.partiality)")
        .mark_rect()
        .encode(color=theme.diverging_colour("partiality", SATURATION), tooltip=tooltips),
        base_chart.transform_filter(f"!({is_significant_expression})")
        .mark_text(opacity=0.75)
        .encode(text=alt.Text("words:N"), tooltip=tooltips),
        base_chart.transform_filter(is_significant_expression)
        .mark_text(fontWeight="bold")
        .encode(text=alt.Text("words:N"), tooltip=tooltips),
        width=alt.Step(40),
        height=alt.Step(theme.ROW),
    )


def favoritism_and_accuracy(
    result: Favoritism,
    *,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Scatter plot of mean |Favi-Score| by sample accuracy and by system accuracy, with two points per metric.

    Circles are sample accuracies and squares are system accuracies, as in figure 4 of the Favi-Score paper. If there
    are at most 12 metrics, every metric is labelled. Otherwise only the extremes of both axes are labelled.

    Parameters
    ----------
    result : Favoritism
        Result of `favoritism`.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.

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
    >>> result = cu.favoritism(cu.read("demo"), resamples=50)
    >>> chart = favoritism_and_accuracy(result, aspect="fluency")
    """
    metric_rows, aspect = select_rows(result.metrics, "favoritism_and_accuracy", aspect=aspect)
    return theme.apply_theme(
        accuracy_scatter(theme.embed_rows(point_rows(metric_rows, {}, width=width))),
        title=title_with_aspect("Favoritism and accuracy", aspect),
        width=width,
    )


def point_rows(
    metrics: pl.DataFrame, named_metrics_of_aspect: Mapping[str, Sequence[str]], *, width: float | None = None
) -> pl.DataFrame:
    """The rows of `Favoritism.metrics` in which both coordinates are defined, with the columns of `labels.columns`.

    If there are few metrics, all are labelled. Otherwise the extremes of both axes and the named metrics (by
    aspect) are labelled. `width` is the argument of `labels.columns`.
    """
    defined_metric_rows = metrics.drop_nulls(["sample_accuracy", "mean_abs_favi"])
    aspect_tables = [
        defined_metric_rows.head(0).with_columns(pl.lit(None).alias(column_name) for column_name in labels.COLUMNS)
    ]
    for (aspect,), aspect_rows in defined_metric_rows.group_by("aspect", maintain_order=True):
        sample_accuracies, mean_abs_favi_scores = (
            aspect_rows[column_name].to_numpy() for column_name in ("sample_accuracy", "mean_abs_favi")
        )
        all_accuracies = np.append(sample_accuracies, aspect_rows["system_accuracy"].drop_nulls().to_numpy())
        largest_mean_abs_favi = max(mean_abs_favi_scores.max(), aspect_rows["mean_abs_favi_high"].max() or 0.0) or 1.0
        relative_x_positions = np.full(len(mean_abs_favi_scores), 0.5)
        if accuracy_span := np.ptp(all_accuracies):
            relative_x_positions = (sample_accuracies - all_accuracies.min()) / accuracy_span
        metric_names = aspect_rows["metric"].to_list()
        labelled_indices = [
            metric_names.index(metric_name)
            for metric_name in named_metrics_of_aspect.get(str(aspect), ())
            if metric_name in metric_names
        ]
        if len(metric_names) <= ALL_NAMED:
            labelled_indices += range(len(metric_names))
        else:
            labelled_indices += labels.extremes(sample_accuracies, ENDS) + labels.extremes(mean_abs_favi_scores, ENDS)
        label_columns = labels.columns(
            np.stack([relative_x_positions, 1 - mean_abs_favi_scores / largest_mean_abs_favi], axis=1),
            metric_names,
            list(dict.fromkeys(labelled_indices)),
            height=HEIGHT,
            width=width,
            pad=PAD,
        )
        aspect_tables.append(aspect_rows.with_columns(**label_columns))
    return pl.concat(aspect_tables, how="vertical_relaxed")


def accuracy_scatter(data: Any, metric: str = "") -> Any:
    """Draw the rows of `point_rows`; `metric` is always labelled, in bold."""
    base_chart = alt.Chart(data).transform_filter("isValid(datum.mean_abs_favi) && isValid(datum.sample_accuracy)")
    accuracy_scale = alt.Scale(zero=False, nice=False, padding=PAD)
    accuracy_channel = alt.X(
        "sample_accuracy:Q", title=ACCURACIES, scale=accuracy_scale, axis=alt.Axis(format="%", labelFlush=PAD)
    )
    tooltips = [
        alt.Tooltip("metric:N"),
        *theme.number_tooltips(".1%", "sample_accuracy", "system_accuracy"),
        *theme.interval_tooltips("mean_abs_favi", ".2f", title="mean |Favi-Score|"),
    ]
    favi_channel = alt.Y(
        "mean_abs_favi:Q", title="mean |Favi-Score| over pairs", scale=alt.Scale(zero=True, nice=False)
    )
    is_labelled_expression = f"datum.named || {labels.is_chosen('metric')}"
    return alt.layer(
        base_chart.transform_filter("isValid(datum.mean_abs_favi_low)")
        .mark_rule(color=theme.VERMILION, strokeWidth=1, opacity=1)
        .encode(x=accuracy_channel, y=alt.Y("mean_abs_favi_low:Q"), y2=alt.Y2("mean_abs_favi_high:Q")),
        base_chart.transform_filter("isValid(datum.system_accuracy)")
        .mark_point(color=theme.BLUE, shape="square", opacity=0.6)
        .encode(x=alt.X("system_accuracy:Q", scale=accuracy_scale), y=favi_channel, tooltip=tooltips),
        base_chart.mark_point(color=theme.VERMILION, opacity=1).encode(
            x=accuracy_channel, y=favi_channel, tooltip=tooltips
        ),
        *labels.layers(base_chart, "metric", is_labelled_expression, x=accuracy_channel, y=favi_channel),
        params=[labels.metric_parameter(metric)],
        height=HEIGHT,
    )
