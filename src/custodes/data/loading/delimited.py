"""Delimited text: CSV, TSV, and semicolon-separated files with decimal commas."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator

import polars as pl

from custodes.data.loading.size import check_delimited
from custodes.data.loading.table import named_columns
from custodes.data.notes import Note, noted
from custodes.data.table import MISSING_TOKENS
from custodes.errors import InputError, listed

SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
LABELS = ("item", "system", "rater", "aspect")
"""Columns in which a comma is never a decimal comma."""

SAMPLE_ROWS = 50
"""Number of rows from which the separator is determined."""

HEADER_CHARACTERS = 1_000_000
SAMPLE_CHARACTERS = 2_000_000

COMMA_NUMBER = r"^[+-]?\d+(,\d+)?([eE][+-]?\d+)?$"
THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
"""`1,234` is ambiguous: 1.234 or 1234."""

LONE_RETURN = re.compile(r"\r(?!\n)")


def from_delimited(text: str, suffix: str, name: str) -> tuple[pl.DataFrame, list[Note]]:
    """A frame of text, and notes on the assumed separator and the assumed decimal commas."""
    if "\n" not in text or '"' not in text:
        text = LONE_RETURN.sub("\n", text)  # line ends of old Macs; inside quotes a return belongs to the cell
    usual = "\t" if suffix == ".tsv" else ","
    separator = _separator(text, usual)
    try:
        header = next(_rows(text[:HEADER_CHARACTERS], separator), [])
    except csv.Error as error:
        raise InputError(f"{name}: the header cannot be read: {error}") from None
    check_delimited(text, len(named_columns(header, where=name)), name)
    frame = _parsed(text, separator, name)
    notes = noted(
        (
            "separator",
            suffix in (".csv", ".tsv") and separator != usual,
            f"{name}: cells are separated by {SEPARATORS[separator]} (expected {SEPARATORS[usual]})",
        )
    )
    if separator == ",":
        return frame, notes
    changed = [column for column in frame.columns if column not in LABELS and _has_decimal_commas(frame[column])]
    frame = frame.with_columns(pl.col(changed).str.replace(",", ".", literal=True))
    notes += noted(
        ("decimal-comma", len(changed), f"{name}: numbers with decimal commas are read in columns {listed(changed)}")
    )
    return frame, notes


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    """The non-blank rows of a text."""
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def _separator(text: str, usual: str) -> str:
    """The separator that gives the most cells, among separators for which all rows have as many cells as the header. In
    a tie, the usual separator is returned."""
    cells: dict[str, int] = {}
    agreeing: dict[str, int] = {}
    for separator in (usual, *(other for other in SEPARATORS if other != usual)):
        try:
            widths = [len(row) for row in itertools.islice(_rows(text[:SAMPLE_CHARACTERS], separator), SAMPLE_ROWS)]
        except csv.Error:
            continue
        if len(text) > SAMPLE_CHARACTERS and len(widths) > 1:
            widths.pop()  # the sample may end inside a row
        if widths and widths[0] > 1:
            cells[separator] = widths[0]
            if set(widths) == {widths[0]}:
                agreeing[separator] = widths[0]
    among = agreeing or ({usual: 1} if usual in cells else cells)
    return max(among, key=lambda separator: among[separator], default=usual)  # the first among equals is the usual one


def _parsed(text: str, separator: str, name: str) -> pl.DataFrame:
    try:
        frame = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
        frame = frame.rename(str.strip)
    except (Exception, pl.exceptions.PanicException):
        fault = (
            _ragged_row(text, separator, longer=True)
            or "the table cannot be read: a quote is not closed, or occurs inside a cell"
        )
        raise InputError(
            f"{name}: {fault}; put a cell that holds {separator!r} in quotes, and write each quote inside the cell "
            "twice"
        ) from None
    full = '"' not in text and text.count(separator) == (frame.height + 1) * (frame.width - 1)
    if frame.width and frame[:, -1].null_count() and not full:
        fault = _ragged_row(text, separator, longer=False)
        if fault:
            raise InputError(f"{name}: {fault}; the file may be truncated")
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _ragged_row(text: str, separator: str, *, longer: bool) -> str:
    """A message on the first row with more cells (if `longer`) or with fewer cells than the header; '' if there is no
    such row."""
    try:
        rows = _rows(text, separator)
        width = len(next(rows, []))
        for number, row in enumerate(rows, start=1):
            if len(row) > width if longer else len(row) < width:
                return f"row {number} has {len(row)} cells, but the header has {width}"
    except csv.Error:
        pass
    return ""


def _has_decimal_commas(column: pl.Series) -> bool:
    """Whether every cell is a number, possibly with a decimal comma, and at least one comma cannot be a thousands
    separator."""
    cells = column.str.strip_chars()
    cells = cells.filter(~cells.str.to_lowercase().is_in(MISSING_TOKENS)).drop_nulls()
    commas = cells.filter(cells.str.contains(",", literal=True))
    return bool(commas.len() and cells.str.contains(COMMA_NUMBER).all() and not commas.str.contains(THOUSANDS).all())
