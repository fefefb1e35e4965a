"""Estimates of the memory that a table will take, made from the bytes before parsing."""

from __future__ import annotations

from custodes.errors import InputError
from custodes.memory import fits_in_memory, machine_memory

COPIES = 3
"""Number of copies of a text in memory during parsing: bytes, text and cells."""

CELL = 64
"""Overhead in bytes of a text cell, in the table and in the study."""

OBJECT, VALUE, LIST = 400, 130, 80
"""Sizes in bytes of a JSON object, of a value with its key, and of a list."""

BATCH_ROWS = 20_000
"""Number of JSON objects that are held in memory before conversion to columns."""

SIZE_ADVICE = (
    "select the columns and rows that you need, or count outcomes of pairs first (count_pairs on a Polars scan)"
)


def check_delimited(text: str, columns: int, name: str) -> None:
    """Raise `InputError` if a text with this number of columns would not fit into memory."""
    n_lines = text.count("\n") + 1
    n_bytes = COPIES * len(text) + CELL * n_lines * columns
    check_size(n_bytes, f"{name}: {n_lines:,} lines of {columns} columns may take")


def check_json(text: str, name: str, *, by_lines: bool) -> None:
    """Raise `InputError` if the objects of a JSON text would not fit into memory. With JSON Lines, only a block of
    objects is in memory at a time."""
    n_objects, n_values, n_lists = text.count("{"), text.count(","), text.count("[")
    n_bytes: float = OBJECT * n_objects + VALUE * (n_objects + n_values) + LIST * n_lists
    if by_lines:
        n_bytes = n_bytes * min(1.0, BATCH_ROWS / max(n_objects, 1)) + CELL * (n_objects + n_values)
    check_size(COPIES * len(text) + n_bytes, f"{name}: JSON of {n_objects:,} objects may take")


def check_size(needed: float, what: str) -> None:
    """Raise `InputError` if this number of bytes does not fit into memory. The message begins with `what`."""
    if not fits_in_memory(needed):
        raise InputError(
            f"{what} {needed / 1000000000.0:,.1f} GB of memory; this machine has "
            f"{machine_memory() / 1000000000.0:,.1f} GB. To read the data, {SIZE_ADVICE}"
        )
