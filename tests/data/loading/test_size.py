"""Files too large for memory are refused before parsing, with their size in the message."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

import custodes.memory
from custodes.data.loading import compression, delimited, load_table
from custodes.data.loading.delimited import from_delimited
from custodes.data.loading.records import from_records
from custodes.errors import CustodesError
from tests.data.loading.files import fault


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("s.csv", "item,system\n" + "1,A\n" * 1000, "1,002 lines of 2 columns may take"),
        ("s.csv", ",".join(f"c{at}" for at in range(500)) + "\n" + "1\n" * 30, "32 lines of 500 columns may take"),
        ("s.jsonl", "{}\n" * 10_000, "the JSON may take"),
        ("s.json", f"[{','.join(['{}'] * 3000)}]", "the JSON may take"),
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
    from_delimited("a,b\n1,2\n3,4\n", ".csv", "x")
    assert sizes == [3 * 12 + 64 * 4 * 2]
    sizes.clear()
    from_records([{"a": "1", "b": "2"}, {"a": "1"}, {"a": "1"}], "x", "row")
    assert sizes == [64 * 2 * 2, 64 * 3 * 2]


def test_a_file_larger_than_memory_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.parquet").write_bytes(bytes(1000))
    for module in (compression, custodes.memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 1000)
    assert fault(tmp_path / "s.parquet").startswith("s.parquet: the file takes 0.0 GB of memory")


def test_a_few_bytes_that_are_many_cells_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.parquet"
    pl.DataFrame({"a": ["x"] * 100_000, "b": 1}).write_parquet(path)
    for module in (compression, custodes.memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 1_999_990)
    assert fault(path).startswith("s.parquet: 200,000 cells take 0.0 GB of memory")
    for module in (compression, custodes.memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 2_000_010)
    assert load_table(path).frame.shape == (100_000, 2)


def test_a_long_error_keeps_its_way_out() -> None:
    message = str(CustodesError(f"no {'x' * 100_000} here; do this instead"))
    assert len(message) < 2100
    assert message.startswith("no xxx")
    assert message.endswith("xxx here; do this instead")
    assert "x [98025 characters left out] x" in message
