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

WAY_OUT = "select the columns and rows needed, or count first with count_pairs on a Polars scan"


def check_delimited(text: str, columns: int, name: str) -> None:
    """Raise where lines of so many columns would not fit in memory."""
    lines = text.count("\n") + 1
    needed = COPIES * len(text) + CELL * lines * columns
    check_size(needed, f"{name}: {lines:,} lines of {columns} columns may take")


def check_json(text: str, name: str, *, by_lines: bool) -> None:
    """Raise where the objects of a JSON text would not fit in memory; of JSON Lines a few are objects at once."""
    objects, values, lists = text.count("{"), text.count(","), text.count("[")
    needed: float = OBJECT * objects + VALUE * (objects + values) + LIST * lists
    if by_lines:
        needed = needed * min(1.0, AT_ONCE / max(objects, 1)) + CELL * (objects + values)
    check_size(COPIES * len(text) + needed, f"{name}: JSON of {objects:,} objects may take")


def check_size(needed: float, what: str) -> None:
    """Raise where so many bytes do not fit in memory; `what` takes them, as the message begins."""
    if not fits(needed):
        raise InputError(
            f"{what} {needed / 1000000000.0:,.1f} GB of memory; this machine has "
            f"{memory() / 1000000000.0:,.1f} GB. To read it, {WAY_OUT}"
        )
