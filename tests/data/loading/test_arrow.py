"""Parquet and Arrow files with and without PyArrow, and the error for damaged bytes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import polars as pl
import pytest

from custodes.data.loading import arrow, compression, load_table
from custodes.errors import InputError, MissingExtraError
from tests.messages import exactly

FRAME = pl.DataFrame(
    {
        "item": [1, 2, 3],
        "system": ["Aster", "a name of more than twelve letters", None],
        "rater": pl.Series(["ann", "bob", "ann"], dtype=pl.Categorical),
        "score": [1.5, None, float("nan")],
        "tags": [["x"], [], None],
        "told": [{"a": "b"}, {"a": None}, None],
        "day": pl.Series([0, 1, 2]).cast(pl.Date),
    }
)
SUFFIXES = {".parquet": "write_parquet", ".arrow": "write_ipc", ".feather": "write_ipc", ".ipc": "write_ipc_stream"}
DAMAGED = r"^s\.parquet: not a Parquet file, or a damaged Parquet file; write the file again$"


def file_bytes(suffix: str, frame: pl.DataFrame = FRAME) -> bytes:
    buffer = io.BytesIO()
    getattr(frame, SUFFIXES[suffix])(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_comes_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"s{suffix}"
    path.write_bytes(file_bytes(suffix))
    rater = pl.col("rater").cast(pl.String)
    assert load_table(path).frame.with_columns(rater).equals(FRAME.with_columns(rater))


def test_without_pyarrow_polars_reads_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert arrow.from_parquet(file_bytes(".parquet"), "s.parquet").equals(FRAME)
    with pytest.raises(
        MissingExtraError, match=exactly("s.arrow: Arrow files need PyArrow: pip install 'custodes[arrow]'")
    ):
        arrow.from_arrow_file(file_bytes(".arrow"), "s.arrow")


def test_damaged_parquet_is_refused_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    data = file_bytes(".parquet")
    faults = []
    for at in range(len(data) - 600, len(data) - 8, 3):
        try:
            arrow.from_parquet(data[:at] + b"\xff\xff" + data[at + 2 :], "s.parquet")
        except InputError as error:
            faults.append(str(error))
    assert len(faults) > 50
    assert set(faults) == {"s.parquet: not a Parquet file, or a damaged Parquet file; write the file again"}
    with pytest.raises(InputError, match=DAMAGED):
        arrow.from_parquet(data[:-5], "s.parquet")
    with pytest.raises(
        InputError, match=exactly("s.parquet: the Parquet file is encrypted; write the file without encryption")
    ):
        arrow.from_parquet(b"PARE" + b"x" * 20 + b"PARE", "s.parquet")
    assert capfd.readouterr().err == ""


def test_where_polars_would_end_the_process_it_ends_another(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(arrow, "TRIAL_PROGRAM", "import os, sys; os.write(2, b'thread panicked'); os.abort()")
    with pytest.raises(InputError, match=DAMAGED):
        arrow.from_parquet(file_bytes(".parquet"), "s.parquet")
    assert capfd.readouterr().err == ""


def test_a_small_parquet_of_a_large_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNSUSPICIOUS_SIZE", 1000)
    monkeypatch.setattr(compression, "MAX_RATIO", 2)
    large = pl.DataFrame({"a": [f"{number:0100}" for number in range(2000)]})
    stream = io.BytesIO()
    large.write_ipc_stream(stream, compression="zstd")
    message = "s: unpacks to more than 0 MiB, over 2 times its size; write a file with fewer columns or rows"
    for read, data in ((arrow.from_parquet, file_bytes(".parquet", large)), (arrow.from_arrow_file, stream.getvalue())):
        with pytest.raises(InputError, match=exactly(message)):
            read(data, "s")


def test_a_few_bytes_that_are_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file_bytes(".parquet", pl.DataFrame({"a": ["x"] * 100_000}))
    monkeypatch.setattr(arrow, "LARGEST", 100_000)
    assert len(data) < 2000
    with pytest.raises(
        InputError,
        match=exactly(
            "s.parquet: 100000 rows do not fit into memory; count the outcomes of pairs first, with count_pairs"
        ),
    ):
        arrow.from_parquet(data, "s.parquet")
