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
from custodes.plots.choice import draw_selection, select_rows, title_with_aspect
from custodes.plots.drawable import drawable
from custodes.plots.layout import layered_layout

GRAPH_SCHEMA = {
    **dict.fromkeys(("aspect", "rater", "part", "label", "line", "reading"), pl.String),
    **dict.fromkeys(("x", "y", "step"), pl.Float64),
}
READINGS = ["agree", "insert", "invert"]
"""Kinds of edges in the graph of a metric: human ratings show the same difference, no significant difference, or the
opposite difference."""
GRAPH_UP_TO = 12
"""Maximum number of systems in a graph. With more systems, a table with a cell for each pair is drawn."""

COLOURS = {"agree": theme.BLUE, "insert": theme.ORANGE, "invert": theme.VERMILION, "omit": theme.GREY}
SAYS = {
    "agree": "same as human ratings",
    "insert": "no difference by human ratings",
    "invert": "opposite by human ratings",
    "omit": "difference by human ratings only",
}
CELL, NAME = 17, 100
"""Width of a cell of the table and maximum width of a label, in pixels."""

STAGGER_OVER = 4
"""If a layer has more than this number of nodes, the heights of the nodes alternate. Otherwise labels would overlap."""

DECISION_COLOURS = {
    "correct": theme.GREEN,
    "omission": theme.SKY,
    "insertion": theme.ORANGE,
    "inversion": theme.VERMILION,
}


def ranking_graphs(
    result: Ranking, metric: str, *, aspect: str | None = None, width: int = theme.PAGE_WIDTH
) -> alt.TopLevelMixin:
    """Graphs of significant differences between systems, by human ratings (left) and by a metric (right).

    Winners are on top. An edge is omitted if a path of other edges connects the two systems. Systems in a cycle of wins
    share a node (`A ~ B`). A system without significant wins or losses is in the middle. An edge of the metric is
    dotted if human ratings show no significant difference, and dashed if human ratings show the opposite difference.
    With more than 12 systems, a table is drawn, with the best systems by human ratings first. In the table, `+` means
    that the system in the row is better, and `−` means that the system in the column is better.

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
    aspect_decision_rows, aspect = select_rows(result.decisions, "ranking_graphs", aspect=aspect)
    select_rows(aspect_decision_rows.with_columns(metric="rater"), "ranking_graphs", metric=metric)
    chart_rows, draw, size_options = graph_rows(aspect_decision_rows), picture, {"width": (width - 30) // 2}
    if has_too_many_systems(aspect_decision_rows):
        chart_rows, draw, size_options = table_rows(aspect_decision_rows), table, {}
    return theme.apply_theme(
        alt.hconcat(
            *[
                draw(theme.embed_rows(chart_rows.filter(rater=rater))).properties(title=title, **size_options)
                for rater, title in ((HUMAN, "human ratings"), (metric, drawable(metric)))
            ],
            spacing=30,
        ),
        title=title_with_aspect("Significant differences", aspect),
    )


def has_too_many_systems(decisions: pl.DataFrame) -> bool:
    """Whether there are too many systems for a graph, so that a table of pairs is easier to read."""
    return pl.concat([decisions["system_a"], decisions["system_b"]]).n_unique() > GRAPH_UP_TO


def table_rows(decisions: pl.DataFrame) -> pl.DataFrame:
    """The decisions of every rater in `Ranking.decisions`, with the human decision and the positions of both systems.

    Systems are ordered by wins minus losses by human ratings, then by name.
    """
    human_rows = decisions.filter(rater=HUMAN)
    sign_expression = pl.col("decision").replace_strict({"+": 1, "=": 0, "-": -1}, default=0, return_dtype=pl.Int64)
    system_points = (
        pl.concat(
            human_rows.select("aspect", system=column_name, points=side_sign * sign_expression)
            for column_name, side_sign in (("system_a", 1), ("system_b", -1))
        )
        .group_by("aspect", "system")
        .sum()
    )
    human_rank_rows = system_points.sort("aspect", -pl.col("points"), "system").select(
        "aspect", "system", place=pl.int_range(pl.len()).over("aspect")
    )
    agreement_expression = (
        pl.when(pl.col("decision").eq_missing(pl.col("human_decision")))
        .then(pl.lit("agree"))
        .when(human_decision=DECISION[0])
        .then(pl.lit("insert"))
        .when(decision=DECISION[0])
        .then(pl.lit("omit"))
        .otherwise(pl.lit("invert"))
    )
    decision_rows = decisions.drop_nulls("decision").join(
        human_rows.select("aspect", "system_a", "system_b", human_decision="decision"),
        on=["aspect", "system_a", "system_b"],
        how="left",
        maintain_order="left",
    )
    for side in ("a", "b"):
        decision_rows = decision_rows.join(
            human_rank_rows.rename({"system": f"system_{side}", "place": f"place_{side}"}),
            on=["aspect", f"system_{side}"],
            how="left",
            maintain_order="left",
        )
    return decision_rows.select(
        *("aspect", "rater", "system_a", "system_b", "decision"),
        pl.col("place_a", "place_b").fill_null(human_rank_rows.height),
        reading=agreement_expression,
    )


def table(data: Any) -> Any:
    """Draw the rows of `table_rows` of one rater. Each pair is drawn in both directions."""
    is_system_b_expression = "datum.side === 'system_b'"
    base_chart = (
        alt.Chart(data)
        .transform_fold(["system_a", "system_b"], as_=["side", "system"])
        .transform_calculate(
            opponent=f"{is_system_b_expression} ? datum.system_a : datum.system_b",
            place=f"{is_system_b_expression} ? datum.place_b : datum.place_a",
            against=f"{is_system_b_expression} ? datum.place_a : datum.place_b",
            sign=f"datum.decision === '=' ? '' : {is_system_b_expression} === (datum.decision === '+') ? '−' : '+'",
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
    return alt.layer(
        base_chart.mark_rect().encode(
            color=theme.category_colour("reading", COLOURS, legend=None),
            opacity=alt.OpacityValue(
                0.45, condition={"test": "datum.sign === '' && datum.reading === 'agree'", "value": 0}
            ),
        ),
        base_chart.mark_text(fontWeight="bold").encode(text=alt.Text("sign:N")),
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
        edge_reading = "agree" if is_human_edge else "invert" if is_reversed_human_edge else "insert"
        line_label = f"{node_labels[winner]} > {node_labels[loser]}"
        line_y_positions = [
            node_y_positions[winner],
            *(2.0 * layer for _, layer in line_points[1:-1]),
            node_y_positions[loser],
        ]
        for point_index, ((x, _), y) in enumerate(zip(line_points, line_y_positions, strict=True)):
            yield ("edge", "", line_label, edge_reading, x / half_width, float(y), float(point_index))


def picture(data: Any) -> Any:
    """Draw the rows of `graph_rows` of one rater."""
    x_channel = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1, 1]))
    y_channel = alt.Y("y:O", axis=None, sort="ascending")
    node_chart = (
        alt.Chart(data).transform_filter("datum.part === 'node'").encode(x=x_channel, y=y_channel, tooltip="label:N")
    )
    label_chart = node_chart.encode(text=alt.Text("label:N"))
    return alt.layer(
        alt.Chart(data)
        .transform_filter("datum.part === 'edge'")
        .mark_line(strokeWidth=1.5, opacity=0.8, interpolate="linear")
        .encode(
            x=x_channel,
            y=y_channel,
            detail=alt.Detail("line:N"),
            order=alt.Order("step:Q"),
            color=alt.Color(
                "reading:N",
                scale=alt.Scale(domain=READINGS, range=[theme.GREY, theme.ORANGE, theme.VERMILION]),
                legend=None,
            ),
            strokeDash=alt.StrokeDash(
                "reading:N", scale=alt.Scale(domain=READINGS, range=[[1, 0], [2, 3], [7, 3]]), legend=None
            ),
            tooltip="line:N",
        ),
        label_chart.mark_text(dy=-11, limit=150, style="halo"),
        node_chart.mark_point(color=theme.BLUE, size=50, opacity=1),
        label_chart.mark_text(dy=-11, limit=150),
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
    return draw_selection(
        stacked_errors,
        "Decisions compared with human decisions",
        result.errors,
        "error_types",
        size={"width": width},
        aspect=aspect,
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
