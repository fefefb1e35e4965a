"""Figure: trade-off between agreement and partiality of a combined metric."""

from __future__ import annotations

from functools import partial
from typing import Any

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.combining.combine import Combine
from custodes.errors import InputError
from custodes.plots.choice import select_aspect, title_with_aspect
from custodes.plots.combine import axis_of, objective_of


def trade_off_curve(
    result: Combine, *, target: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Held-out agreement by largest partiality, with one point for each strength of the penalty on partiality.

    Large points mark the strength that is chosen on all data. Whiskers are intervals of the agreement. Intervals of the
    partiality are in the tooltip and in `Combine.trade_off`.

    Parameters
    ----------
    result : Combine
        Result of `combine` with the method `even-handed`.
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
        If the result does not contain the method `even-handed`.
    OptionError
        If the target is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0)
    >>> trade_off_curve(result)
    Traceback (most recent call last):
    custodes.errors.InputError: trade_off_curve: the result has no trade-off; call combine with the method even-handed
    """
    if result.trade_off.is_empty():
        raise InputError("trade_off_curve: the result has no trade-off; call combine with the method even-handed")
    rows, target = select_aspect(result.trade_off, target, function_name="trade_off_curve", column_name="target")
    return theme.apply_theme(
        trade_off(theme.embed_rows(rows), objective=objective_of(result)),
        dark=dark,
        title=title_with_aspect("Agreement by largest partiality", target),
        width=width,
    )


def trade_off(data: Any, *, objective: str) -> Any:
    """Draw the rows of `Combine.trade_off` of one target."""
    x = alt.X("largest_partiality:Q", title="Largest partiality (points of win rate)", scale=alt.Scale(zero=True))
    make_y = partial(alt.Y, scale=alt.Scale(zero=False), axis=alt.Axis(title=axis_of(objective), titleAngle=-90))
    tooltips = [
        alt.Tooltip("penalty:Q", format="~g"),
        *theme.interval_tooltips("score", ".3f"),
        *theme.interval_tooltips("largest_partiality", ".1f", title="largest partiality"),
        alt.Tooltip("system:N"),
    ]
    base = alt.Chart(data)
    return alt.layer(
        base.mark_line(opacity=0.6, color=theme.BLUE).encode(x=x, y=make_y("score:Q"), order="penalty:Q"),
        base.transform_filter("isValid(datum.score_low)")
        .mark_rule(**theme.WHISKER, color=theme.BLUE)
        .encode(x=x, y=make_y("score_low:Q"), y2="score_high:Q"),
        base.mark_point(filled=True, opacity=1, color=theme.BLUE).encode(
            x=x,
            y=make_y("score:Q"),
            size=alt.condition("datum.chosen", alt.value(160), alt.value(35)),
            tooltip=tooltips,
        ),
        height=240,
    )
