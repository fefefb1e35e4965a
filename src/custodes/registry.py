"""Registries: the objects of a type that a module imports. To add an object, add a file and a line that imports the
object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def members(module: Mapping[str, Any], kind: type[T]) -> list[T]:
    """The objects of a type among the names of a module, in import order; tuples are expanded.

    >>> members({"one": 1, "more": (2, 3), "text": "4"}, int)
    [1, 2, 3]
    """
    values = [value if isinstance(value, tuple) else (value,) for value in list(module.values())]
    return [member for several in values for member in several if isinstance(member, kind)]
