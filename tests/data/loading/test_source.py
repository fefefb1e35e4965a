"""Standard input, pipes, glob patterns and unreadable sources."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from custodes.cli import run
from custodes.data.loading import load_table
from custodes.data.reading import read
from custodes.errors import InputError, OptionError
from tests.data.loading.files import fault
from tests.messages import exactly

CSV = b"item,system,ann\n1,A,3\n1,B,4\n"
JSON = b'[{"item": 1, "system": "A", "ann": 3}, {"item": 1, "system": "B", "ann": 4}]'
LINES = b'{"item": 1, "system": "A", "ann": 3}\n{"item": 1, "system": "B", "ann": 4}\n'


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("data", [CSV, CSV.replace(b",", b";"), JSON, LINES, gzip.compress(CSV), b"\n " + JSON])
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_known_by_its_first_bytes(monkeypatch: pytest.MonkeyPatch, data: bytes, name: str) -> None:
    piped(monkeypatch, data)
    study = read(name)
    assert study.name == "standard input"
    assert set(study.ratings.frame.select("system", "score").rows()) == {("A", 3.0), ("B", 4.0)}


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, CSV)
    for sources, options in ((("-", "/dev/stdin"), {}), (("-",), {"raters": Path("-")})):
        with pytest.raises(OptionError, match="standard input can be read only once; give the other inputs as files"):
            read(*sources, **options)
    read("-")
    assert fault("-").startswith("standard input: the file is empty")
    piped(monkeypatch, CSV)
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdin, "isatty", lambda: True)
        message = "the input is a terminal; pipe a table into custodes, or give the path of a file"
        assert fault("-") == f"standard input: {message}"
    sys.stdin.close()
    assert fault("-") == "standard input is closed; give the path of a file"
    monkeypatch.setattr(sys, "stdin", None)
    assert fault("-") == "standard input is closed; give the path of a file"


def test_the_command_line_takes_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, CSV.replace(b"ann", b"ann,bleu").replace(b"3", b"3,1").replace(b"4", b"4,2"))
    assert run(["check", "-", "--human", "ann", "--table", "summary"]) in (0, 1)
    assert "study=standard input" in capsys.readouterr().out
    assert run(["check", "-", "-"]) == 2
    assert capsys.readouterr().err == "custodes: standard input can be read only once; give the other inputs as files\n"


def test_notes_on_side_tables_are_told(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(CSV)
    for name, text in (("raters.csv", "rater;cost\nann;0,5\n"), ("items.csv", "item;weight\n1;1,5\n")):
        (tmp_path / name).write_text(text)
    study = read(tmp_path / "s.csv", raters=tmp_path / "raters.csv", items=tmp_path / "items.csv")
    assert [note.rule for note in study.notes] == ["separator", "decimal-comma"] * 2
    assert study.items.frame["weight"].to_list() == [1.5]


def test_what_comes_through_a_pipe_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("source", "compression"):
        monkeypatch.setattr(f"custodes.data.loading.{module}.LARGEST", 10)
    piped(monkeypatch, CSV)
    assert fault("-") == "-: the content has more than 0 MiB; give a smaller table"
    for module in ("source", "compression"):
        monkeypatch.setattr(f"custodes.data.loading.{module}.LARGEST", len(CSV))
    piped(monkeypatch, CSV)
    assert load_table("-").frame.height == 2


def test_a_pipe_of_the_shell_is_read(tmp_path: Path) -> None:
    out, into = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(into, CSV), os.close(into)))
    thread.start()
    assert read(f"/dev/fd/{out}").ratings.frame.height == 2
    thread.join()
    os.close(out)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(CSV)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert fault(path).endswith("s.csv: cannot be read: Permission denied")


def test_a_folder_named_as_a_table_and_a_part_of_a_file_without_parts(tmp_path: Path) -> None:
    (tmp_path / "s.csv").mkdir()
    with pytest.raises(InputError, match=exactly("s.csv: the folder is empty; give a folder or file with data")):
        read(tmp_path / "s.csv")
    (tmp_path / "t.csv").write_bytes(CSV)
    message = "t.csv: the file holds one table and has no parts; remove '::wmt/en-de'"
    assert fault(f"{tmp_path}/t.csv::wmt/en-de") == message


def test_files_that_a_pattern_names_are_one_table(tmp_path: Path) -> None:
    """A pattern may stand in any part of a path and match files of several formats."""
    for name in ("a[1]/x/s.csv", "a[1]/y/s.csv", "b/x/s.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(CSV.replace(b"1,", name[-7:-6].encode() + b","))
    assert load_table(tmp_path / "a[1]/*/s.csv").frame["item"].to_list() == ["x", "x", "y", "y"]
    table = load_table(tmp_path / "*/x/s.csv")
    assert (table.frame.height, table.name) == (4, "s.csv")
    (tmp_path / "b/x/t.jsonl").write_bytes(LINES)
    table = load_table(tmp_path / "b/x/?.*")
    assert (table.frame.height, table.name) == (4, "?.*")
    (tmp_path / "a[1]/y/s.csv").write_bytes(b"item\n1\n")
    assert "s.csv: x/s.csv and y/s.csv differ in columns ann, system" in fault(tmp_path / "a[1]/*/s.csv")
    assert fault(tmp_path / "*/z/s.csv") == f"{tmp_path}/*/z/s.csv: no such file"
    for name in "xy":
        (tmp_path / f"a[1]/{name}/s.csv").write_bytes(CSV.replace(b",", b";"))
    assert [note.rule for note in load_table(tmp_path / "a[1]/*/s.csv").notes] == ["separator"] * 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04", "a damaged or truncated zip file; copy or download it again"),
        (b"PAR1" + b"x" * 9, "not a Parquet file, or a damaged or encrypted Parquet file; write the file again"),
        (b"ARROW1\0\0", "not an Arrow file or stream, or a damaged one; write the file again"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "a spreadsheet in the old .xls format, or a spreadsheet with a password; save the spreadsheet as .xlsx or "
            "CSV",
        ),
    ],
)
def test_binary_files_named_as_text(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "s.csv").write_bytes(data)
    assert fault(tmp_path / "s.csv") == f"s.csv: {message}"


def test_the_content_of_a_binary_file_counts_and_not_its_suffix(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "s.csv")
    assert load_table(tmp_path / "s.csv").frame.rows() == [(1,)]


@pytest.mark.parametrize("address", ["postgresql://me:sesame@host/db::SELECT 1", "https://me:sesame@example.org/a.csv"])
@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_is_no_file_and_its_password_is_not_shown(address: str, kind: type[str] | type[Path]) -> None:
    message = "this is an address, and custodes downloads nothing; give the path of a file"
    assert fault(kind(address)) == f"{address.partition(':')[0]}:/...: {message}"
