"""Picture: the ranking graph of people beside that of a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.ranking import Ranking
from custodes.plots import theme
from custodes.plots.choice import chosen, of_aspect, titled
from custodes.plots.layout import layered
from custodes.stats.decisions import graph

if TYPE_CHECKING:
    import altair as alt

GRAPH_SCHEMA = {
    **dict.fromkeys(("aspect", "rater", "part", "label", "line", "reading"), pl.String),
    **dict.fromkeys(("x", "y", "step"), pl.Float64),
}
READINGS = {
    "agree": "people agree or this is people's graph",
    "insert": "people see no difference",
    "invert": "people say the opposite",
}
STAGGER_OVER = 4
"""Layers with more nodes alternate in height, so that labels do not run into each other."""


def ranking_graphs(
    result: Ranking, metric: str, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH, dark: bool = False
) -> alt.TopLevelMixin:
    """Who significantly beats whom, by people (left) and by a metric (right); winners on top, implied edges left out.

    Systems that beat each other in a circle share a node (`A ~ B`); a system that beats and loses to nobody stands in
    the middle. Edges of the metric that people do not share are dashed. Raises `OptionError` for unknown names.

    >>> import custodes as cu
    >>> chart = ranking_graphs(cu.ranking(cu.read("demo"), resamples=0), "judge", aspect="fluency")
    >>> len(chart.to_dict()["hconcat"])
    2
    """
    import altair as alt

    who = "ranking_graphs"
    rows, aspect = of_aspect(result.decisions, aspect, who=who)
    chosen(rows, "rater", metric, who=who, what="metric")
    drawn = graph_rows(rows)
    panels = [
        picture(theme.inline(drawn.filter(pl.col("rater") == rater))).properties(width=(width - 30) // 2, title=title)
        for rater, title in ((HUMAN, "people"), (metric, metric))
    ]
    return theme.themed(alt.hconcat(*panels, spacing=30), dark=dark, title=titled("Who beats whom", aspect))


def graph_rows(decisions: pl.DataFrame) -> pl.DataFrame:
    """Nodes and edge points of every rater's graph, from `Ranking.decisions`."""
    rows: list[tuple[str, str, str, str, str, str, float, float, float]] = []
    for (aspect,), of_one in decisions.group_by("aspect", maintain_order=True):
        systems = sorted({*of_one["system_a"], *of_one["system_b"]})
        people = _beats(of_one.filter(pl.col("rater") == HUMAN), systems)
        for (rater,), own in of_one.group_by("rater", maintain_order=True):
            drawn = _graph(_beats(own, systems), people, systems)
            rows += [(str(aspect), str(rater), *row) for row in drawn]
    return pl.DataFrame(rows, schema=GRAPH_SCHEMA, orient="row")


def _beats(decisions: pl.DataFrame, systems: list[str]) -> np.ndarray:
    """(systems, systems): whether one significantly beats the other."""
    position = {name: i for i, name in enumerate(systems)}
    beats = np.zeros((len(systems),) * 2, dtype=bool)
    for a, b, decision in decisions.select("system_a", "system_b", "decision").iter_rows():
        if decision == "+":
            beats[position[a], position[b]] = True
        elif decision == "-":
            beats[position[b], position[a]] = True
    return beats


def _graph(
    beats: np.ndarray, people: np.ndarray, systems: list[str]
) -> list[tuple[str, str, str, str, float, float, float]]:
    component, between = graph.condensation(beats)
    edges = graph.reduced_edges(beats)
    layout = layered(between, edges)
    members = [np.flatnonzero(component == k) for k in range(len(between))]
    labels = [" ~ ".join(systems[i] for i in group) for group in members]
    half = max(1.0, float(np.abs(layout.x).max(initial=0)) + 0.5)
    rows: list[tuple[str, str, str, str, float, float, float]] = []
    height = np.empty(len(labels))
    for k in np.unique(layout.layer):
        inside = np.flatnonzero(layout.layer == k)
        inside = inside[np.argsort(layout.x[inside])]
        height[inside] = 2.0 * k + (np.arange(len(inside)) % 2 if len(inside) > STAGGER_OVER else 0)
    for node, label in enumerate(labels):
        rows.append(("node", label, "", "", float(layout.x[node] / half), float(height[node]), 0.0))
    for (winner, loser), line in zip(edges, layout.lines, strict=True):
        here, there = np.ix_(members[winner], members[loser]), np.ix_(members[loser], members[winner])
        reading = "agree" if people[here].any() else "invert" if people[there].any() else "insert"
        name = f"{labels[winner]} > {labels[loser]}"
        ends = {0: height[winner], len(line) - 1: height[loser]}
        for step, (x, layer) in enumerate(line):
            rows.append(("edge", "", name, reading, x / half, float(ends.get(step, 2.0 * layer)), float(step)))
    return rows


def picture(data: Any) -> Any:
    """Rows of `graph_rows` of one rater."""
    import altair as alt

    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1, 1]))
    y = alt.Y("y:O", axis=None, sort="ascending")
    kinds = list(READINGS)
    colour = alt.Color(
        "reading:N", scale=alt.Scale(domain=kinds, range=[theme.GREY, theme.ORANGE, theme.VERMILION]), legend=None
    )
    dash = alt.StrokeDash("reading:N", scale=alt.Scale(domain=kinds, range=[[1, 0], [2, 3], [7, 3]]), legend=None)
    lines = (
        alt.Chart(data)
        .transform_filter("datum.part === 'edge'")
        .mark_line(strokeWidth=1.5, opacity=0.8, interpolate="linear")
        .encode(x=x, y=y, detail="line:N", order="step:Q", color=colour, strokeDash=dash, tooltip="line:N")
    )
    nodes = alt.Chart(data).transform_filter("datum.part === 'node'")
    label = nodes.encode(x=x, y=y, text="label:N", tooltip="label:N")
    return alt.layer(
        lines,
        label.mark_text(dy=-11, fontSize=10, limit=150, style="halo"),
        nodes.mark_point(color=theme.BLUE, size=50, opacity=1).encode(x=x, y=y, tooltip="label:N"),
        label.mark_text(dy=-11, fontSize=10, limit=150),
    ).properties(height=alt.Step(32))
