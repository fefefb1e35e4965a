"""Registries. A registry is the list of all objects of one type that a module imports.

To add an object to a registry, add a file that defines the object and a line that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def members(module: Mapping[str, Any], kind: type[T]) -> list[T]:
    """The objects of a type among the values of a module's names, in import order. Tuples are expanded.

    >>> members({"one": 1, "more": (2, 3), "text": "4"}, int)
    [1, 2, 3]
    """
    values = [value if isinstance(value, tuple) else (value,) for value in list(module.values())]
    return [member for group in values for member in group if isinstance(member, kind)]
