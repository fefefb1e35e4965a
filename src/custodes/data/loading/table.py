"""A loaded table: its frame, its name in messages, the digest of its bytes, and notes on assumptions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from custodes.data.notes import Note
from custodes.data.table import check_names
from custodes.errors import InputError, join_labels, suggestion

MAX_PART_LENGTH = 60
"""Maximum number of characters of the part in the name of a table. A part can be a long query."""


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """A loaded table: its frame, its name in messages, the digest of its bytes ('' for a dataframe), notes, the files
    that hold the table, and the requested part."""

    frame: pl.DataFrame
    name: str
    digest: str = ""
    notes: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    part: str | None = None


def select_part(part: str | None, parts: Iterable[str], *, name: str, what: str) -> str:
    """The part of a container that `NAME::PART` requests. If the container has only one part, this part is the
    default."""
    names = list(parts)
    if part is None and len(names) == 1:
        return names[0]
    if part in names:
        return str(part)
    if part is None:
        raise InputError(
            f"{name}: holds {len(names)} {what}s; select one with {name}::{what.upper()}: {join_labels(names)}"
        )
    raise InputError(f"{name}: no {what} named {part!r}{suggestion(part, names)}; {what}s: {join_labels(names)}")


def strip_column_names(names: Iterable[str], *, where: str) -> list[str]:
    """Column names without surrounding blanks. Raises `InputError` for duplicate names and for names that are patterns
    of Polars."""
    stripped = [name.strip() for name in names]
    check_names(stripped, where=where)
    if len(set(stripped)) < len(stripped):
        duplicate = next(name for index, name in enumerate(stripped) if name in stripped[:index])
        raise InputError(f"{where}: two columns are called {duplicate!r}; rename or remove one of these columns")
    return stripped


def with_column_names(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """The table with columns named by `strip_column_names`."""
    return frame.rename(dict(zip(frame.columns, strip_column_names(frame.columns, where=where), strict=True)))


def shorten_part(part: str) -> str:
    """A part as one short line for use in names. A digest is added to a truncated part, so that the name is unique."""
    line = " ".join(part.split())
    if len(line) <= MAX_PART_LENGTH:
        return line
    suffix = f"... #{hashlib.sha256(part.encode(errors='surrogatepass')).hexdigest()[:8]}"
    return line[: MAX_PART_LENGTH - len(suffix)] + suffix
