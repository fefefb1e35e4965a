"""Rows of the event log: a class and SQL statements for each table, and an iterator over all rows in chronological
order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import NamedTuple


class WorkerRow(NamedTuple):
    """An annotator was invited or arrived."""

    worker: int
    label: str
    source: str
    external_hash: str
    external_id: str
    at: float


class SessionRow(NamedTuple):
    """A visit began. `params` has the parameters of its link as JSON."""

    session: int
    worker: int
    token_hash: str
    at: float
    params: str


class AssignmentRow(NamedTuple):
    """A question was assigned to an annotator."""

    assignment: int
    session: int
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
    """An annotator was excluded or readmitted."""

    exclusion: int
    worker: int
    excluded: int
    by: str
    reason: str
    at: float


class EventRow(NamedTuple):
    """An event of any other kind."""

    event: int
    at: float
    session: int | None
    worker: int | None
    assignment: int | None
    kind: str
    json: str


Row = WorkerRow | SessionRow | AssignmentRow | JudgmentRow | ExclusionRow | EventRow

WRITING: dict[type, str] = {
    WorkerRow: "INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?)",
    SessionRow: "INSERT INTO session VALUES (?, ?, ?, ?, ?)",
    AssignmentRow: "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    JudgmentRow: "INSERT INTO judgment VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    ExclusionRow: "INSERT INTO exclusion VALUES (?, ?, ?, ?, ?, ?)",
    EventRow: "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
}

READING: dict[type, str] = {
    WorkerRow: "SELECT * FROM worker ORDER BY worker",
    SessionRow: "SELECT * FROM session ORDER BY session",
    AssignmentRow: "SELECT * FROM assignment ORDER BY assignment",
    JudgmentRow: "SELECT * FROM judgment ORDER BY judgment",
    ExclusionRow: "SELECT * FROM exclusion ORDER BY exclusion",
    EventRow: "SELECT * FROM event ORDER BY event",
}


def iter_log_rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Iterate over all rows in chronological order, which is the order of their common numbering. The rows are read one
    at a time, because there may be many."""
    row_streams = (map(row_class._make, connection.execute(statement)) for row_class, statement in READING.items())  # type: ignore[attr-defined]
    return merge(*row_streams, key=itemgetter(0))
