"""A study of people's answers, which a server may be writing: one state of its SQLite file, read without a trace.

What was written last stands in a write-ahead log beside the file (`-wal`), also where the server was killed. SQLite
reads both as of one moment. All goes through SQLite: a process that has such a file open loses its locks on it as soon
as anything else in it opens the file and closes it again (SQLite, 'How To Corrupt An SQLite Database File', 2.2.1).
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from custodes.data.loading.source import is_stream
from custodes.errors import CustodesError, InputError

T = TypeVar("T")

ANNOTATION_STUDY = 0x43555354
"""The application id of a study of people's answers ('CUST')."""

PATIENCE = 5.0
"""Seconds to wait for a lock that another program holds."""

TRIES = 5
"""How often a file that changes while it is read is read anew."""

ALONE, SHARED = "mode=ro&immutable=1", "mode=ro"
"""How a file is opened that nobody writes, and one that somebody may be writing."""


def is_study(path: Path) -> bool:
    """Whether a file is a study of people's answers, by its own first bytes; a stream and a folder are none."""
    if is_stream(path) or not path.is_file():
        return False
    path = path.resolve()  # what lies beside a link lies beside what it points to
    try:
        with closing(_connected(path, ALONE)) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == ANNOTATION_STUDY)
    except sqlite3.Error:
        return False


def of_one_state(path: Path, ask: Callable[[sqlite3.Connection], T]) -> T:
    """What a function says of a file as it is at one moment, with all that was committed.

    Raises `InputError` where the file cannot be read, and where it changes each time that it is tried.
    """
    path, name = path.resolve(), path.name
    try:
        for _ in range(TRIES):
            before = _state(path)
            with _opened(path) as (connection, lasting):
                connection.execute("BEGIN")
                check_sound(connection)
                answer = ask(connection)
            if lasting or _state(path) == before:
                return answer
    except CustodesError:
        raise
    except Exception as error:  # rows that another program changed break any rule of how they fit together
        raise InputError(
            f"{name}: cannot be read ({reason(error)}); give a complete copy (custodes annotate backup)"
        ) from error
    raise InputError(
        f"{name}: the file changed during every attempt to read it; read a copy (custodes annotate backup)"
    )


def check_sound(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` or `UnicodeDecodeError` where a file is damaged: its structure, the types of its
    columns, references between its tables, and text that is not UTF-8."""
    ((fault,),) = connection.execute("PRAGMA integrity_check(1)")
    if fault != "ok":
        raise sqlite3.DatabaseError(fault.splitlines()[-1])
    reference = connection.execute("PRAGMA foreign_key_check").fetchone()
    if reference is not None:
        table, _, parent, _ = reference
        raise sqlite3.DatabaseError(f"rows of {table} refer to rows of {parent} that do not exist")
    texts = connection.execute(
        "SELECT m.name, group_concat('\"' || c.name || '\"') FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND c.type = 'TEXT' GROUP BY m.name"
    ).fetchall()
    for table, columns in texts:
        for _ in connection.execute(f'SELECT {columns} FROM "{table}"'):
            pass  # text is decoded where it is fetched


def reason(error: Exception) -> str:
    """What is wrong with a damaged file, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    return str(error) if isinstance(error, sqlite3.Error | OSError) else "inconsistent rows"


def whole(path: Path) -> bytes:
    """The bytes of the file as if nothing stood beside it."""
    return of_one_state(path, lambda connection: connection.serialize())


@contextmanager
def _opened(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A connection that only reads, and whether what it sees is of one moment whatever others write.

    Where there is a log and its index (`-shm`), as beside a server that runs or was killed, SQLite shares both. A log
    without one came with a copy; an index would be made beside it, so that a copy of both is read. Without a log
    nothing may be made either.
    """
    if not _log(path):
        with closing(_connected(path, ALONE)) as connection:
            yield connection, False
    elif path.with_name(f"{path.name}-shm").exists():
        with closing(_connected(path, SHARED)) as connection:
            yield connection, True
    else:
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "study.db"
            shutil.copyfile(path, copy)
            shutil.copyfile(_beside(path), _beside(copy))
            with closing(sqlite3.connect(copy, timeout=PATIENCE, isolation_level=None)) as connection:
                yield connection, False


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=PATIENCE, isolation_level=None)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _log(path: Path) -> int:
    """The size of the log."""
    log = _beside(path)
    return log.stat().st_size if log.is_file() else 0


def _state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, _log(path)
