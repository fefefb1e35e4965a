"""A loaded table: frame, name in messages, digest of its bytes, and notes on assumptions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from custodes.data.notes import Note
from custodes.data.table import check_names
from custodes.errors import InputError, listed, suggestion

SHOWN = 60
"""Maximum number of characters of a part in the name of its table: a query may be long."""


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """A table as read: its frame, its name in messages, the digest of its bytes ('' for a dataframe), the files it was
    read from, and the requested part."""

    frame: pl.DataFrame
    name: str
    digest: str = ""
    notes: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    part: str | None = None


def chosen(part: str | None, parts: Iterable[str], *, name: str, what: str) -> str:
    """The part of a container requested with `NAME::PART`, or its only part."""
    names = list(parts)
    if part is None and len(names) == 1:
        return names[0]
    if part in names:
        return str(part)
    if part is None:
        raise InputError(f"{name}: holds {len(names)} {what}s; select one with {name}::{what.upper()}: {listed(names)}")
    raise InputError(f"{name}: no {what} named {part!r}{suggestion(part, names)}; {what}s: {listed(names)}")


def named_columns(names: Iterable[str], *, where: str) -> list[str]:
    """Column names without surrounding blanks; duplicate names, and names that are patterns of Polars, are errors."""
    stripped = [name.strip() for name in names]
    check_names(stripped, where=where)
    if len(set(stripped)) < len(stripped):
        twice = next(name for place, name in enumerate(stripped) if name in stripped[:place])
        raise InputError(f"{where}: column {twice!r} occurs twice; rename one, or remove it")
    return stripped


def with_column_names(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """The table with columns named by `named_columns`."""
    return frame.rename(dict(zip(frame.columns, named_columns(frame.columns, where=where), strict=True)))


def short(part: str) -> str:
    """A part in one short line, for names; a truncated part gets a digest, so that the name is unique."""
    line = " ".join(part.split())
    if len(line) <= SHOWN:
        return line
    end = f"... #{hashlib.sha256(part.encode(errors='surrogatepass')).hexdigest()[:8]}"
    return line[: SHOWN - len(end)] + end
