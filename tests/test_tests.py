"""Rules for tests: no test imports from another one or replaces private names of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tests

FOLDER = Path(__file__).parent
PATCHES = {"setattr", "delattr", "setitem", "delitem", "object"}
RELEVANT = re.compile(rf"^\s*(from|import) tests\b.*(\btest_|\()|\.({'|'.join(PATCHES)})\(", re.MULTILINE)
"""Lines of files that may break a rule; other files are not parsed."""


def imports_of_tests(tree: ast.Module) -> Iterator[str]:
    """Yield the test modules that a module imports, at any level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == tests.__name__ and any(part.startswith("test_") for part in parts):
                yield name


def private_patches(tree: ast.Module) -> Iterator[str]:
    """Yield calls such as `monkeypatch.setattr(module, "_name", ...)`.

    `os._exit` is a public function of Python, and attributes of `self` belong to the test.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PATCHES):
            continue
        places = [ast.unparse(argument).strip("'\"") for argument in node.args[:2]]
        if places[0] == "self" or places[0].split(".")[-1] == "os":
            continue
        parts = [part for place in places for part in place.split(".")]
        if any(part.startswith("_") and not part.startswith("__") for part in parts):
            yield ast.unparse(node)


def test_no_test_depends_on_what_is_not_public() -> None:
    results = []
    for path in sorted(FOLDER.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not RELEVANT.search(source):
            continue
        tree = ast.parse(source)
        texts = [*imports_of_tests(tree), *private_patches(tree)]
        results += [f"{path.relative_to(FOLDER).as_posix()}: {text}" for text in texts]
    assert results == []


def test_both_rules_find_what_they_forbid() -> None:
    tree = ast.parse(
        "from tests.stats.test_ranks import helper\nfrom tests.stats import test_ranks\nimport tests.test_cli\n"
        "from tests.evaluate.studies import study_of\nfrom custodes import stats\n"
        "def test(monkeypatch):\n"
        "    monkeypatch.setattr(module, '_SIZE', 1)\n"
        "    monkeypatch.setattr('custodes.stats.module._SIZE', 1)\n"
        "    patch.object(module._Class, 'method')\n"
        "    monkeypatch.setitem(module._CACHE, 'key', 1)\n"
        "    monkeypatch.setattr(module, 'SIZE', 1)\n"
        "    monkeypatch.setattr(Model, '__call__', f)\n"
        "    monkeypatch.setattr(os, '_exit', f)\n"
    )
    assert [*imports_of_tests(tree)] == ["tests.stats.test_ranks.helper", "tests.stats.test_ranks", "tests.test_cli"]
    assert len([*private_patches(tree)]) == 4
