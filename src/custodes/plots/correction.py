"""Figures: margins between systems by a metric alone, by human ratings alone, and by the correction."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.errors import OptionError
from custodes.evaluate.correction import BESIDE, Correction
from custodes.plots.choice import select_aspect, select_rows, title_with_aspect

CHANGED = "changed"
"""Value of the column `changed` if the corrected decision differs from the naive decision (otherwise null)."""

KEYS = ("aspect", "metric", "system_a", "system_b")
LABELS = {"_naive": "metric", "_human": "human ratings", "": "corrected"}
"""Suffixes of the margin columns in `margin_rows`, with the labels of the sources of the margins."""

COLOURS = (theme.ORANGE, theme.BLUE, theme.GREEN)
SHAPES = ("square", "triangle-up", "circle")
"""Shapes of the points, which colour-blind readers can distinguish without colours."""

PAIR_ROW = 26
"""Height in pixels of the row of a pair, which contains three whiskers 7 pixels apart."""
APART = 7

OUTCOMES = ("p_win", "p_tie", "p_loss")


def correction_margins(
    result: Correction,
    metric: str | None = None,
    *,
    aspect: str | None = None,
    estimator: str | None = None,
    changed: bool = False,
    width: int = theme.PAGE_WIDTH,
    dark: bool = False,
) -> alt.TopLevelMixin:
    """Dot-and-whisker plot of the margins of each pair of systems.

    The three margins of a pair are by the metric alone, by human ratings alone, and corrected. The margin is the
    proportion of items on which the first system is better minus the proportion on which the second system is better.
    Pairs are sorted by the corrected margin, the largest first.

    Parameters
    ----------
    result : Correction
        Result of `correction`.
    metric : str, optional
        Metric to draw; required if several metrics are corrected.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    estimator : str, optional
        Estimator of the result; default: the first estimator that is neither naive nor human.
    changed : bool, default False
        Whether to draw only pairs whose corrected decision differs from the decision of the metric alone.
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
        If the aspect, the metric or the estimator is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.correction(cu.read("demo"), estimator="ppi", metrics="learned", aspect="fluency")
    >>> len(correction_margins(result, "learned").to_dict()["layer"])
    7
    """
    function_name = "correction_margins"
    rows, aspect = select_aspect(
        margin_rows(result, estimator=estimator, function_name=function_name), aspect, function_name=function_name
    )
    rows, metric = select_aspect(rows, metric, function_name=function_name, column_name="metric")
    if changed:
        rows = rows.filter(pl.col("changed") == CHANGED)
    return theme.apply_theme(
        margins(theme.embed_rows(rows)),
        dark=dark,
        width=width,
        title=title_with_aspect(f"Margins by human ratings and {metric}", aspect),
    )


def margin_rows(
    result: Correction, *, estimator: str | None = None, function_name: str = "margin_rows"
) -> pl.DataFrame:
    """One row per aspect, metric and pair of systems, with the columns of `Correction.pairs` for one estimator.

    Further columns are the margins and decisions of the estimators naive and human, and `changed`, which marks a
    decision that differs from the naive decision.
    """
    estimator_names = result.pairs["estimator"].unique(maintain_order=True).to_list()
    estimator = estimator or next(
        (estimator_name for estimator_name in estimator_names if estimator_name not in BESIDE), BESIDE[-1]
    )
    rows = select_rows(result.pairs, "estimator", estimator, function_name=function_name)
    for estimator_name in BESIDE:
        suffixed_columns_expression = pl.col("margin", "margin_low", "margin_high", "decision").name.suffix(
            f"_{estimator_name}"
        )
        reference_rows = result.pairs.filter(estimator=estimator_name).select(*KEYS, suffixed_columns_expression)
        rows = rows.join(reference_rows, on=KEYS, how="left", maintain_order="left")
    return rows.with_columns(
        pair=pl.format("{} – {}", "system_a", "system_b"),
        changed=pl.when(pl.col("decision") != pl.col("decision_naive")).then(pl.lit(CHANGED)),
    )


def margins(data: Any) -> Any:
    """Draw the rows of `margin_rows`."""
    colour_channel = alt.Color("by:N", scale=alt.Scale(domain=list(LABELS.values()), range=list(COLOURS)), title=None)
    shape_scale = alt.Scale(domain=list(LABELS.values()), range=list(SHAPES))
    y = alt.Y("pair:N", sort=alt.EncodingSortField(field="margin", op="max", order="descending"))
    base = alt.Chart(data).transform_filter("isValid(datum.margin) || isValid(datum.margin_naive)")
    layers = [alt.Chart(data).mark_rule(color=theme.GREY, strokeDash=[3, 3]).encode(x=alt.datum(0))]
    for source_index, (column_suffix, source_label) in enumerate(LABELS.items()):
        margin_column_name, low_column_name, high_column_name = (
            f"{base_column_name}{column_suffix}" for base_column_name in ("margin", "margin_low", "margin_high")
        )
        y_shift, source_base = APART * (source_index - 1), base.transform_calculate(by=f"'{source_label}'")
        whisker_chart = source_base.transform_filter(f"isValid(datum.{low_column_name})").mark_rule(
            **theme.WHISKER, yOffset=y_shift
        )
        layers += [
            whisker_chart.encode(
                x=alt.X(f"{low_column_name}:Q", title="Margin of the first system"),
                x2=alt.X2(f"{high_column_name}:Q"),
                y=y,
                color=colour_channel,
            ),
            source_base.mark_point(opacity=1, size=34, yOffset=y_shift).encode(
                x=alt.X(f"{margin_column_name}:Q"),
                y=y,
                color=colour_channel,
                shape=alt.Shape("by:N", scale=shape_scale, title=None),
                tooltip=[
                    alt.Tooltip("pair:N"),
                    *(
                        alt.Tooltip(f"{column_name}:Q", format=".3f", title=tooltip_title)
                        for column_name, tooltip_title in (
                            (margin_column_name, f"margin ({source_label})"),
                            (low_column_name, "low"),
                            (high_column_name, "high"),
                        )
                    ),
                    alt.Tooltip(f"decision{column_suffix}:N", title="decision"),
                ],
            ),
        ]
    return alt.layer(*layers, height=alt.Step(PAIR_ROW))


def pair_outcome(
    result: Correction,
    metric: str,
    system_a: str,
    system_b: str,
    *,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
    dark: bool = False,
) -> alt.TopLevelMixin:
    """Proportions of wins, ties and losses of one pair of systems, by every estimator.

    Dots are posterior means, and whiskers are intervals. Estimators that give only a margin have no row. The systems
    can be given in either order.

    Parameters
    ----------
    result : Correction
        Result of `correction`.
    metric : str
        Metric or judge.
    system_a : str
        First system.
    system_b : str
        Second system.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
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
        If a name is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.correction(cu.read("demo"), metrics="learned", aspect="fluency")
    >>> pair_outcome(result, "learned", "Fir", "Elm").to_dict()["title"]
    'Fir against Elm by human ratings and learned (fluency)'
    """
    function_name = "pair_outcome"
    rows, aspect = select_aspect(result.pairs, aspect, function_name=function_name)
    rows = select_rows(rows, "metric", metric, function_name=function_name)
    outcome_rows = _select_pair_outcomes(rows, system_a, system_b, function_name=function_name).filter(
        pl.col("share").is_not_null()
    )
    return theme.apply_theme(
        outcomes(theme.embed_rows(outcome_rows), system_a, system_b),
        dark=dark,
        title=title_with_aspect(f"{system_a} against {system_b} by human ratings and {metric}", aspect),
        width=width,
    )


def _select_pair_outcomes(rows: pl.DataFrame, system_a: str, system_b: str, *, function_name: str) -> pl.DataFrame:
    """Rows of one pair with the columns estimator, outcome, share, low and high; outcomes are those of `system_a`."""
    system_name_table = pl.DataFrame({"system": list(dict.fromkeys([*rows["system_a"], *rows["system_b"]]))})
    for system_name in (system_a, system_b):
        select_rows(system_name_table, "system", system_name, function_name=function_name)
    for first_system_name, second_system_name, outcome_column_names in (
        (system_a, system_b, OUTCOMES),
        (system_b, system_a, OUTCOMES[::-1]),
    ):
        pair_rows = rows.filter(system_a=first_system_name, system_b=second_system_name)
        if pair_rows.height:
            return pl.concat(
                pair_rows.select(
                    "estimator",
                    outcome=pl.lit(outcome),
                    share=column_name,
                    low=f"{column_name}_low",
                    high=f"{column_name}_high",
                )
                for outcome, column_name in zip(OUTCOMES, outcome_column_names, strict=True)
            )
    raise OptionError(f"{function_name}: {system_a!r} and {system_b!r} are not a pair of systems in the result")


def outcomes(data: Any, system_a: str, system_b: str) -> Any:
    """Draw rows with the columns estimator, outcome, share, low and high."""
    label_of_outcome = dict(zip(OUTCOMES, (f"{system_a} better", "tie", f"{system_b} better"), strict=True))
    outcome_labels = list(label_of_outcome.values())
    label_expression = (
        "".join(
            f"datum.outcome == '{outcome}' ? {json.dumps(outcome_label)} : "
            for outcome, outcome_label in label_of_outcome.items()
        )
        + "''"
    )
    colours = (theme.BLUE, theme.GREY, theme.ORANGE)
    colour_channel = theme.category_colour(
        "label", dict(zip(outcome_labels, colours, strict=True)), sort=outcome_labels
    )
    base = alt.Chart(data).transform_calculate(label=label_expression)
    estimator_channel, lane_channel = alt.Y("estimator:N", sort=None), alt.YOffset("label:N", sort=outcome_labels)
    whisker_chart = base.transform_filter("isValid(datum.low)").mark_rule(**theme.WHISKER)
    x = alt.X("share:Q", title="Proportion of items", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    return alt.layer(
        whisker_chart.encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=estimator_channel, yOffset=lane_channel, color=colour_channel
        ),
        base.mark_point(opacity=1).encode(
            x=x,
            y=estimator_channel,
            yOffset=lane_channel,
            color=colour_channel,
            tooltip=[
                alt.Tooltip("estimator:N"),
                alt.Tooltip("label:N", title="outcome"),
                alt.Tooltip("share:Q", format=".3f"),
                alt.Tooltip("low:Q", format=".3f"),
                alt.Tooltip("high:Q", format=".3f"),
            ],
        ),
        height=alt.Step(3 * theme.ROW, **{"for": "position"}),
    )
