"""Parquet and Arrow files (IPC files, which are Feather 2, and streams).

PyArrow reads them where it is installed, for it refuses damaged bytes. Polars, which reads Parquet without it, ends the
process on some, so it tries them in another first. Layouts: Apache Parquet, 'File Format'; Apache Arrow, 'IPC Streaming
Format' and 'IPC File Format'.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from custodes.data.loading.compression import LARGEST, allowed, mebibytes, too_large
from custodes.data.loading.table import named_columns
from custodes.errors import InputError, MissingExtraError

PARQUET = b"PAR1"
ENCRYPTED = b"PARE"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
CELL = 8
"""Bytes that a cell takes at least, however few it takes in a file where many rows are the same."""

FEWEST_ROWS, MOST_ROWS = 256, 65_536
"""Rows of Parquet that are read at once."""

TRIAL = "import io, sys, polars; polars.read_parquet(io.BytesIO(sys.stdin.buffer.read()))"
"""What another process does first with Parquet, which prints and ends as it likes."""


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
        return _with_polars(data, name, damaged)
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        _check_size(sum(group.total_byte_size for group in groups), len(data), name)
        if file.metadata.num_rows * file.metadata.num_columns * CELL > LARGEST:
            raise InputError(
                f"{name}: {file.metadata.num_rows} rows are too many to hold; count first, with count_pairs"
            )
        largest = max((group.total_byte_size for group in groups), default=0)
        rows = min(MOST_ROWS, max(FEWEST_ROWS, LARGEST // max(largest, 1)))
        batches = _within_limit(file.iter_batches(rows, use_threads=False), name)
        # Some at a time, so that the table is not there twice, in PyArrow and in Polars.
        parts = [_from_arrow(part, name) for part in _parts(batches, file.schema_arrow)]
        return pl.concat(parts, rechunk=True)
    except InputError:
        raise
    except (MemoryError, pyarrow.ArrowCapacityError):
        raise _written_out(name) from None
    except Exception:  # PyArrow raises half a dozen kinds on damaged bytes
        raise damaged from None


def from_arrow_file(data: bytes, name: str) -> pl.DataFrame:
    """The table of an Arrow file or stream."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtraError(f"{name}: Arrow files need PyArrow: pip install 'custodes[arrow]'") from error
    try:
        source = pyarrow.BufferReader(data)
        if data.startswith(ARROW_FILE):
            reader = pyarrow.ipc.open_file(source)
            coming = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            reader = coming = pyarrow.ipc.open_stream(source)
        batches, size = [], 0
        for batch in _within_limit(coming, name):
            batches.append(batch)
            size += batch.nbytes
            _check_size(size, len(data), name)
        return _from_arrow(pyarrow.Table.from_batches(batches, reader.schema), name)
    except InputError:
        raise
    except (MemoryError, pyarrow.ArrowCapacityError):
        raise _written_out(name) from None
    except Exception:  # PyArrow raises half a dozen kinds on damaged bytes
        raise InputError(f"{name}: not an Arrow file or stream, or a damaged one; write it again") from None


def _within_limit(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Batches of rows, until their cells take too much when each is written out: many may share one text."""
    import pyarrow

    size = 0
    for batch in batches:
        batch.validate()
        for column in batch.columns:
            size += _decoded_size(column) if pyarrow.types.is_dictionary(column.type) else column.nbytes
        if size > LARGEST:
            raise _written_out(name)
        yield batch


def _parts(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    """Tables of `MOST_ROWS` rows and more; one without rows where there is none."""
    import pyarrow

    held, rows, whole = [], 0, True
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            yield pyarrow.Table.from_batches(held, schema)
            held, rows, whole = [], 0, False
    if held or whole:
        yield pyarrow.Table.from_batches(held, schema)


def _decoded_size(column: Any) -> int:
    """Bytes of labels that are stored as numbers, written out."""
    from pyarrow import compute, types

    kind = column.type.value_type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return len(column) * CELL
    return compute.sum(compute.binary_length(column.dictionary).take(column.indices)).as_py() or 0


def _written_out(name: str) -> InputError:
    return InputError(
        f"{name}: its cells take more than {mebibytes(LARGEST)} when each is written out; select columns or rows, and"
        " write them to a file"
    )


def _from_arrow(table: Any, name: str) -> pl.DataFrame:
    """A checked Polars frame: offsets, text and names of damaged bytes would end the process in Polars."""
    import pyarrow

    table.validate(full=True)
    columns = named_columns(table.schema.names, where=name)
    made = []
    for label, column in zip(columns, table.columns, strict=True):
        try:
            made.append(_checked(column))
        except NotImplementedError:
            raise InputError(f"{name}: column {label!r} holds {column.type}, which is not read; leave it out") from None
    frame = pl.DataFrame(pl.from_arrow(pyarrow.table(made, names=columns)))
    return frame.rechunk()


def _checked(column: Any) -> Any:
    """A column without views into other buffers, whose text is text."""
    import pyarrow

    plain = _plain(column.type)
    if pyarrow.types.is_dictionary(column.type):
        return pyarrow.chunked_array([_decoded(chunk, plain) for chunk in column.chunks], type=plain)
    if plain != column.type:
        column = column.cast(plain)
        column.validate(full=True)
    return pyarrow.chunked_array(column.chunks, type=plain)


def _decoded(chunk: Any, plain: Any) -> Any:
    """Labels that are stored as numbers, written out."""
    import pyarrow

    labels = chunk.dictionary.cast(plain)
    labels.validate(full=True)
    return pyarrow.DictionaryArray.from_arrays(chunk.indices, labels).dictionary_decode()


def _plain(kind: Any) -> Any:
    """A type with offsets in place of views, and without metadata in its names."""
    import pyarrow

    types = pyarrow.types
    if types.is_string_view(kind):
        return pyarrow.large_string()
    if types.is_binary_view(kind):
        return pyarrow.large_binary()
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pyarrow.struct([pyarrow.field(own.name, _plain(own.type)) for own in fields])
    if types.is_list(kind):
        return pyarrow.list_(_plain(kind.value_type))
    if types.is_large_list(kind):
        return pyarrow.large_list(_plain(kind.value_type))
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_nested(kind) and not types.is_fixed_size_list(kind):
        raise NotImplementedError
    return kind


def _check_size(size: int, packed: int, name: str) -> None:
    limit = allowed(packed)
    if size > limit:
        raise InputError(f"{name}: {too_large(packed, limit)}; select columns or rows, and write them to a file")


def _with_polars(data: bytes, name: str, damaged: InputError) -> pl.DataFrame:
    if subprocess.run([sys.executable, "-c", TRIAL], input=data, capture_output=True, check=False).returncode:
        raise damaged
    frame = pl.read_parquet(io.BytesIO(data))
    return frame.rename(dict(zip(frame.columns, named_columns(frame.columns, where=name), strict=True)))
