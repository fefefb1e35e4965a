"""Figure: one statistic of agreement per metric, with its interval."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.answers.wording import letter_ranges
from custodes.arguments import check_one_of
from custodes.evaluate.agreement.agreement import Agreement
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.plots.choice import select_aspect, title_with_aspect


def add_chance_levels(metrics: pl.DataFrame, standing: pl.DataFrame) -> pl.DataFrame:
    """The table `metrics` with the chance levels of all statistics and the significance letters of one statistic.

    The chance level of statistic `x` is in `x_chance` (null if it is undefined). The column
    `x_group` has the significance letters of the metrics that are ranked by `x`.
    """
    expression_of_chance_column = {
        f"{statistic.name}_chance": pl.lit(
            statistic.chance if isinstance(statistic.chance, float) else None, dtype=pl.Float64
        )
        for statistic in STATISTICS.values()
    }
    distinct_significance_letters = metrics["group"].drop_nulls().unique()
    letter_range_expression = pl.col("group").replace(
        {
            significance_letters: letter_ranges(significance_letters)
            for significance_letters in distinct_significance_letters
        }
    )
    ranking_statistic_rows = standing.select("aspect", "metric", ranked_by="statistic")
    expression_of_group_column = {
        f"{statistic_name}_group": pl.when(pl.col("ranked_by") == statistic_name)
        .then(letter_range_expression)
        .otherwise(pl.lit(None, pl.String))
        for statistic_name in STATISTICS
    }
    return (
        metrics.with_columns(
            **{
                column_name: expression
                for column_name, expression in expression_of_chance_column.items()
                if column_name not in metrics.columns
            }
        )
        .join(ranking_statistic_rows, on=["aspect", "metric"], how="left", maintain_order="left")
        .with_columns(**expression_of_group_column)
        .drop("ranked_by")
    )


def agreement_intervals(
    result: Agreement,
    *,
    statistic: str = "kendall_item",
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of a statistic for each metric, best first, with a grey bar at the chance level.

    Parameters
    ----------
    result : Agreement
        Result of `agreement`.
    statistic : str, default 'kendall_item'
        Column of `Agreement.metrics` to draw. Metrics whose value is undefined are left out.
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
        If the statistic or the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), resamples=0, compare_by=())
    >>> agreement_intervals(result, aspect="fluency").to_dict()["title"]
    'Kendall τ-b within items (fluency)'
    """
    function_name = "agreement_intervals"
    statistic_label = STATISTICS[check_one_of(f"{function_name}: statistic", statistic, STATISTICS)].label
    rows, aspect = select_aspect(
        add_chance_levels(result.metrics, result.standing), aspect, function_name=function_name
    )
    suffix_of_column = {"value": "", "low": "_low", "high": "_high", "chance": "_chance", "group": "_group"}
    chart_rows = rows.select(
        "metric", **{column_name: f"{statistic}{suffix}" for column_name, suffix in suffix_of_column.items()}
    )
    return theme.apply_theme(
        intervals(theme.embed_rows(chart_rows), label=statistic_label),
        title=title_with_aspect(statistic_label, aspect),
        width=width,
    )


def intervals(data: Any, *, label: str) -> Any:
    """Draw rows with the columns metric, value, low, high, chance and group."""
    metric_channel = alt.Y("metric:N", sort=alt.EncodingSortField(field="value", op="max", order="descending"))
    base = alt.Chart(data).transform_filter("isValid(datum.value)")
    tooltips = [
        alt.Tooltip("metric:N"),
        alt.Tooltip("value:Q", format=".3f", title=label),
        alt.Tooltip("low:Q", format=".3f"),
        alt.Tooltip("high:Q", format=".3f"),
    ]
    chance_ticks = base.transform_filter("isValid(datum.chance)").mark_tick(
        color=theme.GREY, thickness=2, size=theme.ROW, opacity=0.9
    )
    whisker_chart = base.transform_filter("isValid(datum.low)").mark_rule(**theme.WHISKER, color=theme.BLUE)
    letter_labels = base.transform_filter("isValid(datum.group)").mark_text(align="left", dx=6)
    dots = base.mark_point(color=theme.BLUE, opacity=1)
    x = alt.X("value:Q", title=label, scale=alt.Scale(zero=False, nice=True))
    return (
        alt.layer(
            chance_ticks.encode(x=alt.X("chance:Q"), y=metric_channel, tooltip=[alt.Tooltip("chance:Q", format=".3f")]),
            whisker_chart.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=metric_channel),
            dots.encode(x=x, y=metric_channel, tooltip=tooltips),
            letter_labels.encode(x=alt.value("width"), y=metric_channel, text=alt.Text("group:N")),
        )
        .resolve_scale(x="shared")
        .properties(height=alt.Step(theme.ROW))
    )
