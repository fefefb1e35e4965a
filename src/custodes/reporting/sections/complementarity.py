"""Section: do many metrics say many things, and do they say what people say?"""

from __future__ import annotations

import polars as pl

from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.evaluate.complementarity.rater_space import SHARE
from custodes.plots.complementarity import AVERAGES, averages, heat_map, places, variance_curve
from custodes.reporting.section import Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html
from custodes.reporting.wording import interval, number, percent, plural

TITLE = "How alike the judges are"
HEAT_WIDTH, MAP_WIDTH = 760, 560
"""Pixels: the heat map and the map of places keep their proportions, so they do not fit themselves to the page."""

RATERS = (
    Column(field="metric", label="Rater"),
    Column(field="kind", label="Kind"),
    *(
        Column(field=name, label=label, kind="number", low=f"{name}_low", high=f"{name}_high", title=title)
        for name, label, title in (
            ("with_humans", "With people", "mean complementarity with people other than itself"),
            ("with_metrics", "With metrics", "mean complementarity with metrics other than itself"),
        )
    ),
    Column(field="cluster", label="Cluster", kind="int"),
    Column(
        field="stability",
        label="Together",
        kind="percent",
        title="share of its cluster that stays with it over resamples",
    ),
)
RULES = (
    Column(field="distance", label="Ties"),
    *(Column(field=kinds, label=name.capitalize(), kind="number") for kinds, name in AVERAGES.items()),
)
LEFT_OUT = (Column(field="metric", label="Left out"), Column(field="reason", label="Why"))


def complementarity_section(context: Context) -> Section:
    """Distances of all raters, how many directions they differ in, and where they stand."""
    if "complementarity" in context.absent:
        html = render("absent.html", reason=context.absent["complementarity"])
        return Section(id="complementarity", title=TITLE, html=html)
    result = context.results["complementarity"]
    assert isinstance(result, Complementarity)
    means, heat = _distance_figures(result)
    structure = _structure_figures(result)
    html = render(
        "complementarity.html",
        level=result.provenance.options["level"],
        sentences=sentences(result),
        averages=means,
        heat=heat,
        structure=structure,
        tables=_tables(result),
    )
    return Section(id="complementarity", title=TITLE, html=html, charts=(means, heat, *structure))


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


def _structure_figures(result: Complementarity) -> list[Figure]:
    """Two pictures, of which few raters leave one or none."""
    figures = []
    if result.components.height:
        figures.append(_variance())
    if result.coordinates.height:
        figures.append(_places(result))
    return figures


def _variance() -> Figure:
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


def _places(result: Complementarity) -> Figure:
    return Figure(
        id="complementarity-places",
        title="Where judges stand",
        caption="Close: they differ from the ranking that all share in the same way, as far as two directions show it. "
        "Triangles: people. Colour: cluster.",
        alt="Map of the raters on the first two principal components; the table below holds their clusters.",
        spec=spec_of(places(empty_rows(), result, width=MAP_WIDTH)),
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
        if gap["low"] is None:
            verdict = "Without intervals nothing can be said of the difference"
        else:
            verdict = more if gap["low"] > 0 else less if gap["high"] < 0 else same
        told.append(
            f"{verdict} (complementarity {number(between)} between people and metrics, {number(mean[within])} between"
            f" {AVERAGES[within]}; difference {interval(gap['difference'], gap['low'], gap['high'])})."
        )
    told += [
        f"{plural(round(row['dimension']), 'direction')} hold{'s' if row['dimension'] == 1 else ''} {percent(SHARE)} of"
        f" how {plural(row['raters'], 'rater')} differ from the ranking they share; raters who rank at random would"
        f" take {number(row['dimension_null'], digits=1)}."
        for row in result.summary.iter_rows(named=True)
        if row["dimension"] is not None
    ]
    return told


def _tables(result: Complementarity) -> list[str]:
    raters = (
        result.raters.join(result.clusters.select("metric", "cluster", "stability"), on="metric", how="left")
        .sort("with_humans", nulls_last=True, maintain_order=True)
        .with_columns(pl.col("kind").replace("human", "people"))
    )
    rules = result.rules.pivot("kinds", index="distance", values="complementarity", maintain_order=True)
    shown = [
        (
            "raters",
            raters,
            RATERS if result.clusters.height else RATERS[:-2],
            "Every rater, those closest to people first",
            [n.message for n in result.notes],
        ),
        ("rules", rules, RULES, "The same means under other rules for ties", []),
    ]
    if result.left_out.height:
        shown.append(("left-out", result.left_out, LEFT_OUT, "Not among the judges", []))
    return [
        table_html(
            frame.with_columns(aspect=pl.lit("")),
            columns,
            id=f"complementarity-{name}",
            caption=caption,
            notes=notes,
            switched=False,
        )
        for name, frame, columns, caption, notes in shown
    ]
