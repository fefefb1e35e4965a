"""Files too large for memory are refused before parsing, with their size in the message."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import custodes.memory
from custodes.data.loading import arrow, compression, delimited, load_table, source
from custodes.data.loading.delimited import from_delimited
from custodes.data.loading.records import from_records
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
        assert message == (
            f"{path.name}: {expected} 0.0 GB of memory; this machine has 0.0 GB. To read the data, "
            f"{compression.SIZE_ADVICE}"
        )


def test_the_memory_is_estimated_from_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[float] = []
    for module in (compression, delimited):
        monkeypatch.setattr(module, "check_size", lambda size, _: sizes.append(size))
    monkeypatch.setattr(compression, "BATCH_ROWS", 2)
    text = '[{"a": [1, 2]}, {"a": 3}, {}]'  # 29 characters, 3 objects, 3 commas, 2 lists
    for by_lines in (False, True):
        compression.check_json(text, "x", by_lines=by_lines)
    objects = 400 * 3 + 130 * (3 + 3) + 80 * 2
    assert sizes == [3 * 29 + objects, pytest.approx(3 * 29 + objects * 2 / 3 + 64 * (3 + 3))]
    sizes.clear()
    for one_or_no_object in ('{"a": 1}', ""):
        compression.check_json(one_or_no_object, "x", by_lines=True)
    from_delimited("a,b\n1,2\n3,4\n", ".csv", "x")
    assert sizes == [3 * 8 + 400 + 130 + 64, 0, 3 * 12 + 64 * 4 * 2]
    sizes.clear()
    from_records([{"a": "1", "b": "2"}, {"a": "1"}, {"a": "1"}], "x", "row")
    assert sizes == [64 * 2 * 2, 64 * 3 * 2]


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
    assert message == (
        "s.xlsx: xl/worksheets/sheet1.xml covers 1,048,576 rows and 16,384 columns, which is too large; delete cells "
        "far from the table, or save only the table as CSV"
    )


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
    message = "the decoded cells take more than 0 MiB; write a file with fewer columns or rows"
    assert fault(path) == f"{path.name}: {message}"


@pytest.mark.parametrize("load", [Schema.load, State.read, lambda path: channel_table(str(path))])
def test_files_that_are_no_tables_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    with pytest.raises(InputError, match="^/dev/zero: this is a pipe or device; pass the content on standard input"):
        load("/dev/zero")  # type: ignore[operator]
    monkeypatch.setattr(source, "SMALL", 10)
    (tmp_path / "s").write_bytes(bytes(11))
    with pytest.raises(
        InputError, match=r"s: the file has 0 MiB, but a \w+ may have at most 0 MiB; give a smaller file$"
    ):
        load(tmp_path / "s")  # type: ignore[operator]
    (tmp_path / "s").write_bytes(bytes(10))
    assert source.read_small_file(tmp_path / "s", "a plan") == bytes(10)
    with pytest.raises(FileNotFoundError, match=re.escape(f"[Errno 2] No such file or directory: '{tmp_path}/none'")):
        source.read_small_file(tmp_path / "none", "a plan")


def test_a_long_error_keeps_its_way_out() -> None:
    message = str(CustodesError(f"no {'x' * 100_000} here; do this instead"))
    assert len(message) < 2100
    assert message.startswith("no xxx")
    assert message.endswith("xxx here; do this instead")
    assert "x [98025 characters left out] x" in message
