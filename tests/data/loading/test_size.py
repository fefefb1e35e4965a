"""Files too large for memory are refused before parsing, with their size in the message."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import custodes.memory
from custodes.data.loading import arrow, compression, load_table, source
from custodes.data.mapping.schema import Schema
from custodes.errors import CustodesError, InputError
from custodes.evaluate.protocol.live import State
from custodes.question_commands import channel_table
from tests.data.loading.files import fault, unzipped, workbook, zipped


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("s.csv", "item,system\n" + "1,A\n" * 1000, "1,002 lines of 2 columns may take"),
        ("s.csv", ",".join(f"c{at}" for at in range(500)) + "\n" + "1\n" * 30, "32 lines of 500 columns may take"),
        ("s.jsonl", "{}\n" * 1000, "JSON of 1,000 objects may take"),
        ("s.json", f"[{','.join(['{}'] * 1000)}]", "JSON of 1,000 objects may take"),
        ("s.jsonl", "".join(f'{{"{at}": 1}}\n' for at in range(60)), "60 rows of 60 columns take"),
    ],
)
def test_short_rows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    for module in (compression, custodes.memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 100_000)
    for path in tmp_path.iterdir():
        message = fault(path)
        assert message.startswith(f"{path.name}: {expected} 0.0 GB of memory; this machine has 0.0 GB. To read the")
        assert message.endswith("or count outcomes of pairs first (count_pairs on a Polars scan)")


def test_a_file_larger_than_memory_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.parquet").write_bytes(bytes(1000))
    for module in (compression, custodes.memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 1000)
    assert fault(tmp_path / "s.parquet").startswith("s.parquet: the file takes 0.0 GB of memory")


def edited(path: Path, old: bytes, new: bytes) -> Path:
    """Write a workbook of three columns after one edit of the XML of its sheet."""
    files = unzipped(workbook({"s": [["item", "system", "score"], ["x"] * 3]}))
    sheet = files["xl/worksheets/sheet1.xml"]
    assert old in sheet
    path.write_bytes(zipped(files | {"xl/worksheets/sheet1.xml": sheet.replace(old, new)}))
    return path


@pytest.mark.parametrize("place", [b'<c r="XFD1048576"', b"<c r = 'xfd1048576'"])
def test_a_sheet_that_reaches_too_far(tmp_path: Path, place: bytes) -> None:
    message = fault(edited(tmp_path / "s.xlsx", b'<c r="C1"', place))
    assert message.startswith("s.xlsx: xl/worksheets/sheet1.xml covers 1,048,576 rows and 16,384 columns")
    assert message.endswith("delete cells far from the table, or save only the table as CSV")


def test_cells_without_places_are_read(tmp_path: Path) -> None:
    assert load_table(edited(tmp_path / "s.xlsx", b'<c r="C1" ', b"<c ")).frame.shape == (1, 3)


@pytest.mark.parametrize("suffix", ["parquet", "plain", "arrow"])
def test_labels_are_counted_as_they_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    labels = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1000, pyarrow.int32()), ["x" * 500])
    table = pyarrow.table({"item": labels})
    path = tmp_path / f"s.{'arrow' if suffix == 'arrow' else 'parquet'}"
    if suffix == "arrow":
        with pyarrow.ipc.new_file(path, table.schema) as into:
            into.write_table(table)
    else:
        pyarrow.parquet.write_table(table, path, store_schema=suffix == "parquet")
    assert load_table(path).frame["item"].to_list() == ["x" * 500] * 1000
    monkeypatch.setattr(arrow, "LARGEST", 100_000)
    assert fault(path).startswith(f"{path.name}: the decoded cells take more than 0 MiB; write a file with fewer")


@pytest.mark.parametrize("load", [Schema.load, State.read, lambda path: channel_table(str(path))])
def test_files_that_are_no_tables_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    with pytest.raises(InputError, match="^/dev/zero: this is a pipe or device; pass the content on standard input"):
        load("/dev/zero")  # type: ignore[operator]
    monkeypatch.setattr(source, "SMALL", 10)
    (tmp_path / "s").write_bytes(bytes(11))
    with pytest.raises(InputError, match=r"s: the file has 0 MiB, but a \w+ may have at most 0 MiB; give a smaller"):
        load(tmp_path / "s")  # type: ignore[operator]


def test_a_long_error_keeps_its_way_out() -> None:
    message = str(CustodesError(f"no {'x' * 100_000} here; do this instead"))
    assert len(message) < 2100
    assert message.startswith("no xxx")
    assert message.endswith("xxx here; do this instead")
    assert "x [98025 characters left out] x" in message
