"""Names in the package: no filler names, and no class name twice."""

from __future__ import annotations

import ast
from collections import Counter
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


def names_of(tree: ast.AST) -> tuple[set[str], list[str]]:
    """Filler names among the parameters and variables of functions, and the public classes."""
    names, classes = set(), []
    rest = [(tree, False)]
    while rest:
        node, inside = rest.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = True
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes.append(node.name)
        elif inside and isinstance(node, ast.arg):
            names.add(node.arg)
        elif inside and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        rest += [(child, inside) for child in ast.iter_child_nodes(node)]
    return names & FILLERS, classes


def test_no_function_has_filler_names_and_no_class_name_is_defined_twice() -> None:
    counts: Counter[str] = Counter()
    fillers_of = {}
    for path in sorted(SOURCE.rglob("*.py")):
        fillers_of[path.relative_to(SOURCE).as_posix()], classes = names_of(ast.parse(path.read_text(encoding="utf-8")))
        counts.update(classes)
    assert {name: fillers for name, fillers in fillers_of.items() if fillers} == {}
    assert {name for name, count in counts.items() if count > 1} == set()


def test_the_rule_finds_parameters_variables_and_classes() -> None:
    code = "def f(own, *given, key=[1 for met in ()]):\n    made: int = 1\n    return [kept for kept in own]\nsaid = 1"
    assert names_of(ast.parse(code)) == ({"own", "given", "met", "made", "kept"}, [])
    assert names_of(ast.parse("def f(value):\n    value.own = known(value)\n    return value")) == (set(), [])
    assert names_of(ast.parse("class A:\n    class B:\n        pass\n    class _C:\n        pass"))[1] == ["A", "B"]
