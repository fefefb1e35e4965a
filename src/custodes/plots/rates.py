"""Figures of rates: each system by judge and annotators, TPR and TNR by slice, ROC, reliability and label matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from polars._typing import IntoExpr

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.data.comparisons import HUMAN
from custodes.errors import OptionError
from custodes.evaluate.rates.rates import Rates
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect

SOURCES = {"judge_rate": "judge alone", "human_rate": "human labels alone", "corrected_rate": "corrected"}
COLOURS = {"judge alone": theme.VERMILION, "human labels alone": theme.GREY, "corrected": theme.BLUE}
TPR_AND_TNR = {"tpr": "TPR", "tnr": "TNR"}


def rates(result: Rates, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Rate of each system with intervals: by the judge alone, by human labels alone, and corrected.

    Parameters
    ----------
    result : Rates
        Result of `rates`.
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
    >>> result = cu.rates(cu.read("demo"), positive=">=4", metrics="judge", aspect="fluency")
    >>> rates(result).to_dict()["title"]
    'Rate of >=4 (fluency)'
    """
    rate_rows, aspect = select_rows(result.rates, "rates", aspect=aspect)
    return theme.apply_theme(
        rate_dots(theme.embed_rows(rates_by_source(rate_rows))),
        title=title_with_aspect(
            (f"Rate of {rate_rows['label'][0]}" if rate_rows["label"].n_unique() == 1 else "Rate of each label"), aspect
        ),
        width=width,
    )


def rates_by_source(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `Rates.rates`, repeated for each source of the rate. `row` names the metric, system or label."""
    varying_column_names = [
        column_name for column_name in ("metric", "system", "label") if rows[column_name].n_unique() > 1
    ]
    long_rows = _repeat_rows(
        rows,
        SOURCES,
        "aspect",
        "metric",
        pl.concat_str(varying_column_names or ["system"], separator=", ").alias("row"),
    )
    is_corrected_human_rate = (pl.col("name") == SOURCES["corrected_rate"]) & (pl.col("metric") == HUMAN)
    return long_rows.filter(~is_corrected_human_rate).drop("metric").rename({"name": "source", "value": "rate"})


def _repeat_rows(rows: pl.DataFrame, label_of_column: Mapping[str, str], *other_columns: IntoExpr) -> pl.DataFrame:
    """The rows, repeated for each estimate: columns `other_columns`, name, value, low, high."""
    return pl.concat(
        [
            rows.select(
                *other_columns,
                name=pl.lit(label),
                value=column_name,
                low=f"{column_name}_low",
                high=f"{column_name}_high",
            )
            for column_name, label in label_of_column.items()
        ]
    ).drop_nulls("value")


def rate_dots(data: Any) -> Any:
    """Draw the rows of `rates_by_source` of one aspect."""
    base_chart = alt.Chart(data).encode(
        y=alt.Y("row:N", title=None, sort=None),
        yOffset=alt.YOffset("source:N", sort=list(COLOURS)),
        color=theme.category_colour("source", COLOURS),
        tooltip=[
            alt.Tooltip("row:N", title="rate of"),
            alt.Tooltip("source:N"),
            *theme.number_tooltips(".1%", "rate", "low", "high"),
        ],
    )
    return alt.layer(
        base_chart.mark_rule(**theme.WHISKER).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        base_chart.mark_point(opacity=1).encode(
            x=alt.X("rate:Q", title="Rate", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False, nice=True))
        ),
        height=alt.Step(2 * theme.ROW),
    )


def error_rates_by_slice(
    result: Rates, metric: str, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH
) -> alt.TopLevelMixin:
    """TPR and TNR of a judge in each slice, with intervals.

    Parameters
    ----------
    result : Rates
        Result of `rates`, computed with the argument `by`.
    metric : str
        Judge to draw.
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
        If the metric or the aspect is unknown, or if the result has no slices.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.rates(cu.read("demo"), positive=">=4", metrics="judge", aspect="fluency", by="system")
    >>> error_rates_by_slice(result, "judge").to_dict()["title"]
    'TPR and TNR of judge by slice (fluency)'
    """
    if result.slices.is_empty():
        raise OptionError("error_rates_by_slice: the result has no slices; compute it with by=COLUMN")
    slice_rows, aspect, metric = select_rows(result.slices, "error_rates_by_slice", aspect=aspect, metric=metric)
    return theme.apply_theme(
        slice_dots(
            theme.embed_rows(
                _repeat_rows(slice_rows, TPR_AND_TNR, "aspect", "metric", "slice").rename({"name": "measure"})
            )
        ),
        title=title_with_aspect(f"TPR and TNR of {metric} by slice", aspect),
        width=width,
    )


def slice_dots(data: Any) -> Any:
    """Draw the TPR and TNR of the slices of one aspect and metric, one row per slice and rate."""
    base_chart = alt.Chart(data).encode(
        y=alt.Y("slice:N", title=None, sort=None),
        yOffset=alt.YOffset("measure:N"),
        color=alt.Color("measure:N", title=None, scale=alt.Scale(range=[theme.BLUE, theme.ORANGE])),
        tooltip=[
            alt.Tooltip("slice:N"),
            alt.Tooltip("measure:N"),
            *theme.number_tooltips(".1%", "value", "low", "high"),
        ],
    )
    return alt.layer(
        base_chart.mark_rule(**theme.WHISKER).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        base_chart.mark_point(opacity=1).encode(
            x=alt.X("value:Q", title="Proportion correct", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
        ),
        height=alt.Step(2 * theme.ROW),
    )


def roc_curve(result: Rates, metric: str, *, aspect: str | None = None, width: int = 260) -> alt.TopLevelMixin:
    """ROC curve of a judge that gives scores. A mark shows the threshold that turns scores into labels.

    Parameters
    ----------
    result : Rates
        Result of `rates`.
    metric : str
        Judge to draw.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 260
        Width and height of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the metric has no scores, or if the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.rates(cu.read("demo"), positive=">=4", metrics="learned", aspect="fluency")
    >>> roc_curve(result, "learned").to_dict()["title"]
    'ROC curve of learned (fluency)'
    """
    return draw_selection(
        roc_lines,
        "ROC curve of {metric}",
        result.roc,
        "roc_curve",
        size={"width": width, "height": width},
        metric=metric,
        aspect=aspect,
    )


def roc_lines(data: Any) -> Any:
    """Draw the rows of `Rates.roc` of one aspect and metric."""
    base_chart = alt.Chart(data).encode(
        x=alt.X("fpr:Q", title="1 − TNR", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("tpr:Q", title="TPR", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
        tooltip=[alt.Tooltip("threshold:Q", format=".3~g"), *theme.number_tooltips(".1%", "tpr", "fpr")],
    )
    return alt.layer(
        alt.Chart(theme.embed_rows(pl.DataFrame({"fpr": [0, 1], "tpr": [0, 1]})))
        .mark_line(color=theme.GREY, strokeDash=[3, 3])
        .encode(x=alt.X("fpr:Q"), y=alt.Y("tpr:Q")),
        base_chart.mark_line(interpolate="step-after", color=theme.BLUE).encode(order=alt.Order("threshold:Q")),
        base_chart.transform_filter("datum.chosen").mark_point(color=theme.VERMILION, opacity=1, size=90),
    )


def reliability_curve(result: Rates, metric: str, *, aspect: str | None = None, width: int = 260) -> alt.TopLevelMixin:
    """Proportion of positive human labels by the score of a judge, with intervals, in bins of equally many labels.

    Parameters
    ----------
    result : Rates
        Result of `rates`.
    metric : str
        Judge to draw.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 260
        Width and height of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the metric has no scores, or if the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.rates(cu.read("demo"), positive=">=4", metrics="learned", aspect="fluency")
    >>> reliability_curve(result, "learned").to_dict()["title"]
    'Human labels by the score of learned (fluency)'
    """
    return draw_selection(
        reliability_dots,
        "Human labels by the score of {metric}",
        result.calibration,
        "reliability_curve",
        size={"width": width, "height": width},
        metric=metric,
        aspect=aspect,
    )


def reliability_dots(data: Any) -> Any:
    """Draw the rows of `Rates.calibration` of one aspect and metric."""
    base_chart = alt.Chart(data).encode(x=alt.X("score:Q", title="Score (mean of a bin)", scale=alt.Scale(zero=False)))
    rate_channel = alt.Y(
        "human_rate:Q", title="Positive human labels", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])
    )
    return alt.layer(
        base_chart.mark_line(color=theme.BLUE).encode(y=rate_channel),
        base_chart.mark_rule(**theme.WHISKER, color=theme.BLUE).encode(
            y=alt.Y("human_rate_low:Q"), y2=alt.Y2("human_rate_high:Q")
        ),
        base_chart.mark_point(color=theme.BLUE, opacity=1).encode(
            y=rate_channel,
            tooltip=[alt.Tooltip("human_rate:Q", format=".1%"), alt.Tooltip("n_labelled:Q", title="labels")],
        ),
    )


def label_matrix(result: Rates, metric: str, *, aspect: str | None = None) -> alt.TopLevelMixin:
    """Table of the numbers of outputs, by human label and by label of a judge.

    Parameters
    ----------
    result : Rates
        Result of `rates`.
    metric : str
        Judge to draw.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

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
    >>> result = cu.rates(cu.read("demo"), positive=">=4", metrics="judge", aspect="fluency")
    >>> label_matrix(result, "judge").to_dict()["title"]
    'Labels of judge and annotators (fluency)'
    """
    return draw_selection(
        label_cells,
        "Labels of {metric} and annotators",
        result.confusion,
        "label_matrix",
        metric=metric,
        aspect=aspect,
    )


def label_cells(data: Any) -> Any:
    """Draw the rows of `Rates.confusion` of one aspect and metric."""
    base_chart = (
        alt.Chart(data)
        .transform_joinaggregate(total="sum(n)")
        .transform_calculate(
            share="datum.total > 0 ? datum.n / datum.total : 0",
            agreement="datum.label === datum.human_label ? 'agree' : 'differ'",
        )
        .encode(
            x=alt.X("label:N", title="judge", sort=None, axis=alt.Axis(orient="top", labelAngle=0, ticks=False)),
            y=alt.Y("human_label:N", title="annotators", sort=None),
        )
    )
    return theme.count_cells(
        base_chart,
        theme.category_colour("agreement", {"agree": theme.GREEN, "differ": theme.VERMILION}, legend=None),
        alt.Text("n:Q", format=".4~g"),
    ).properties(width=alt.Step(90), height=alt.Step(50))
