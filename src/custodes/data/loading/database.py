"""SQLite and DuckDB files, detected by their first bytes and read as `FILE::TABLE` or `FILE::SELECT ...`.

A SQLite file is read into memory, so that SQLite creates no files next to it. For annotation studies see `live_study`.
Formats: SQLite, 'Database File Format'; DuckDB, 'Storage Versions and Format'.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.loading.compression import BATCH_ROWS, format_mebibytes, limit_total_size, max_decompressed_size
from custodes.data.loading.live_study import ANNOTATION_STUDY
from custodes.data.table import select_part, series_of, strip_column_names, with_column_names
from custodes.errors import InputError, requires_extra

SQLITE = b"SQLite format 3\0"
DUCKDB = b"DUCK"
DUCKDB_OFFSET = 8

JOURNAL_MODES = slice(18, 20)
APPLICATION_ID = slice(68, 72)
QUERY = re.compile(r"\s*(?:select|with|from|values)\b", re.IGNORECASE)
QUERY_ADVICE = "a query must be of the form SELECT ... FROM ..."
DAMAGE_MESSAGE = "a damaged database, or a database of an unsupported version"
ENDLESS_ADVICE = "the view or query may never end; write the rows to a table, and read that table"
STEPS, ROUNDS = 1_000_000, 500
"""Number of instructions of SQLite's virtual machine between checks, and maximum number of checks. A row of a table
takes about ten instructions."""
PATIENCE = 60.0
"""Time limit of DuckDB in seconds."""
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


def from_sqlite(file_bytes: bytes, path: Path, part: str | None, name: str) -> pl.DataFrame:
    """A table, a view or the result of a query of a SQLite file."""
    for log_suffix in ("-wal", "-journal"):
        change_log_path = path.with_name(path.name + log_suffix)
        if (
            int.from_bytes(file_bytes[APPLICATION_ID]) != ANNOTATION_STUDY
            and change_log_path.is_file()
            and change_log_path.stat().st_size
        ):
            raise InputError(
                f"{name}: {change_log_path.name} in the same folder holds changes that are not in {name} yet; close "
                f"the program that writes the file, or read a copy: sqlite3 {path.name} '.backup copy.db'"
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
            raise InputError(f"{name}: {DAMAGE_MESSAGE} ({integrity_check_lines[-1]}); copy or download it again")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
        sql_query = _query(table_names, part, name)
        remaining_progress_checks = iter(range(ROUNDS))
        connection.set_progress_handler(lambda: next(remaining_progress_checks, None) is None, STEPS)
        try:
            cursor = connection.execute(sql_query)
            column_names = strip_column_names(
                (column_description[0] for column_description in cursor.description), where=name
            )
            accepted_row_batches = limit_total_size(
                iter(lambda: cursor.fetchmany(BATCH_ROWS), []),
                max_decompressed_size(len(file_bytes)),
                _data_size,
                _too_large_error(len(file_bytes), name),
            )
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise InputError(
                    f"{name}: the query did not finish within {ROUNDS * STEPS:,} steps; {ENDLESS_ADVICE}"
                ) from None
            raise InputError(f"{name}: {_first_line(error)} ({QUERY_ADVICE})") from None
    data_rows = list(chain.from_iterable(accepted_row_batches))
    return pl.DataFrame(
        {
            column_name: series_of(column_name, [row[column_index] for row in data_rows])
            for column_index, column_name in enumerate(column_names)
        }
    )


def _data_size(rows: Sequence[Sequence[Any]]) -> int:
    return sum(len(cell) if isinstance(cell, str | bytes) else CELL for row in rows for cell in row)


def _too_large_error(file_size: int, name: str) -> InputError:
    return InputError(
        f"{name}: the rows take more than {format_mebibytes(max_decompressed_size(file_size))}; {ENDLESS_ADVICE}"
    )


def from_duckdb(path: Path, part: str | None, name: str) -> pl.DataFrame:
    """A table, a view or the result of a query of a DuckDB file, without access to other files."""
    with requires_extra(f"{name}: a DuckDB file needs DuckDB", "duckdb"):
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
                f"{name}: {DAMAGE_MESSAGE} ({_first_line(error).replace(str(path), path.name)}); copy or "
                "download it again"
            ) from None
        sql_query = _query(table_names, part, name)
        deadline = time.monotonic() + PATIENCE
        timeout_timer = threading.Timer(PATIENCE, connection.interrupt)
        timeout_timer.daemon = True
        timeout_timer.start()
        try:
            batch_reader = pyarrow.RecordBatchReader.from_stream(connection.sql(sql_query))
            file_size = path.stat().st_size
            record_batches = limit_total_size(
                batch_reader,
                max_decompressed_size(file_size),
                lambda batch: int(batch.nbytes),
                _too_large_error(file_size, name),
            )
            query_frame = pl.DataFrame(pl.from_arrow(pyarrow.Table.from_batches(record_batches, batch_reader.schema)))
        except InputError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # also in the conversion from DuckDB to Polars
            if time.monotonic() >= deadline:
                raise InputError(
                    f"{name}: the query did not finish within {PATIENCE:g} seconds; {ENDLESS_ADVICE}"
                ) from None
            if isinstance(error, duckdb.Error):
                raise InputError(f"{name}: {_first_line(error)} ({QUERY_ADVICE})") from None
            raise InputError(f"{name}: cannot be read: {type(error).__name__}; select other columns") from None
        finally:
            timeout_timer.cancel()
    return with_column_names(query_frame, where=name)


def _query(table_names: Sequence[str], part: str | None, name: str) -> str:
    """The query to run: `part` if it is a query, else a query for all rows of the table that `part` names."""
    if part and QUERY.match(part):
        return part
    if not table_names:
        raise InputError(f"{name}: the database has no table")
    escaped_table_name = select_part(part, table_names, name=name, what="table").replace('"', '""')
    return f'SELECT * FROM "{escaped_table_name}"'


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
