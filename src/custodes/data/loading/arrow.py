"""Parquet and Arrow files (IPC files, which are Feather 2, and streams).

PyArrow reads them if it is installed, since it rejects damaged bytes. Polars, which reads Parquet without PyArrow,
crashes the process on some damaged files, so these are first read in another process. Formats: Apache Parquet, 'File
Format'; Apache Arrow, 'IPC Streaming Format' and 'IPC File Format'.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from custodes.data.loading.compression import LARGEST, allowed, mebibytes, too_large
from custodes.data.loading.table import named_columns, with_column_names
from custodes.errors import InputError, MissingExtraError

PARQUET = b"PAR1"
ENCRYPTED = b"PARE"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
CELL = 8
"""Minimum assumed size of a cell in bytes, even if many equal rows take less in the file."""

FEWEST_ROWS, MOST_ROWS = 256, 65_536
"""Rows of Parquet to read at once."""

TRIAL = "import io, sys, polars; polars.read_parquet(io.BytesIO(sys.stdin.buffer.read()))"
"""Trial read of Parquet in another process, which may crash."""


def from_parquet(data: bytes, name: str) -> pl.DataFrame:
    """The table of a Parquet file."""
    if data.startswith(ENCRYPTED):
        raise InputError(f"{name}: an encrypted Parquet file; write it without encryption")
    damaged = InputError(f"{name}: not a Parquet file, or a damaged one; write it again")
    if not data.startswith(PARQUET) or not data.endswith(PARQUET):
        raise damaged
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        trial = subprocess.run([sys.executable, "-c", TRIAL], input=data, capture_output=True, check=False)
        if trial.returncode:
            raise damaged from None
        return with_column_names(pl.read_parquet(io.BytesIO(data)), where=name)
    with _one_error(damaged, name):
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        sizes = [file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups)]
        _check_size(sum(sizes), len(data), name)
        if file.metadata.num_rows * file.metadata.num_columns * CELL > LARGEST:
            raise InputError(
                f"{name}: {file.metadata.num_rows} rows do not fit into memory; count pairs first, with count_pairs"
            )
        rows = min(MOST_ROWS, max(FEWEST_ROWS, LARGEST // max([1, *sizes])))
        batches = _within_limit(file.iter_batches(rows, use_threads=False), name)
        # In batches, so that the table is not in memory twice, in PyArrow and in Polars.
        frames = [_from_arrow(pyarrow.Table.from_batches([batch]), name) for batch in batches]
        return pl.concat(frames or [_from_arrow(file.schema_arrow.empty_table(), name)], rechunk=True)


def from_arrow_file(data: bytes, name: str) -> pl.DataFrame:
    """The table of an Arrow file or stream."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtraError(f"{name}: Arrow files need PyArrow: pip install 'custodes[arrow]'") from error
    with _one_error(InputError(f"{name}: not an Arrow file or stream, or a damaged one; write it again"), name):
        source = pyarrow.BufferReader(data)
        if data.startswith(ARROW_FILE):
            reader = pyarrow.ipc.open_file(source)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            reader = batches = pyarrow.ipc.open_stream(source)
        held, size = [], 0
        for batch in _within_limit(batches, name):
            held.append(batch)
            size += batch.nbytes
            _check_size(size, len(data), name)
        return _from_arrow(pyarrow.Table.from_batches(held, reader.schema), name)


@contextmanager
def _one_error(damaged: InputError, name: str) -> Iterator[None]:
    """Convert the errors of PyArrow, of many types for damaged bytes, into one `InputError`."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (MemoryError, pyarrow.ArrowCapacityError):
        raise _too_large(name) from None
    except Exception:
        raise damaged from None


def _within_limit(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Batches of rows until their decoded cells exceed the limit: many cells may share one text."""
    from pyarrow import types

    size = 0
    for batch in batches:
        batch.validate()
        size += sum(
            _decoded_size(column) if types.is_dictionary(column.type) else column.nbytes for column in batch.columns
        )
        if size > LARGEST:
            raise _too_large(name)
        yield batch


def _decoded_size(column: Any) -> int:
    """Size in bytes of decoded dictionary-encoded labels."""
    from pyarrow import compute, types

    kind = column.type.value_type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return len(column) * CELL
    return compute.sum(compute.binary_length(column.dictionary).take(column.indices)).as_py() or 0


def _too_large(name: str) -> InputError:
    return InputError(
        f"{name}: its cells take more than {mebibytes(LARGEST)} when decoded; select columns or "
        "rows, and write them to a file"
    )


def _from_arrow(table: Any, name: str) -> pl.DataFrame:
    """A validated Polars frame: damaged offsets, text and names would crash Polars."""
    import pyarrow

    table.validate(full=True)
    names = named_columns(table.schema.names, where=name)
    columns = []
    for label, column in zip(names, table.columns, strict=True):
        try:
            columns.append(_plain_column(column))
        except NotImplementedError:
            raise InputError(
                f"{name}: column {label!r} holds {column.type}, which cannot be read; leave it out"
            ) from None
    return pl.DataFrame(pl.from_arrow(pyarrow.table(columns, names=names))).rechunk()


def _plain_column(column: Any) -> Any:
    """A column without dictionaries and without views into other buffers, with valid text."""
    import pyarrow

    plain = _plain_type(column.type)
    if pyarrow.types.is_dictionary(column.type):
        labels = [chunk.dictionary.cast(plain) for chunk in column.chunks]
        for dictionary in labels:
            dictionary.validate(full=True)
        arrays = zip(column.chunks, labels, strict=True)
        chunks = [
            pyarrow.DictionaryArray.from_arrays(chunk.indices, names).dictionary_decode() for chunk, names in arrays
        ]
        return pyarrow.chunked_array(chunks, type=plain)
    if plain != column.type:
        column = column.cast(plain)
        column.validate(full=True)
    return pyarrow.chunked_array(column.chunks, type=plain)


def _plain_type(kind: Any) -> Any:
    """A type with offsets instead of views, and without metadata."""
    import pyarrow

    types = pyarrow.types
    if types.is_string_view(kind):
        return pyarrow.large_string()
    if types.is_binary_view(kind):
        return pyarrow.large_binary()
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pyarrow.struct([pyarrow.field(part.name, _plain_type(part.type)) for part in fields])
    if types.is_list(kind):
        return pyarrow.list_(_plain_type(kind.value_type))
    if types.is_large_list(kind):
        return pyarrow.large_list(_plain_type(kind.value_type))
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_nested(kind) and not types.is_fixed_size_list(kind):
        raise NotImplementedError
    return kind


def _check_size(size: int, packed: int, name: str) -> None:
    limit = allowed(packed)
    if size > limit:
        raise InputError(f"{name}: {too_large(packed, limit)}; select columns or rows, and write them to a file")
