"""What a container gives: a frame, how messages call it, the digest of its bytes, and what was assumed."""

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
"""Letters of a part in the name of its table: a query may be long."""


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """A table as it came: its frame, the name messages call it by, the digest of its bytes ('' for a dataframe),
    the files it was read from, and the part of them that was asked for."""

    frame: pl.DataFrame
    name: str
    digest: str = ""
    notes: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    part: str | None = None


def chosen(part: str | None, parts: Iterable[str], *, name: str, what: str) -> str:
    """The part of a container that is asked for with `NAME::PART`, or the only one there is."""
    names = list(parts)
    if part is None and len(names) == 1:
        return names[0]
    if part in names:
        return str(part)
    if part is None:
        raise InputError(f"{name}: holds {len(names)} {what}s; select one with {name}::{what.upper()}: {listed(names)}")
    raise InputError(f"{name}: no {what} named {part!r}{suggestion(part, names)}; {what}s: {listed(names)}")


def named_columns(names: Iterable[str], *, where: str) -> list[str]:
    """Names of columns without blanks around them; one that stands twice or is a pattern of Polars is an error."""
    stripped = [name.strip() for name in names]
    check_names(stripped, where=where)
    if len(set(stripped)) < len(stripped):
        twice = next(name for place, name in enumerate(stripped) if name in stripped[:place])
        raise InputError(f"{where}: column {twice!r} occurs twice; rename one, or remove it")
    return stripped


def with_column_names(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """The same table with its columns named by `named_columns`."""
    return frame.rename(dict(zip(frame.columns, named_columns(frame.columns, where=where), strict=True)))


def short(part: str) -> str:
    """A part in one line of few letters, for names; where it is cut, a digest tells it from others."""
    line = " ".join(part.split())
    if len(line) <= SHOWN:
        return line
    end = f"... #{hashlib.sha256(part.encode(errors='surrogatepass')).hexdigest()[:8]}"
    return line[: SHOWN - len(end)] + end
