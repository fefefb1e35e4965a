"""Rules for the source code: imports follow the layers and are few, no filler names, no class name twice."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

import custodes
from tests.questions import QUESTIONS

SOURCE = Path(custodes.__file__).parent
# Modules of each part may import from the same part and from the parts listed here.
BELOW = {
    name: set(parts.split())
    for name, parts in {
        "control_characters": "",
        "process": "",
        "errors": "control_characters",
        "progress": "",
        "arguments": "errors progress",
        "memory": "errors",
        "files": "errors process",
        "strict_json": "errors",
        "cache": "errors files",
        "plugins": "errors",
        "stats": "errors plugins",
        "data": "arguments control_characters errors files memory plugins progress stats strict_json",
        "answers": "arguments control_characters data errors memory progress public stats",
        "evaluate": "answers arguments data errors files memory plugins progress stats strict_json",
        "combining": "answers arguments data errors evaluate files memory plugins progress stats strict_json",
        "scoring": "answers arguments cache control_characters data errors files memory plugins process progress "
        "stats strict_json",
        "judging": "answers arguments cache control_characters data errors files memory plugins progress stats "
        "strict_json",
        "annotate": "answers arguments control_characters data errors evaluate files memory process progress "
        "stats strict_json",
        "plots": "answers arguments cache combining control_characters data errors evaluate files stats",
        "reporting": "answers arguments combining control_characters data errors evaluate files memory plots "
        "plugins progress stats",
        "console": "control_characters errors process",
        "command_line": "errors",
        "options": "answers arguments command_line console control_characters data errors files progress",
        "diagnosis": "annotate answers data public",
        "question_commands": "answers arguments command_line console data errors evaluate options public",
        "commands": "annotate answers arguments cache combining command_line console data diagnosis errors files "
        "judging options plots process progress public reporting scoring question_commands",
        "cli": "command_line commands console files question_commands",
        "__main__": "cli commands process",
    }.items()
}
"""`public` is the package namespace, `import custodes`."""

TOGETHER = {
    "gate": {"consistency", "rates"},
    "verdict": {
        *("annotators", "check", "rates", "leaderboard", "agreement", "favoritism", "consistency", "ranking"),
        "complementarity",
    },
    "plan": {"protocol"},
    "check": {"rates"},
}
"""Questions that use other questions; all others are independent of each other."""

HEAVY = {
    *("jax", "torch", "xgboost", "sklearn", "matplotlib", "scipy", "altair", "vl_convert", "jinja2"),
    *("starlette", "uvicorn", "nh3", "markdown_it", "mdit_py_plugins", "pygments", "PIL"),
}

MARKDOWN = {"markdown_it", "mdit_py_plugins", "pygments"}
"""Libraries for help texts."""


def module_name(path: Path) -> str:
    parts = ("custodes", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}
"""Module name to file."""
FILLERS = {
    *("own", "made", "told", "said", "asked", "given", "known"),
    *("found", "kept", "shown", "wanted", "met", "alike", "apart"),
}
"""Participles and other words that do not say what a thing is."""
NAMED = re.compile(r"custodes(?:\.\w+)+\.?")
"""Module name, or package name followed by a module name computed at run time."""


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a tree without code for type checkers only, and without string statements such as docstrings."""
    rest = [tree]
    while rest:
        node = rest.pop()
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not for_types and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield node
            rest += ast.iter_child_nodes(node)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def lazy_names(package: str) -> dict[str, str]:
    """Lazily loaded names of a package, with their modules."""
    stub = MODULES[package].with_suffix(".pyi") if package in MODULES.keys() - {"custodes"} else None
    if stub is None or not stub.exists():
        return {}
    lines = [line for line in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(line, ast.ImportFrom)]
    return {alias.name: f"{package}.{line.module}" for line in lines for alias in line.names}


@cache
def imported(module: str) -> set[str]:
    """Modules of this package that a module imports at the top, in functions, or by name in a string.

    Imports of the public package can reach any module; `BELOW` restricts who may use it.
    """
    names: set[str] = set()
    for node in nodes(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} - {"custodes"} | {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {lazy_names(node.module).get(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and module != "custodes":
            name = node.value.partition(":")[0]
            if NAMED.fullmatch(name):
                names |= {
                    value for value in MODULES if value == name or (name.endswith(".") and value.startswith(name))
                }
    return names & MODULES.keys() - {module}


def test_imports_go_down_only() -> None:
    for module, path in MODULES.items():
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part == "__init__":  # public names, loaded on first use
            continue
        assert part in BELOW, f"{path}: say in BELOW what {part} may import"
        for name in imported(module):
            other = "public" if name == "custodes" else name.split(".")[1]
            assert other in BELOW[part] | {part}, f"{module} imports {name}"
    assert {path.name.removesuffix(".py") for path in SOURCE.iterdir()} >= BELOW.keys()


def test_no_modules_import_each_other() -> None:
    graph = networkx.DiGraph({name: imported(name) for name in MODULES})
    assert [circle for circle in networkx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_imports_by_a_name_in_a_string_count() -> None:
    assert "custodes.commands.report" in imported("custodes.cli")
    assert "custodes.data.loading.load" in imported("custodes.data.reading")
    assert "custodes.plots" not in imported("custodes.answers.result")


def test_questions_know_nothing_of_each_other() -> None:
    homes = {function.__module__: question for question, function in QUESTIONS.items()}
    assert len(homes) == len(QUESTIONS)
    for path in SOURCE.glob("evaluate/**/*.py"):
        module = module_name(path)
        part = homes.get(module, path.parent.name)  # the layer of a question's part is its folder
        others = {homes[name] for name in imported(module) if name in homes}
        assert others <= {part, *TOGETHER.get(part, set())}, f"{path.relative_to(SOURCE)} imports {others}"


def loaded_by(code: str) -> set[str]:
    code = f"import sys\n{code}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_is_light() -> None:
    assert not (HEAVY | {"numpy", "polars"}) & loaded_by("import custodes")
    assert not HEAVY & loaded_by("from custodes import *")


def test_a_verb_loads_no_other_and_the_list_of_verbs_loads_none() -> None:
    run = "import contextlib, io\nfrom custodes import cli\nwith contextlib.redirect_stdout(io.StringIO()): cli.run"
    listing = loaded_by(f"{run}(['--help'])")
    assert not (HEAVY | {"numpy", "polars", "narwhals", "msgspec", "cyclopts", "rich"}) & listing
    helped = loaded_by(f"{run}(['favoritism', '--help'])")
    assert "custodes.evaluate.favoritism" in helped
    others = {function.__module__ for name, function in QUESTIONS.items() if name != "favoritism"}
    assert not (HEAVY - MARKDOWN | others | {"custodes.reporting"}) & helped
    modules = loaded_by("import custodes as cu\ncu.favoritism(cu.read('demo'), resamples=20)")
    assert not (HEAVY - {"scipy"} | others | {"scipy.stats", "custodes.reporting", "rich"}) & modules


def test_a_server_holds_no_tables_and_no_questions() -> None:
    """Both would take 50 MB of memory and a second at the start."""
    pytest.importorskip("uvicorn")
    loaded = loaded_by("import custodes.commands.annotate_serve, custodes.annotate.site.app, custodes.annotate.server")
    assert not {"polars", "narwhals", "pandas", "altair", "custodes.evaluate.check", "custodes.cli"} & loaded
    served = loaded_by(
        "sys.argv = ['custodes', 'annotate', 'serve', '--port', '0']\n"
        "from custodes.__main__ import main\ntry: main()\nexcept SystemExit as end: assert end.code == 2\n"
    )
    assert not {"polars", "custodes.cli"} & served


def test_every_public_name_is_there_in_any_order() -> None:
    for name in custodes.__all__:
        assert getattr(custodes, name) is not None
        assert name in dir(custodes)
    # The module of the same name must not replace a function.
    assert "function" in loaded_by("import custodes.reporting, custodes; print(type(custodes.report).__name__)")
    with pytest.raises(AttributeError, match="nothing"):
        custodes.nothing  # noqa: B018


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
    for module in MODULES:
        fillers_of[module], classes = names_of(tree_of(module))
        counts.update(classes)
    assert {name: fillers for name, fillers in fillers_of.items() if fillers} == {}
    assert {name for name, count in counts.items() if count > 1} == set()


def test_the_rule_finds_parameters_variables_and_classes() -> None:
    code = "def f(own, *given, key=[1 for met in ()]):\n    made: int = 1\n    return [kept for kept in own]\nsaid = 1"
    assert names_of(ast.parse(code)) == ({"own", "given", "met", "made", "kept"}, [])
    assert names_of(ast.parse("def f(value):\n    value.own = known(value)\n    return value")) == (set(), [])
    assert names_of(ast.parse("class A:\n    class B:\n        pass\n    class _C:\n        pass"))[1] == ["A", "B"]
