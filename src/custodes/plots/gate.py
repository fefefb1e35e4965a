"""Figure: distance of each rule of a gate from its threshold."""

from __future__ import annotations

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.errors import OptionError
from custodes.evaluate.gate.gate import Gate
from custodes.evaluate.gate.outcomes import summary_of
from custodes.evaluate.gate.rules import FAILS, HOLDS, INCONCLUSIVE
from custodes.plots.choice import select_rows, title_with_aspect

COLOURS = {HOLDS: theme.BLUE, FAILS: theme.VERMILION, INCONCLUSIVE: theme.GREY}
DISTANCE = "Value minus threshold"
TOLD = ("rule", "metric", "statistic", "value", "threshold", "outcome")


def gate_rules(
    result: Gate, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of value minus threshold for each rule, with a grey line at 0.

    If the interval of a rule does not contain 0, the rule holds or fails. Otherwise it is inconclusive. A rule with an
    undefined value has no dot.

    Parameters
    ----------
    result : Gate
        Result of `gate`.
    aspect : str, optional
        Aspect to draw (default: all aspects).
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
        If the aspect is unknown, or if the result has a ledger.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.gate(cu.read("demo"), metric="judge", require="kendall_item>=0.3")
    >>> gate_rules(result).to_dict()["title"]
    'gate: holds (2 rules: 2 hold, 0 fail, 0 inconclusive)'
    """
    if not result.ledger.is_empty():
        raise OptionError("gate_rules: a result with a ledger has no estimates to draw")
    rows = result.rules if aspect is None else select_rows(result.rules, "aspect", aspect, function_name="gate_rules")
    chart_rows = rows.with_columns(
        row=pl.Series(
            [title_with_aspect(rule, rule_aspect) for rule, rule_aspect in rows.select("rule", "aspect").iter_rows()]
        ),
        distance=pl.col("value") - pl.col("threshold"),
        low=pl.col("value_low") - pl.col("threshold"),
        high=pl.col("value_high") - pl.col("threshold"),
    )
    rule_channel = alt.Y("row:N", sort=None)
    colour_channel = theme.category_colour("outcome", COLOURS)
    base = alt.Chart(theme.embed_rows(chart_rows))
    x = alt.X("distance:Q", title=DISTANCE, scale=alt.Scale(zero=True, nice=True))
    return theme.apply_theme(
        alt.layer(
            base.mark_rule(color=theme.GREY, strokeWidth=1).encode(x=alt.datum(0)),
            base.transform_filter("isValid(datum.low)")
            .mark_rule(**theme.WHISKER)
            .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=rule_channel, color=colour_channel),
            base.mark_point(opacity=1).encode(
                x=x,
                y=rule_channel,
                color=colour_channel,
                tooltip=theme.column_tooltips(Gate.table_declarations()["rules"], *TOLD),
            ),
            height=alt.Step(theme.ROW),
            width=width,
        ),
        dark=dark,
        title=summary_of(rows),
    )
