"""Choosing the rows of a picture, with an error that helps where a name is unknown."""

from __future__ import annotations

import polars as pl

from custodes.answers.views import titled as titled
from custodes.errors import OptionError, listed, suggestion


def of_aspect(frame: pl.DataFrame, aspect: str | None, *, who: str, by: str = "aspect") -> tuple[pl.DataFrame, str]:
    """The rows of one aspect (or target, as `by` says) and its name; with None there must be only one."""
    values = frame[by].unique(maintain_order=True).to_list()
    if not values:
        raise OptionError(f"{who}: the result has no rows to draw; its notes say why")
    if aspect is None:
        if len(values) != 1:
            raise OptionError(f"{who}: which {by}? say {by}=...; {by}s: {listed(values)}")
        aspect = str(values[0])
    return chosen(frame, by, aspect, who=who), aspect


def chosen(frame: pl.DataFrame, column: str, value: str, *, who: str, what: str | None = None) -> pl.DataFrame:
    """The rows with this value; `OptionError` with a suggestion where there are none."""
    rows = frame.filter(pl.col(column) == value)
    if not rows.height:
        values = frame[column].unique(maintain_order=True).to_list()
        name = what or column
        raise OptionError(
            f"{who}: {name}={value!r} is not in the result; known: {listed(values)}{suggestion(value, values)}"
        )
    return rows
