"""Run the code of documentation pages as written.

python -m tests.pages PAGE... runs the pages in the current folder, with the custodes that Python imports.
"""

from __future__ import annotations

import doctest
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from custodes import cli

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"# (src/\S+)\n(?:# after: ([^\n]*)\n)?(.*)", re.DOTALL)


class Step(NamedTuple):
    """File that a page creates, or text that it inserts after the line `after` of a file."""

    path: str
    after: str | None
    text: str


def blocks(page: Path, *languages: str) -> Iterator[tuple[str, str]]:
    """Language and text of each code block that is not a step."""
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence[2] in languages and not STEP.fullmatch(fence[3]):
            yield fence[2], fence[3]


def steps(page: Path) -> list[Step]:
    """Steps of a page in order: code blocks whose first line is a comment with the path of a source file."""
    results = [STEP.fullmatch(fence[3]) for fence in FENCE.finditer(page.read_text(encoding="utf-8"))]
    return [Step(*step.groups()) for step in results if step]


def run(line: str) -> tuple[int, str, str]:
    """Run a `custodes ...` line in this process."""
    words = shlex.split(line, comments=True)
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.run(words[1:])
        out.flush()
    return status, out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


def same(expected: str, actual: str) -> bool:
    """Whether outputs are equal up to trailing blanks; a line `...` matches any number of lines."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual.splitlines())) is not None


def try_out(page: Path) -> None:
    """Run the code of a page in order, and compare its output with the page."""
    names: dict[str, object] = {}
    for language, code in blocks(page, "python", "console", "sh"):
        if language == "python" and ">>>" in code:
            example = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), 0)
            output = io.StringIO()
            failed, _ = doctest.DocTestRunner().run(example, out=output.write, clear_globs=False)
            names = example.globs
            assert not failed, output.getvalue()
        elif language == "python":
            exec(compile(code, str(page), "exec"), names)
        elif language == "sh":
            for line in re.split(r"\n| && ", code.replace("\\\n", " ")):
                if line.startswith("custodes "):
                    status, _, err = run(line)
                    assert status in ((0, 1) if line.startswith("custodes check") else (0,)), (line, err)
        else:
            for command in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                line, _, expected = command.partition("\n")
                _, out, err = run(line)
                assert same(expected, out + err), f"{line}\n{out}{err}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try_out(Path(name))


READY = "body[data-ready]"
