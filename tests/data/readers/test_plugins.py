"""Readers of other packages: discovery, and errors that name the faulty reader and affect no other."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.data import readers
from custodes.data.readers import BUILTIN_READERS, plugin_readers
from custodes.data.reading import read
from custodes.errors import CustodesWarning, InputError, OptionError
from tests import packages

MARKS = """
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import TableReader
from custodes.data.study import Study


def read_marks(frame, *, where, invalid):
    long = frame.rename({"essay": "item", "writer": "system", "marker": "rater", "mark": "score"})
    return Study(ratings=Ratings.make(long, where=where)[0], raters=Raters.infer({"ann": "human"}), name=where)


READER = TableReader(name="marks", columns=(("essay", "writer", "marker", "mark"),), make=read_marks)
"""
TABLE = pl.DataFrame({"essay": [1, 1, 2, 2], "writer": ["A", "B"] * 2, "marker": "ann", "mark": [4, 2, 5, 1]})

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs the package of a reader."""
    monkeypatch.syspath_prepend(tmp_path)
    plugin_readers.cache_clear()

    def put(code: str, *, name: str = "marking", points: str = "") -> None:
        points = points or f"[custodes.readers]\nmarks = {name}:READER\n"
        packages.install(tmp_path, textwrap.dedent(code), name=name, points=points)

    yield put
    plugin_readers.cache_clear()


def test_a_reader_of_another_package_reads_and_is_listed(install: Install) -> None:
    install(MARKS)
    assert (*BUILTIN_READERS, "marks") == readers.READERS
    for study in (read(TABLE), read(TABLE, reader="marks")):
        assert study.ratings.frame["score"].to_list() == [4, 2, 5, 1]
        assert [note.message for note in study.notes] == [
            "table: read by the reader 'marks' of the package custodes-marking 1.2"
        ]
    with pytest.raises(OptionError, match=r"did you mean 'marks'.*mtme, marks$"):
        read(TABLE, reader="mark")
    with pytest.raises(InputError, match=r"reader is marks \(essay, writer, marker, mark\), which also needs 'mark'\."):
        read(TABLE.drop("mark"))


def test_ours_come_first_and_need_no_other(install: Install) -> None:
    install("raise RuntimeError('never imported')")
    wide = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "ann": [4, 2], "bleu": [31.0, 28.5]})
    assert read(wide).ratings.frame.height == 4
    assert read(wide, reader="wide").ratings.frame.height == 4


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("READER = 3", "its type must be TableReader, but it is int"),
        ("READRE = 3", "AttributeError: module 'marking' has no attribute 'READER'"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("raise RuntimeError", "RuntimeError"),
        ("def oops(:", r"SyntaxError: .*"),
        (MARKS.replace('"marks"', '"wide"'), "another reader already has the name 'wide'; choose another name"),
        (MARKS.replace('"marks"', '"mtme"'), "another reader already has the name 'mtme'; choose another name"),
        (MARKS.replace("columns=(", "columns=() and ("), r"its columns are \(\), expected tuples of names"),
        (MARKS.replace('(("essay", "writer", "marker", "mark"),)', '("essay",)'), r"its columns are \('essay',\), .*"),
    ],
)
def test_a_broken_one_is_left_out_with_one_line(install: Install, code: str, reason: str) -> None:
    install(code)
    before = dict(readers.TABLE_READERS)
    line = rf"reader 'marks' \(marking:READER\) of the package custodes-marking 1\.2 is left out: {reason}; update or"
    with pytest.warns(CustodesWarning, match=f"^{line} uninstall the package$") as warnings:
        assert readers.READERS == BUILTIN_READERS
    assert len(warnings) == 1
    assert before == readers.TABLE_READERS
    assert read("demo").metrics


def test_two_packages_with_one_name(install: Install) -> None:
    install(MARKS, name="second")
    install(MARKS, name="first")
    with pytest.warns(
        CustodesWarning, match=r"\(second:READER\) of the package custodes-second 1.2.*already has the name 'marks'"
    ):
        assert (*BUILTIN_READERS, "marks") == readers.READERS
    assert "custodes-first" in read(TABLE).notes[0].message


@pytest.mark.parametrize(
    ("fault", "message"),
    [("1 / 0", "ZeroDivisionError: division by zero"), ("return 3", "TypeError: it returned int, expected Study")],
)
def test_a_fault_while_reading_is_one_line_that_names_it(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, message: str
) -> None:
    install(MARKS.replace("    long =", f"    {fault}\n    long ="))
    TABLE.write_csv(tmp_path / "marks.csv")
    assert cli.run(["check", str(tmp_path / "marks.csv")]) == 2
    who = "the reader 'marks' of the package custodes-marking 1.2"
    assert (
        capsys.readouterr().err
        == f"custodes: marks.csv: {who} failed: {message}; update it, or select another reader\n"
    )


def test_another_process_sees_it_too(install: Install, tmp_path: Path) -> None:
    install(MARKS)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import custodes as cu; print(*cu.READERS)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == [*BUILTIN_READERS, "marks"]
    assert cu.READERS[: len(BUILTIN_READERS)] == BUILTIN_READERS
