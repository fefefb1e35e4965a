"""Any bytes under any name, and any small table, make a valid study or raise CustodesError; nothing else."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.readers import READERS
from tests.data.random_tables import WORDS, tables, try_reading

SUFFIXES = [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".tar", ".tar.gz", ".tgz", ".txt", ""]
SCORES = pl.DataFrame(
    {
        "item": ["1", "2"],
        "system": ["A", "B"],
        "rater": ["ann", "bleu"],
        "kind": ["human", "metric"],
        "score": ["1", "2"],
    }
)
SIDE_FAMILIES = [
    ["rater", "kind"],
    ["rater", "higher_is_better", "low", "high", "person"],
    ["item", "cluster", "weight"],
]
WORDS += ['{"A": "x"}', '{"A": 1}', "[", '["r"]', "null", "\u2028", "é\n"]


def try_bytes(data: bytes, suffix: str, reader: str | None) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        path.write_bytes(data)
        try_reading(path, reader=reader)
        try_reading(path, reader=reader, invalid="force")


def seeds() -> list[bytes]:
    """Good files, to be damaged."""
    parquet = io.BytesIO()
    SCORES.write_parquet(parquet)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, text in {"wmt/sources/en-de.txt": "a\n", "wmt/metric-scores/en-de/m.seg.score": "S\t1\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    plain = [SCORES.write_csv().encode(), SCORES.write_ndjson().encode(), parquet.getvalue(), tar.getvalue()]
    return plain + [gzip.compress(data, mtime=0) for data in plain]


@given(data=st.binary(max_size=80), suffix=st.sampled_from(SUFFIXES), gz=st.sampled_from(["", ".gz"]))
@settings(max_examples=150, deadline=None)
def test_any_bytes(data: bytes, suffix: str, gz: str) -> None:
    try_bytes(data, suffix + gz, None)


@given(
    data=st.sampled_from(seeds()),
    suffix=st.sampled_from(SUFFIXES),
    gz=st.sampled_from(["", ".gz"]),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
    cut=st.none() | st.integers(0, 10_000),
)
@settings(max_examples=250, deadline=None)
def test_damaged_files(data: bytes, suffix: str, gz: str, edits: list[tuple[int, bytes, int]], cut: int | None) -> None:
    for at, new, old in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + old :]
    try_bytes(data if cut is None else data[:cut], suffix + gz, None)


@given(
    frame=tables(),
    reader=st.none() | st.none() | st.sampled_from(READERS),
    invalid=st.sampled_from(["error", "drop", "force"]),
)
@settings(max_examples=300, deadline=None)
def test_any_table(frame: pl.DataFrame, reader: str | None, invalid: str) -> None:
    try_reading(frame, reader=reader, invalid=invalid)


@given(frame=tables(), suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
@settings(max_examples=100, deadline=None)
def test_any_table_in_a_file(frame: pl.DataFrame, suffix: str) -> None:
    buffer = io.BytesIO()
    if suffix != ".parquet":
        frame = frame.select(pl.exclude(pl.Binary))
    try:
        {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[suffix](buffer)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):  # a table that this format cannot hold
        return
    try_bytes(buffer.getvalue(), suffix, None)


@given(raters=tables(SIDE_FAMILIES), items=tables(SIDE_FAMILIES))
@settings(max_examples=60, deadline=None)
def test_any_side_table(raters: pl.DataFrame, items: pl.DataFrame) -> None:
    try_reading(SCORES, raters=raters)
    try_reading(SCORES, items=items)
