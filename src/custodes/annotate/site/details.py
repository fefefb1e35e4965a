"""Rows of a study's file for the owner's eyes: read by a connection of their own, which can write nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from custodes.errors import InputError

MOST = 200
"""Rows of a page."""

Row = Mapping[str, Any]

_ANSWERS = """
SELECT answered_at, item, known, aspect, role, "order", answer, reason, visible_seconds, late, taken_back, expected,
    system_b IS NULL AND gold IS NULL AS is_rating
FROM answers WHERE rater = ? ORDER BY answer_id DESC LIMIT ?
"""
_TROUBLED = """
SELECT item, system_a, system_b, count(DISTINCT assignment) AS asked,
    count(DISTINCT CASE WHEN answer IS NULL THEN assignment END) AS refused,
    group_concat(DISTINCT CASE WHEN answer IS NULL THEN reason END) AS reasons
FROM answers WHERE unit IS NOT NULL AND NOT taken_back
GROUP BY unit HAVING refused > 0 ORDER BY refused DESC, item LIMIT ?
"""
_COMMENTS = """
SELECT e.at AS at, coalesce(v.label, w.label) AS rater, i.label AS item, json_extract(e.json, '$.text') AS text
FROM event e
LEFT JOIN worker w ON w.worker = e.worker
LEFT JOIN session s ON s.session = e.session LEFT JOIN worker v ON v.worker = s.worker
LEFT JOIN assignment a ON a.assignment = e.assignment LEFT JOIN unit u ON u.unit = a.unit
LEFT JOIN item i ON i.item = u.item
WHERE e.kind = 'comment' ORDER BY e.event DESC LIMIT ?
"""
_RUNNING = """
SELECT system_a, system_b, sum(answer = 1) AS wins, sum(answer = 0) AS ties, sum(answer = -1) AS losses
FROM answers
WHERE role = 'primary' AND system_b IS NOT NULL AND NOT taken_back AND NOT excluded AND answer IS NOT NULL
    AND aspect = ?
GROUP BY pair
"""


_SIGNED = """
SELECT DISTINCT w.label AS label FROM session s JOIN worker w ON w.worker = s.worker
WHERE json_extract(s.params, '$.verified') = 'yes'
"""


def signed(path: str | Path) -> set[str]:
    """The people whose platform signed who they are; of all others their link said so."""
    return {row["label"] for row in _rows(path, _SIGNED)}


def answers_of(path: str | Path, label: str) -> list[Row]:
    """A person's last answers, the newest first."""
    return _rows(path, _ANSWERS, (label, MOST))


def troubled(path: str | Path) -> list[Row]:
    """Questions that somebody could not judge, the most often refused first."""
    return _rows(path, _TROUBLED, (MOST,))


def comments(path: str | Path) -> list[Row]:
    """What people wrote, the newest first."""
    return _rows(path, _COMMENTS, (MOST,))


def running(path: str | Path, aspect: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Wins, ties and losses of every pair so far: what a peek shows, and nothing else does."""
    rows = _rows(path, _RUNNING, (aspect,))
    return {(row["system_a"], row["system_b"]): (row["wins"], row["ties"], row["losses"]) for row in rows}


def _rows(path: str | Path, statement: str, values: Sequence[object] = ()) -> list[Row]:
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as base:
            base.row_factory = sqlite3.Row
            return [dict(row) for row in base.execute(statement, values)]
    except sqlite3.Error as problem:
        raise InputError(f"{Path(path).name}: cannot be read now ({problem})") from None
