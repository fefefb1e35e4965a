"""Registries: the values of a kind that a module imports, so that a new one is a file and a line that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def members(module: Mapping[str, Any], kind: type[T]) -> list[T]:
    """The values of a kind among the names of a module, in the order of its imports; tuples are taken apart.

    >>> members({"one": 1, "more": (2, 3), "text": "4"}, int)
    [1, 2, 3]
    """
    values = [value if isinstance(value, tuple) else (value,) for value in list(module.values())]
    return [member for several in values for member in several if isinstance(member, kind)]
