"""Section: do many metrics say many things, and do they say what people say?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.answers.tables import column
from custodes.answers.wording import number, percent, plural, with_ends
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.complementarity import AVERAGES, averages, heat_map, places, variance_curve
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import table_html

HEAT_WIDTH, MAP_WIDTH = 760, 560
"""Pixels: the heat map and the map of places keep their proportions, so they do not fit themselves to the page."""


def _figures(context: Context) -> Sequence[Figure]:
    """Distances of all raters, how many directions they differ in, and where they stand; few raters leave out some."""
    result: Any = context.results["complementarity"]
    means, heat = _distance_figures(result)
    best = [name for aspect, metric in context.best.items() for name in (metric, f"{metric}:{aspect}")]
    return [
        means,
        heat,
        *([_variance(result)] if result.components.height else []),
        *([_places(result, best)] if result.coordinates.height else []),
    ]


def _distance_figures(result: Complementarity) -> tuple[Figure, Figure]:
    means = Figure(
        id="complementarity-averages",
        title="Mean complementarity of two judges",
        caption="Dot: the mean over pairs. Whisker: its interval from resampled items. Dashed: raters who have "
        "nothing to do with each other.",
        alt="Dot-and-whisker plot of the mean complementarity among people, between people and metrics, among metrics.",
        spec=spec_of(averages(empty_rows()).properties(width="container")),
        table="complementarity.averages",
        lines=("kinds",),
    )
    heat = Figure(
        id="complementarity-map",
        title="Every two raters",
        caption="Blue: they rank alike, full blue the same. Blank: unrelated. Vermilion: they rank against each other. "
        "People stand first, then metrics, each in an order that puts like beside like.",
        alt="Heat map of the complementarity of every two raters, people first; the table below holds the means.",
        spec=spec_of(heat_map(empty_rows(), result, width=HEAT_WIDTH)),
        table="complementarity.pairs",
    )
    return means, heat


def _variance(result: Complementarity) -> Figure:
    return Figure(
        id="complementarity-variance",
        title="How many directions raters differ in",
        caption="The ranking that all raters share is subtracted first. Bars: the share that each principal component "
        "has of what is left, with its interval. Blue line: all up to it. Dashed: as many raters who rank at random. "
        f"Grey rule: {percent(SHARE)}. A steep blue line: raters disagree in few ways, not that they agree.",
        alt="Bars and lines of the variance that principal components of the raters' ranks explain.",
        spec=spec_of(variance_curve(empty_rows()).properties(width="container")),
        table="complementarity.components",
    )


def _places(result: Complementarity, named: Sequence[str]) -> Figure:
    return Figure(
        id="complementarity-places",
        title="Where judges stand",
        caption="Close: they differ from the ranking that all share in the same way, as far as two directions show it. "
        "Triangles: people. Colour: cluster. Of many raters only people are named, the metrics that rank most like "
        "them, the best and the chosen one (bold), and the ends of the map; the table below has more.",
        alt="Map of the raters on the first two principal components; the table below holds their clusters.",
        spec=spec_of(places(empty_rows(), result, width=MAP_WIDTH, named=named, metric="{metric}")),
        table="complementarity.coordinates",
    )


def sentences(result: Complementarity) -> list[str]:
    """What the averages and the components say, in plain words."""
    mean = {row["kinds"]: row["complementarity"] for row in result.averages.iter_rows(named=True)}
    gaps = {(row["kinds_a"], row["kinds_b"]): row for row in result.gaps.iter_rows(named=True)}
    told = []
    between = mean["human-metric"]
    for within, more, less, same in (
        (
            "metric-metric",
            "Metrics rank more like each other than like people: many of them together say less than their number"
            " suggests, and miss something that people see",
            "Metrics rank more like people than like each other: they err in different ways, so together they may say"
            " more than any of them",
            "Metrics rank as much like people as like each other, as far as these items tell",
        ),
        (
            "human-human",
            "People’s aspects rank more like each other than like a metric",
            "People’s aspects rank more like metrics than like each other: they are different questions",
            "People’s aspects rank as much like metrics as like each other, as far as these items tell",
        ),
    ):
        gap = gaps["human-metric", within]
        if gap["difference"] is None:
            continue
        if gap["difference_low"] is None:
            verdict = "Without intervals nothing can be said of the difference"
        else:
            verdict = more if gap["difference_low"] > 0 else less if gap["difference_high"] < 0 else same
        told.append(
            f"{verdict} (complementarity {number(between)} between people and metrics, {number(mean[within])} between"
            f" {AVERAGES[within]}; difference {with_ends(gap, 'difference')})."
        )
    told += [
        f"{plural(round(row['dimension']), 'direction')} hold{'s' if row['dimension'] == 1 else ''} {percent(SHARE)} of"
        f" how {plural(row['raters'], 'rater')} differ from the ranking they share; raters who rank at random would"
        f" take {number(row['dimension_null'], digits=1)}."
        for row in result.summary.iter_rows(named=True)
        if row["dimension"] is not None
    ]
    return told


def _tables(context: Context, result: Complementarity) -> list[str]:
    declared = result.declared()
    clusters = [declared["clusters"].column(name) for name in ("cluster", "stability")]
    raters = (
        result.raters.join(result.clusters.select("rater", "cluster", "stability"), on="rater", how="left")
        .sort("with_humans", nulls_last=True, maintain_order=True)
        .with_columns(pl.col("kind").replace("human", "people"))
    )
    rules = result.rules.pivot("kinds", index="distance", values="complementarity", maintain_order=True)
    averaged = [
        column(kinds, "mean complementarity", name.capitalize(), kind="score") for kinds, name in AVERAGES.items()
    ]
    by_rule = [declared["rules"].column("distance"), *averaged]
    everyone = [*declared["raters"].columns, *(clusters if result.clusters.height else [])]
    shown = [
        ("raters", raters, everyone, "Every rater, those closest to people first", context.notes("complementarity"))
    ]
    shown += [("rules", rules, by_rule, "The same means under other rules for ties", [])]
    shown += [("left-out", result.left_out, [*declared["left_out"].columns], "Not among the judges", [])]
    return [
        table_html(frame, columns, id=f"complementarity-{name}", caption=caption, notes=notes, by=None)
        for name, frame, columns, caption, notes in shown
        if frame.height
    ]


def _build(context: Context) -> Mapping[str, Any]:
    result: Any = context.results["complementarity"]
    return {"sentences": sentences(result), "tables": _tables(context, result)}


COMPLEMENTARITY = Section(
    question="complementarity",
    title="How alike the judges are",
    ask=lambda context: context.ask(complementarity),
    figures=_figures,
    build=_build,
)
