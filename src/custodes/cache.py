"""Caches: scores and replies in a SQLite file, and texts in the user's folder.

The key of a score or reply is a hash of everything that can change the value.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from custodes.errors import InputError, OptionError, short_repr
from custodes.files import check_writable, write_atomically

APPLICATION = 0x43555341
"""The application id of a cache (`CUSA`), unique among SQLite files."""
VERSION = 1
WAIT = 60.0
"""Seconds that a run waits for the write lock of another run."""

SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS score (
    key TEXT PRIMARY KEY, metric TEXT NOT NULL, "values" BLOB NOT NULL, truncated INTEGER NOT NULL, why TEXT NOT NULL,
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reply (key TEXT PRIMARY KEY, reply BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS request (key TEXT PRIMARY KEY, request BLOB NOT NULL);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""


class KeptScore(NamedTuple):
    """The stored score of one output.

    The values are float64 as bytes: one value, or one value per reference. The other fields are whether a text was
    truncated, the reason for a missing score ('' if there is a score), and the CPU seconds."""

    key: str
    metric: str
    values: bytes
    truncated: bool
    why: str
    seconds: float


class Cache(AbstractContextManager["Cache"]):
    """Cached values in a file, or in memory for one run if `path` is None.

    Each reply, and the scores of each call of a metric, are committed separately, so a killed run loses only the work
    in progress. Several runs may use the same file at the same time. A missing file is created when the first value is
    stored.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        if path is not None:
            check_writable(path)
        if self._exists():
            with self._transaction():  # other files are rejected before the work
                pass

    def _exists(self) -> bool:
        return self._connection is not None or self.path is None or Path(self.path).exists()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the open file: either all statements are written or none.

        An error of SQLite becomes an InputError with a message of one line."""
        try:
            if self._connection is None:
                self._connection = self._open_database()
            with self._connection as connection:
                yield connection
        except sqlite3.Error as problem:
            raise InputError(
                f"{short_repr(str(self.path))}: this is not a file of cached scores or replies ({problem}); give "
                "another file with --cache"
            ) from None

    def _open_database(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            timeout=WAIT,
            isolation_level="IMMEDIATE",
            check_same_thread=False,
        )
        try:
            # Another run may create the file at the same time; once it has tables, it is complete.
            n_tables, application_id, schema_version = (
                connection.execute(query).fetchone()[0]
                for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
            )
            if n_tables and (application_id, schema_version) != (APPLICATION, VERSION):
                version_text = (
                    f"of version {schema_version}, not {VERSION}"
                    if application_id == APPLICATION
                    else "of another program"
                )
                raise InputError(
                    f"{short_repr(str(self.path))}: this database is {version_text}; name another file with --cache"
                )
            connection.executescript(SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def scores(self, keys: Sequence[str]) -> dict[str, KeptScore]:
        """The stored scores of these keys, by key."""
        return {score_row[0]: KeptScore(*score_row) for score_row in self._rows("score", keys)}

    def seconds_of(self, metric: str) -> float | None:
        """The mean CPU seconds of the stored scores of a metric."""
        if not self._exists():
            return None
        with self._transaction() as connection:
            (mean_seconds,) = connection.execute("SELECT avg(seconds) FROM score WHERE metric = ?", [metric]).fetchone()
        return None if mean_seconds is None else float(mean_seconds)

    def keep_scores(self, rows: Iterable[KeptScore]) -> None:
        """Store all these scores or none of them. Scores that are stored already are not replaced."""
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO score VALUES (?, ?, ?, ?, ?, ?)", rows)

    def replies(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The stored replies of these keys, by key. Because requests are long, the requests are stored in another table
        than the replies."""
        return dict(self._rows("reply", keys))

    def keep_reply(self, key: str, reply: bytes, request: bytes) -> None:
        """Store a reply and its request, both as JSON. Stored replies and requests are not replaced."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO reply VALUES (?, ?)", (key, reply))
            connection.execute("INSERT OR IGNORE INTO request VALUES (?, ?)", (key, request))

    def _rows(self, table_name: str, keys: Sequence[str]) -> list[Any]:
        if not self._exists():
            return []
        with self._transaction() as connection:
            return connection.execute(
                f"SELECT * FROM {table_name} WHERE key IN (SELECT value FROM json_each(?))", [json.dumps(sorted(keys))]
            ).fetchall()

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()


ALONE = 0o700
"""Mode of the cache folder: other users can neither read nor write the folder, because its files become part of
pages."""


def cached_text(name: str, make: Callable[[], str]) -> str:
    """The text that is stored in the user's folder under a name, which includes a version.

    A missing text is computed by `make` and stored. The cache is for texts that take seconds to compute and depend only
    on the versions of libraries. If the text cannot be stored, it is computed every time. Damaged files and folders
    that other users can open are not used.

    >>> cached_text("doctest-2", lambda: "result")
    'result'
    """
    cache_path = cache_folder() / name
    if (stored_text := _read_text(cache_path)) is not None:
        return stored_text
    computed_text = make()
    with suppress(OSError, OptionError):
        cache_path.parent.mkdir(mode=ALONE, parents=True, exist_ok=True)
        write_atomically(cache_path, _digest(computed_text) + "\n" + computed_text)
    return computed_text


def cache_folder() -> Path:
    """The user's cache folder on this system."""
    return user_cache_path("custodes", appauthor=False)


def _read_text(cache_path: Path) -> str | None:
    """The stored text, or None if the text is incomplete or was written by another user."""
    try:
        folder_stat = os.stat(cache_path.parent)
        if hasattr(os, "getuid") and (folder_stat.st_uid != os.getuid() or folder_stat.st_mode & 0o777 & ~ALONE):
            return None
        stored_digest, _, stored_text = cache_path.read_bytes().decode().partition("\n")
    except (OSError, ValueError):  # missing, an invalid name, or not text
        return None
    return stored_text if stored_digest == _digest(stored_text) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
