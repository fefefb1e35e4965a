"""Answers that were paid for once: a SQLite file of scores and replies, under a hash of all that could change them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from custodes.errors import InputError, shown
from custodes.files import check_writable

ANSWERS = 0x43555341
"""The application id of a file of ours (`CUSA`), by which SQLite files are told apart."""

VERSION = 1
WAIT = 60.0  # seconds that one run waits for another that writes

SCHEMA = """
CREATE TABLE score (
    key TEXT PRIMARY KEY, metric TEXT NOT NULL, "values" BLOB NOT NULL, truncated INTEGER NOT NULL, why TEXT NOT NULL,
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE reply (key TEXT PRIMARY KEY, reply BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE request (key TEXT PRIMARY KEY, request BLOB NOT NULL);
"""


@contextmanager
def _whole(base: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


class KeptScore(NamedTuple):
    """What a metric said of one output: float64 values as bytes (one a reference, or one), whether a text was cut to
    fit, why there is no score ('' where there is), CPU seconds."""

    key: str
    metric: str
    values: bytes
    truncated: bool
    why: str
    seconds: float


class Cache:
    """A file of answers, or a place in memory for one run (`path` None).

    Every answer is committed as it comes, so that a run that is killed loses what was in flight and no more. Several
    runs may use one file at once. A file that is not there is made when there is something to keep.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = path
        self._opened: sqlite3.Connection | None = None
        if path is not None:
            check_writable(path)
        if self._is_there():
            _ = self._base  # what is no file of ours is told of before the work

    def _is_there(self) -> bool:
        return self._opened is not None or self.path is None or Path(self.path).exists()

    @property
    def _base(self) -> sqlite3.Connection:
        if self._opened is None:
            with self._told():
                place = ":memory:" if self.path is None else self.path
                base = sqlite3.connect(place, timeout=WAIT, isolation_level=None, check_same_thread=False)
                try:
                    self._prepare(base)
                except BaseException:
                    base.close()
                    raise
                self._opened = base
        return self._opened

    def _prepare(self, base: sqlite3.Connection) -> None:
        self._check(base)  # before anything is changed: the file may be somebody else's
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = NORMAL")
        with _whole(base):
            if self._check(base):
                for statement in filter(str.strip, SCHEMA.split(";")):
                    base.execute(statement)
                base.execute(f"PRAGMA application_id = {ANSWERS}")
                base.execute(f"PRAGMA user_version = {VERSION}")

    def _check(self, base: sqlite3.Connection) -> bool:
        """Whether it is still to be made; `InputError` for a database that is not ours."""
        # Another run may make it meanwhile: where there are tables, there is all else.
        (tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (kind,) = base.execute("PRAGMA application_id").fetchone()
        (version,) = base.execute("PRAGMA user_version").fetchone()
        if tables and (kind, version) != (ANSWERS, VERSION):
            what = f"of version {version}, and this is {VERSION}" if kind == ANSWERS else "of somebody else"
            raise InputError(f"{shown(str(self.path))}: a database {what}; name another file by --cache")
        return not tables

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite refuses is one line: no such folder, no database, a full disk, another run that holds it."""
        try:
            yield
        except sqlite3.Error as problem:
            raise InputError(
                f"{shown(str(self.path))}: no file of kept answers ({problem}); name another by --cache"
            ) from None

    def scores(self, keys: Sequence[str]) -> dict[str, KeptScore]:
        """Those of the scores that are kept, by key."""
        return {row[0]: KeptScore(*row) for row in self._found("score", keys)}

    def seconds_of(self, metric: str) -> float | None:
        """The mean CPU seconds of what is kept of a metric."""
        if not self._is_there():
            return None
        with self._told():
            (mean,) = self._base.execute("SELECT avg(seconds) FROM score WHERE metric = ?", [metric]).fetchone()
        return None if mean is None else float(mean)

    def keep_scores(self, rows: Iterable[KeptScore]) -> None:
        """Keep scores, all or none; one that is there already stays."""
        with self._told(), _whole(self._base):
            self._base.executemany("INSERT OR IGNORE INTO score VALUES (?, ?, ?, ?, ?, ?)", rows)

    def replies(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Stored replies by key. Requests, which are long, stand in a table of their own."""
        return dict(self._found("reply", keys))

    def keep_reply(self, key: str, reply: bytes, request: bytes) -> None:
        """Keep a reply and its request, both JSON; one that is there already stays."""
        with self._told(), _whole(self._base):
            self._base.execute("INSERT OR IGNORE INTO reply VALUES (?, ?)", (key, reply))
            self._base.execute("INSERT OR IGNORE INTO request VALUES (?, ?)", (key, request))

    def _found(self, table: str, keys: Sequence[str]) -> list[Any]:
        if not self._is_there():
            return []
        with self._told():
            question = f"SELECT * FROM {table} WHERE key IN (SELECT value FROM json_each(?))"
            return self._base.execute(question, [json.dumps(sorted(keys))]).fetchall()

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
