"""Damaged files of every format give a table or a one-line error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.loading import load_table
from custodes.errors import CustodesError
from tests.data.loading.files import database, unzipped, workbook, zipped
from tests.data.random_tables import try_reading

FRAME = pl.DataFrame(
    {
        "item": ["1", "2", "3"],
        "system": ["Aster", "a long name of a system", None],
        "score": [1.5, 2.0, None],
        "tags": [["a"], [], None],
    }
)
TEXT = FRAME.drop("tags")


def database_bytes(kind: str) -> bytes:
    rows = "VALUES ('1', 'Aster', 1.5), ('2', 'a long name of a system', 2.0), ('3', NULL, NULL)"
    with TemporaryDirectory() as folder:
        created = "CREATE TABLE t (item TEXT, system TEXT, score REAL)"
        return database(Path(folder) / "s.db", kind, created, f"INSERT INTO t {rows}").read_bytes()


def table_bytes(method: str, frame: pl.DataFrame = FRAME) -> bytes:
    buffer = io.BytesIO()
    getattr(frame, method)(buffer)
    return buffer.getvalue()


def tar() -> bytes:
    """Return a test set of mt-metrics-eval as a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in {"wmt/sources/en-de.txt": "a\n", "wmt/metric-scores/en-de/m.seg.score": "S\t1\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@cache
def seeds() -> dict[str, tuple[bytes, ...]]:
    """Return valid files by suffix. Some archives are not compressed, so that edits reach their members."""
    csv = TEXT.write_csv().encode()
    german = TEXT.write_csv(separator=";").replace(".", ",")
    lines = table_bytes("write_ndjson")
    book = workbook({"s": [TEXT.columns, *TEXT.rows()]})
    parquet = table_bytes("write_parquet")
    return {
        ".csv": (csv, german.encode(), german.encode("utf-16"), b"\xef\xbb\xbf" + csv),
        ".tsv": (TEXT.write_csv(separator="\t").encode(),),
        ".txt": (german.encode("utf-16"),),
        ".jsonl": (lines,),
        ".json": (b"[" + lines.replace(b"\n", b",").rstrip(b",") + b"]",),
        ".parquet": (parquet,),
        ".arrow": (table_bytes("write_ipc"), table_bytes("write_ipc_stream")),
        ".xlsx": (book, zipped(unzipped(book), zipfile.ZIP_STORED)),
        ".zip": (zipped({"s.csv": csv}), zipped({"s.parquet": parquet}, zipfile.ZIP_STORED)),
        ".db": (database_bytes("sqlite"),),
        ".csv.gz": (gzip.compress(csv),),
        ".jsonl.bz2": (bz2.compress(lines),),
        ".csv.xz": (lzma.compress(csv),),
        ".tar": (tar(),),
        ".tar.gz": (gzip.compress(tar()),),
    }


CASES = st.sampled_from([(suffix, number) for suffix, files in seeds().items() for number in range(len(files))])
EDITS = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3), st.integers(0, 3)), min_size=1, max_size=4)
CUT = st.none() | st.none() | st.floats(0, 1)
OTHER = st.sampled_from(["", "", "", "", ".csv", ".parquet", ".xlsx", ".zip", ".gz", ".arrow", ".dat"])


Edit = tuple[float, bytes, int]
"""Position as a proportion of the file, new bytes, and the number of bytes that they replace."""


def check(case: tuple[str, int], edits: list[Edit], cut: float | None, other: str) -> None:
    suffix, number = case
    data = seeds()[suffix][number]
    for place, new, old in edits:
        at = int(place * len(data))
        data = data[:at] + new + data[at + old :]
    if cut is not None:
        data = data[: int(cut * len(data))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"s{suffix}{other}"
        path.write_bytes(data)
        if ".tar" in suffix:
            try_reading(path)
        try:
            table = load_table(path)
        except CustodesError as problem:
            error = str(problem)
        else:
            error = ""
            assert table.frame.height
            assert table.frame.write_ipc(None).getvalue()  # raises if the frame is invalid
        assert len(error.splitlines()) < 2
        assert path.read_bytes() == data
        assert [file.name for file in Path(folder).iterdir()] == [path.name]


def test_the_files_are_good(tmp_path: Path) -> None:
    for suffix, files in seeds().items():
        for data in files if ".tar" not in suffix else ():
            (tmp_path / f"s{suffix}").write_bytes(data)
            assert load_table(tmp_path / f"s{suffix}").frame.height == 3


@given(case=CASES, edits=EDITS, cut=CUT, other=OTHER)
@settings(max_examples=80)
def test_damaged_files(case: tuple[str, int], edits: list[Edit], cut: float | None, other: str) -> None:
    check(case, edits, cut, other)


@pytest.mark.slow
def test_ten_thousand_damaged_files() -> None:
    """DuckDB files keep their length, because a truncated one may end the process."""
    settings(max_examples=10_000)(given(case=CASES, edits=EDITS, cut=CUT, other=OTHER)(check))()
    whole = database_bytes("duckdb")

    def try_one(edits: list[Edit], cut: float | None) -> None:
        data = whole
        for place, new, _ in edits:
            at = int(place * len(data))
            data = data[:at] + new + data[at + len(new) :]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "s.duckdb"
            path.write_bytes(data if cut is None else data[: int(cut * len(data))])
            before = path.read_bytes()
            with suppress(CustodesError):
                load_table(path)
            assert path.read_bytes() == before
            assert [file.name for file in Path(folder).iterdir()] == [path.name]

    settings(max_examples=500)(given(edits=EDITS, cut=CUT)(try_one))()
