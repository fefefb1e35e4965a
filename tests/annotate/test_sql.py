"""What people send is bound to a statement, never written into one."""

from __future__ import annotations

import ast
from pathlib import Path

import custodes

RUNS = {"execute", "executemany", "executescript"}


def test_statements_are_constants() -> None:
    found = []
    for path in sorted((Path(custodes.__file__).parent / "annotate").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for node in ast.walk(function):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RUNS):
                    continue
                if isinstance(node.args[0], ast.JoinedStr | ast.BinOp | ast.Call):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
