"""Figures: margins between systems by a metric alone, by human ratings alone, and by the correction."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
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


def correction_margins(
    result: Correction,
    metric: str | None = None,
    *,
    aspect: str | None = None,
    estimator: str | None = None,
    width: int = theme.PAGE_WIDTH,
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
    width : int, default 455
        Width of the plot in pixels.

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
    return theme.apply_theme(
        margins(theme.embed_rows(rows)),
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
