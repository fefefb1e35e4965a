"""Public names of a package that are loaded on their first use: what is imported stays light."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # the module typing takes time, and whether a file is a study is known without it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

public: Callable[[str], Any]
"""Returns a public name of `custodes`, which sets this: results find the question to ask again and their picture, which
are above them, without importing either."""


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a package: each name is taken from its module there (`homes`), and kept."""

    def loaded(name: str) -> Any:
        own = sys.modules[package]
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=own)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(own, name, value)
        return value

    return loaded
