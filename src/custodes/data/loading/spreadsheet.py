"""Spreadsheets: .xlsx, .xlsm, .xlsb, .xls and .ods through fastexcel, `FILE::SHEET` where there are several."""

from __future__ import annotations

from typing import Any

import polars as pl

from custodes.data.loading.compression import zip_members
from custodes.data.loading.table import chosen, named_columns
from custodes.data.notes import Note, noted
from custodes.errors import InputError, MissingExtraError, listed

ZIP = b"PK\x03\x04"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
INSIDE = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")
"""Files by which a zip archive is a workbook."""


def is_workbook(data: bytes, name: str) -> bool:
    """Whether bytes are of a workbook."""
    if data.startswith(OLE):
        return True
    return data.startswith(ZIP) and any(own.filename in INSIDE for own in zip_members(data, name))


def from_workbook(data: bytes, part: str | None, name: str) -> tuple[pl.DataFrame, list[Note]]:
    """A sheet as a frame of text, and a note on cells that hold an error. Formulas are their last computed values."""
    try:
        import fastexcel
        import pyarrow  # noqa: F401  # fastexcel tells errors of cells through it
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: spreadsheets need fastexcel: pip install 'custodes[excel]', or save it as CSV"
        ) from error
    if not is_workbook(data, name):
        raise InputError(f"{name}: not a spreadsheet, or a damaged one; save it again, or as CSV")
    try:
        book = fastexcel.read_excel(data)
        known = list(book.sheet_names)
        wanted = known if part is None else [chosen(part, known, name=name, what="sheet")]
        sheets = {sheet: _cells(book, sheet) for sheet in wanted}
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException):
        raise InputError(f"{name}: a damaged spreadsheet, or one with a password; save it again, or as CSV") from None
    filled = {sheet: cells for sheet, cells in sheets.items() if cells[0].height}
    if not filled:
        raise InputError(f"{name}: no cell is filled; give a table with a header and at least one row")
    cells, faults = filled[chosen(part, filled, name=name, what="sheet")]
    told = listed((f"{what} in row {row} of {column!r}" for row, column, what in faults), limit=3)
    return _table(cells, name), noted(
        ("cell-error", len(faults), f"{name}: {len(faults)} cells hold an error and count as empty ({told})")
    )


def _cells(book: Any, sheet: str) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
    """The cells of a sheet as text with the header as its first row, and those that hold an error."""
    opened = book.load_sheet(sheet, header_row=None, dtypes="string")
    if not opened.width or not opened.height:
        return pl.DataFrame(), []
    batch, errors = opened.to_arrow_with_errors()
    frame = pl.DataFrame(pl.from_arrow(batch))
    found = errors.errors if errors else []
    header = frame.row(0)
    places = [(own.position[0], header[own.position[1]], own.detail.rpartition("got ")[2]) for own in found]
    return frame, [(row, str(column or ""), what.strip("'")) for row, column, what in places]


def _table(cells: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows below the first, which names the columns; empty rows and columns are passed over."""
    cells = cells[[own.name for own in cells if own.null_count() < cells.height]]
    header = cells.row(0)
    unnamed = [number for number, column in enumerate(header, start=1) if not (column or "").strip()]
    if unnamed:
        raise InputError(
            f"{name}: column {listed(unnamed, limit=3)} has no name in the first filled row"
            f" ({listed((own for own in header if own), limit=3)}); a sheet starts with the names of its columns"
        )
    cells.columns = named_columns((str(column) for column in header), where=name)
    return cells[1:].filter(~pl.all_horizontal(pl.all().is_null()))
