"""What a reader is: of one table (`TableReader`), or of a file or folder that is more than a table (`PathReader`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from custodes.data.study import Study

Invalid = Literal["error", "drop", "force"]
"""What to do with verdicts that cannot be read: refuse the file, drop and count a few, or drop however many."""


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A format of tables: the columns it needs (alternatives), those that rule it out, and how it makes a study.

    `marks` are columns of which it must have one, where others' tables, too, have the columns it needs.
    `make(frame, where=, invalid=)` gets a frame with at least one row.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    make: Callable[..., Study]
    absent: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a table with these columns may be of this format."""
        suits = any(set(needed) <= set(columns) for needed in self.columns) and not set(self.absent) & set(columns)
        return suits and (not self.marks or bool(set(self.marks) & set(columns)))


@dataclass(frozen=True, kw_only=True)
class PathReader:
    """A format of a folder, an archive or a file that is no table: whether a path is of it, and how it makes a study.

    `fits(path)` looks at names and first bytes only. `make(path, part=, invalid=)` gets what was written after `::`, or
    None. With `whole` it never does: a part of such a path is a table.
    """

    name: str
    fits: Callable[[Path], bool]
    make: Callable[..., Study]
    whole: bool = False
