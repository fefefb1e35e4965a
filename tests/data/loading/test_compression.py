"""Compressed files are read up to the size limit only."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from pathlib import Path
from typing import IO

import pytest

from custodes.data.loading import compression, load_table
from custodes.errors import InputError
from tests.data.loading.files import fault, zipped
from tests.messages import exactly

TEXT = b"item,score\n1,2\n"
ROWS = [("1", "2")]
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_every_kind_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"s.csv{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert load_table(path).frame.rows() == ROWS
    for damaged in (path.read_bytes()[:-3], TEXT, b"x" + path.read_bytes()):
        path.write_bytes(damaged)
        assert re.match(r"s\.csv\.\w+: (the \w+ file is truncated|not a \w+ file, or a damaged one)", fault(path))


@pytest.mark.parametrize("suffix", [*PACK, ".zip", ".xlsx"])
def test_a_bomb_is_refused_while_it_unpacks(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNSUSPICIOUS_SIZE", 2**18)
    monkeypatch.setattr(compression, "CHUNK", 2**16)
    positions: list[int] = []
    read_up_to = compression.read_up_to

    def watched(stream: IO[bytes], limit: int) -> bytes:
        content = read_up_to(stream, limit)
        positions.append(stream.tell())
        return content

    monkeypatch.setattr(compression, "read_up_to", watched)
    bomb = TEXT + b"1,2\n" * 500_000
    path = tmp_path / f"s.csv{suffix}"
    path.write_bytes(
        zipped({"s.csv": bomb, "xl/workbook.xml": b""}) if suffix in (".zip", ".xlsx") else PACK[suffix](bomb)
    )
    commands = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "unxz"}
    advice = f"decompress it with {commands[suffix]}" if suffix in commands else "unzip it"
    message = fault(path)
    assert message.startswith(f"s.csv{suffix}: unpacks to more than ")
    assert message.endswith(f" times its size; if the file is genuine, {advice}")
    assert all(size < len(bomb) / 2 for size in positions)
    assert bool(positions) == (suffix in PACK)  # an archive states its uncompressed size


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
            ".parquet, .arrow, .feather, .ipc, .xlsx, .xlsm, .zip",
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
            "s.zip: a.zip is an archive inside this archive; unzip the outer archive",
        ),
    ],
)
def test_zips_that_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "s.zip"
    path.write_bytes(data)
    assert fault(path) == message


def test_limits_hold_at_their_exact_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "CHUNK", 2)
    for compressed, limit, text in (
        (0, 2**28, "256 MiB, over 268435456 times its size"),
        (2**21, 200 * 2**21, "400 MiB, over 200 times its size"),
        (2**30, 2**31, "2,048 MiB"),
    ):
        assert compression.max_decompressed_size(compressed) == limit
        compression.check_decompressed_size(limit, compressed, "x", "stop")
        with pytest.raises(InputError, match=exactly(f"x: unpacks to more than {text}; stop")):
            compression.check_decompressed_size(limit + 1, compressed, "x", "stop")
    assert [compression.read_up_to(io.BytesIO(b"abcdef"), limit) for limit in (1, 2, 5, 6)] == [
        b"ab",
        b"abcd",
        b"abcdef",
        b"abcdef",
    ]
    batches = iter([1, 2, 3, 4])
    with pytest.raises(InputError, match="^too large$"):
        compression.limit_total_size(batches, 5, int, InputError("too large"))
    assert list(batches) == [4]
    assert compression.limit_total_size([1, 2, 3], 6, int, InputError("too large")) == [1, 2, 3]
