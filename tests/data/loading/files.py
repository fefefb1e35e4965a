"""Archives, workbooks and databases, and the message for a refused file."""

from __future__ import annotations

import io
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
import xlsxwriter

from custodes.data.loading import load_table
from custodes.errors import InputError


def fault(source: str | Path) -> str:
    """Return the message for a table that is refused, which is one line."""
    with pytest.raises(InputError) as error:
        load_table(source)
    assert "\n" not in str(error.value)
    return str(error.value)


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unzipped(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def workbook(sheets: dict[str, list[list[Any]]], at: tuple[int, int] = (0, 0)) -> bytes:
    """Return a workbook; a cell that is a tuple holds a formula and its value."""
    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer, {"in_memory": True, "default_date_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for row, cells in enumerate(rows, start=at[0]):
            for column, cell in enumerate(cells, start=at[1]):
                if isinstance(cell, tuple):
                    sheet.write_formula(row, column, cell[0], None, cell[1])
                elif cell is not None:
                    sheet.write(row, column, cell)
    book.close()
    return buffer.getvalue()


def database(path: Path, kind: str, *statements: str) -> Path:
    lite = kind == "sqlite"
    with closing(sqlite3.connect(path, isolation_level=None) if lite else duckdb.connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)
    return path
