"""Tables of the page: short tables as HTML, and all tables as compact columns."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl
from polars import selectors

from custodes.answers.tables import Column, Kind
from custodes.answers.views import TEXT_OF_KIND, digits_of_column
from custodes.answers.wording import UNDEFINED, estimate_text, number, percent
from custodes.reporting.section import Context, SelectionTable, render

DIGITS = 5
"""Number of significant digits of the numbers that the page contains as data."""

LEAST_DIGITS = 2
"""Minimum number of decimals in a column without intervals, for numbers below 10."""

LEVEL = 5
"""Compression level of deflate. Compression at level 6 takes nearly twice as long, and the output is only 4 %
smaller."""

SHOWN: Mapping[Kind, str] = {
    "count": "int",
    "share": "percent",
    "probability": "percent",
    "difference": "number",
    "points": "number",
    "score": "number",
    "p": "p",
}
"""Format of each kind of column on the page. Columns of other kinds are text."""


def table_html(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    *,
    id: str,
    caption: str,
    notes: Iterable[tuple[str | None, str]] = (),
    by: str | None = "aspect",
) -> str:
    """A frame as an HTML table with the columns that have values.

    The page displays the rows of one aspect at a time; the column `by` has the aspect (None: all rows are displayed).
    Each of the `notes` is displayed together with its aspect; a note without an aspect (None) is always displayed.
    """
    columns = columns_with_values(columns, frame)
    n_decimals_by_column = [digits_of_column(frame, column, LEAST_DIGITS) for column in columns]
    return render(
        "table.html",
        id=id,
        caption=caption,
        columns=column_specs(columns),
        rows=[
            {
                "aspect": row[by] if by else None,
                "cells": [
                    _cell(row, column, n_decimals)
                    for column, n_decimals in zip(columns, n_decimals_by_column, strict=True)
                ],
            }
            for row in frame.iter_rows(named=True)
        ],
        notes=list(dict.fromkeys(notes)),
    )


def result_table_html(
    context: Context,
    full_name: str,
    caption: str,
    *,
    rows: pl.DataFrame | None = None,
    without: Sequence[str] = (),
    notes: Iterable[tuple[str | None, str]] = (),
) -> str:
    """HTML of a table of a result: the essential columns except `without`. The text is '' if there are no rows.

    `rows` (default: the rows of the table) can be other rows with the same columns.
    """
    rows = context.table(full_name) if rows is None else rows
    if rows.is_empty():
        return ""
    return table_html(
        rows,
        [column for column in context.essential_columns(full_name) if column.name not in without],
        id=f"{full_name.replace('.', '-')}-table",
        caption=caption,
        notes=notes,
    )


def build_selection_table(
    context: Context, id: str, caption: str, table_name: str, where: Mapping[str, str]
) -> SelectionTable:
    """A table of the essential columns of a declared table.

    Columns that the selection fixes and columns without values are left out.
    """
    return SelectionTable(
        id=id,
        caption=caption,
        table=table_name,
        columns=columns_with_values(
            [column for column in context.essential_columns(table_name) if column.name not in where],
            context.table(table_name),
        ),
        where=where,
    )


def columns_with_values(columns: Iterable[Column], frame: pl.DataFrame) -> tuple[Column, ...]:
    """The columns that have at least one value in a frame."""
    defined_values_of_column = {series.name: series.drop_nulls() for series in frame.iter_columns()}
    nonempty_column_names = {
        column_name
        for column_name, defined_values in defined_values_of_column.items()
        if ((defined_values != "").any() if defined_values.dtype == pl.String else defined_values.len())
    }
    return tuple(column for column in columns if column.name in nonempty_column_names or frame.is_empty())


def _cell(row: Mapping[str, Any], column: Column, digits: int) -> dict[str, Any]:
    """The text of a cell, and the value by which the page sorts it."""
    cell_value = row[column.name]
    if cell_value is None:
        return {"text": UNDEFINED if column.is_number else "", "value": ""}
    if column.kind in TEXT_OF_KIND:
        cell_text = TEXT_OF_KIND[column.kind](cell_value)
        return {"text": cell_text, "value": cell_value if column.kind in ("letters", "p") else cell_text}
    format_number = {"percent": percent, "int": _format_whole_number}.get(SHOWN[column.kind], number)
    cell_text = estimate_text(cell_value, *column.bounds(row), digits=digits, write=format_number)
    if column.sd and (sd := row[f"{column.name}_sd"]) is not None:
        cell_text += f" ± {format_number(sd, digits=digits)}"
    return {"text": cell_text, "value": cell_value}


def _format_whole_number(value: float | None, *, digits: int = 0) -> str:
    """A whole number with thousands separators; `digits` is ignored."""
    return UNDEFINED if value is None else f"{value:,}".replace(",", "\u202f")


def column_specs(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The columns in the form that the script and the templates of the page use."""
    return [
        {
            "field": column.name,
            "label": column.label,
            "title": column.doc,
            "kind": SHOWN.get(column.kind, "text"),
            "interval": column.interval,
            "sd": column.sd,
            "more": not column.essential,
        }
        for column in columns
    ]


def columnar(frame: pl.DataFrame) -> dict[str, Any]:
    """The columns of a frame as lists. Labels are positions in a list of distinct labels, and numbers are rounded."""
    number_columns_expression = selectors.float().cast(pl.Float64)
    rounded_frame = frame.with_columns(
        pl.when(number_columns_expression.is_finite())
        .then(number_columns_expression)
        .round_sig_figs(DIGITS)
        .name.keep()
    )
    return {"rows": frame.height, "columns": {series.name: _column(series) for series in rounded_frame.iter_columns()}}


def _column(series: pl.Series) -> Any:
    if series.dtype == pl.String:
        row_labels = series.to_list()
        distinct_labels = [distinct_label for distinct_label in dict.fromkeys(row_labels) if distinct_label is not None]
        code_of_label = {None: -1} | {
            distinct_label: label_code for label_code, distinct_label in enumerate(distinct_labels)
        }
        return {"labels": distinct_labels, "codes": [code_of_label[row_label] for row_label in row_labels]}
    if series.dtype == pl.List(pl.String):
        return series.list.join(", ").fill_null("").to_list()
    return series.to_list()


def compress_page_data(page_data: Mapping[str, Any], tables: Iterable[tuple[str, pl.DataFrame]]) -> str:
    """`page_data`, and the `tables` by name, as JSON that is deflated and encoded in base 64.

    The text is about a quarter as long as the JSON, and has no characters that could close its HTML element. To limit
    memory, tables are converted one at a time.
    """
    compressor = zlib.compressobj(LEVEL)
    compressed_chunks = [compressor.compress(msgspec.json.encode(page_data)[:-1] + b',"tables":{')]
    for table_index, (table_name, frame) in enumerate(tables):
        compressed_chunks.append(
            compressor.compress(
                (b"," * (table_index > 0) + msgspec.json.encode(table_name) + b":")
                + msgspec.json.encode(columnar(frame))
            )
        )
    compressed_chunks += [compressor.compress(b"}}"), compressor.flush()]
    return base64.b64encode(b"".join(compressed_chunks)).decode()
