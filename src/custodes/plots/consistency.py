"""Figures: biases of judges, flip rates, calibration, and verdicts in both presentation orders."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.errors import OptionError
from custodes.evaluate.consistency.consistency import Consistency
from custodes.evaluate.consistency.findings import CONFIDENCE, FAILURES, LENGTH, OWN, POSITION, PROBE
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect
from custodes.plots.confusion import outcome_cells

AXES = {
    POSITION: "First-position margin, in points",
    LENGTH: "Margin of the longer output, adjusted for human preference, in points",
    OWN: "Win rate of its own system, adjusted for quality, in points",
    CONFIDENCE: "Overconfidence, in points",
    PROBE: "Effect of the changed form of an output, in points",
}
"""Axis titles by kind of finding. The kind `FAILURES` has no axis title."""

READINGS = {"significant": theme.VERMILION, "not significant": theme.GREY}


def judge_faults(
    result: Consistency,
    *,
    kind: str | None = None,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of one kind of bias for each judge, in percentage points.

    The kinds of bias are a preference for the first position, for longer outputs or for the judge's own systems, an
    effect of a changed form of the output, and overconfidence. Red findings are significant after adjustment for all
    tests of the study.

    Parameters
    ----------
    result : Consistency
        Result of `consistency`.
    kind : str, optional
        Kind of finding in the table `findings`; default: the first kind with an estimate.
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
        If the kind or the aspect is unknown, or if no test has an estimate.

    Examples
    --------
    >>> import custodes as cu
    >>> pairs = {"item": range(20), "system_a": "A", "system_b": "B", "rater": "judge", "kind": "metric"}
    >>> shown = [pl.DataFrame({**pairs, "order": order, "preference": won}) for order, won in (("ab", 1), ("ba", -1))]
    >>> made = cu.consistency(cu.read(pl.concat(shown)), resamples=0)
    >>> judge_faults(made).to_dict()["title"]
    'First-position margin, in points'
    """
    finding_rows = result.findings.filter(pl.col("estimate").is_not_null())
    if finding_rows.is_empty():
        raise OptionError("judge_faults: no test has an estimate; see the column reason of the table findings")
    finding_rows, kind, aspect = select_rows(
        finding_rows, "judge_faults", kind=kind or finding_rows["kind"][0], aspect=aspect
    )
    axis_title = AXES.get(kind, FAILURES)
    return theme.apply_theme(
        faults(theme.embed_rows(finding_rows), axis_title=axis_title),
        title=title_with_aspect(axis_title, aspect),
        width=width,
    )


def faults(data: Any, *, axis_title: str) -> Any:
    """Draw the rows of `Consistency.findings` of one kind."""
    base_chart = (
        alt.Chart(data)
        .transform_filter("isValid(datum.estimate)")
        .transform_calculate(
            p_text=theme.p_value_expression("p_adjusted"),
            who="datum.factor ? datum.rater + ': ' + datum.factor : datum.rater",
            reading="datum.finding && datum.finding !== 'inconclusive' ? '{}' : '{}'".format(*READINGS),
        )
    )
    rater_channel = alt.Y("who:N", sort=alt.EncodingSortField(field="estimate", op="max", order="descending"))
    colour_channel = theme.category_colour("reading", READINGS)
    return alt.layer(
        theme.reference_line(data, x=0),
        base_chart.transform_filter("isValid(datum.estimate_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=alt.X("estimate_low:Q"), x2=alt.X2("estimate_high:Q"), y=rater_channel, color=colour_channel),
        base_chart.mark_point(opacity=1).encode(
            x=alt.X("estimate:Q", title=axis_title),
            y=rater_channel,
            color=colour_channel,
            tooltip=[
                alt.Tooltip("rater:N"),
                *theme.interval_tooltips("estimate", "+.1f", title="points"),
                alt.Tooltip("p_text:N", title="adjusted p"),
                alt.Tooltip("finding:N"),
            ],
        ),
        height=alt.Step(theme.ROW),
    )


def order_flips(result: Consistency, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of the flip rate of each judge.

    The flip rate is the proportion of comparisons whose winner changes if the presentation order changes.

    Parameters
    ----------
    result : Consistency
        Result of `consistency`.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> pairs = {"item": range(20), "system_a": "A", "system_b": "B", "rater": "judge", "kind": "metric"}
    >>> shown = [pl.DataFrame({**pairs, "order": order, "preference": won}) for order, won in (("ab", 1), ("ba", -1))]
    >>> made = cu.consistency(cu.read(pl.concat(shown)), resamples=0)
    >>> order_flips(made).to_dict()["title"]
    'Flip rate: the winner changes with the order'
    """
    return draw_selection(
        flips,
        "Flip rate: the winner changes with the order",
        result.orders,
        "order_flips",
        size={"width": width},
        aspect=aspect,
    )


def flips(data: Any) -> Any:
    """Draw the rows of `Consistency.orders`."""
    base_chart = alt.Chart(data).transform_filter("isValid(datum.flip_rate)")
    rater_channel = alt.Y("rater:N", sort=alt.EncodingSortField(field="flip_rate", op="max", order="ascending"))
    return alt.layer(
        base_chart.transform_filter("isValid(datum.flip_rate_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=alt.X("flip_rate_low:Q"), x2=alt.X2("flip_rate_high:Q"), y=rater_channel),
        base_chart.mark_point(color=theme.BLUE, opacity=1).encode(
            x=alt.X(
                "flip_rate:Q",
                title="Proportion of comparisons where the winner changes with the order",
                scale=alt.Scale(domainMin=0),
                axis=alt.Axis(format="%"),
            ),
            y=rater_channel,
            tooltip=[
                alt.Tooltip("rater:N"),
                *theme.interval_tooltips("flip_rate", ".1%", title="flips"),
                alt.Tooltip("n_both_orders:Q", title="comparisons in both orders"),
            ],
        ),
        height=alt.Step(theme.ROW),
    )


def judge_calibration(result: Consistency, rater: str, *, aspect: str | None = None) -> alt.TopLevelMixin:
    """Reliability curve of one judge: accuracy by confidence, with the line of perfect calibration.

    At points below the line, the judge is overconfident. Whiskers are intervals from resampled items.

    Parameters
    ----------
    result : Consistency
        Result of `consistency`.
    rater : str
        Rater (judge).
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> pairs = {"item": range(40), "system_a": "A", "system_b": "B"}
    >>> person = pl.DataFrame({**pairs, "rater": "ann", "kind": "human", "preference": [1, 1, 1, -1] * 10})
    >>> judge = pl.DataFrame({**pairs, "rater": "judge", "kind": "metric", "preference": 1, "p_a": 0.75, "p_b": 0.25})
    >>> made = cu.consistency(cu.read(pl.concat([person, judge], how="diagonal_relaxed")), resamples=50)
    >>> judge_calibration(made, "judge").to_dict()["title"]
    'Calibration of judge'
    """
    if result.reliability.is_empty():
        raise OptionError(
            "judge_calibration: no judge gave outcome probabilities (p_a, p_tie, p_b) for comparisons "
            "that also have human verdicts"
        )
    return draw_selection(
        calibration, "Calibration of {rater}", result.reliability, "judge_calibration", aspect=aspect, rater=rater
    )


def calibration(data: Any) -> Any:
    """Draw the rows of `Consistency.reliability` of one rater."""
    percent_axis = alt.Axis(format="%")
    confidence_scale = alt.Scale(domain=[0.3, 1])  # the largest of three probabilities is at least 1/3
    x_channel = alt.X("mean_confidence:Q", title="Confidence", scale=confidence_scale, axis=percent_axis)
    y_channel = alt.Y(
        "accuracy:Q", title="Accuracy by human verdicts", scale=alt.Scale(domain=[0, 1]), axis=percent_axis
    )
    base_chart = alt.Chart(data).encode(x=x_channel)
    return alt.layer(
        alt.Chart(theme.embed_rows(pl.DataFrame({"mean_confidence": [0.3, 1], "accuracy": [0.3, 1]})))
        .encode(x=x_channel, y=y_channel)
        .mark_line(color=theme.GREY, strokeDash=[3, 3]),
        base_chart.transform_filter("isValid(datum.accuracy_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(y=alt.Y("accuracy_low:Q"), y2=alt.Y2("accuracy_high:Q")),
        base_chart.mark_line(color=theme.BLUE).encode(y=y_channel),
        base_chart.mark_point(color=theme.BLUE, opacity=1).encode(
            y=y_channel,
            tooltip=[
                alt.Tooltip("rater:N"),
                alt.Tooltip("mean_confidence:Q", format=".1%"),
                *theme.interval_tooltips("accuracy", ".1%"),
                alt.Tooltip("verdicts:Q"),
            ],
        ),
        width=320,
        height=320,
    )


def order_confusion(result: Consistency, rater: str, *, aspect: str | None = None) -> alt.TopLevelMixin:
    """Table of counts for one rater: outcome of a system if shown first, by outcome of the same system if shown second.

    If the order has no effect on a rater, all counts are on the diagonal. Counts above the diagonal favour the first
    position.

    Parameters
    ----------
    result : Consistency
        Result of `consistency`.
    rater : str
        Rater (judge).
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> pairs = {"item": range(20), "system_a": "A", "system_b": "B", "rater": "judge", "kind": "metric"}
    >>> shown = [pl.DataFrame({**pairs, "order": order, "preference": won}) for order, won in (("ab", 1), ("ba", -1))]
    >>> made = cu.consistency(cu.read(pl.concat(shown)), resamples=0)
    >>> order_confusion(made, "judge").to_dict()["title"]
    'Verdicts of judge in both orders'
    """
    return draw_selection(
        symmetry,
        "Verdicts of {rater} in both orders",
        result.confusion,
        "order_confusion",
        aspect=aspect,
        rater=rater,
    )


def symmetry(data: Any) -> Any:
    """Draw one row of `Consistency.confusion`."""
    return outcome_cells(
        data,
        "{win: 'wins', tie: 'ties', loss: 'loses'}[outcome]",
        row_title="system A, shown first",
        column_title="system A, shown second",
        reading_expression="datum.row === datum.column ? 'same' : datum.row < datum.column ? 'to the first' : "
        "'to the second'",
        colour_of_reading={"same": theme.GREEN, "to the first": theme.VERMILION, "to the second": theme.SKY},
    )
