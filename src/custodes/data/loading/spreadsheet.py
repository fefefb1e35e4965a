"""Spreadsheets (.xlsx and .xlsm), read with fastexcel. `FILE::SHEET` selects one of several sheets."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from custodes.data.loading.compression import LARGEST, zip_archive, zip_member
from custodes.data.notes import Note, build_notes
from custodes.data.table import select_part, strip_column_names
from custodes.errors import InputError, join_labels, requires_extra

ZIP = b"PK\x03\x04"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
WORKBOOK_MEMBER = "xl/workbook.xml"
"""The file that identifies a zip archive as a workbook."""

CELL = 32
"""Size in bytes of a cell during reading. Empty cells between filled cells need the same size."""

PLACE = re.compile(rb'\sr="([A-Z]{1,3})([0-9]{1,7})"')
"""The attribute with the position of a cell in the XML of a sheet."""


def from_workbook(file_bytes: bytes, part: str | None, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """A sheet as a frame of text, and a note on cells with errors. The value of a formula is the value that was stored
    when the file was saved."""
    with requires_extra(f"{where}: spreadsheets need fastexcel", "excel", ", or save the spreadsheet as CSV"):
        import fastexcel
        import pyarrow  # noqa: F401  # fastexcel returns errors of cells through PyArrow
    try:
        workbook = fastexcel.read_excel(file_bytes)
        _check_extents(file_bytes, where)
        requested_sheet_names = (
            workbook.sheet_names
            if part is None
            else [select_part(part, workbook.sheet_names, name=where, what="sheet")]
        )
        cells_and_errors_of_sheet = {
            sheet_name: _read_cells(workbook, sheet_name) for sheet_name in requested_sheet_names
        }
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException):
        raise InputError(f"{where}: not a spreadsheet, or a damaged one; save it again, or as CSV") from None
    filled_sheet_names = [
        sheet_name for sheet_name, (cell_frame, _) in cells_and_errors_of_sheet.items() if cell_frame.height
    ]
    if not filled_sheet_names:
        raise InputError(f"{where}: no cell is filled; give a table with a header and at least one row")
    sheet_name = select_part(part, filled_sheet_names, name=where, what="sheet")
    cell_frame, cell_errors = cells_and_errors_of_sheet[sheet_name]
    examples_text = join_labels(
        (f"{error_text} in row {row_number} of {header_cell!r}" for row_number, header_cell, error_text in cell_errors),
        limit=3,
    )
    return _table_of_cells(cell_frame, where), build_notes(
        (
            "cell-error",
            len(cell_errors),
            f"{where}: {len(cell_errors)} cells hold an error and count as empty ({examples_text})",
        )
    )


def _check_extents(file_bytes: bytes, where: str) -> None:
    """Raise `InputError` if the cells of a sheet, including empty cells in between, would not fit into memory."""
    archive = zip_archive(file_bytes, where)
    for member_name in archive.namelist():
        cell_places = PLACE.findall(zip_member(archive, member_name, where))
        n_rows = max((int(row_digits) for _, row_digits in cell_places), default=0)
        n_columns = max(
            (
                _column_number(column_letters)
                for column_letters in {column_letters for column_letters, _ in cell_places}
            ),
            default=0,
        )
        if n_rows * n_columns * CELL > LARGEST:
            raise InputError(
                f"{where}: {member_name} covers {n_rows:,} rows and {n_columns:,} columns, which is too large; delete "
                "cells far from the table, or save only the table as CSV"
            )


def _column_number(letters: bytes) -> int:
    """The number of a column: A is 1, and AA is 27."""
    return sum(
        (character_code - ord("A") + 1) * 26**exponent for exponent, character_code in enumerate(reversed(letters))
    )


def _read_cells(workbook: Any, sheet_name: str) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
    """The cells of a sheet as text with the header as its first row, and cells with errors."""
    loaded_sheet = workbook.load_sheet(sheet_name, header_row=None, dtypes="string")
    if not (loaded_sheet.width and loaded_sheet.height):
        return pl.DataFrame(), []
    record_batch, error_report = loaded_sheet.to_arrow_with_errors()
    cell_frame = pl.DataFrame(pl.from_arrow(record_batch))
    header_cells = [str(header_cell or "") for header_cell in cell_frame.row(0)]
    return cell_frame, [
        (
            cell_error.position[0],
            header_cells[cell_error.position[1]],
            cell_error.detail.rpartition("got ")[2].strip("'"),
        )
        for cell_error in (error_report.errors if error_report else ())
    ]


def _table_of_cells(cell_frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """The rows below the first row, which has the names of the columns. Empty rows and columns are dropped."""
    cell_frame = cell_frame[
        [column_cells.name for column_cells in cell_frame if column_cells.null_count() < cell_frame.height]
    ]
    header_cells = cell_frame.row(0)
    unnamed_column_numbers = [
        column_number
        for column_number, header_cell in enumerate(header_cells, start=1)
        if not (header_cell or "").strip()
    ]
    if unnamed_column_numbers:
        raise InputError(
            f"{where}: column {join_labels(unnamed_column_numbers, limit=3)} has no name in the first non-empty row "
            f"({join_labels(filter(None, header_cells), limit=3)}); a sheet must start with the names of its "
            "columns"
        )
    cell_frame.columns = strip_column_names((str(header_cell) for header_cell in header_cells), where=where)
    return cell_frame[1:].filter(~pl.all_horizontal(pl.all().is_null()))
