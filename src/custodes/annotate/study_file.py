"""The study file: its tables and views, atomic creation, copies, checks, and a lock for its server.

Every event is a row. `assignment` holds the questions that annotators saw, and `judgment` holds their answers. A
correction is a further assignment of the same unit, whose column `again` names the earlier assignment. An interim
analysis (`look`) is written together with the answer that completed it, and is never changed. Workers, assignments,
judgments, exclusions and events share one numbering. The numbers give the order of the rows independently of the clock.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.data.loading.live_study import ANNOTATION_STUDY, check_sound, failure_reason, is_study
from custodes.errors import CustodesError, InputError, OptionError, reject, short_repr
from custodes.files import check_writable, lock
from custodes.process import UNFINISHED

VERSION = 4
SET_ID, SET_VERSION = f"PRAGMA application_id = {ANNOTATION_STUDY}", f"PRAGMA user_version = {VERSION}"
"""Statements that mark a file as a study, and write the version of this layout."""

TABLES = """
CREATE TABLE plan (version INTEGER PRIMARY KEY, at REAL NOT NULL, json TEXT NOT NULL) STRICT;
CREATE TABLE item (
    item INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, cluster TEXT NOT NULL, grp TEXT NOT NULL,
    source TEXT NOT NULL, context TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, meta TEXT NOT NULL,
    refs TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE TABLE system (system INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, at REAL NOT NULL) STRICT;
CREATE TABLE output (
    item INTEGER NOT NULL REFERENCES item, system INTEGER NOT NULL REFERENCES system,
    text TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, PRIMARY KEY (item, system)
) STRICT, WITHOUT ROWID;
CREATE TABLE media (name TEXT PRIMARY KEY, type TEXT NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE TABLE pair (
    pair INTEGER PRIMARY KEY, first INTEGER NOT NULL REFERENCES system, second INTEGER REFERENCES system,
    UNIQUE (first, second)
) STRICT;
CREATE TABLE unit (
    unit INTEGER PRIMARY KEY, pair INTEGER NOT NULL REFERENCES pair, place INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES item, UNIQUE (pair, place), UNIQUE (pair, item)
) STRICT;
CREATE TABLE metric (unit INTEGER PRIMARY KEY REFERENCES unit, rater TEXT NOT NULL, preference INTEGER NOT NULL) STRICT;
CREATE TABLE gold (
    gold INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('gold', 'attention', 'qualification', 'example')),
    context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, media TEXT NOT NULL,
    expected INTEGER NOT NULL, why TEXT NOT NULL
) STRICT;
CREATE TABLE worker (
    worker INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, source TEXT NOT NULL, external_hash TEXT NOT NULL,
    external_id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, at REAL NOT NULL, UNIQUE (source, external_hash)
) STRICT;
CREATE TABLE assignment (
    assignment INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, batch INTEGER NOT NULL,
    number INTEGER NOT NULL, unit INTEGER REFERENCES unit, gold INTEGER REFERENCES gold,
    role TEXT NOT NULL CHECK (role IN ('primary', 'second', 'gold', 'attention', 'qualification')),
    flip INTEGER NOT NULL, look INTEGER, again INTEGER REFERENCES assignment, at REAL NOT NULL,
    p_role REAL, p_pair REAL
) STRICT;
CREATE TABLE judgment (
    judgment INTEGER PRIMARY KEY, assignment INTEGER NOT NULL REFERENCES assignment, aspect TEXT NOT NULL,
    role TEXT NOT NULL, answer REAL, reason TEXT NOT NULL,
    visible_seconds REAL, server_seconds REAL NOT NULL, at REAL NOT NULL,
    late INTEGER NOT NULL, UNIQUE (assignment, aspect)
) STRICT;
CREATE TABLE look (
    pair INTEGER NOT NULL REFERENCES pair, look INTEGER NOT NULL, n INTEGER NOT NULL, wins INTEGER NOT NULL,
    ties INTEGER NOT NULL, losses INTEGER NOT NULL, decision INTEGER NOT NULL, is_open INTEGER NOT NULL,
    theta REAL, margin REAL, low REAL, high REAL, used TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (pair, look)
) STRICT;
CREATE TABLE exclusion (
    exclusion INTEGER PRIMARY KEY, worker INTEGER NOT NULL UNIQUE REFERENCES worker,
    by TEXT NOT NULL CHECK (by IN ('rule', 'owner')), reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE TABLE event (
    event INTEGER PRIMARY KEY, at REAL NOT NULL, worker INTEGER REFERENCES worker,
    assignment INTEGER REFERENCES assignment, kind TEXT NOT NULL, json TEXT NOT NULL
) STRICT;
"""

NO_PLAN = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM plan)"

NOT_JSON = """
SELECT 'plan.json' FROM plan WHERE json_type(json) IS NOT 'object'
UNION ALL SELECT 'item.media' FROM item WHERE json_type(media) IS NOT 'array'
UNION ALL SELECT 'output.media' FROM output WHERE json_type(media) IS NOT 'array'
UNION ALL SELECT 'gold.media' FROM gold WHERE json_type(media) IS NOT 'object'
UNION ALL SELECT 'event.json' FROM event WHERE json_type(json) IS NULL
UNION ALL SELECT 'item.refs' FROM item WHERE json_type(refs) IS NOT 'array'
LIMIT 1
"""
"""Query of columns whose JSON has the wrong type. SQLite itself reports invalid JSON."""

LACKING = """
SELECT 1 FROM unit u JOIN pair p ON p.pair = u.pair JOIN system s ON s.system IN (p.first, p.second)
WHERE NOT EXISTS (SELECT 1 FROM output o WHERE o.item = u.item AND o.system = s.system)
LIMIT 1
"""
"""Query of questions with a missing output."""

PROBLEM_QUERIES = {
    NO_PLAN: "a study without a plan",
    LACKING: "outputs of comparisons are missing",
    NOT_JSON: "{} does not hold the expected JSON",
}
"""Queries that find errors in a study file, each with the message for a returned row. In a valid file, no query returns
a row."""

INDEXES = """
CREATE INDEX assignment_again ON assignment (again) WHERE again IS NOT NULL;
"""

VIEWS = """
-- Annotators, and whether they are excluded.
CREATE VIEW standing AS
SELECT w.worker, w.label, w.source, w.at, EXISTS (SELECT 1 FROM exclusion e WHERE e.worker = w.worker) AS excluded
FROM worker w;

-- All answers. `answer` is a rating, or the preference for system_a (for a control question, for its first output).
-- `role`: use of the answer (primary, second, gold, attention, qualification). `taken_back`: the answer was withdrawn.
CREATE VIEW answers AS
SELECT
    j.judgment AS answer_id, g.label AS rater, g.source AS source, i.label AS item, a1.label AS system_a,
    a2.label AS system_b, j.aspect AS aspect, j.answer AS answer, j.reason AS reason,
    j.role AS role, a.role AS asked_as, CASE a.flip WHEN 0 THEN 'ab' ELSE 'ba' END AS "order",
    o.kind AS known, o.expected AS expected, a.batch AS batch, a.number AS number,
    a.look + 1 AS look, u.place AS place, a.p_role AS p_role, a.p_pair AS p_pair,
    j.visible_seconds AS visible_seconds, j.server_seconds AS server_seconds,
    a.at AS asked_at, j.at AS answered_at, j.late AS late,
    EXISTS (SELECT 1 FROM assignment c WHERE c.again = a.assignment) AS taken_back, g.excluded AS excluded,
    a.assignment AS assignment, a.unit AS unit, a.gold AS gold, p.pair AS pair
FROM judgment j
JOIN assignment a ON a.assignment = j.assignment
JOIN standing g ON g.worker = a.worker
LEFT JOIN unit u ON u.unit = a.unit
LEFT JOIN pair p ON p.pair = u.pair
LEFT JOIN item i ON i.item = u.item
LEFT JOIN system a1 ON a1.system = p.first
LEFT JOIN system a2 ON a2.system = p.second
LEFT JOIN gold o ON o.gold = a.gold;

-- Comparisons that were not withdrawn, without excluded annotators. `invalid`: reason for a missing preference.
CREATE VIEW battles AS
SELECT item, system_a, system_b, rater, 'human' AS kind, aspect, '' AS repeat, "order",
    CAST(answer AS INTEGER) AS preference, CASE WHEN answer IS NULL THEN reason ELSE '' END AS invalid, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NOT NULL AND NOT taken_back AND NOT excluded ORDER BY answer_id;

-- Ratings that were not withdrawn, without excluded annotators.
CREATE VIEW ratings AS
SELECT item, system_a AS system, rater, 'human' AS kind, aspect, answer AS score, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NULL AND answer IS NOT NULL AND NOT taken_back AND NOT excluded
ORDER BY answer_id;

-- Annotators, without data that identify them.
CREATE VIEW raters AS
SELECT label AS rater, 'human' AS kind, 1 AS person, source, excluded, date(at, 'unixepoch') AS date FROM standing
ORDER BY worker;

CREATE VIEW items AS SELECT label AS item, cluster, grp AS "group" FROM item ORDER BY item.item;

CREATE VIEW outputs AS
SELECT i.label AS item, s.label AS system, o.text AS text FROM output o
JOIN item i ON i.item = o.item JOIN system s ON s.system = o.system ORDER BY o.item, o.system;

CREATE VIEW sources AS SELECT label AS item, source AS source, context AS context, refs AS "references" FROM item
ORDER BY item.item;

-- Interim analyses as they were decided, which are never rewritten. The first analysis of a pair has the number 1 here
-- and in `answers`, but the number 0 in the tables.
CREATE VIEW looks AS
SELECT a.label AS system_a, b.label AS system_b, l.look + 1 AS look, l.n, l.wins, l.ties, l.losses, l.decision,
    l.is_open, l.theta, l.margin, l.low, l.high, l.used, l.at
FROM look l JOIN pair p ON p.pair = l.pair JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second
ORDER BY l.pair, l.look;
"""
CREATE_ALL = f"BEGIN; {TABLES} {INDEXES} {VIEWS} COMMIT;"
"""Statements that create the tables, indexes and views. Views have labels instead of numbers, in formats that `read`
accepts."""


class WorkerRow(NamedTuple):
    """An annotator was invited or arrived."""

    worker: int
    label: str
    source: str
    external_hash: str
    external_id: str
    token_hash: str
    at: float


class AssignmentRow(NamedTuple):
    """A question was assigned to an annotator."""

    assignment: int
    worker: int
    batch: int
    number: int
    unit: int | None
    gold: int | None
    role: str
    flip: int
    look: int | None
    again: int | None
    at: float
    p_role: float | None
    p_pair: float | None


class JudgmentRow(NamedTuple):
    """A question was answered in one aspect. If `answer` is None, the question could not be judged, and `reason` says
    why."""

    judgment: int
    assignment: int
    aspect: str
    role: str
    answer: float | None
    reason: str
    visible_seconds: float | None
    server_seconds: float
    at: float
    late: int


class ExclusionRow(NamedTuple):
    """An annotator was excluded."""

    exclusion: int
    worker: int
    by: str
    reason: str
    at: float


class EventRow(NamedTuple):
    """An event of any other kind."""

    event: int
    at: float
    worker: int | None
    assignment: int | None
    kind: str
    json: str


Row = WorkerRow | AssignmentRow | JudgmentRow | ExclusionRow | EventRow

WRITING: dict[type, str] = {
    WorkerRow: "INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?, ?)",
    AssignmentRow: "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    JudgmentRow: "INSERT INTO judgment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    ExclusionRow: "INSERT INTO exclusion VALUES (?, ?, ?, ?, ?)",
    EventRow: "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
}

READING: dict[type, str] = {
    WorkerRow: "SELECT * FROM worker ORDER BY worker",
    AssignmentRow: "SELECT * FROM assignment ORDER BY assignment",
    JudgmentRow: "SELECT * FROM judgment ORDER BY judgment",
    ExclusionRow: "SELECT * FROM exclusion ORDER BY exclusion",
    EventRow: "SELECT * FROM event ORDER BY event",
}


def iter_log_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Iterate over all rows in chronological order, which is the order of their common numbering. The rows are read one
    at a time, because there may be many."""
    row_iterators = (
        map(partial(tuple.__new__, row_class), connection.execute(query)) for row_class, query in READING.items()
    )
    return merge(*row_iterators, key=itemgetter(0))


WAIT = 5.0
"""Seconds that a statement waits while another program holds the write lock."""


class StudyBusy(CustodesError):  # noqa: N818  the name describes the study
    """The study file cannot be written now, because the disk is full or another program is writing. Nothing is lost,
    and the operation can be repeated."""


def create(path: str | Path, plan: StudyPlan, fill: Callable[[sqlite3.Connection], None]) -> Path:
    """Create a study file with the tables, the plan, and the content that `fill` writes. The file is created completely
    or not at all.

    Raise `OptionError` if the file exists, because existing files are never replaced.
    """
    study_path = check_writable(path)
    if study_path.exists():
        raise OptionError(
            f"{study_path} exists already, and may contain answers; choose another name, or move the file"
        )
    with _temporary_file(study_path) as temporary_path:
        with sqlite_errors(study_path), closing(sqlite3.connect(temporary_path, isolation_level=None)) as connection:
            connection.executescript(CREATE_ALL)
            with transaction(connection):
                connection.execute(
                    "INSERT INTO plan VALUES (1, ?, ?)", (time.time(), msgspec.json.encode(plan).decode("utf-8"))
                )
                fill(connection)
                connection.execute(SET_ID)
                connection.execute(SET_VERSION)
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(temporary_path, study_path)  # unlike a rename, it does not replace files
        except FileExistsError:
            raise OptionError(f"{study_path} exists already, and may contain answers; choose another name") from None
        except OSError:  # a file system without links
            os.rename(temporary_path, study_path)
    return study_path


def connect(path: Path, *, durable: bool) -> sqlite3.Connection:
    """Return a connection to a study file. If `durable` is true, committed data survive a power failure."""
    connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
    try:  # with secure_delete, erased data are overwritten
        connection.executescript("PRAGMA foreign_keys = ON; PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Provide a read-only connection to a study file."""
    with closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


def copy(path: Path, copy_path: Path) -> Path:
    """Write a consistent copy of a study to `copy_path`, even while the study is written. An earlier copy of the same
    study is replaced.

    Raise `OptionError` if `copy_path` is a file that is not an earlier copy. Raise `InputError` if the study is
    damaged, or if the earlier copy is being served.
    """
    with _temporary_file(copy_path) as temporary_path, ExitStack() as exit_stack:
        with (
            sqlite_errors(path),
            reading(path) as source_connection,
            closing(sqlite3.connect(temporary_path, isolation_level=None)) as copy_connection,
        ):
            source_connection.backup(copy_connection)
            ((quick_check_result,),) = copy_connection.execute("PRAGMA quick_check(1)")
            if quick_check_result != "ok":
                raise sqlite3.DatabaseError(quick_check_result.splitlines()[-1])
        if copy_path.exists():
            if copy_path.samefile(path) or _study_identity(copy_path) != _study_identity(temporary_path):
                raise OptionError(f"{copy_path} exists and is not an earlier copy of this study; choose another name")
            exit_stack.enter_context(lock_study(copy_path))
        os.replace(temporary_path, copy_path)
    return copy_path


def _study_identity(path: Path) -> object:
    """Return a value that is equal for a study and its copies, or None for a file that is not a study."""
    try:
        with reading(check(path)) as connection:
            return connection.execute("SELECT at, json FROM plan WHERE version = 1").fetchone()
    except (InputError, sqlite3.Error):
        return None


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Create a temporary file in the folder of a path. Only the owner of the file can read it. Remove the file at the
    end if it was not renamed."""
    temporary_path = path.with_name(f".custodes-{os.urandom(8).hex()}")
    UNFINISHED.add(str(temporary_path))
    try:
        temporary_path.touch(mode=0o600)
        yield temporary_path
    finally:
        for leftover_path in (temporary_path, Path(f"{temporary_path}-wal"), Path(f"{temporary_path}-shm")):
            with suppress(OSError):
                leftover_path.unlink()
        UNFINISHED.discard(str(temporary_path))


def check(path: str | Path) -> Path:
    """Return the real path of a study file. Raise `InputError` for other files."""
    real_path = Path(os.path.realpath(path))
    reject(
        (not os.path.exists(real_path), f"{path}: no such file; create one with custodes annotate new"),
        (not os.access(real_path, os.R_OK), f"{path}: cannot be read; check the permissions of the file"),
        (
            not is_study(real_path),
            f"{path}: not a study file of annotations; create one with custodes annotate new",
        ),
        error=InputError,
    )
    with sqlite_errors(path), reading(real_path) as connection:
        ((format_version,),) = connection.execute("PRAGMA user_version")
        if format_version != VERSION:
            raise InputError(
                f"{path}: the study file has format version {format_version}, but this version of custodes needs "
                f"{VERSION}; use the version of custodes that created the file"
            )
        check_sound(connection)
        for problem_query, message_template in PROBLEM_QUERIES.items():
            if (problem_row := connection.execute(problem_query).fetchone()) is not None:
                raise sqlite3.DatabaseError(message_template.format(*problem_row))
    return real_path


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a transaction, which is committed on success and otherwise rolled back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def sqlite_errors(path: str | Path) -> Iterator[None]:
    """Convert errors of SQLite to an `InputError` with one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as problem:
        raise InputError(
            f"{short_repr(str(path))}: this study cannot be read or written ({failure_reason(problem)}); restore a "
            "backup, or choose another place"
        ) from None


@contextmanager
def lock_study(path: Path) -> Iterator[None]:
    """Hold the lock that allows only one server for a study. The lock belongs to a file next to the study, and is
    released when the process ends."""
    with Path(f"{path}.lock").open("ab") as lock_file:
        try:
            lock(lock_file, wait=False)
        except OSError:
            raise InputError(f"{path}: another program serves this study; stop it, or use the owner's page") from None
        yield
