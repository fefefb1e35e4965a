"""Parquet and Arrow files (IPC files, which are Feather 2, and streams).

If PyArrow is installed, PyArrow reads the files, since PyArrow rejects damaged bytes. Otherwise Polars reads Parquet.
Since some damaged files crash the process of Polars, Polars first reads a Parquet file in a separate process. Formats:
Apache Parquet, 'File Format'; Apache Arrow, 'IPC Streaming Format' and 'IPC File Format'.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from custodes.data.loading.compression import LARGEST, check_decompressed_size, format_mebibytes, limit_total_size
from custodes.data.table import strip_column_names, with_column_names
from custodes.errors import InputError, requires_extra

PARQUET = b"PAR1"
ENCRYPTED = b"PARE"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
CELL = 8
"""Minimum assumed size of a cell in bytes; in the file, many equal rows may take less."""

SIZE_ADVICE = "write a file with fewer columns or rows"
TRIAL_PROGRAM = "import io, sys, polars; polars.read_parquet(io.BytesIO(sys.stdin.buffer.read()))"
"""Program that reads a Parquet file on trial in another process, because reading may crash the process."""


def from_parquet(file_bytes: bytes, name: str) -> pl.DataFrame:
    """The table of a Parquet file."""
    if file_bytes.startswith(ENCRYPTED):
        raise InputError(f"{name}: the Parquet file is encrypted; write the file without encryption")
    damaged_file_error = InputError(f"{name}: not a Parquet file, or a damaged Parquet file; write the file again")
    if not file_bytes.startswith(PARQUET) or not file_bytes.endswith(PARQUET):
        raise damaged_file_error
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        trial_process = subprocess.run(
            [sys.executable, "-c", TRIAL_PROGRAM], input=file_bytes, capture_output=True, check=False
        )
        if trial_process.returncode:
            raise damaged_file_error from None
        return with_column_names(pl.read_parquet(io.BytesIO(file_bytes)), where=name)
    with _convert_errors(damaged_file_error, name):
        parquet_file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(file_bytes))
        metadata = parquet_file.metadata
        check_decompressed_size(
            sum(
                metadata.row_group(row_group_index).total_byte_size
                for row_group_index in range(metadata.num_row_groups)
            ),
            len(file_bytes),
            name,
            SIZE_ADVICE,
        )
        if metadata.num_rows * metadata.num_columns * CELL > LARGEST:
            raise InputError(
                f"{name}: {metadata.num_rows} rows do not fit into memory; count the outcomes of pairs first, with "
                "count_pairs"
            )
        # In batches, so that PyArrow and Polars do not hold the whole table at the same time.
        arrow_tables = (
            pyarrow.Table.from_batches([record_batch]) for record_batch in parquet_file.iter_batches(use_threads=False)
        )
        frames_of_batches = limit_total_size(
            (_from_arrow(arrow_table, name) for arrow_table in arrow_tables),
            LARGEST,
            lambda frame: int(frame.estimated_size()),
            _too_large_error(name),
        )
        return pl.concat(
            frames_of_batches or [_from_arrow(parquet_file.schema_arrow.empty_table(), name)], rechunk=True
        )


def from_arrow_file(file_bytes: bytes, name: str) -> pl.DataFrame:
    """The table of an Arrow file or stream."""
    with requires_extra(f"{name}: Arrow files need PyArrow", "arrow"):
        import pyarrow
        import pyarrow.ipc
    with _convert_errors(
        InputError(f"{name}: not an Arrow file or stream, or a damaged one; write the file again"), name
    ):
        buffer_reader = pyarrow.BufferReader(file_bytes)
        open_reader = pyarrow.ipc.open_file if file_bytes.startswith(ARROW_FILE) else pyarrow.ipc.open_stream
        arrow_table = open_reader(buffer_reader).read_all()
        check_decompressed_size(arrow_table.nbytes, len(file_bytes), name, SIZE_ADVICE)
        return _from_arrow(arrow_table, name)


@contextmanager
def _convert_errors(damaged_error: InputError, name: str) -> Iterator[None]:
    """Convert any of PyArrow's many types of error for damaged bytes into an `InputError`."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (MemoryError, pyarrow.ArrowCapacityError):
        raise _too_large_error(name) from None
    except Exception:
        raise damaged_error from None


def _decoded_size(arrow_column: Any) -> int:
    """The size in bytes of a dictionary-encoded column of labels after decoding."""
    from pyarrow import compute, types

    value_type = arrow_column.type.value_type
    if not (types.is_string(value_type) or types.is_large_string(value_type)):
        return len(arrow_column) * CELL
    byte_length_arrays = (compute.binary_length(chunk.dictionary).take(chunk.indices) for chunk in arrow_column.chunks)
    return sum(compute.sum(byte_lengths).as_py() or 0 for byte_lengths in byte_length_arrays)


def _too_large_error(name: str) -> InputError:
    return InputError(f"{name}: the decoded cells take more than {format_mebibytes(LARGEST)}; {SIZE_ADVICE}")


def _from_arrow(arrow_table: Any, name: str) -> pl.DataFrame:
    """A Polars frame of an Arrow table. The table is validated first, since damaged offsets, text and names would crash
    Polars."""
    from pyarrow import types

    arrow_table.validate(full=True)
    column_byte_sizes = (
        _decoded_size(arrow_column) if types.is_dictionary(arrow_column.type) else arrow_column.nbytes
        for arrow_column in arrow_table.columns
    )
    if sum(column_byte_sizes) > LARGEST:
        raise _too_large_error(name)
    arrow_table = arrow_table.rename_columns(strip_column_names(arrow_table.schema.names, where=name))
    return (
        pl.DataFrame(pl.from_arrow(arrow_table)).with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).rechunk()
    )
