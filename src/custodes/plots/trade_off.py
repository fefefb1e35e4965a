"""Figure: trade-off between agreement and partiality of a combined metric."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.combining.combine import Combine
from custodes.errors import InputError
from custodes.plots.choice import select_rows, title_with_aspect
from custodes.plots.combine import axis_of

SEEN, UNSEEN = "systems of the fit", "systems left out of the fit"


def trade_off_curve(result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Agreement with human ratings on held-out items (y axis) by the largest partiality to a system (x axis), with
    one point for each strength of the penalty on partiality. Large points mark the strength that is chosen on all
    data. Whiskers are intervals of the agreement. Intervals of the partiality are in the tooltip and in
    `Combine.trade_off`.

    Parameters
    ----------
    result : Combine
        Result of `combine` with the method `even-handed`.
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
    InputError
        If the result does not contain the method `even-handed`.
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0, unseen="none")
    >>> trade_off_curve(result)
    Traceback (most recent call last):
    custodes.errors.InputError: trade_off_curve: the result has no trade-off; call combine with the method even-handed
    """
    if result.trade_off.is_empty():
        raise InputError("trade_off_curve: the result has no trade-off; call combine with the method even-handed")
    penalty_rows, target = select_rows(result.trade_off, "trade_off_curve", target=target)
    return theme.apply_theme(
        trade_off(theme.embed_rows(trade_off_rows(penalty_rows)), objective=result.model.objective),
        title=title_with_aspect("Agreement by largest partiality", target),
        width=width,
    )


def trade_off_rows(table: pl.DataFrame) -> pl.DataFrame:
    """One row for each combination of target, penalty and kind of systems for which the partiality is defined.

    The columns are target, penalty, chosen, score with bounds, seen, partiality with bounds, and system."""
    return pl.concat(
        [
            table.select(
                *("target", "penalty", "chosen", "score", "score_low", "score_high"),
                seen=pl.lit(system_kind_label),
                partiality=f"{column_prefix}largest_partiality",
                partiality_low=f"{column_prefix}largest_partiality_low",
                partiality_high=f"{column_prefix}largest_partiality_high",
                system=f"{column_prefix}system",
            )
            for system_kind_label, column_prefix in ((SEEN, ""), (UNSEEN, "unseen_"))
        ]
    ).drop_nulls("partiality")


def trade_off(data: Any, *, objective: str) -> Any:
    """Draw the rows of `trade_off_rows` of one target."""
    x_channel = alt.X("partiality:Q", title="Largest partiality (points of win rate)", scale=alt.Scale(zero=True))
    make_y = partial(alt.Y, scale=alt.Scale(zero=False), axis=alt.Axis(title=axis_of(objective), titleAngle=-90))
    colour_channel = theme.category_colour("seen", {SEEN: theme.BLUE, UNSEEN: theme.ORANGE})
    base_chart = alt.Chart(data)
    return alt.layer(
        base_chart.mark_line(opacity=0.6).encode(
            x=x_channel, y=make_y("score:Q"), color=colour_channel, order="penalty:Q"
        ),
        base_chart.transform_filter("isValid(datum.score_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=x_channel, y=make_y("score_low:Q"), y2="score_high:Q", color=colour_channel),
        base_chart.mark_point(filled=True, opacity=1).encode(
            x=x_channel,
            y=make_y("score:Q"),
            color=colour_channel,
            size=alt.SizeValue(35, condition={"test": "datum.chosen", "value": 160}),
            tooltip=[
                alt.Tooltip("penalty:Q", format="~g"),
                *theme.number_tooltips(".3f", "score", "score_low", "score_high"),
                *theme.number_tooltips(".1f", "partiality", "partiality_low", "partiality_high"),
                alt.Tooltip("system:N"),
            ],
        ),
        height=240,
    )
