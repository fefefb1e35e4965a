"""Figure: Favi-Scores of pairs of systems against the accuracy on these pairs."""

from __future__ import annotations

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.evaluate.favoritism import Favoritism
from custodes.plots.choice import select_rows, title_with_aspect

SIGNS = {"same": theme.BLUE, "opposite": theme.VERMILION}
HEIGHT = 220


def favoritism_of_pairs(
    result: Favoritism, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH
) -> alt.TopLevelMixin:
    """Favi-Scores of pairs of systems, by the signs of margins (upper plot) and by sample accuracy (lower plot).

    Each metric and pair of systems has a point, as in figure 5 of the Favi-Score paper. The upper plot has one box plot
    for pairs whose human and metric margins have the same sign, and one for pairs with opposite signs. The colours of
    the lower plot show the same two groups. Spearman's correlations are in the titles and in the table
    `correlations`.

    Parameters
    ----------
    result : Favoritism
        Result of `favoritism`.
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
    >>> result = cu.favoritism(cu.read("demo"), resamples=0)
    >>> len(favoritism_of_pairs(result, aspect="fluency").to_dict()["vconcat"])
    2
    """
    aspect_pair_rows, aspect = select_rows(result.pairs, "favoritism_of_pairs", aspect=aspect)
    correlation_text_of_accuracy = {
        row["accuracy"]: "undefined" if row["spearman"] is None else f"{row['spearman']:+.2f}"
        for row in result.correlations.filter(aspect=aspect).iter_rows(named=True)
    }
    pair_rows = aspect_pair_rows.drop_nulls(["favi", "sign_agrees"]).select(
        *("metric", "system_a", "system_b", "favi", "sample_accuracy"),
        size=pl.col("favi").abs(),
        signs=pl.when("sign_agrees").then(pl.lit("same")).otherwise(pl.lit("opposite")),
    )
    base_chart = alt.Chart(theme.embed_rows(pair_rows))
    tooltips = [
        alt.Tooltip("metric:N"),
        alt.Tooltip("system_a:N"),
        alt.Tooltip("system_b:N"),
        alt.Tooltip("favi:Q", format="+.2f", title="Favi-Score"),
        alt.Tooltip("sample_accuracy:Q", format=".1%"),
        alt.Tooltip("signs:N", title="signs of margins"),
    ]
    sign_channel = alt.Y("signs:N", title="Signs of margins", sort=list(SIGNS))
    colour_channel = theme.category_colour("signs", SIGNS, legend=None)
    abs_favi_channel = alt.X("size:Q", title="|Favi-Score|")
    box_chart = alt.layer(
        base_chart.mark_tick(thickness=1, opacity=0.4).encode(
            x=abs_favi_channel, y=sign_channel, color=colour_channel, tooltip=tooltips
        ),
        base_chart.mark_boxplot(size=14, opacity=0.6, outliers=False, color=theme.GREY).encode(
            x=abs_favi_channel, y=sign_channel
        ),
        width=width,
        title=f"Spearman’s ρ of |Favi-Score| and same sign {correlation_text_of_accuracy['sign_agrees']}",
    )
    point_chart = (
        base_chart.mark_point(opacity=0.7)
        .encode(
            x=alt.X(
                "sample_accuracy:Q", title="Sample accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(format="%")
            ),
            y=alt.Y("size:Q", title="|Favi-Score|"),
            color=colour_channel,
            tooltip=tooltips,
        )
        .properties(
            width=width,
            height=HEIGHT,
            title=f"Spearman’s ρ of |Favi-Score| and accuracy {correlation_text_of_accuracy['sample_accuracy']}",
        )
    )
    return theme.apply_theme(
        alt.vconcat(box_chart, point_chart), title=title_with_aspect("Favi-Scores and accuracy of pairs", aspect)
    )
