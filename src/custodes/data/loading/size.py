"""How much memory a table takes once it is read, estimated from its bytes before it is parsed."""

from __future__ import annotations

from custodes.errors import InputError
from custodes.memory import fits, memory

COPIES = 3
"""Copies of a text while it is parsed: its bytes, the text, the cells."""

CELL = 64
"""Bytes that a cell of text takes beside its letters, in the table and in the study that is made of it."""

OBJECT, VALUE, LIST = 400, 130, 80
"""Bytes that an object of JSON takes, a value in it with its key, and a list."""

AT_ONCE = 20_000
"""Objects of JSON that are kept as such before they become columns."""

WAY_OUT = "keep the columns and rows that are needed, or count first, with count_pairs of a polars scan"


def check_file(size: int, name: str) -> None:
    """Raise where the bytes of a file alone do not fit in memory."""
    _check(size, f"{name}: the file takes")


def check_delimited(text: str, columns: int, name: str) -> None:
    """Raise where lines of so many columns would not fit in memory."""
    lines = text.count("\n") + 1
    needed = COPIES * len(text) + CELL * lines * columns
    _check(needed, f"{name}: {lines:,} lines of {columns} columns may take")


def check_records(text: str, name: str) -> None:
    """Raise where the objects of a JSON text would not fit in memory."""
    objects, values, lists = text.count("{"), text.count(","), text.count("[")
    needed = COPIES * len(text) + OBJECT * objects + VALUE * (objects + values) + LIST * lists
    _check(needed, f"{name}: JSON of {objects:,} objects may take")


def check_lines(text: str, name: str) -> None:
    """Raise where lines of JSON objects, which become cells some at a time, would not fit in memory."""
    objects, values = text.count("{"), text.count(",")
    at_once = min(1.0, AT_ONCE / max(objects, 1)) * (OBJECT * objects + VALUE * (objects + values))
    needed = COPIES * len(text) + CELL * (objects + values) + at_once
    _check(needed, f"{name}: JSON of {objects:,} objects may take")


def check_cells(rows: int, columns: int, name: str) -> None:
    """Raise where the objects of a list have so many different keys that the table would not fit in memory."""
    _check(CELL * rows * columns, f"{name}: {rows:,} rows of {columns:,} columns take")


def _check(needed: float, what: str) -> None:
    if not fits(needed):
        raise InputError(
            f"{what} {needed / 1e9:,.1f} GB of memory, and this machine has {memory() / 1e9:,.1f} GB; {WAY_OUT}"
        )
