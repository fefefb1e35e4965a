"""Figures: rankings of systems as graphs or tables, and types of error in the decisions of each metric."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.data.comparisons import HUMAN
from custodes.evaluate.decision_graph import DECISION, pair_matrix, ranking_graph
from custodes.evaluate.ranking import Ranking
from custodes.plots.choice import select_aspect, select_rows, title_with_aspect
from custodes.plots.drawable import drawable
from custodes.plots.layout import layered_layout

GRAPH_SCHEMA = {
    **dict.fromkeys(("aspect", "rater", "part", "label", "line", "reading"), pl.String),
    **dict.fromkeys(("x", "y", "step"), pl.Float64),
}
READINGS = {
    "agree": "same decision by human ratings",
    "insert": "no difference by human ratings",
    "invert": "opposite by human ratings",
}
GRAPH_UP_TO = 12
"""Maximum number of systems in a graph. With more systems, a table with a cell for each pair is drawn."""

TABLE_SCHEMA = dict.fromkeys(("aspect", "rater", "system_a", "system_b", "decision", "reading"), pl.String) | {
    "place_a": pl.Int64,
    "place_b": pl.Int64,
}
SAME = "same as human ratings"
COLOURS = {"agree": theme.BLUE, "insert": theme.ORANGE, "invert": theme.VERMILION, "omit": theme.GREY}
SAYS = {
    "agree": SAME,
    "insert": READINGS["insert"],
    "invert": READINGS["invert"],
    "omit": "difference by human ratings only",
}
CELL, NAME = 17, 100
"""Width of a cell of the table and maximum width of a label, in pixels."""

STAGGER_OVER = 4
"""Number of nodes in a layer above which the heights of the nodes alternate, so that labels do not overlap."""

DECISION_COLOURS = {
    "correct": theme.GREEN,
    "omission": theme.SKY,
    "insertion": theme.ORANGE,
    "inversion": theme.VERMILION,
}
"""Colours of the decisions of a metric compared with human decisions."""


def ranking_graphs(
    result: Ranking, metric: str, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH
) -> alt.TopLevelMixin:
    """Graphs of significant differences between systems, by human ratings (left) and by a metric (right).

    Winners are on top, and edges that follow from other edges are omitted. Systems that beat each other in a cycle
    share a node (`A ~ B`). A system without significant wins or losses is in the middle. An edge of the metric is
    dotted if human ratings show no significant difference, and dashed if they show the opposite one. With more than 12
    systems, a table is drawn, with the best systems by human ratings first. In the table, `+` means that the system in
    the row is better, and `−` means that the system in the column is better.

    Parameters
    ----------
    result : Ranking
        Result of `ranking`.
    metric : str
        Metric or judge.
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
        If a name is unknown.

    Examples
    --------
    >>> import custodes as cu
    >>> chart = ranking_graphs(cu.ranking(cu.read("demo"), resamples=0), "judge", aspect="fluency")
    >>> len(chart.to_dict()["hconcat"])
    2
    """
    decisions_of_aspect, aspect = select_aspect(result.decisions, aspect, function_name="ranking_graphs")
    select_rows(decisions_of_aspect, "rater", metric, function_name="ranking_graphs", display_name="metric")
    is_crowded = has_too_many_systems(decisions_of_aspect)
    chart_rows = table_rows(decisions_of_aspect) if is_crowded else graph_rows(decisions_of_aspect)
    panel_charts = []
    for rater, title in ((HUMAN, "human ratings"), (metric, drawable(metric))):
        rater_rows = theme.embed_rows(chart_rows.filter(pl.col("rater") == rater))
        panel_charts.append(
            (table(rater_rows) if is_crowded else picture(rater_rows).properties(width=(width - 30) // 2)).properties(
                title=title
            )
        )
    return theme.apply_theme(
        alt.hconcat(*panel_charts, spacing=30), title=title_with_aspect("Significant differences", aspect)
    )


def has_too_many_systems(decisions: pl.DataFrame) -> bool:
    """Whether there are too many systems for a graph, so that a table of pairs is easier to read."""
    return pl.concat([decisions["system_a"], decisions["system_b"]]).n_unique() > GRAPH_UP_TO


def table_rows(decisions: pl.DataFrame) -> pl.DataFrame:
    """The decisions of every rater in `Ranking.decisions`, with the human decision and the positions of both systems.

    Systems are ordered by wins minus losses by human ratings, then by name.
    """
    aspect_tables = [pl.DataFrame(schema=TABLE_SCHEMA)]
    for (aspect,), aspect_rows in decisions.group_by("aspect", maintain_order=True):
        human_rows = aspect_rows.filter(rater=HUMAN)
        sign_expression = pl.col("decision").replace_strict({"+": 1, "=": 0, "-": -1}, default=0, return_dtype=pl.Int64)
        system_point_rows = pl.concat(
            human_rows.select(system=column_name, points=sign_of_side * sign_expression)
            for column_name, sign_of_side in (("system_a", 1), ("system_b", -1))
        )
        ordered_system_names = (
            system_point_rows.group_by("system").sum().sort(pl.col("points") * -1, "system")["system"].to_list()
        )
        rank_of_system = {system_name: rank for rank, system_name in enumerate(ordered_system_names)}
        human_decision_rows = human_rows.select("system_a", "system_b", by_people="decision")
        rows_with_human_decision = aspect_rows.join(
            human_decision_rows, on=["system_a", "system_b"], how="left", maintain_order="left"
        )
        is_same_decision_expression, is_human_tie_expression, is_undecided_expression = (
            pl.col("decision").eq_missing(pl.col("by_people")),
            pl.col("by_people") == DECISION[0],
            pl.col("decision") == DECISION[0],
        )
        reading_expression = (
            pl.when(is_same_decision_expression)
            .then(pl.lit("agree"))
            .when(is_human_tie_expression)
            .then(pl.lit("insert"))
        )
        aspect_tables.append(
            rows_with_human_decision.filter(pl.col("decision").is_not_null()).select(
                pl.lit(aspect).alias("aspect"),
                "rater",
                "system_a",
                "system_b",
                "decision",
                reading=reading_expression.when(is_undecided_expression)
                .then(pl.lit("omit"))
                .otherwise(pl.lit("invert")),
                **{
                    f"place_{side_letter}": pl.col(f"system_{side_letter}").replace_strict(
                        rank_of_system, default=len(rank_of_system), return_dtype=pl.Int64
                    )
                    for side_letter in "ab"
                },
            )
        )
    return pl.concat(aspect_tables)


def table(data: Any) -> Any:
    """Draw the rows of `table_rows` of one rater. Each pair is drawn in both directions."""
    is_system_b_expression = "datum.side === 'system_b'"
    plus_literal = f"'{DECISION[1]}'"
    base = (
        alt.Chart(data)
        .transform_fold(["system_a", "system_b"], as_=["side", "system"])
        .transform_calculate(
            opponent=f"{is_system_b_expression} ? datum.system_a : datum.system_b",
            place=f"{is_system_b_expression} ? datum.place_b : datum.place_a",
            against=f"{is_system_b_expression} ? datum.place_a : datum.place_b",
            sign=f"datum.decision === '=' ? '' : "
            f"{is_system_b_expression} === (datum.decision === {plus_literal}) ? '−' : {plus_literal}",
            says=f"{json.dumps(SAYS)}[datum.reading]",
        )
        .encode(
            x=alt.X(
                "opponent:N",
                sort=alt.EncodingSortField(field="against", op="min", order="ascending"),
                axis=theme.names_above(angle=-90, limit=NAME),
            ),
            y=alt.Y(
                "system:N",
                sort=alt.EncodingSortField(field="place", op="min", order="ascending"),
                axis=alt.Axis(labelLimit=NAME, labelOverlap=False),
            ),
            tooltip=[
                alt.Tooltip("system:N"),
                alt.Tooltip("opponent:N", title="against"),
                alt.Tooltip("sign:N", title="decision"),
                alt.Tooltip("says:N", title="human ratings"),
            ],
        )
    )
    colour_channel = theme.category_colour("reading", COLOURS, legend=None)
    opacity_channel = alt.condition("datum.sign === '' && datum.reading === 'agree'", alt.value(0), alt.value(0.45))
    return alt.layer(
        base.mark_rect().encode(color=colour_channel, opacity=opacity_channel),
        base.mark_text(fontWeight="bold").encode(text=alt.Text("sign:N")),
        width=alt.Step(CELL),
        height=alt.Step(CELL),
    )


def graph_rows(decisions: pl.DataFrame) -> pl.DataFrame:
    """The nodes and the points of edges in the graph of every rater, from `Ranking.decisions`."""
    node_and_edge_rows: list[tuple[Any, ...]] = []
    for (aspect,), aspect_rows in decisions.group_by("aspect", maintain_order=True):
        _, human_win_matrix = _win_matrix(aspect_rows.filter(rater=HUMAN))
        for (rater,), rater_rows in aspect_rows.group_by("rater", maintain_order=True):
            node_and_edge_rows += [
                (aspect, rater, *graph_row) for graph_row in _graph(*_win_matrix(rater_rows), human_win_matrix)
            ]
    return pl.DataFrame(node_and_edge_rows, schema=GRAPH_SCHEMA, orient="row")


def _win_matrix(decisions: pl.DataFrame) -> tuple[list[str], NDArray[np.bool_]]:
    """The systems, and a matrix (systems, systems): whether the row is significantly better than the column."""
    is_win, is_loss = (decisions["decision"].eq_missing(DECISION[sign]).to_numpy() for sign in (1, -1))
    systems, win_matrix = pair_matrix(decisions["system_a"].to_list(), decisions["system_b"].to_list(), is_win, is_loss)
    return systems, win_matrix == 1


def _graph(
    systems: list[str], win_matrix: NDArray[np.bool_], human_win_matrix: NDArray[np.bool_]
) -> Iterable[tuple[Any, ...]]:
    """Yield rows of the graph: the values of the columns of `GRAPH_SCHEMA` except the first two columns."""
    node_labels, members_of_node, node_adjacency, edges = ranking_graph(systems, win_matrix)
    layout = layered_layout(node_adjacency, edges)
    half_width = max(1.0, float(np.abs(layout.x).max(initial=0)) + 0.5)
    is_same_layer = layout.layer[:, None] == layout.layer
    rank_in_layer = (is_same_layer & (layout.x < layout.x[:, None])).sum(axis=1)
    node_y_positions = 2.0 * layout.layer + np.where(is_same_layer.sum(axis=1) > STAGGER_OVER, rank_in_layer % 2, 0)
    for node_label, x, y in zip(node_labels, layout.x / half_width, node_y_positions, strict=True):
        yield ("node", node_label, "", "", float(x), float(y), 0.0)
    for (winner, loser), line_points in zip(edges, layout.lines, strict=True):
        is_human_edge, is_reversed_human_edge = (
            human_win_matrix[np.ix_(members_of_node[first_node], members_of_node[second_node])].any()
            for first_node, second_node in ((winner, loser), (loser, winner))
        )
        reading_name = "agree" if is_human_edge else "invert" if is_reversed_human_edge else "insert"
        line_y_positions = [
            node_y_positions[winner],
            *(2.0 * layer for _, layer in line_points[1:-1]),
            node_y_positions[loser],
        ]
        for point_index, ((x, _), y) in enumerate(zip(line_points, line_y_positions, strict=True)):
            yield (
                "edge",
                "",
                f"{node_labels[winner]} > {node_labels[loser]}",
                reading_name,
                x / half_width,
                float(y),
                float(point_index),
            )


def picture(data: Any) -> Any:
    """Draw the rows of `graph_rows` of one rater."""
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1, 1]))
    y = alt.Y("y:O", axis=None, sort="ascending")
    reading_names = list(READINGS)
    colour_channel = alt.Color(
        "reading:N",
        scale=alt.Scale(domain=reading_names, range=[theme.GREY, theme.ORANGE, theme.VERMILION]),
        legend=None,
    )
    dash_channel = alt.StrokeDash(
        "reading:N", scale=alt.Scale(domain=reading_names, range=[[1, 0], [2, 3], [7, 3]]), legend=None
    )
    edge_chart = (
        alt.Chart(data)
        .transform_filter("datum.part === 'edge'")
        .mark_line(strokeWidth=1.5, opacity=0.8, interpolate="linear")
        .encode(
            x=x,
            y=y,
            detail=alt.Detail("line:N"),
            order=alt.Order("step:Q"),
            color=colour_channel,
            strokeDash=dash_channel,
            tooltip="line:N",
        )
    )
    node_chart = alt.Chart(data).transform_filter("datum.part === 'node'")
    node_label_chart = node_chart.encode(x=x, y=y, text=alt.Text("label:N"), tooltip="label:N")
    return alt.layer(
        edge_chart,
        node_label_chart.mark_text(dy=-11, limit=150, style="halo"),
        node_chart.mark_point(color=theme.BLUE, size=50, opacity=1).encode(x=x, y=y, tooltip="label:N"),
        node_label_chart.mark_text(dy=-11, limit=150),
        height=alt.Step(32),
    )


def error_types(result: Ranking, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH) -> alt.TopLevelMixin:
    """Stacked bars of the decisions of each metric on pairs of systems.

    A bar shows the proportion of pairs with the same decision as the annotators, and the proportions of the three types
    of error.

    Parameters
    ----------
    result : Ranking
        Result of `ranking`.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Examples
    --------
    >>> import custodes as cu
    >>> chart = error_types(cu.ranking(cu.read("demo"), resamples=0), aspect="fluency")
    >>> chart.to_dict()["mark"]["type"]
    'bar'
    """
    errors_of_aspect, aspect = select_aspect(result.errors, aspect, function_name="error_types")
    return theme.apply_theme(
        stacked_errors(theme.embed_rows(errors_of_aspect)),
        width=width,
        title=title_with_aspect("Decisions compared with human decisions", aspect),
    )


def stacked_errors(data: Any) -> Any:
    """Draw the rows of `Ranking.errors`."""
    decision_kinds: Any = list(DECISION_COLOURS)
    return (
        alt.Chart(data)
        .transform_filter("isValid(datum.correct)")
        .transform_calculate(right="datum.correct")
        .transform_fold(decision_kinds, as_=["kind", "share"])
        .transform_calculate(place=f"indexof({decision_kinds}, datum.kind)")
        .mark_bar(size=theme.ROW - 5)
        .encode(
            x=alt.X(
                "share:Q",
                stack="zero",
                title="Proportion of system pairs",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            y=alt.Y("metric:N", sort=alt.EncodingSortField(field="right", op="max", order="descending")),
            color=theme.category_colour("kind", DECISION_COLOURS, sort=decision_kinds),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("metric:N"),
                alt.Tooltip("kind:N", title="decision"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(height=alt.Step(theme.ROW))
    )
