"""The file of a study: made whole or not at all, told from other files, held by one server, brought to this version."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from errno import EACCES
from pathlib import Path
from typing import BinaryIO

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.annotate.schema import (
    INDEXES,
    LACKING,
    NOT_JSON,
    NOT_REFERENCES,
    REFERENCES,
    SET_VERSION,
    SOURCES,
    TABLES,
    VERSION,
    VIEWS,
)
from custodes.data.loading.running import check_sound, is_study, reason
from custodes.errors import CustodesError, InputError, OptionError, shown
from custodes.files import check_writable
from custodes.process import UNFINISHED

WAIT = 5.0
"""Seconds that a statement waits for another program that writes."""

MIGRATIONS: Mapping[int, Sequence[str]] = {
    1: (f"ALTER TABLE item ADD COLUMN {REFERENCES}", "DROP VIEW sources", SOURCES, "PRAGMA user_version = 2"),
}
"""Statements that make the next version of a version, in one transaction each."""


class StudyBusy(CustodesError):  # noqa: N818  said of the study
    """The file of a study cannot be written now (a full disk, another program); nothing is lost; try again."""


def create(path: str | Path, plan: StudyPlan, fill: Callable[[sqlite3.Connection], None]) -> Path:
    """Make the file of a study, whole or not at all: tables, plan, and what `fill` puts in (one transaction).

    A file that is there already is never replaced: `OptionError`.
    """
    place = check_writable(path)
    if place.exists():
        raise OptionError(f"{place} is there already, and may hold answers; choose another name or move it")
    with _unfinished(place) as name:
        with told(place), closing(sqlite3.connect(name, isolation_level=None)) as base:
            with whole(base):
                for script in (TABLES, INDEXES, VIEWS):
                    _run(base, script)
                base.execute(
                    "INSERT INTO plan VALUES (1, ?, ?)", (time.time(), msgspec.json.encode(plan).decode("utf-8"))
                )
                fill(base)
                base.execute("PRAGMA application_id = 0x43555354")
                base.execute(SET_VERSION)
            base.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(name, place)  # unlike a rename it replaces nothing
        except FileExistsError:
            raise OptionError(f"{place} is there already, and may hold answers; choose another name") from None
        except OSError:  # a file system without links
            os.rename(name, place)
    return place


def connect(path: Path, *, durable: bool, reading: bool = False) -> sqlite3.Connection:
    """A connection to a study's file; `durable`: what is committed survives a power cut."""
    base = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:
        base.execute("PRAGMA foreign_keys = ON")
        if reading:
            base.execute("PRAGMA query_only = ON")
            return base
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA secure_delete = ON")  # who is forgotten is overwritten
        base.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = OFF")
    except BaseException:
        base.close()
        raise
    return base


def copy(path: Path, place: Path) -> Path:
    """A copy of a study that may be written meanwhile: whole, as it was at one moment.

    An earlier copy of the same study is replaced, and nothing else: `OptionError` for another file, and for a study
    that somebody serves; `InputError` where the study is damaged.
    """
    with _unfinished(place) as name, ExitStack() as held:
        with (
            told(path),
            closing(connect(path, durable=False, reading=True)) as base,
            closing(sqlite3.connect(name, isolation_level=None)) as made,
        ):
            base.backup(made)
            ((fault,),) = made.execute("PRAGMA quick_check(1)")
            if fault != "ok":
                raise sqlite3.DatabaseError(fault.splitlines()[-1])
        if place.exists():
            if place.samefile(path) or _began(place) != _began(name):
                raise OptionError(f"{place} is there, and no earlier copy of this study; choose another name")
            held.callback(Lock(place).release)
        os.replace(name, place)
    return place


def _began(path: Path) -> object:
    """What only copies of one study have in common; None for another file."""
    try:
        with closing(connect(check(path), durable=False, reading=True)) as base:
            return base.execute("SELECT at, json FROM plan WHERE version = 1").fetchone()
    except (InputError, sqlite3.Error):
        return None


@contextmanager
def _unfinished(place: Path) -> Iterator[Path]:
    """A file beside a place, for its owner alone, that is taken away unless it has been put there."""
    name = place.with_name(f".custodes-{os.urandom(8).hex()}")
    UNFINISHED.add(str(name))
    try:
        name.touch(mode=0o600)
        yield name
    finally:
        for left in (name, Path(f"{name}-wal"), Path(f"{name}-shm")):
            with suppress(OSError):
                left.unlink()
        UNFINISHED.discard(str(name))


def check(path: str | Path) -> Path:
    """The real path of a study's file; `InputError` for what is none."""
    place = Path(os.path.realpath(path))
    way = "custodes annotate new makes one"
    try:
        place.stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {way}") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    if not os.access(place, os.R_OK):
        raise InputError(f"{path}: cannot be read ({os.strerror(EACCES)})")
    if not is_study(place):
        raise InputError(f"{path}: not a study of people's answers; {way}")
    with told(path), closing(connect(place, durable=False, reading=True)) as base:
        ((found,),) = base.execute("PRAGMA user_version")
        _check_version(found, path)
        check_sound(base)
        _check_content(base, found)
    return place


def _check_content(base: sqlite3.Connection, version: int) -> None:
    """Raise `sqlite3.DatabaseError` where a study lacks its plan or an output that it asks about, or holds no JSON in a
    column of JSON."""
    if base.execute("SELECT count(*) FROM plan").fetchone() == (0,):
        raise sqlite3.DatabaseError("a study without a plan")
    if base.execute(LACKING).fetchone() != (0,):
        raise sqlite3.DatabaseError("outputs that it asks about are not there")
    for query in (NOT_JSON, NOT_REFERENCES)[:version]:
        if (column := base.execute(query).fetchone()) is not None:
            raise sqlite3.DatabaseError(f"{column[0]} holds no JSON of its kind")


def _check_version(found: int, path: str | Path) -> None:
    if found > VERSION:
        raise InputError(f"{path}: a study of version {found}, and this custodes knows {VERSION}; upgrade custodes")


def migrate(base: sqlite3.Connection, path: str | Path) -> None:
    """Bring a file to this version, one transaction a version; `InputError` for one of a later version."""
    (found,) = base.execute("PRAGMA user_version").fetchone()
    _check_version(found, path)
    for version in range(found, VERSION):
        if version not in MIGRATIONS:
            raise InputError(f"{path}: a study of version {found}, which this custodes does not know any more")
        with whole(base):
            for statement in MIGRATIONS[version]:
                base.execute(statement)


@contextmanager
def whole(base: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
        base.execute("COMMIT")
    except BaseException:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise


@contextmanager
def told(path: str | Path) -> Iterator[None]:
    """What SQLite refuses is one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as problem:
        raise InputError(
            f"{shown(str(path))}: this study cannot be read or written ({reason(problem)}); put a backup in its place,"
            " or choose another place"
        ) from None


def _run(base: sqlite3.Connection, script: str) -> None:
    """The statements of a script, inside the transaction that is open (`executescript` would end it)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            base.execute(statement)
            statement = ""


class Lock:
    """The one server of a study: a lock of the file beside it, which ends with the process."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = Path(f"{path}.lock").open("ab")  # noqa: SIM115  held until released
        try:
            _hold(self._file)
        except OSError:
            self._file.close()
            raise InputError(
                f"{path}: another program serves this study; end that one, or ask it (its owner's page)"
            ) from None

    def release(self) -> None:
        """Let another one hold it."""
        self._file.close()


def _hold(file: BinaryIO) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
