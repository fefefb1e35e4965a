"""Run the command line within the test process, and write small input tables for it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from custodes import cli


@dataclass(frozen=True)
class Ran:
    """Output and exit status of a command."""

    status: int
    out: str
    err: str


Run = Callable[..., Ran]

DEFAULT_SIGINT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def interruptible(*argv: str) -> list[str]:
    """Command that starts Python with the default SIGINT handler, which a shell ignores in the background.

    `preexec_fn` would run fork handlers; that of JAX warns when another test has loaded JAX.
    """
    return [sys.executable, "-c", DEFAULT_SIGINT, sys.executable, *argv]


@pytest.fixture
def custodes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Fixture that runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv: str | Path) -> Ran:
        status = cli.run([str(word) for word in argv])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


def refused(ran: Ran, *fragments: str) -> None:
    """Assert exit status 2 and one line on standard error that contains all fragments, with empty standard output."""
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("custodes: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    assert "Traceback" not in ran.err
    for fragment in fragments:
        assert fragment in ran.err


def write_csv(path: Path, header: str, rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return path


LONG = "item,system,rater,kind,score"


def ratings(
    path: Path, *, people: dict[str, dict[str, Sequence[float]]], metrics: dict[str, dict[str, Sequence[float]]]
) -> Path:
    """Write a long table from rater to system to one score per item."""
    rows = [
        (f"i{item}", system, rater, kind, score)
        for kind, raters in (("human", people), ("metric", metrics))
        for rater, systems in raters.items()
        for system, scores in systems.items()
        for item, score in enumerate(scores)
    ]
    return write_csv(path, LONG, rows)


ANN = {"A": [4, 5, 3, 4], "B": [2, 3, 3, 1], "C": [1, 4, 2, 2]}


BLEU = {"A": [0.5, 0.6, 0.4, 0.3], "B": [0.2, 0.7, 0.3, 0.1], "C": [0.3, 0.3, 0.2, 0.2]}
