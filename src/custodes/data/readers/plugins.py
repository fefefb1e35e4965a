"""Readers of other packages: entry points of the group `custodes.readers`, each the place of a `TableReader`.

What is wrong with one is a warning that names its package: it is left out, and ours stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from typing import Any

import polars as pl

from custodes.data.notes import noted
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.errors import CustodesError, CustodesWarning, InputError

GROUP = "custodes.readers"


@cache
def plugged(taken: tuple[str, ...]) -> dict[str, TableReader]:
    """The readers of other packages by name, in the order of their packages; `taken` names are ours."""
    found: dict[str, TableReader] = {}
    for point in sorted(_points(), key=lambda own: (_package(own), own.name)):
        try:
            reader = _loaded(point, (*taken, *found))
        except Exception as error:  # whatever its module does when it is imported
            _leave_out(f"reader {point.name!r} ({point.value}) of the package {_package(point)}", error)
        else:
            found[reader.name] = replace(reader, make=_guarded(reader, _package(point)))
    return found


def _points() -> Iterable[EntryPoint]:
    try:
        return entry_points(group=GROUP)
    except Exception:  # one damaged list hides those of all packages, so they are read one by one
        return [point for package in distributions() for point in _points_of(package)]


def _points_of(package: Distribution) -> Iterable[EntryPoint]:
    try:
        return package.entry_points.select(group=GROUP)
    except Exception as error:
        _leave_out(f"the list of entry points of the package {package.name}", error)
        return ()


def _loaded(point: EntryPoint, taken: Container[str]) -> TableReader:
    reader = point.load()
    if not isinstance(reader, TableReader):
        raise InputError(f"it is no TableReader but of type {type(reader).__name__}")
    if not reader.columns or not all(isinstance(needed, tuple) and needed for needed in reader.columns):
        raise InputError(f"its columns are {reader.columns!r}, not tuples of names")
    if reader.name in taken:
        raise InputError(f"there is a reader {reader.name!r} already, so it needs another name")
    return reader


def _guarded(reader: TableReader, package: str) -> Callable[..., Study]:
    """How it makes a study; the study tells who read it, and a fault of the reader is one line that names it."""

    def make(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
        who = f"the reader {reader.name!r} of the package {package}"
        try:
            study: Any = reader.make(frame, where=where, invalid=invalid)
            if not isinstance(study, Study):
                raise TypeError(f"it made no Study but something of type {type(study).__name__}")
        except CustodesError:
            raise
        except Exception as error:
            raise InputError(f"{where}: {who} failed: {_said(error)}; update it, or force another reader") from error
        return replace(study, notes=(*study.notes, *noted(("reader", True, f"{where}: read by {who}"))))

    return make


def _leave_out(what: str, error: Exception) -> None:
    warnings.warn(f"{what} is left out: {_said(error)}; update or uninstall it", CustodesWarning, stacklevel=4)


def _package(point: EntryPoint) -> str:
    """Its name and version; where it does not say these, what it points to."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _said(error: Exception) -> str:
    """What went wrong, in one line."""
    kind = "" if isinstance(error, CustodesError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split()).rstrip(":")
