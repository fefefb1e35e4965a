"""Figures: margins between systems by a metric alone, by human ratings alone, and by the correction."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.evaluate.correction import BESIDE, Correction
from custodes.plots.choice import select_rows, title_with_aspect

CHANGED = "changed"
"""Value of the column `changed` if the corrected decision differs from the decision by the metric alone (otherwise
null)."""

KEYS = ("aspect", "metric", "system_a", "system_b")
LABELS = {"_naive": "metric", "_human": "human ratings", "": "corrected"}
"""For each suffix of the margin columns in `margin_rows`, the displayed source of the margin."""

COLOURS = (theme.ORANGE, theme.BLUE, theme.GREEN)
SHAPES = ["square", "triangle-up", "circle"]
"""Shapes of the points, so that colour-blind readers can distinguish the points without colours."""

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

    Each pair has three margins: by the metric alone, by human ratings alone, and corrected. The margin is the
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
    pair_rows, aspect, metric = select_rows(
        margin_rows(result, estimator=estimator), "correction_margins", aspect=aspect, metric=metric
    )
    return theme.apply_theme(
        margins(theme.embed_rows(pair_rows)),
        width=width,
        title=title_with_aspect(f"Margins by human ratings and {metric}", aspect),
    )


def margin_rows(result: Correction, *, estimator: str | None = None) -> pl.DataFrame:
    """One row per aspect, metric and pair of systems, with the columns of `Correction.pairs` for one estimator.

    Further columns are the margins and decisions of the estimators naive and human, and `changed`, which marks a
    decision that differs from the naive decision.
    """
    if estimator is None:
        estimator = next(
            (pair_estimator for pair_estimator in result.pairs["estimator"] if pair_estimator not in BESIDE), BESIDE[-1]
        )
    estimator_rows: pl.DataFrame = select_rows(result.pairs, "correction_margins", estimator=estimator)[0]
    for estimator_name in BESIDE:
        estimator_columns = pl.col("margin", "margin_low", "margin_high", "decision").name.suffix(f"_{estimator_name}")
        estimator_rows = estimator_rows.join(
            result.pairs.filter(estimator=estimator_name).select(*KEYS, estimator_columns),
            on=KEYS,
            how="left",
            maintain_order="left",
        )
    return estimator_rows.with_columns(
        pair=pl.format("{} – {}", "system_a", "system_b"),
        changed=pl.when(pl.col("decision") != pl.col("decision_naive")).then(pl.lit(CHANGED)),
    )


def margins(data: Any) -> Any:
    """Draw the rows of `margin_rows`."""
    source_labels = list(LABELS.values())
    colour_channel = theme.category_colour("by", dict(zip(source_labels, COLOURS, strict=True)))
    shape_channel = alt.Shape("by:N", scale=alt.Scale(domain=source_labels, range=SHAPES), title=None)
    y_channel = alt.Y("pair:N", sort=alt.EncodingSortField(field="margin", op="max", order="descending"))
    base_chart = alt.Chart(data).transform_filter("isValid(datum.margin) || isValid(datum.margin_naive)")
    layers = [theme.reference_line(data, x=0)]
    for source_index, (column_suffix, source_label) in enumerate(LABELS.items()):
        source_chart = base_chart.transform_calculate(by=f"'{source_label}'")
        y_shift = APART * (source_index - 1)
        layers += [
            source_chart.transform_filter(f"isValid(datum.margin_low{column_suffix})")
            .mark_rule(**theme.WHISKER, yOffset=y_shift)
            .encode(
                x=alt.X(f"margin_low{column_suffix}:Q", title="Margin of the first system"),
                x2=alt.X2(f"margin_high{column_suffix}:Q"),
                y=y_channel,
                color=colour_channel,
            ),
            source_chart.mark_point(opacity=1, size=34, yOffset=y_shift).encode(
                x=alt.X(f"margin{column_suffix}:Q"),
                y=y_channel,
                color=colour_channel,
                shape=shape_channel,
                tooltip=[
                    alt.Tooltip("pair:N"),
                    alt.Tooltip(f"margin{column_suffix}:Q", format=".3f", title=f"margin ({source_label})"),
                    alt.Tooltip(f"margin_low{column_suffix}:Q", format=".3f", title="low"),
                    alt.Tooltip(f"margin_high{column_suffix}:Q", format=".3f", title="high"),
                    alt.Tooltip(f"decision{column_suffix}:N", title="decision"),
                ],
            ),
        ]
    return alt.layer(*layers, height=alt.Step(PAIR_ROW))
