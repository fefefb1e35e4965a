"""SQLite and DuckDB files, detected by their first bytes and read as `FILE::TABLE` or `FILE::SELECT ...`.

A SQLite file is read into memory, so that SQLite creates no files next to it. For annotation studies see `live_study`.
Formats: SQLite, 'Database File Format'; DuckDB, 'Storage Versions and Format'.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TypeVar

import polars as pl

from custodes.data.loading.compression import BATCH_ROWS, check_content_size
from custodes.data.loading.live_study import ANNOTATION_STUDY
from custodes.data.table import select_part, series_of, strip_column_names, with_column_names
from custodes.errors import InputError, requires_extra

T = TypeVar("T")

SQLITE = b"SQLite format 3\0"
DUCKDB = b"DUCK"
DUCKDB_OFFSET = 8

JOURNAL_MODES = slice(18, 20)
APPLICATION_ID = slice(68, 72)
QUERY = re.compile(r"\s*(?:select|with|from|values)\b", re.IGNORECASE)
QUERY_ADVICE = "a query must be of the form SELECT ... FROM ..."
DAMAGE_MESSAGE = "a damaged database, or a database of an unsupported version"
CELL = 8
"""Assumed size of a number in bytes."""
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid"
DUCKDB_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'opened' AND table_schema = 'main'"
    " ORDER BY table_name"
)
READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def from_sqlite(file_bytes: bytes, path: Path, part: str | None, where: str) -> pl.DataFrame:
    """A table, a view or the result of a query of a SQLite file."""
    for log_suffix in ("-wal", "-journal"):
        change_log_path = path.with_name(path.name + log_suffix)
        if (
            int.from_bytes(file_bytes[APPLICATION_ID]) != ANNOTATION_STUDY
            and change_log_path.is_file()
            and change_log_path.stat().st_size
        ):
            raise InputError(
                f"{where}: {change_log_path.name} in the same folder contains changes that are not in {where} yet; "
                f"close the program that writes the file, or read a copy: sqlite3 {path.name} '.backup copy.db'"
            )
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            # Two header bytes are 2 in write-ahead-log mode, which is impossible in memory.
            connection.deserialize(file_bytes[: JOURNAL_MODES.start] + b"\x01\x01" + file_bytes[JOURNAL_MODES.stop :])
            integrity_check_lines = connection.execute("PRAGMA quick_check(1)").fetchone()[0].splitlines()
            table_names = [
                table_name
                for (table_name,) in connection.execute(SQLITE_TABLES)
                if not table_name.startswith("sqlite_")
            ]
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            integrity_check_lines = [str(error)]
        if integrity_check_lines != ["ok"]:
            raise InputError(f"{where}: {DAMAGE_MESSAGE} ({integrity_check_lines[-1]}); copy or download it again")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
        try:
            cursor = connection.execute(_query(table_names, part, where))
            row_batches = _limited_rows(
                iter(lambda: cursor.fetchmany(BATCH_ROWS), []),
                lambda batch: sum(
                    len(cell) if isinstance(cell, str | bytes) else CELL for row in batch for cell in row
                ),
                where,
            )
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:
            raise InputError(f"{where}: {_first_line(error)} ({QUERY_ADVICE})") from None
    column_names = strip_column_names((description[0] for description in cursor.description), where=where)
    cells_by_column = zip(*chain.from_iterable(row_batches), strict=True)
    return pl.DataFrame({column.name: column for column in map(series_of, column_names, cells_by_column)})


def _limited_rows(batches: Iterable[T], size_of: Callable[[T], int], where: str) -> list[T]:
    """The batches of rows. Raises `InputError` as soon as the sum of their sizes is too large."""
    accepted_batches, total_size = [], 0
    for batch in batches:
        accepted_batches.append(batch)
        total_size += size_of(batch)
        check_content_size(total_size, where)
    return accepted_batches


def from_duckdb(path: Path, part: str | None, where: str) -> pl.DataFrame:
    """A table, a view or the result of a query of a DuckDB file, without access to other files."""
    with requires_extra(f"{where}: a DuckDB file needs DuckDB", "duckdb"):
        import duckdb
        import pyarrow
    with duckdb.connect(":memory:") as connection:
        try:
            escaped_path = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{escaped_path}' AS opened (READ_ONLY)")
            connection.execute("USE opened")
            connection.execute("SET temp_directory = ''")  # do not spill to disk
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            table_names = [table_name for (table_name,) in connection.execute(DUCKDB_TABLES).fetchall()]
        except duckdb.Error as error:
            raise InputError(
                f"{where}: {DAMAGE_MESSAGE} ({_first_line(error).replace(str(path), path.name)}); copy or "
                "download it again"
            ) from None
        try:
            reader = pyarrow.RecordBatchReader.from_stream(connection.sql(_query(table_names, part, where)))
            record_batches = _limited_rows(reader, lambda batch: int(batch.nbytes), where)
            frame = pl.DataFrame(pl.from_arrow(pyarrow.Table.from_batches(record_batches, reader.schema)))
        except InputError:
            raise
        except duckdb.Error as error:
            raise InputError(f"{where}: {_first_line(error)} ({QUERY_ADVICE})") from None
        except (Exception, pl.exceptions.PanicException) as error:  # in the conversion from DuckDB to Polars
            raise InputError(f"{where}: cannot be read: {type(error).__name__}; select other columns") from None
    return with_column_names(frame, where=where)


def _query(table_names: Sequence[str], part: str | None, where: str) -> str:
    """The query to run: `part` if it is a query, else a query for all rows of the table that `part` names."""
    if part and QUERY.match(part):
        return part
    if not table_names:
        raise InputError(f"{where}: the database has no table")
    escaped_table_name = select_part(part, table_names, name=where, what="table").replace('"', '""')
    return f'SELECT * FROM "{escaped_table_name}"'


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
