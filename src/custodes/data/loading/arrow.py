"""Parquet and Arrow files (IPC files, which are Feather 2, and streams).

Arrow files are read by PyArrow, because PyArrow rejects damaged bytes, whereas Polars would crash. Formats: Apache
Parquet, 'File Format'; Apache Arrow, 'IPC Streaming Format' and 'IPC File Format'.
"""

from __future__ import annotations

import io

import polars as pl

from custodes.data.loading.compression import check_size
from custodes.data.table import with_column_names
from custodes.errors import InputError, requires_extra

PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
CELL = 8
"""Minimum size of a cell in memory in bytes; in the file, many equal rows may take less."""


def from_parquet(file_bytes: bytes, where: str) -> pl.DataFrame:
    """The table of a Parquet file."""
    try:
        lazy_frame = pl.scan_parquet(io.BytesIO(file_bytes))
        n_cells = lazy_frame.select(pl.len()).collect().item() * len(lazy_frame.collect_schema())
        check_size(CELL * n_cells, f"{where}: {n_cells:,} cells take")
        frame = lazy_frame.collect()
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException):
        raise InputError(
            f"{where}: not a Parquet file, or a damaged or encrypted Parquet file; write the file again"
        ) from None
    return _with_text_labels(frame, where)


def from_arrow_file(file_bytes: bytes, where: str) -> pl.DataFrame:
    """The table of an Arrow file or stream."""
    with requires_extra(f"{where}: Arrow files need PyArrow", "arrow"):
        import pyarrow
        import pyarrow.ipc
    open_reader = pyarrow.ipc.open_file if file_bytes.startswith(ARROW_FILE) else pyarrow.ipc.open_stream
    try:
        arrow_table = open_reader(pyarrow.BufferReader(file_bytes)).read_all()
        arrow_table.validate(full=True)
        frame = pl.DataFrame(pl.from_arrow(arrow_table))
    except (Exception, pl.exceptions.PanicException):
        raise InputError(f"{where}: not an Arrow file or stream, or a damaged one; write the file again") from None
    return _with_text_labels(frame, where)


def _with_text_labels(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    return with_column_names(frame, where=where).with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
