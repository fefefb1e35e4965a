"""Delimited text: CSV, TSV, and semicolon-separated files with decimal commas."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator

import polars as pl

from custodes.data.loading.compression import CELL, TEXT_COPIES, check_size
from custodes.data.notes import Note, build_notes
from custodes.data.table import MISSING_TOKENS, strip_column_names
from custodes.errors import InputError, join_labels

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
LABELS = ("item", "system", "rater", "aspect")
"""Columns in which a comma is never a decimal comma."""

SAMPLE_ROWS = 50
"""Number of rows from which the separator is determined."""

SAMPLE_CHARACTERS = 2_000_000

COMMA_NUMBER = r"^[+-]?\d+(,\d+)?([eE][+-]?\d+)?$"
THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
"""`1,234` is ambiguous: 1.234 or 1234."""

LONE_RETURN = re.compile(r"\r(?!\n)")


def from_delimited(text: str, suffix: str, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """A frame of text, and notes on the assumed separator and the assumed decimal commas."""
    if "\n" not in text or '"' not in text:
        text = LONE_RETURN.sub("\n", text)  # line ends of old Macs; inside quotes a return belongs to the cell
    usual_separator = "\t" if suffix == ".tsv" else ","
    separator = _detect_separator(text, usual_separator)
    try:
        header_cells = next(_iter_cell_rows(text[:SAMPLE_CHARACTERS], separator), [])
    except csv.Error as error:
        raise InputError(f"{where}: the header cannot be read: {error}") from None
    n_lines, n_columns = text.count("\n") + 1, len(strip_column_names(header_cells, where=where))
    check_size(
        TEXT_COPIES * len(text) + CELL * n_lines * n_columns,
        f"{where}: {n_lines:,} lines of {n_columns} columns may take",
    )
    frame = _parse_table(text, separator, where)
    comma_column_names = [
        column_name
        for column_name in frame.columns
        if separator != "," and column_name not in LABELS and _has_decimal_commas(frame[column_name])
    ]
    return frame.with_columns(pl.col(comma_column_names).str.replace(",", ".")), build_notes(
        (
            "separator",
            suffix in (".csv", ".tsv") and separator != usual_separator,
            f"{where}: cells are separated by {SEPARATORS[separator]} (expected {SEPARATORS[usual_separator]})",
        ),
        (
            "decimal-comma",
            len(comma_column_names),
            f"{where}: numbers with decimal commas are read in columns {join_labels(comma_column_names)}",
        ),
    )


def _iter_cell_rows(text: str, separator: str) -> Iterator[list[str]]:
    """The non-blank rows of a text."""
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def _detect_separator(text: str, usual_separator: str) -> str:
    """The separator that gives the most cells, among separators for which all rows have as many cells as the header. In
    a tie, the usual separator is returned."""
    row_lengths_by_separator = {
        separator: row_lengths
        for separator in dict.fromkeys([usual_separator, *SEPARATORS])
        if (row_lengths := _count_cells(text, separator)) and row_lengths[0] > 1
    }
    consistent_separators = [
        separator for separator, row_lengths in row_lengths_by_separator.items() if set(row_lengths) == {row_lengths[0]}
    ]
    if not consistent_separators and usual_separator in row_lengths_by_separator:
        return usual_separator
    return max(
        consistent_separators or row_lengths_by_separator,
        key=lambda separator: row_lengths_by_separator[separator][0],
        default=usual_separator,
    )  # in a tie, the first separator is the usual one


def _count_cells(text: str, separator: str) -> list[int]:
    """The number of cells in each of the first rows; no rows if a quote is not closed."""
    try:
        return list(map(len, itertools.islice(_iter_cell_rows(text[:SAMPLE_CHARACTERS], separator), SAMPLE_ROWS)))
    except csv.Error:
        return []


def _parse_table(text: str, separator: str, where: str) -> pl.DataFrame:
    try:
        frame = pl.read_csv(text.encode(), separator=separator, infer_schema=False).rename(str.strip)
    except (Exception, pl.exceptions.PanicException):
        fault_text = (
            _ragged_row(text, separator, finds_longer_rows=True)
            or "the table cannot be read: a quote is not closed, or occurs inside a cell"
        )
        raise InputError(
            f"{where}: {fault_text}; put a cell that holds {separator!r} in quotes, and write each quote inside the "
            "cell twice"
        ) from None
    has_all_cells = '"' not in text and text.count(separator) == (frame.height + 1) * (frame.width - 1)
    may_lack_cells = frame.width and frame[:, -1].null_count() and not has_all_cells
    if may_lack_cells and (fault_text := _ragged_row(text, separator, finds_longer_rows=False)):
        raise InputError(f"{where}: {fault_text}; the file may be truncated")
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _ragged_row(text: str, separator: str, *, finds_longer_rows: bool) -> str:
    """A message on the first row with fewer cells than the header or, if `finds_longer_rows`, on the first row with
    more cells. The message is '' if there is no such row."""
    try:
        cell_rows = _iter_cell_rows(text, separator)
        n_columns = len(next(cell_rows, []))
        for row_number, row_cells in enumerate(cell_rows, start=1):
            if len(row_cells) > n_columns if finds_longer_rows else len(row_cells) < n_columns:
                return f"row {row_number} has {len(row_cells)} cells, but the header has {n_columns}"
    except csv.Error:
        pass
    return ""


def _has_decimal_commas(column: pl.Series) -> bool:
    """Whether every cell is a number, possibly with a decimal comma, and whether at least one of the commas cannot be a
    thousands separator."""
    cells = column.str.strip_chars()
    cells = cells.filter(~cells.str.to_lowercase().is_in(MISSING_TOKENS)).drop_nulls()
    cells_with_comma = cells.filter(cells.str.contains(","))
    return bool(
        cells_with_comma.len()
        and cells.str.contains(COMMA_NUMBER).all()
        and not cells_with_comma.str.contains(THOUSANDS).all()
    )
