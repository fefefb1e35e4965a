"""Figures: decisions by number of annotations, and power by margin and number of annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.answers.shared_arguments import NONE
from custodes.evaluate.protocol.plan import Plan
from custodes.evaluate.protocol.protocol import Protocol
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect
from custodes.plots.drawable import drawable
from custodes.stats.correction.dirichlet import NAIVE

MEASURES = {
    "correct": "Proportion of pairs with the decision on all annotations",
    "kld": "KLD from all annotations (nats)",
}
ALONE = "human ratings alone"
HEIGHT, POWER_HEIGHT = 200, 220


def budget_curve(result: Protocol, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Proportion of correctly decided pairs (upper panel) and Kullback-Leibler divergence (KLD, lower panel) by number
    of annotations.

    Each combination of metric, estimator and stopping rule has a line. Each round has a point, which is the mean over
    replications. Estimators that give only a margin have no KLD.

    Parameters
    ----------
    result : Protocol
        Result of `protocol`.
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
    >>> result = cu.protocol(cu.read("demo"), aspect="fluency", replications=2, resamples=0)
    >>> len(budget_curve(result).to_dict()["vconcat"])
    2
    """
    curve_rows, aspect = select_rows(result.curve, "budget_curve", aspect=aspect)
    chart_data = theme.embed_rows(curve_rows)
    return theme.apply_theme(
        alt.vconcat(
            *[
                curve(chart_data, measure, line_labels=line_names(curve_rows)).properties(width=width)
                for measure in MEASURES
            ]
        ),
        title=title_with_aspect("Decisions by number of annotations", aspect),
    )


def annotations_and_kld(
    result: Protocol, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH
) -> alt.TopLevelMixin:
    """Kullback-Leibler divergence (KLD) from the posterior mode of all annotations (logarithmic axis), by the
    proportion of annotations used.

    Each combination of metric, estimator and stopping rule has a point, as in figure 2 of the paper on the correction
    of errors. The metric alone (estimator `naive`) uses no annotations. Points further left and higher are better. Rows
    without a finite, positive KLD are left out.

    Parameters
    ----------
    result : Protocol
        Result of `protocol`.
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
    >>> options = {"metrics": "judge", "estimator": ["mixture", "naive"], "replications": 2, "resamples": 0}
    >>> result = cu.protocol(cu.read("demo"), aspect="fluency", **options)
    >>> annotations_and_kld(result).to_dict()["title"]
    'Annotations and divergence (fluency)'
    """
    protocol_rows, aspect = select_rows(result.protocol, "annotations_and_kld", aspect=aspect)
    is_naive = pl.col("estimator") == NAIVE.name
    point_rows = protocol_rows.filter(pl.col("kld_mode").is_finite() & (pl.col("kld_mode") > 0)).select(
        pl.col("metric").replace(NONE, ALONE),
        "kld_mode",
        share=pl.when(is_naive).then(0.0).otherwise("share"),
        stopping=pl.when(is_naive).then("estimator").otherwise(pl.format("{}, {}", "estimator", "stopping")),
    )
    chart = (
        alt.Chart(theme.embed_rows(point_rows))
        .mark_point(opacity=1, size=60)
        .encode(
            x=alt.X("share:Q", title="Proportion of annotations used", axis=alt.Axis(format="%")),
            y=alt.Y(
                "kld_mode:Q",
                title="KLD from the result on all annotations (nats), lower is better",
                scale=alt.Scale(type="log", reverse=True),
            ),
            color=alt.Color("metric:N", title=None),
            shape=alt.Shape("stopping:N", title=None, legend=alt.Legend(columns=1, labelLimit=400)),
            tooltip=[
                alt.Tooltip("metric:N"),
                alt.Tooltip("stopping:N"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("kld_mode:Q", format=".3f"),
            ],
        )
    )
    return theme.apply_theme(
        chart, title=title_with_aspect("Annotations and divergence", aspect), width=width, height=HEIGHT
    )


def line_names(rows: pl.DataFrame) -> list[str]:
    """Labels of the lines of `Protocol.curve`. A label consists of metric, estimator and stopping rule."""
    return (
        rows.select(
            pl.format("{} · {} · {}", pl.col("metric").replace(NONE, ALONE), "estimator", "stopping").unique(
                maintain_order=True
            )
        )
        .to_series()
        .to_list()
    )


def curve(data: Any, measure: str, *, line_labels: Sequence[str]) -> Any:
    """Draw the rows of `Protocol.curve`.

    `measure`: one of `MEASURES`. `line_labels`: the labels of the lines (`line_names`). A single line has no legend."""
    line_channel_options: dict[str, Any] = {
        "title": None,
        "legend": alt.Legend(columns=1, labelLimit=400) if len(line_labels) > 1 else None,
        "scale": alt.Scale(domain=drawable(list(line_labels))),
    }
    base_chart = (
        alt.Chart(data)
        .transform_filter(f"isValid(datum.{measure})")
        .transform_calculate(
            line=f"(datum.metric == '{NONE}' ? '{ALONE}' : datum.metric) + ' · ' + "
            "datum.estimator + ' · ' + datum.stopping"
        )
        .encode(
            x=alt.X("annotations:Q", title="Total annotations", scale=alt.Scale(zero=True)),
            y=alt.Y(
                f"{measure}:Q",
                title=MEASURES[measure],
                scale=alt.Scale(domain=[0, 1]) if measure == "correct" else alt.Scale(zero=True),
                axis=alt.Axis(format="%" if measure == "correct" else ""),
            ),
            color=alt.Color("line:N", **line_channel_options),
        )
    )
    return alt.layer(
        base_chart.mark_line(opacity=0.6),
        base_chart.mark_point(opacity=1).encode(
            shape=alt.Shape("line:N", **line_channel_options),
            tooltip=[
                alt.Tooltip("line:N"),
                alt.Tooltip("round:Q"),
                alt.Tooltip("annotations:Q", format=".0f"),
                alt.Tooltip(f"{measure}:Q", format=".3f"),
            ],
        ),
        height=HEIGHT,
    )


def power_curve(result: Plan, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Power to find the better system with human ratings alone, by margin and number of annotations of a pair.

    Each number of annotations has a line, with a point for each pair of systems (or assumed margin). The power is the
    exact power of a single analysis per pair.

    Parameters
    ----------
    result : Plan
        Result of `plan`.
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
    >>> chart = power_curve(cu.plan(margins=[0.1, 0.3], replications=2))
    >>> len(chart.to_dict()["layer"])
    2
    """
    return draw_selection(
        power_lines, "Power by margin", result.power, "power_curve", size={"width": width}, aspect=aspect
    )


def power_lines(data: Any) -> Any:
    """Draw the rows of `Plan.power`."""
    base_chart = (
        alt.Chart(data)
        .transform_calculate(size="abs(datum.margin)")
        .encode(
            x=alt.X("size:Q", title="Margin of the better system (wins minus losses)", axis=alt.Axis(format="%")),
            y=alt.Y("power:Q", title="Power", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=alt.Color(
                "annotations:O", title="Annotations of a pair", scale=alt.Scale(scheme="viridis", reverse=True)
            ),
        )
    )
    return alt.layer(
        base_chart.mark_line(opacity=0.5),
        base_chart.mark_point(filled=True, size=30, opacity=0.8).encode(
            tooltip=[
                alt.Tooltip("size:Q", format=".0%", title="margin"),
                alt.Tooltip("annotations:Q"),
                alt.Tooltip("power:Q", format=".0%"),
                alt.Tooltip("wrong:Q", format=".1%", title="false decision"),
            ]
        ),
        height=POWER_HEIGHT,
    )
