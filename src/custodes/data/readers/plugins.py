"""Readers of other packages. Each entry point of the group `custodes.readers` names a `TableReader`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import polars as pl

from custodes.data.notes import noted
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.errors import CustodesError, InputError
from custodes.plugins import plugged, said

GROUP = "custodes.readers"


@cache
def plugged_readers(taken: tuple[str, ...]) -> dict[str, TableReader]:
    """The readers of other packages by name, sorted by package. `taken` are the names of built-in readers."""
    plugins = plugged(GROUP, TableReader, taken, name=lambda reader: reader.name, check=_check)
    return {
        name: replace(plugin.value, make=_guarded(plugin.value, plugin.package)) for name, plugin in plugins.items()
    }


def _check(reader: TableReader) -> None:
    if not reader.columns or not all(isinstance(needed, tuple) and needed for needed in reader.columns):
        raise InputError(f"its columns are {reader.columns!r}, expected tuples of names")


def _guarded(reader: TableReader, package: str) -> Callable[..., Study]:
    """The function `make` of a reader, wrapped in two ways. The study gets a note on the reader, and an error of the
    reader becomes a message of one line that names the reader."""

    def make(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
        who = f"the reader {reader.name!r} of the package {package}"
        try:
            study: Any = reader.make(frame, where=where, invalid=invalid)
            if not isinstance(study, Study):
                raise TypeError(f"it returned {type(study).__name__}, expected Study")
        except CustodesError:
            raise
        except Exception as error:
            raise InputError(f"{where}: {who} failed: {said(error)}; update it, or select another reader") from error
        return replace(study, notes=(*study.notes, *noted(("reader", True, f"{where}: read by {who}"))))

    return make
