"""Parquet and Arrow files, and the error for damaged bytes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import polars as pl
import pytest

from custodes.data.loading import arrow, load_table
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
DAMAGED = "s.parquet: not a Parquet file, or a damaged or encrypted Parquet file; write the file again"


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


def test_arrow_files_need_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtraError, match=exactly("s.arrow: Arrow files need PyArrow: pip install 'custodes[arrow]'")
    ):
        arrow.from_arrow_file(file_bytes(".arrow"), "s.arrow")


def test_damaged_parquet_is_refused() -> None:
    data = file_bytes(".parquet")
    faults = []
    for at in range(len(data) - 600, len(data) - 8, 3):
        try:
            arrow.from_parquet(data[:at] + b"\xff\xff" + data[at + 2 :], "s.parquet")
        except InputError as error:
            faults.append(str(error))
    assert len(faults) > 50
    assert set(faults) == {DAMAGED}
    for other in (data[:-5], b"PARE" + b"x" * 20 + b"PARE"):
        with pytest.raises(InputError, match=exactly(DAMAGED)):
            arrow.from_parquet(other, "s.parquet")
