"""Section: complementarity of metrics with each other and with human ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.answers.tables import Column, column
from custodes.answers.wording import estimate_with_interval, number, percent, plural
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.complementarity import AVERAGES, averages, heat_map, variance_curve
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import table_html

HEAT_WIDTH = 760
"""Width of the heat map in pixels. Its proportions are fixed, so it is not scaled to the page."""


SIMILARITY_TEXTS = {
    "metric-metric": (
        "Rankings by metrics are more similar to each other than to rankings by annotators. The metrics together "
        "therefore contain less information than their number suggests. Noise of the human ratings explains a part "
        "of the difference",
        "Rankings by metrics are more similar to rankings by annotators than to each other, so the metrics err in "
        "different ways",
        "Rankings by metrics are not significantly more similar to rankings by annotators than to each other",
    ),
    "human-human": (
        "Human rankings on different aspects are more similar to each other than to rankings by metrics",
        "Human rankings on different aspects are less similar to each other than to rankings by metrics",
        "Human rankings on different aspects are not significantly more similar to each other than to rankings by "
        "metrics",
    ),
}
"""Sentences on the similarity of raters of one kind, compared with the similarity of human ratings and metrics.

The three sentences say that raters of one kind are more similar, less similar, or not significantly more similar.
"""


def _figures(context: Context) -> Sequence[Figure]:
    """The figures of distances between raters, and of dimensions in which raters differ."""
    result: Any = context.results["complementarity"]
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
            caption="Blue: similar rankings. Blank: unrelated rankings. Vermilion: opposite rankings. Human ratings "
            "come first, then metrics; both are ordered by similarity.",
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
                    "remaining variance that each principal component explains. Blue line: cumulative "
                    "proportion. Dashed line: cumulative proportion if the same number of raters "
                    f"had random rankings. Grey line: {percent(SHARE)}. A steep blue line means that the differences "
                    "of raters have few dimensions, not that the raters agree.",
                    alt="Bars and lines: variance of the raters' ranks that each principal component explains.",
                    spec=spec_of(variance_curve(empty_rows()), width="container"),
                    table="complementarity.components",
                )
            ]
            if result.components.height
            else []
        ),
    ]


def sentences(result: Complementarity) -> list[str]:
    """Sentences on the mean complementarity and on the principal components."""
    complementarity_of_kind_pair = {
        row["kinds"]: row["complementarity"] for row in result.averages.iter_rows(named=True)
    }
    gap_row_of_kind_pairs = {(row["kinds_a"], row["kinds_b"]): row for row in result.gaps.iter_rows(named=True)}
    sentence_texts = []
    for within_kind_pair, (
        more_similar_sentence,
        less_similar_sentence,
        no_difference_sentence,
    ) in SIMILARITY_TEXTS.items():
        gap_row = gap_row_of_kind_pairs.get(("human-metric", within_kind_pair), {"difference": None})
        if gap_row["difference"] is None:
            continue
        if gap_row["difference_low"] is None:
            comparison_text = "Without intervals, the difference is inconclusive"
        elif gap_row["difference_low"] > 0:
            comparison_text = more_similar_sentence
        else:
            comparison_text = less_similar_sentence if gap_row["difference_high"] < 0 else no_difference_sentence
        sentence_texts.append(
            f"{comparison_text}. The mean complementarity of the human ratings of an aspect and a metric is "
            f"{number(complementarity_of_kind_pair['human-metric'])} (0.5: unrelated rankings). For "
            f"{AVERAGES[within_kind_pair]} it is {number(complementarity_of_kind_pair[within_kind_pair])} "
            f"(difference {estimate_with_interval(gap_row, 'difference')})."
        )
    sufficient_component_rows = result.components.filter(pl.col("cumulative") >= SHARE - 1e-9)
    if sufficient_component_rows.height:
        component_row = sufficient_component_rows.row(0, named=True)
        sentence_texts.append(
            f"{plural(component_row['component'], 'principal component')} "
            f"explain{'s' if component_row['component'] == 1 else ''} {percent(component_row['cumulative'])} of the "
            "differences of raters from their common ranking. If all rankings were random, the expected proportion "
            f"would be {percent(component_row['null_cumulative'])}."
        )
    return sentence_texts


def _tables(context: Context, result: Complementarity) -> list[str]:
    declaration_of_table = result.table_declarations()
    rater_rows = result.raters.sort("with_humans", nulls_last=True, maintain_order=True).with_columns(
        pl.col("kind").replace("human", "human rater")
    )
    rule_rows = result.rules.pivot("kinds", index="distance", values="complementarity", maintain_order=True)
    table_specifications: list[tuple[str, pl.DataFrame, Sequence[Column], str, Sequence[tuple[str | None, str]]]] = [
        (
            "raters",
            rater_rows,
            declaration_of_table["raters"].columns,
            "Raters, the closest to the annotators first",
            context.notes("complementarity"),
        ),
        (
            "rules",
            rule_rows,
            [
                declaration_of_table["rules"].column("distance"),
                *[
                    column(kind_pair, "mean complementarity", pair_label.capitalize(), kind="score")
                    for kind_pair, pair_label in AVERAGES.items()
                ],
            ],
            "Mean complementarity with other rules for ties",
            [],
        ),
        ("left-out", result.left_out, declaration_of_table["left_out"].columns, "Raters left out", []),
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
    pages=("both", "metrics"),
)
