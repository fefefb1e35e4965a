"""Selection of the rows of a figure, with suggestions for unknown names."""

from __future__ import annotations

import polars as pl

from custodes.answers.views import title_with_aspect as title_with_aspect
from custodes.errors import OptionError, join_labels, suggestion


def select_aspect(
    frame: pl.DataFrame, aspect: str | None, *, function_name: str, column: str = "aspect"
) -> tuple[pl.DataFrame, str]:
    """The rows of one aspect (or of one value of another column), and the name of the aspect.

    If `aspect` is None, the frame must have only one aspect.
    """
    values = frame[column].unique(maintain_order=True).to_list()
    if not values:
        raise OptionError(f"{function_name}: the result has no rows to draw; see its notes")
    if aspect is None:
        if len(values) != 1:
            raise OptionError(
                f"{function_name}: the result has more than one {column}; give {column}=NAME, one of "
                f"{join_labels(values)}"
            )
        aspect = str(values[0])
    return select_rows(frame, column, aspect, function_name=function_name), aspect


def select_rows(
    frame: pl.DataFrame, column: str, value: str, *, function_name: str, display_name: str | None = None
) -> pl.DataFrame:
    """The rows with this value. If there are none, `OptionError` with a suggestion is raised."""
    rows = frame.filter(pl.col(column) == value)
    if not rows.height:
        values = frame[column].unique(maintain_order=True).to_list()
        name = display_name or column
        raise OptionError(
            f"{function_name}: {name}={value!r} is not in the result; give one of "
            f"{join_labels(values)}{suggestion(value, values)}"
        )
    return rows
