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
    object_tuples = [
        module_value if isinstance(module_value, tuple) else (module_value,) for module_value in list(module.values())
    ]
    return [
        module_object
        for object_tuple in object_tuples
        for module_object in object_tuple
        if isinstance(module_object, kind)
    ]
