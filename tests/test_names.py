"""Names in the package: no filler names, and no class name twice."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILLERS = frozenset(
    [
        "own",
        "made",
        "told",
        "said",
        "asked",
        "given",
        "known",
        "found",
        "kept",
        "shown",
        "wanted",
        "met",
        "alike",
        "apart",
    ]
)
"""Participles and other words that do not say what a thing is."""


def filler_names(tree: ast.AST) -> set[str]:
    """Filler names among the parameters and variables of functions."""
    names = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
            names |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names & FILLERS


@cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def test_no_function_has_filler_names() -> None:
    names = {name: sorted(filler_names(tree)) for name, tree in trees().items()}
    assert {name: fillers for name, fillers in names.items() if fillers} == {}


def test_no_class_name_is_defined_twice() -> None:
    classes = Counter(
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in classes.items() if count > 1} == set()


def test_the_rule_finds_parameters_and_variables() -> None:
    code = "def f(own, *given, key=[1 for met in ()]):\n    made: int = 1\n    return [kept for kept in own]\nsaid = 1"
    assert filler_names(ast.parse(code)) == {"own", "given", "met", "made", "kept"}
    assert filler_names(ast.parse("def f(value):\n    value.own = known(value)\n    return value")) == set()
