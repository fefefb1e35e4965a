"""Read one consistent state of the SQLite file of an annotation study that a server may be writing.

Reading has no side effects. The latest changes are in a write-ahead log next to the file (`-wal`), even if the server
was killed. SQLite reads file and log consistently. Only SQLite may open the file. If other code of the same process
opened and closed the file, the locks of SQLite would be lost (SQLite, 'How To Corrupt An SQLite Database File', 2.2.1).
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from custodes.data.loading.source import is_input_stream
from custodes.errors import CustodesError, InputError

T = TypeVar("T")

ANNOTATION_STUDY = 0x43555354
"""The application id of an annotation study ('CUST')."""

LOCK_TIMEOUT = 5.0
"""Seconds to wait for a lock of another program."""

TRIES = 5
"""Attempts to read a file that changes during reading."""

OPTIONS_WITHOUT_WRITER, OPTIONS_WITH_WRITER = "mode=ro&immutable=1", "mode=ro"
"""Options for opening a file without writers, and options for a file that may have a writer."""


def is_study(path: Path) -> bool:
    """Whether a file is an annotation study according to its first bytes; False for streams and folders."""
    if is_input_stream(path) or not path.is_file():
        return False
    path = path.resolve()  # SQLite looks for the log next to the target of a link
    try:
        with closing(_connect_to_file(path, OPTIONS_WITHOUT_WRITER)) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == ANNOTATION_STUDY)
    except sqlite3.Error:
        return False


def read_one_state(path: Path, read_connection: Callable[[sqlite3.Connection], T]) -> T:
    """The result of a function that is applied to one consistent state of a file with all committed changes.

    Raises `InputError` if the file cannot be read, or changes during every attempt.
    """
    path, file_name = path.resolve(), path.name
    try:
        for _ in range(TRIES):
            file_state_before = _file_state(path)
            with _open_study(path) as (connection, is_consistent_while_written):
                connection.execute("BEGIN")
                check_sound(connection)
                read_result = read_connection(connection)
            if is_consistent_while_written or _file_state(path) == file_state_before:
                return read_result
    except CustodesError:
        raise
    except Exception as error:  # rows changed by another program can be inconsistent in any way
        raise InputError(
            f"{file_name}: cannot be read ({failure_reason(error)}); give a complete copy (custodes annotate backup)"
        ) from error
    raise InputError(
        f"{file_name}: the file changed during every attempt to read it; read a copy (custodes annotate backup)"
    )


def check_sound(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` or `UnicodeDecodeError` for a damaged file. The checks cover the structure of the
    file, the types of columns, references between tables, and the encoding of text (UTF-8)."""
    ((integrity_text,),) = connection.execute("PRAGMA integrity_check(1)")
    if integrity_text != "ok":
        raise sqlite3.DatabaseError(integrity_text.splitlines()[-1])
    violated_reference = connection.execute("PRAGMA foreign_key_check").fetchone()
    if violated_reference is not None:
        table_name, parent_table_name = violated_reference[0], violated_reference[2]
        raise sqlite3.DatabaseError(f"rows of {table_name} refer to rows of {parent_table_name} that do not exist")
    for table_name, column_names_text in connection.execute(
        "SELECT m.name, group_concat('\"' || c.name || '\"') FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND c.type = 'TEXT' GROUP BY m.name"
    ).fetchall():
        for _ in connection.execute(f'SELECT {column_names_text} FROM "{table_name}"'):
            pass  # fetching decodes the text


def failure_reason(error: Exception) -> str:
    """Why a file is unreadable, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return str(error) if isinstance(error, sqlite3.Error | OSError) else "inconsistent rows"


@contextmanager
def _open_study(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A read-only connection, and whether the connection sees a consistent state while other programs write.

    A running or killed server leaves a log with an index (`-shm`), which SQLite shares with the server. A log without
    an index was copied together with the file from another folder. SQLite would create an index next to this log, so a
    temporary copy of file and log is read. If there is no log, SQLite is also prevented from creating files.
    """
    has_log = _log_size(path) > 0
    if not has_log or path.with_name(f"{path.name}-shm").exists():
        with closing(_connect_to_file(path, OPTIONS_WITH_WRITER if has_log else OPTIONS_WITHOUT_WRITER)) as connection:
            yield connection, has_log
    else:
        with TemporaryDirectory() as temporary_folder:
            study_copy_path = Path(temporary_folder) / "study.db"
            shutil.copyfile(path, study_copy_path)
            shutil.copyfile(_log_path(path), _log_path(study_copy_path))
            with closing(sqlite3.connect(study_copy_path, timeout=LOCK_TIMEOUT, isolation_level=None)) as connection:
                yield connection, False


def _connect_to_file(path: Path, uri_options: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?{uri_options}", uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)


def _log_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _log_size(path: Path) -> int:
    """The size of the log in bytes."""
    log_path = _log_path(path)
    return log_path.stat().st_size if log_path.is_file() else 0


def _file_state(path: Path) -> tuple[int, ...]:
    file_status = path.stat()
    return file_status.st_size, file_status.st_mtime_ns, _log_size(path)
