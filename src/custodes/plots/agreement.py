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
from custodes.plots.choice import select_rows, title_with_aspect


def add_chance_levels(metrics: pl.DataFrame, standing: pl.DataFrame) -> pl.DataFrame:
    """The table `metrics` with the chance levels of all statistics and the significance letters of one statistic.

    The chance level of statistic `x` is in `x_chance` (null if it is undefined). The column
    `x_group` has the significance letters of the metrics that are ranked by `x`.
    """
    chance_level_expressions = [
        pl.lit(statistic.chance if isinstance(statistic.chance, float) else None, pl.Float64).alias(
            f"{statistic.name}_chance"
        )
        for statistic in STATISTICS.values()
        if f"{statistic.name}_chance" not in metrics.columns
    ]
    letter_range_of_letters = {letters: letter_ranges(letters) for letters in metrics["group"].drop_nulls().unique()}
    letter_range_expressions = [
        pl.when(ranked_by=statistic_name)
        .then(pl.col("group").replace(letter_range_of_letters))
        .alias(f"{statistic_name}_group")
        for statistic_name in STATISTICS
    ]
    return (
        metrics.with_columns(chance_level_expressions)
        .join(
            standing.select("aspect", "metric", ranked_by="statistic"),
            on=["aspect", "metric"],
            how="left",
            maintain_order="left",
        )
        .with_columns(letter_range_expressions)
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
    statistic_label = STATISTICS[check_one_of("agreement_intervals: statistic", statistic, STATISTICS)].label
    metric_rows, aspect = select_rows(
        add_chance_levels(result.metrics, result.standing), "agreement_intervals", aspect=aspect
    )
    return theme.apply_theme(
        intervals(
            theme.embed_rows(
                metric_rows.select(
                    "metric",
                    value=statistic,
                    **{
                        column_suffix: f"{statistic}_{column_suffix}"
                        for column_suffix in ("low", "high", "chance", "group")
                    },
                )
            ),
            axis_title=statistic_label,
        ),
        title=title_with_aspect(statistic_label, aspect),
        width=width,
    )


def intervals(data: Any, *, axis_title: str) -> Any:
    """Draw rows with the columns metric, value, low, high, chance and group."""
    metric_channel = alt.Y("metric:N", sort=alt.EncodingSortField(field="value", op="max", order="descending"))
    base_chart = alt.Chart(data).transform_filter("isValid(datum.value)")
    return (
        alt.layer(
            base_chart.transform_filter("isValid(datum.chance)")
            .mark_tick(color=theme.GREY, thickness=2, size=theme.ROW, opacity=0.9)
            .encode(x=alt.X("chance:Q"), y=metric_channel, tooltip=[alt.Tooltip("chance:Q", format=".3f")]),
            base_chart.transform_filter("isValid(datum.low)")
            .mark_rule(**theme.WHISKER, color=theme.BLUE)
            .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=metric_channel),
            base_chart.mark_point(color=theme.BLUE, opacity=1).encode(
                x=alt.X("value:Q", title=axis_title, scale=alt.Scale(zero=False, nice=True)),
                y=metric_channel,
                tooltip=[
                    alt.Tooltip("metric:N"),
                    alt.Tooltip("value:Q", format=".3f", title=axis_title),
                    *theme.number_tooltips(".3f", "low", "high"),
                ],
            ),
            base_chart.transform_filter("isValid(datum.group)")
            .mark_text(align="left", dx=6)
            .encode(x=alt.value("width"), y=metric_channel, text=alt.Text("group:N")),
        )
        .resolve_scale(x="shared")
        .properties(height=alt.Step(theme.ROW))
    )
