"""Compressed files are read up to the size limit only."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from custodes.data.loading import compression, load_table
from tests.data.loading.files import fault, zipped

TEXT = b"item,score\n1,2\n"
ROWS = [("1", "2")]
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_every_kind_is_known_by_its_first_bytes(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](TEXT)
    for name in (f"s.csv{suffix}", f"S.CSV{suffix.upper()}", "s.csv"):
        (tmp_path / name).write_bytes(packed)
        assert load_table(tmp_path / name).frame.rows() == ROWS
    path = tmp_path / f"s.csv{suffix}"
    path.write_bytes(TEXT)
    assert load_table(path).frame.rows() == ROWS
    for damaged in (packed[:-3], packed[:10] + b"x" + packed[10:]):
        path.write_bytes(damaged)
        assert fault(path) == f"{path.name}: a damaged or truncated compressed file; copy or download it again"


@pytest.mark.parametrize("suffix", [*PACK, ".zip", ".xlsx"])
def test_the_decompressed_size_is_limited(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TEXT + b"1,2\n" * 1000
    path = tmp_path / f"s.csv{suffix}"
    path.write_bytes(
        zipped({"s.csv": table, "xl/workbook.xml": b""}) if suffix in (".zip", ".xlsx") else PACK[suffix](table)
    )
    monkeypatch.setattr(compression, "LARGEST", len(table) - 1)
    assert fault(path) == f"s.csv{suffix}: the content has more than 0 MiB; give a smaller table"
    if suffix in PACK:
        monkeypatch.setattr(compression, "LARGEST", len(table))
        assert load_table(path).frame.height == 1001


def test_a_zip_of_one_table(tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    path.write_bytes(
        zipped({"__MACOSX/s.csv": b"x", "in/": b"", "in/s.csv": TEXT, "in/.s.csv": b"x", "readme.md": b""})
    )
    table = load_table(path)
    assert (table.frame.rows(), table.name) == (ROWS, "s.zip")
    path.write_bytes(zipped({"a.csv": b"item,score\n3,4\n", "b.csv": TEXT}))
    table = load_table(f"{path}::b.csv")
    assert (table.frame.rows(), table.name) == (ROWS, "s.zip::b.csv")
    assert "no file named 'c.csv' (did you mean" in fault(f"{path}::c.csv")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (zipped({"a.csv": TEXT, "b.csv": TEXT}), "s.zip: holds 2 files; select one with s.zip::FILE: a.csv, b.csv"),
        (
            zipped({"readme.md": TEXT}),
            "s.zip: the archive holds no table file; allowed in an archive: .csv, .tsv, .txt, .jsonl, .ndjson, .json, "
            ".parquet, .arrow, .feather, .ipc, .xlsx, .xlsm",
        ),
        (zipped({"a.csv": TEXT})[:-30], "s.zip: a damaged or truncated zip file; copy or download it again"),
        (
            zipped({"a.csv": TEXT}, 0).replace(b"1,2", b"1,3"),
            "s.zip::a.csv: damaged, or compressed with an unsupported method (Bad CRC-32 for file 'a.csv')",
        ),
        (
            zipped({"a.csv": TEXT}, 0).replace(b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1"),
            "s.zip::a.csv: encrypted; unzip it first",
        ),
        (
            zipped({"a.zip": zipped({"a.csv": TEXT})}),
            "s.zip: the archive holds no table file; allowed in an archive: .csv, .tsv, .txt, .jsonl, .ndjson, .json, "
            ".parquet, .arrow, .feather, .ipc, .xlsx, .xlsm",
        ),
    ],
)
def test_zips_that_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "s.zip"
    path.write_bytes(data)
    assert fault(path) == message
