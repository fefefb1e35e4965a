"""Figures: strengths or win rates of systems with significance letters, and win rates of pairs of systems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.evaluate.leaderboard.leaderboard import Leaderboard, main_rows
from custodes.plots.choice import select_rows, title_with_aspect
from custodes.plots.drawable import drawable

TITLES = {"win_rate": "Win rate: mean over opponents, a tie counts half", "strength": "Strength: log odds, mean 0"}
Value = Literal["win_rate", "strength"]
PART = "systems connected by comparisons: group"
NUMBERED = 25
"""Maximum number of systems for which the cells of the map contain numbers."""
WIDE, SMALL = 38, 14
"""Widths in pixels of a cell with a number and of a cell without a number."""


def leaderboard_strengths(
    result: Leaderboard,
    *,
    rater: str | Sequence[str] | None = None,
    aspect: str | None = None,
    value: Value = "strength",
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of strengths or win rates of systems, the strongest first, with significance letters.

    Systems that share a letter do not differ significantly. An arrow means that one bound of the interval is unknown.
    Systems that no comparisons connect are in separate panels.

    Parameters
    ----------
    result : Leaderboard
        Result of `leaderboard`.
    rater : str or sequence of str, optional
        Raters to draw. By default, human ratings are drawn, and human ratings corrected by the metric that saves most
        annotations. If there are at most three raters, or no human ratings, all raters are drawn.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    value : {'strength', 'win_rate'}, default 'strength'
        Strengths, or win rates (not available for corrected ratings).
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the rater or the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=100)
    >>> leaderboard_strengths(result).to_dict()["title"]
    'Strengths (fluency)'
    """
    system_rows, aspect = select_rows(
        main_rows(result, result.systems) if rater is None else result.systems, "leaderboard_strengths", aspect=aspect
    )
    if rater is not None:
        system_rows = pl.concat(
            [
                select_rows(system_rows, "leaderboard_strengths", rater=rater_name)[0]
                for rater_name in ([rater] if isinstance(rater, str) else rater)
            ]
        )
    rater_names = system_rows["rater"].unique(maintain_order=True).to_list()

    def draw(panel_rows: pl.DataFrame, **properties: Any) -> Any:
        return strengths(theme.embed_rows(panel_rows), raters=rater_names, value=value).properties(
            width=width, **properties
        )

    panel_charts = [
        draw(system_rows.filter(part=component_number), title=f"{PART} {component_number}")
        for component_number in panels(system_rows)
    ]
    return theme.apply_theme(
        alt.vconcat(*panel_charts) if len(panel_charts) > 1 else draw(system_rows),
        title=title_with_aspect("Strengths" if value == "strength" else "Win rates", aspect),
    )


def panels(rows: pl.DataFrame) -> list[int]:
    """Connected components of the systems of `Leaderboard.systems`, the largest first.

    Systems of different components were never compared, so each component has a panel.
    """
    return sorted(rows["part"].drop_nulls().unique().to_list())


def strengths(data: Any, *, raters: Sequence[str] = (), value: Value = "strength") -> Any:
    """Draw the rows of `Leaderboard.systems` of one rater, or of several `raters` in different colours."""
    raters, is_win_rate = drawable(raters), value == "win_rate"
    sort_expression = "datum.strength"
    colour_options: dict[str, Any] = {"color": theme.BLUE}
    if len(raters) > 1:
        sort_expression, colour_options = f"datum.rater === {json.dumps(raters[0])} ? datum.strength : -1e9", {}
    base_chart = (
        alt.Chart(data)
        .transform_filter(f"isValid(datum.{value})")
        .transform_calculate(place=sort_expression)
        .encode(y=alt.Y("system:N", sort=alt.EncodingSortField(field="place", op="max", order="descending")))
    )
    if len(raters) > 1:
        rater_scale = alt.Scale(domain=list(raters))
        base_chart = base_chart.encode(
            color=alt.Color(
                "rater:N", title=None, scale=rater_scale, legend=alt.Legend(symbolOpacity=1, labelLimit=300)
            ),
            yOffset=alt.YOffset("rater:N", scale=rater_scale),
        )
    has_low_expression, has_high_expression = (f"isValid(datum.{value}_{bound_name})" for bound_name in ("low", "high"))
    # Every row has texts, possibly empty ones, because a layer without rows has no extent.
    labelled_chart = base_chart.transform_calculate(
        arrow=f"{has_low_expression} === {has_high_expression} ? '' : {has_low_expression} ? '→' : '←'",
        dx=f"{has_low_expression} ? 10 : -10",
        letters="datum.group || ''",
    )
    return alt.layer(
        theme.reference_line(data, x=0.5 if is_win_rate else 0),
        base_chart.transform_calculate(
            low=f"{has_low_expression} ? datum.{value}_low : datum.{value}",
            high=f"{has_high_expression} ? datum.{value}_high : datum.{value}",
        )
        .mark_rule(**theme.WHISKER, **colour_options)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        labelled_chart.mark_text(fontSize=13, xOffset=alt.expr("datum.dx")).encode(
            x=alt.X(f"{value}:Q"), text=alt.Text("arrow:N")
        ),
        base_chart.mark_point(opacity=1, **colour_options).encode(
            x=alt.X(
                f"{value}:Q",
                title=TITLES[value],
                scale=alt.Scale(zero=False, nice=True),
                axis=alt.Axis(format="%") if is_win_rate else alt.Axis(),
            ),
            tooltip=theme.column_tooltips(
                Leaderboard.table_declarations()["systems"],
                *("rater", "system", "strength", "rank", "win_rate", "battles", "group"),
            ),
        ),
        labelled_chart.mark_text(align="left", dx=6).encode(x=alt.value("width"), text=alt.Text("letters:N")),
        height=alt.Step(theme.ROW * (1 + 0.7 * max(0, len(raters) - 1)), **{"for": "position"}),
    )


def win_rate_map(result: Leaderboard, *, rater: str | None = None, aspect: str | None = None) -> alt.TopLevelMixin:
    """Heat map of the win rate of the row's system against the column's system; a tie counts half.

    Orange: above one half. Blue: below one half. The best system is in the first row. Cells without comparisons are
    empty.

    Parameters
    ----------
    result : Leaderboard
        Result of `leaderboard`.
    rater : str, optional
        Rater of the pairs; default: human ratings, or the first rater if there are no human ratings.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If the rater or the aspect is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=100)
    >>> len(win_rate_map(result).to_dict()["layer"])
    2
    """
    pair_rows, aspect = select_rows(result.pairs, "win_rate_map", aspect=aspect)
    pair_rows, rater = select_rows(pair_rows, "win_rate_map", rater=rater or pair_rows["rater"][0])
    return theme.apply_theme(
        heat_map(
            theme.embed_rows(pair_rows), n_systems=pl.concat([pair_rows["system_a"], pair_rows["system_b"]]).n_unique()
        ),
        title=title_with_aspect(f"Win rates of pairs, by {rater}", aspect),
    )


def heat_map(data: Any, *, n_systems: int) -> Any:
    """Draw the rows of `Leaderboard.pairs` of one rater. Each pair is drawn in both directions."""
    is_system_b_expression = "datum.side === 'system_b'"
    base_chart = (
        alt.Chart(data)
        .transform_fold(["system_a", "system_b"], as_=["side", "system"])
        .transform_calculate(
            opponent=f"{is_system_b_expression} ? datum.system_a : datum.system_b",
            rate=f"{is_system_b_expression} ? 1 - datum.win_rate : datum.win_rate",
            low=f"{is_system_b_expression} ? 1 - datum.win_rate_high : datum.win_rate_low",
            high=f"{is_system_b_expression} ? 1 - datum.win_rate_low : datum.win_rate_high",
            won=f"{is_system_b_expression} ? datum.losses : datum.wins",
            lost=f"{is_system_b_expression} ? datum.wins : datum.losses",
            beyond="datum.rate - 0.5",
            p_text=theme.p_value_expression("p_adjusted"),
        )
        .transform_joinaggregate(centre="mean(rate)", groupby=["system"])
        .transform_joinaggregate(against="mean(rate)", groupby=["opponent"])
        .encode(
            x=alt.X(
                "opponent:N",
                sort=alt.EncodingSortField(field="against", op="max", order="ascending"),
                axis=theme.names_above(angle=-45, limit=120),
            ),
            y=alt.Y("system:N", sort=alt.EncodingSortField(field="centre", op="max", order="descending")),
        )
    )
    tooltips = [
        alt.Tooltip("system:N"),
        alt.Tooltip("opponent:N", title="against"),
        alt.Tooltip("rate:Q", format=".0%", title="win rate"),
        alt.Tooltip("low:Q", format=".0%"),
        alt.Tooltip("high:Q", format=".0%"),
        alt.Tooltip("won:Q"),
        alt.Tooltip("ties:Q", title="tied"),
        alt.Tooltip("lost:Q"),
        alt.Tooltip("p_text:N", title="adjusted p"),
    ]
    cell_layer = base_chart.mark_rect().encode(color=theme.diverging_colour("beyond", 0.5), tooltip=tooltips)
    if n_systems > NUMBERED:
        return cell_layer.properties(width=alt.Step(SMALL), height=alt.Step(SMALL))
    return alt.layer(
        cell_layer,
        base_chart.mark_text().encode(text=alt.Text("rate:Q", format=".0%"), tooltip=tooltips),
        width=alt.Step(WIDE),
        height=alt.Step(theme.ROW),
    )
