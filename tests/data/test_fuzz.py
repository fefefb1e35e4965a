"""Any small table, also in a file, gives a valid study or a one-line `CustodesError`."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.readers import READERS
from tests.data.random_tables import tables, try_reading

SCORES = pl.DataFrame({"item": ["1", "2"], "system": ["A", "B"], "rater": ["ann", "bleu"], "score": ["1", "2"]})
SIDE_FAMILIES = ["rater kind |", "rater higher_is_better low high person |", "item cluster weight |"]
TABLE = given(
    source=tables(),
    reader=st.none() | st.none() | st.sampled_from(READERS),
    invalid=st.sampled_from(["error", "drop", "force"]),
)


@pytest.mark.parametrize("examples", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_table(examples: int) -> None:
    settings(max_examples=examples)(TABLE(try_reading))()


@given(frame=tables(), suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
@settings(max_examples=15)
def test_any_table_in_a_file(frame: pl.DataFrame, suffix: str) -> None:
    buffer = io.BytesIO()
    if suffix != ".parquet":
        frame = frame.select(pl.exclude(pl.Binary))
    try:
        {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[suffix](buffer)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):  # this format cannot store the table
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        path.write_bytes(buffer.getvalue())
        try_reading(path)
        try_reading(path, invalid="force")


@given(side=tables(SIDE_FAMILIES))
@settings(max_examples=40)
def test_any_side_table(side: pl.DataFrame) -> None:
    try_reading(SCORES, **{"items" if "item" in side.columns else "raters": side})
