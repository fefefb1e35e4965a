"""Registries of objects of one type, such as readers: the objects of this package, and plugins of other packages.

A registry of this package lists the objects that a module imports. To add an object to this package, add a file that
defines the object and a line that imports it. Another package adds an object by an entry point of a group such as
`custodes.readers`. An invalid plugin is ignored, and a warning names its package.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, TypeVar

from custodes.errors import CustodesError, CustodesWarning, InputError

T = TypeVar("T")


def members(module: Mapping[str, Any], kind: type[T]) -> list[T]:
    """The objects of the type `kind` that a module imports or defines, in this order. Tuples are expanded.

    >>> members({"one": 1, "more": (2, 3), "text": "4"}, int)
    [1, 2, 3]
    """
    return [
        candidate
        for module_value in list(module.values())
        for candidate in (module_value if isinstance(module_value, tuple) else (module_value,))
        if isinstance(candidate, kind)
    ]


class Plugin(NamedTuple):
    """A plugin object, with the name and version of its package; if these are unknown, with the entry point."""

    value: Any
    package: str


def load_plugins(
    group: str, kind: type, reserved_names: Container[str], *, name: Callable[[Any], str], check: Callable[[Any], None]
) -> dict[str, Plugin]:
    """The plugins of type `kind` in a group of entry points, by plugin name, sorted by package.

    `reserved_names`: built-in names, which a plugin cannot have. `check`: a function that raises an error for an
    invalid object.
    """
    plugin_noun = group.rpartition(".")[2].removesuffix("s")
    plugin_of_name: dict[str, Plugin] = {}
    for entry_point in sorted(
        entry_points(group=group), key=lambda entry_point: (_package(entry_point), entry_point.name)
    ):
        package_name = _package(entry_point)
        try:
            plugin_object = entry_point.load()
            if not isinstance(plugin_object, kind):
                raise InputError(f"its type must be {kind.__name__}, but it is {type(plugin_object).__name__}")
            check(plugin_object)
            if name(plugin_object) in reserved_names or name(plugin_object) in plugin_of_name:
                raise InputError(
                    f"another {plugin_noun} already has the name {name(plugin_object)!r}; choose another name"
                )
        except Exception as error:  # importing a module may raise anything
            _warn_of_omission(
                f"{plugin_noun} {entry_point.name!r} ({entry_point.value}) of the package {package_name}", error
            )
        else:
            plugin_of_name[name(plugin_object)] = Plugin(plugin_object, package_name)
    return plugin_of_name


def describe_error(error: Exception) -> str:
    """The message of an exception from another package, on one line."""
    type_text = "" if isinstance(error, CustodesError) else f"{type(error).__name__}: "
    return " ".join(f"{type_text}{error}".split()).rstrip(":")


def _warn_of_omission(subject: str, error: Exception) -> None:
    warnings.warn(
        f"{subject} is left out: {describe_error(error)}; update or uninstall the package",
        CustodesWarning,
        stacklevel=4,
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
