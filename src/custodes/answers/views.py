"""Views: the essential columns of a table as text. An estimate and its interval form one text, and each aspect has a
view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from custodes.answers.tables import Column, Table, View
from custodes.answers.wording import FLAG, UNDEFINED, column_digits, decimal, estimate_text, letter_ranges, p_value

HUGE = 1e6

TEXT_OF_KIND: Mapping[str, Callable[[Any], str]] = {
    "p": p_value,
    "flag": FLAG.__getitem__,
    "letters": letter_ranges,
    "labels": ", ".join,
    "label": str,
}
"""Functions that convert a value of a column to text, by the kind of the column. Plain numbers have no entry."""

DIGITS, WITH_SPREAD = 3, 2
"Number of decimals of a number alone, and of a number with an interval or a standard deviation."


def views(
    table: Table, frame: pl.DataFrame, name: str, *, all_columns: bool = False, n_omitted_rows: int = 0
) -> Iterable[View]:
    """The views of a frame of a declared table.

    The views have the essential columns with values, or all columns if `all_columns`. `n_omitted_rows` is the number of
    further rows of the table, which are not in the frame.
    """
    if table.view is not None and not all_columns:
        yield from table.view(frame)
        return
    for aspect_name, aspect_rows in split_by_aspect(frame, table.by):
        # Labels, and columns with intervals or a `best` direction, are displayed even if all values are undefined.
        view_columns = [
            column
            for column in table.columns
            if all_columns
            or (
                column.essential
                and (not column.is_number or column.interval or column.best or aspect_rows[column.name].count())
            )
        ]
        if table.order and not all_columns:
            aspect_rows = aspect_rows.sort(table.order, descending=True, nulls_last=True, maintain_order=True)
        columns_and_decimals = [(column, digits_of_column(aspect_rows, column)) for column in view_columns]
        yield View(
            title=title_with_aspect(name.replace("_", " "), aspect_name),
            header=tuple(column.heading for column in view_columns),
            labels=tuple(column.label for column in view_columns),
            rows=tuple(
                tuple(cell(row, column, n_decimals) for column, n_decimals in columns_and_decimals)
                for row in aspect_rows.iter_rows(named=True)
            ),
            numeric=tuple(column.is_number for column in view_columns),
            best=frozenset(_best(aspect_rows, view_columns)),
            more=f"{n_omitted_rows} of {frame.height + n_omitted_rows} rows not shown (--table {name})"
            if n_omitted_rows
            else "",
        )


def title_with_aspect(title: str, aspect: str) -> str:
    """A title with the aspect, if there is one."""
    return f"{title} ({aspect})" if aspect else title


def split_by_aspect(frame: pl.DataFrame, aspect_column: str | None) -> Iterable[tuple[str, pl.DataFrame]]:
    """The rows of each aspect (or target), with its name; without aspects, all rows as one part without a name."""
    if not aspect_column or frame.is_empty():
        return [("", frame)]
    return [
        (str(aspect_name), aspect_rows)
        for (aspect_name,), aspect_rows in frame.group_by(aspect_column, maintain_order=True)
    ]


def digits_of_column(rows: pl.DataFrame, column: Column, min_decimals: int = DIGITS) -> int:
    """Number of decimals for a column. `min_decimals` is used if the column has neither intervals nor standard
    deviations."""
    if column.kind == "p" or not column.is_number:
        return 0
    return column_digits(
        rows.select(column.names).iter_rows(),
        min_decimals=WITH_SPREAD
        if column.sd or (column.interval and rows[f"{column.name}_low"].count())
        else min_decimals,
    )


def cell(row: Mapping[str, Any], column: Column, digits: int) -> str:
    """A value as text, followed by its interval in brackets, or by ± and its standard deviation over replications."""
    cell_value = row[column.name]
    if cell_value is None:
        return UNDEFINED
    if column.kind in TEXT_OF_KIND:
        return TEXT_OF_KIND[column.kind](cell_value)
    if column.sd and (sd := row[f"{column.name}_sd"]) is not None:
        return f"{number(cell_value, digits=digits)} ± {number(sd, digits=digits)}"
    return estimate_text(cell_value, *column.bounds(row), digits=digits, write=number)


def number(value: float | None, *, digits: int) -> str:
    """A number as text, in scientific notation if it is huge and with `digits` decimals otherwise.

    >>> number(0.1234, digits=2), number(3.0, digits=0), number(2e7, digits=0), number(None, digits=2)
    ('0.12', '3', '2e+07', '–')
    """
    if value is None:
        return UNDEFINED
    return f"{value:.4g}" if abs(value) >= HUGE else decimal(value, digits)


def _best(table_rows: pl.DataFrame, view_columns: Sequence[Column]) -> Iterable[tuple[int, int]]:
    """Positions of the best value of each column with a `best` direction."""
    for column_index, column in enumerate(view_columns):
        if column.best and table_rows.height > 1 and table_rows[column.name].count():
            column_series = table_rows[column.name]
            best_value = column_series.max() if column.best == "high" else column_series.min()
            yield from (
                (row_index, column_index)
                for row_index in column_series.eq(best_value).fill_null(False).arg_true().to_list()
            )
