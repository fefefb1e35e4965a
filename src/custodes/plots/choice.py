"""Selection of the rows of a figure, with suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.answers.views import title_with_aspect as title_with_aspect
from custodes.errors import join_labels, reject, suggestion


def select_rows(frame: pl.DataFrame, function_name: str, **value_of_column: str | None) -> tuple[Any, ...]:
    """The rows with these values of one or more columns, followed by the values. The columns are selected one after the
    other. If a value is None, the remaining rows must have a single value in this column, which is selected.
    `function_name` is the name of the figure in error messages.
    """
    for column_name, value in value_of_column.items():
        distinct_values = frame[column_name].unique(maintain_order=True).to_list()
        reject(
            (not distinct_values, f"{function_name}: the result has no rows to draw; see its notes"),
            (
                value is None and len(distinct_values) > 1,
                f"{function_name}: the result has more than one {column_name}; give {column_name}=NAME, one of "
                f"{join_labels(distinct_values)}",
            ),
            (
                value is not None and value not in distinct_values,
                f"{function_name}: {column_name}={value!r} is not in the result; give one of "
                f"{join_labels(distinct_values)}{suggestion(str(value), distinct_values)}",
            ),
        )
        value_of_column[column_name] = str(distinct_values[0]) if value is None else value
        frame = frame.filter(pl.col(column_name) == value_of_column[column_name])
    return frame, *value_of_column.values()


def draw_selection(
    draw: Callable[[Any], Any],
    title: str,
    frame: pl.DataFrame,
    function_name: str,
    *,
    size: Mapping[str, float] | None = None,
    **value_of_column: str | None,
) -> alt.TopLevelMixin:
    """The chart that `draw` makes of the rows with these values of one or more columns (see `select_rows`).

    The title may contain the selected values, as in 'Calibration of {rater}'; the aspect or target is appended.
    `size` has the width or the height of the chart.
    """
    selected_rows, *selected_values = select_rows(frame, function_name, **value_of_column)
    selected_value_of_column = dict(zip(value_of_column, selected_values, strict=True))
    full_title = title_with_aspect(
        title.format_map(selected_value_of_column),
        selected_value_of_column.get("aspect") or selected_value_of_column.get("target", ""),
    )
    return theme.apply_theme(draw(theme.embed_rows(selected_rows)), title=full_title, **(size or {}))
