"""Tables for spreadsheet programs, in which a text from people must stay a text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell begins with that spreadsheet programs compute (OWASP, "CSV Injection"); the last are their full-width
forms."""


def cell(value: object) -> object:
    """A text that no program takes for a formula: marked by ' where it would; numbers as they are.

    >>> cell("=1+1"), cell(" =1"), cell(-1), cell("w001")
    ("'=1+1", "' =1", -1, 'w001')
    """
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULAS) else value


def sheet(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV of such cells (RFC 4180).

    >>> sheet(["code"], [["@x"]])
    "code\\r\\n'@x\\r\\n"
    """
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(header)
    writer.writerows([["" if value is None else cell(value) for value in row] for row in rows])
    return made.getvalue()
