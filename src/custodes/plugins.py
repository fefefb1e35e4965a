"""Values of other packages: entry points of a group, such as `custodes.readers`, each the place of one value.

What is wrong with one is a warning that names its package: it is left out, and ours stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from typing import Any, NamedTuple

from custodes.errors import CustodesError, CustodesWarning, InputError


class Plugin(NamedTuple):
    """A value, and the package that it is of: its name and version; where it does not say these, what it points to."""

    value: Any
    package: str


def plugged(
    group: str, kind: type, taken: Container[str], *, name: Callable[[Any], str], check: Callable[[Any], None]
) -> dict[str, Plugin]:
    """The values of a kind that other packages add to a group, by name, in the order of their packages.

    `taken` names are ours. `check` raises for a value that cannot be used.
    """
    what = group.rpartition(".")[2].removesuffix("s")
    plugins: dict[str, Plugin] = {}
    for point in sorted(_points(group), key=lambda entry_point: (_package(entry_point), entry_point.name)):
        package = _package(point)
        try:
            value = point.load()
            if not isinstance(value, kind):
                raise InputError(f"it is no {kind.__name__} but of type {type(value).__name__}")
            check(value)
            if name(value) in taken or name(value) in plugins:
                raise InputError(f"there is a {what} {name(value)!r} already, so it needs another name")
        except Exception as error:  # whatever its module does when it is imported
            _leave_out(f"{what} {point.name!r} ({point.value}) of the package {package}", error)
        else:
            plugins[name(value)] = Plugin(value, package)
    return plugins


def said(error: Exception) -> str:
    """What went wrong in the code of others, in one line."""
    kind = "" if isinstance(error, CustodesError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split()).rstrip(":")


def _points(group: str) -> Iterable[EntryPoint]:
    try:
        return entry_points(group=group)
    except Exception:  # one damaged list hides those of all packages, so they are read one by one
        return [point for package in distributions() for point in _points_of(package, group)]


def _points_of(package: Distribution, group: str) -> Iterable[EntryPoint]:
    try:
        return package.entry_points.select(group=group)
    except Exception as error:
        _leave_out(f"the list of entry points of the package {package.name}", error)
        return ()


def _leave_out(what: str, error: Exception) -> None:
    warnings.warn(f"{what} is left out: {said(error)}; update or uninstall it", CustodesWarning, stacklevel=4)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
