"""Selection of the rows of a figure, with suggestions for unknown names."""

from __future__ import annotations

import polars as pl

from custodes.answers.views import title_with_aspect as title_with_aspect
from custodes.errors import OptionError, join_labels, suggestion


def select_aspect(frame: pl.DataFrame, aspect: str | None, *, who: str, by: str = "aspect") -> tuple[pl.DataFrame, str]:
    """The rows of one aspect (or of one value of the column `by`), and the name of the aspect.

    If `aspect` is None, the frame must have only one aspect.
    """
    values = frame[by].unique(maintain_order=True).to_list()
    if not values:
        raise OptionError(f"{who}: the result has no rows to draw; see its notes")
    if aspect is None:
        if len(values) != 1:
            raise OptionError(f"{who}: the result has more than one {by}; give {by}=NAME, one of {join_labels(values)}")
        aspect = str(values[0])
    return select_rows(frame, by, aspect, who=who), aspect


def select_rows(frame: pl.DataFrame, column: str, value: str, *, who: str, what: str | None = None) -> pl.DataFrame:
    """The rows with this value. If there are none, `OptionError` with a suggestion is raised."""
    rows = frame.filter(pl.col(column) == value)
    if not rows.height:
        values = frame[column].unique(maintain_order=True).to_list()
        name = what or column
        raise OptionError(
            f"{who}: {name}={value!r} is not in the result; give one of "
            f"{join_labels(values)}{suggestion(value, values)}"
        )
    return rows
