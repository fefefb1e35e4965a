"""Imports go one way, and importing custodes stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import custodes

SOURCE = Path(custodes.__file__).parent
# Each part may import from itself and from the parts named here.
BELOW = {
    "errors": set(),
    "progress": set(),
    "registry": set(),
    "files": {"errors"},
    "stats": {"errors", "registry"},
    "data": {"stats", "errors", "progress", "files", "registry"},
    "evaluate": {"data", "stats", "errors", "progress", "registry"},
    "combining": {"evaluate", "data", "stats", "errors", "progress", "files", "registry"},
    "plots": {"combining", "evaluate", "data", "stats", "errors", "files"},
    "reporting": {"plots", "combining", "evaluate", "data", "stats", "errors", "progress", "files", "registry"},
    "console": {"evaluate"},
    "options": {"console", "evaluate", "data", "errors", "progress", "files"},
}
HEAVY = {"jax", "torch", "xgboost", "sklearn", "matplotlib", "starlette", "scipy", "altair", "vl_convert", "jinja2"}


def test_imports_go_down_only() -> None:
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part not in BELOW:
            assert part in ("__init__", "__main__", "cli"), f"{path}: say in BELOW what {part} may import"
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                root, _, rest = name.partition(".")
                if root == "custodes":
                    other = rest.partition(".")[0]
                    assert other in BELOW[part] | {part}, f"{path.relative_to(SOURCE)} imports {name}"


def loaded_by(code: str) -> set[str]:
    code = f"import sys; {code}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_is_light() -> None:
    assert not (HEAVY | {"numpy", "polars"}) & loaded_by("import custodes")
    assert not HEAVY & loaded_by("from custodes import *")


def test_every_public_name_is_there_in_any_order() -> None:
    for name in custodes.__all__:
        assert getattr(custodes, name) is not None
        assert name in dir(custodes)
    # A package of the same name must not take the place of a function.
    assert "function" in loaded_by("import custodes.reporting, custodes; print(type(custodes.report).__name__)")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        custodes.nothing  # noqa: B018
