"""Types of readers: `TableReader` reads one table, and `PathReader` reads a file or folder that is more than a table.

Readers of other packages: each entry point of the group `custodes.readers` names a `TableReader`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import polars as pl

from custodes.data.study import Study
from custodes.errors import CustodesError, InputError
from custodes.plugins import describe_error, load_plugins

Invalid = Literal["error", "drop", "force"]
"""How to treat unreadable verdicts: raise an error, drop a small proportion and count them, or drop any number."""


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A format of tables: the required columns (several alternatives), the excluded columns, and the function that
    makes a study.

    At least one column of `marks` must be present, because tables of other formats may also have the required columns.
    `make(frame, where=, invalid=)` gets a frame with at least one row.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    make: Callable[..., Study]
    absent: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a table with these columns may have this format."""
        has_required_columns = any(
            set(required_columns) <= set(columns) for required_columns in self.columns
        ) and not set(self.absent) & set(columns)
        return has_required_columns and (not self.marks or bool(set(self.marks) & set(columns)))


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


GROUP = "custodes.readers"


@cache
def plugin_readers(builtin_names: tuple[str, ...]) -> dict[str, TableReader]:
    """The readers of other packages by name, sorted by package. `builtin_names` are the names of built-in
    readers."""
    plugin_of_name = load_plugins(GROUP, TableReader, builtin_names, name=lambda reader: reader.name, check=_check)
    return {
        reader_name: replace(plugin.value, make=_wrap_reader(plugin.value, plugin.package))
        for reader_name, plugin in plugin_of_name.items()
    }


def _check(reader: TableReader) -> None:
    if not reader.columns or not all(
        isinstance(column_names, tuple) and column_names for column_names in reader.columns
    ):
        raise InputError(f"its columns are {reader.columns!r}, expected tuples of names")


def _wrap_reader(reader: TableReader, package: str) -> Callable[..., Study]:
    """The function `make` of a reader, wrapped in two ways. The study gets a note on the reader, and an error of the
    reader becomes a message of one line that names the reader."""

    def make(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
        reader_text = f"the reader {reader.name!r} of the package {package}"
        try:
            study: Any = reader.make(frame, where=where, invalid=invalid)
            if not isinstance(study, Study):
                raise TypeError(f"it returned {type(study).__name__}, expected Study")
        except CustodesError:
            raise
        except Exception as error:
            raise InputError(
                f"{where}: {reader_text} failed: {describe_error(error)}; update it, or select another reader"
            ) from error
        return study.with_notes(("reader", True, f"{where}: read by {reader_text}"))

    return make
