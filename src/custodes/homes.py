"""Where every question is, and what it says of itself, read from the source: nothing of it is imported."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec


@cache
def homes() -> dict[str, str]:
    """Every question and every class of answers to the module that it is in, in the order of `questions.py`."""
    lines = ast.parse(source("custodes.questions")).body
    ours = [line for line in lines if isinstance(line, ast.ImportFrom) and str(line.module).startswith("custodes.")]
    return {alias.name: str(line.module) for line in ours for alias in line.names}


def asked() -> list[str]:
    """The names of all questions."""
    return [name for name in homes() if name.islower()]


def sentence(module: str, name: str) -> str:
    """The first paragraph of the docstring of a function."""
    _, _, after = source(module).partition(f"\ndef {name}(")
    return " ".join(inspect.cleandoc(after.split('"""')[1]).split("\n\n")[0].split())


def source(module: str) -> str:
    """The source of a module, which is not loaded by that; what it is in, is."""
    found = find_spec(module)
    assert isinstance(found, ModuleSpec)
    assert found.loader is not None
    return str(found.loader.get_source(module))  # type: ignore[attr-defined]
