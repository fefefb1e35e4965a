"""Section: complementarity of metrics with each other and with human ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.answers.tables import column
from custodes.answers.wording import estimate_with_interval, number, percent, plural
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.complementarity import AVERAGES, averages, heat_map, places, variance_curve
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import table_html

HEAT_WIDTH, MAP_WIDTH = 760, 560
"""Sizes of the heat map and of the map of raters in pixels.

These figures have fixed proportions, so they are not scaled to the page.
"""


def _figures(context: Context) -> Sequence[Figure]:
    """The figures of distances between raters, of dimensions in which raters differ, and the map of raters.

    Some figures need a minimum number of raters.
    """
    result: Any = context.results["complementarity"]
    best_rater_names = [
        rater_name for aspect, metric in context.best.items() for rater_name in (metric, f"{metric}:{aspect}")
    ]
    return [
        Figure(
            id="complementarity-averages",
            title="Mean complementarity of two raters",
            caption="Dot: mean over pairs of raters. Whisker: interval from resampled items. Dashed line: the "
            "value of unrelated raters.",
            alt="Dot-and-whisker plot of mean complementarity by kind of pair: human aspects, metrics, or one of each.",
            spec=spec_of(averages(empty_rows()), width="container"),
            table="complementarity.averages",
            lines=("kinds",),
        ),
        Figure(
            id="complementarity-map",
            title="Complementarity of each pair of raters",
            caption="Blue: similar rankings. Blank: unrelated. Vermilion: opposite rankings. Human ratings first, then "
            "metrics, each ordered by similarity.",
            alt="Heat map of the complementarity of each pair of raters, humans first; the table below has the means.",
            spec=spec_of(heat_map(empty_rows(), result, width=HEAT_WIDTH)),
            table="complementarity.pairs",
        ),
        *(
            [
                Figure(
                    id="complementarity-variance",
                    title="Number of dimensions in which raters differ",
                    caption="The common ranking of all raters is subtracted first. Bars: proportion of the "
                    "remaining variance that each principal component explains, with its interval. Blue line: "
                    "cumulative proportion. Dashed line: cumulative proportion if the same number of raters "
                    f"had random rankings. Grey line: {percent(SHARE)}. A steep blue line means that raters "
                    "differ in few dimensions, not that they agree.",
                    alt="Bars and lines: variance of the raters' ranks that each principal component explains.",
                    spec=spec_of(variance_curve(empty_rows()), width="container"),
                    table="complementarity.components",
                )
            ]
            if result.components.height
            else []
        ),
        *(
            [
                Figure(
                    id="complementarity-places",
                    title="Map of the raters",
                    caption="First two principal components of the differences from the common ranking. Raters that "
                    "are close to each other differ from the common ranking in the same way. Triangles: human "
                    "ratings. Colour: cluster. If there are many raters, only some are labelled; the table below "
                    "lists all raters.",
                    alt="Map of the raters on the first two principal components; the table below holds their "
                    "clusters.",
                    spec=spec_of(
                        places(empty_rows(), result, width=MAP_WIDTH, named=best_rater_names, metric="{metric}")
                    ),
                    table="complementarity.coordinates",
                )
            ]
            if result.coordinates.height
            else []
        ),
    ]


def sentences(result: Complementarity) -> list[str]:
    """Sentences on the mean complementarity and on the principal components."""
    mean_of_kind_pair = {row["kinds"]: row["complementarity"] for row in result.averages.iter_rows(named=True)}
    gap_row_of_kind_pairs = {(row["kinds_a"], row["kinds_b"]): row for row in result.gaps.iter_rows(named=True)}
    sentence_texts = []
    mean_human_metric = mean_of_kind_pair["human-metric"]
    for within_kind_pair, more_similar_text, less_similar_text, no_difference_text in (
        (
            "metric-metric",
            "Rankings by metrics are more similar to each other than to rankings by annotators. Together, "
            "the metrics contain less information than their number suggests. Noise of the human ratings contributes "
            "to the difference",
            "Rankings by metrics are more similar to rankings by annotators than to each other, so the metrics err in "
            "different ways",
            "Rankings by metrics are not significantly more similar to rankings by annotators than to each other",
        ),
        (
            "human-human",
            "Rankings by human aspects are more similar to each other than to rankings by metrics",
            "Rankings by human aspects are more similar to rankings by metrics than to each other",
            "Rankings by human aspects are not significantly more similar to each other than to rankings by metrics",
        ),
    ):
        gap_row = gap_row_of_kind_pairs.get(("human-metric", within_kind_pair))
        if gap_row is None or gap_row["difference"] is None:
            continue
        if gap_row["difference_low"] is None:
            comparison_text = "Without intervals, the difference is inconclusive"
        else:
            comparison_text = (
                more_similar_text
                if gap_row["difference_low"] > 0
                else less_similar_text
                if gap_row["difference_high"] < 0
                else no_difference_text
            )
        sentence_texts.append(
            f"{comparison_text}. The mean complementarity (0.5: unrelated) is {number(mean_human_metric)} for a human "
            "aspect and a "
            f"metric, and {number(mean_of_kind_pair[within_kind_pair])} for {AVERAGES[within_kind_pair]} (difference "
            f"{estimate_with_interval(gap_row, 'difference')})."
        )
    sentence_texts += [
        f"{plural(round(row['dimension']), 'principal component')} "
        f"explain{'s' if row['dimension'] == 1 else ''} {percent(SHARE)} of the differences of "
        f"{plural(row['raters'], 'rater')} from their common ranking. With random rankings, the expected "
        f"number of components would be {number(row['dimension_null'], digits=1)}."
        for row in result.summary.iter_rows(named=True)
        if row["dimension"] is not None
    ]
    return sentence_texts


def _tables(context: Context, result: Complementarity) -> list[str]:
    declaration_of_table = result.table_declarations()
    cluster_columns = [declaration_of_table["clusters"].column(column_name) for column_name in ("cluster", "stability")]
    rater_rows = (
        result.raters.join(result.clusters.select("rater", "cluster", "stability"), on="rater", how="left")
        .sort("with_humans", nulls_last=True, maintain_order=True)
        .with_columns(pl.col("kind").replace("human", "human rater"))
    )
    rule_rows = result.rules.pivot("kinds", index="distance", values="complementarity", maintain_order=True)
    average_columns = [
        column(kind_pair, "mean complementarity", pair_label.capitalize(), kind="score")
        for kind_pair, pair_label in AVERAGES.items()
    ]
    rule_columns = [declaration_of_table["rules"].column("distance"), *average_columns]
    rater_columns = [*declaration_of_table["raters"].columns, *(cluster_columns if result.clusters.height else [])]
    table_specifications = [
        (
            "raters",
            rater_rows,
            rater_columns,
            "Raters, the closest to the annotators first",
            context.notes("complementarity"),
        )
    ]
    table_specifications += [("rules", rule_rows, rule_columns, "Mean complementarity with other rules for ties", [])]
    table_specifications += [
        ("left-out", result.left_out, [*declaration_of_table["left_out"].columns], "Raters left out", [])
    ]
    return [
        table_html(frame, columns, id=f"complementarity-{table_name}", caption=caption, notes=notes, by=None)
        for table_name, frame, columns, caption, notes in table_specifications
        if frame.height
    ]


def _build(context: Context) -> Mapping[str, Any]:
    result: Any = context.results["complementarity"]
    return {"sentences": sentences(result), "tables": _tables(context, result)}


COMPLEMENTARITY = Section(
    question="complementarity",
    title="Complementarity of raters",
    ask=lambda context: context.ask(complementarity),
    figures=_figures,
    build=_build,
    of_metrics=True,
)
