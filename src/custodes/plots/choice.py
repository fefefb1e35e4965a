"""Selection of the rows of a figure, with suggestions for unknown names."""

from __future__ import annotations

import polars as pl

from custodes.answers.views import title_with_aspect as title_with_aspect
from custodes.errors import OptionError, join_labels, suggestion


def select_aspect(
    frame: pl.DataFrame, aspect: str | None, *, function_name: str, column_name: str = "aspect"
) -> tuple[pl.DataFrame, str]:
    """The rows of one aspect (or of one value of another column), and the name of the aspect.

    If `aspect` is None, the frame must have only one aspect.
    """
    distinct_values = frame[column_name].unique(maintain_order=True).to_list()
    if not distinct_values:
        raise OptionError(f"{function_name}: the result has no rows to draw; see its notes")
    if aspect is None:
        if len(distinct_values) != 1:
            raise OptionError(
                f"{function_name}: the result has more than one {column_name}; give {column_name}=NAME, one of "
                f"{join_labels(distinct_values)}"
            )
        aspect = str(distinct_values[0])
    return select_rows(frame, column_name, aspect, function_name=function_name), aspect


def select_rows(
    frame: pl.DataFrame, column_name: str, value: str, *, function_name: str, display_name: str | None = None
) -> pl.DataFrame:
    """The rows with this value. If there are none, `OptionError` with a suggestion is raised."""
    rows = frame.filter(pl.col(column_name) == value)
    if not rows.height:
        distinct_values = frame[column_name].unique(maintain_order=True).to_list()
        option_name = display_name or column_name
        raise OptionError(
            f"{function_name}: {option_name}={value!r} is not in the result; give one of "
            f"{join_labels(distinct_values)}{suggestion(value, distinct_values)}"
        )
    return rows
