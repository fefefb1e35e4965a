"""Types of readers: `TableReader` reads one table, and `PathReader` reads a file or folder that is more than a
table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from custodes.data.study import Study

Invalid = Literal["error", "drop", "force"]
"""Handling of unreadable verdicts: raise, drop and count a few, or drop any number."""


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A format of tables: the required columns (several alternatives), the excluded columns, and the function that
    makes a study.

    At least one column of `marks` must be present, since tables of other formats also have the required columns.
    `make(frame, where=, invalid=)` gets a frame with at least one row.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    make: Callable[..., Study]
    absent: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a table with these columns may have this format."""
        suits = any(set(needed) <= set(columns) for needed in self.columns) and not set(self.absent) & set(columns)
        return suits and (not self.marks or bool(set(self.marks) & set(columns)))


@dataclass(frozen=True, kw_only=True)
class PathReader:
    """A format of a folder, an archive or a file that is not a table, with the functions that recognise the format and
    make a study.

    `fits(path)` uses names and first bytes only. `make(path, part=, invalid=)` gets the text after `::` as `part`, or
    None. If `whole` is true, the format has no parts, and `PATH::PART` is read as a table.
    """

    name: str
    fits: Callable[[Path], bool]
    make: Callable[..., Study]
    whole: bool = False
