"""Annotation study files for tests, written row by row as an annotation server leaves them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import msgspec

from custodes.annotate import study_file
from custodes.annotate.plan import StudyPlan
from custodes.data.loading.live_study import ANNOTATION_STUDY


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer of a worker about an item; `second` is empty for a rating, `answer` is None for a refusal."""

    worker: int
    item: str
    first: str = "Aster"
    second: str = "Birch"
    answer: float | None = 1
    role: str = "primary"
    flip: int = 0
    aspect: str = ""
    reason: str = ""
    seconds: float | None = 10.0
    again: int | None = None
    at: float = 1.7e9


def connected(path: Path) -> sqlite3.Connection:
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA synchronous = OFF")
    return base


def new_file(
    path: Path, *, items: Iterable[str], systems: Iterable[str], plan: StudyPlan | None = None, running: bool = False
) -> Path:
    """Create a study without answers, stopped unless `running`; the units of each pair are in the order of the
    items."""
    plan = plan or StudyPlan(name=path.stem)
    items, systems = tuple(items), tuple(systems)
    base = connected(path)
    base.executescript(study_file.TABLES + study_file.INDEXES + study_file.VIEWS)
    base.execute("INSERT INTO plan VALUES (1, 0, ?)", (msgspec.json.encode(plan).decode(),))
    for n, item in enumerate(items):
        row = (n, item, f"doc{n // 2}", "news", f"source of {item}", "")
        base.execute("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, '', '', '', '[]')", row)
    for n, system in enumerate(systems):
        base.execute("INSERT INTO system VALUES (?, ?, 0)", (n, system))
        base.executemany(
            "INSERT INTO output VALUES (?, ?, ?, '', '')",
            [(place, n, f"=text {item} of {system}") for place, item in enumerate(items)],
        )
    if not running:
        base.execute("INSERT INTO event (at, kind, json) VALUES (0, 'stopped', '{}')")
    is_rating = plan.question.mode == "rate"
    pairs = [(n, None) for n in range(len(systems))] if is_rating else list(combinations(range(len(systems)), 2))
    for pair, (a, b) in enumerate(pairs):
        base.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, a, b))
        base.executemany(
            "INSERT INTO unit VALUES (?, ?, ?, ?)",
            [(pair * len(items) + place, pair, place, place) for place in range(len(items))],
        )
    base.execute(f"PRAGMA application_id = {ANNOTATION_STUDY}")
    base.execute(f"PRAGMA user_version = {study_file.VERSION}")
    base.execute("PRAGMA journal_mode = WAL")
    base.close()
    return path


def say(base: sqlite3.Connection, *answers: Said) -> list[int]:
    """Write answers, one transaction each, and return the numbers of their assignments."""
    return [_say(base, record) for record in answers]


def _say(base: sqlite3.Connection, record: Said) -> int:
    base.execute("BEGIN IMMEDIATE")
    label = f"w{record.worker:03d}"
    base.execute(
        "INSERT OR IGNORE INTO worker VALUES (?, ?, 'prolific', ?, ?, ?, ?)",
        (record.worker, label, f"hash{record.worker}", f"external-{record.worker}", f"token{record.worker}", record.at),
    )
    (unit,) = base.execute(
        """SELECT u.unit FROM unit u JOIN item i USING (item) JOIN pair p USING (pair)
        JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second
        WHERE i.label = ? AND a.label = ? AND coalesce(b.label, '') = ?""",
        (record.item, record.first, record.second),
    ).fetchone()
    assignment = base.execute(
        """INSERT INTO assignment (worker, batch, number, unit, role, flip, look, again, at, p_role, p_pair)
        VALUES (?, 0, 0, ?, ?, ?, 1, ?, ?, .88, .5)""",
        (record.worker, unit, record.role, record.flip, record.again, record.at),
    ).lastrowid
    base.execute(
        """INSERT INTO judgment (assignment, aspect, role, answer, reason, visible_seconds, server_seconds, at, late)
        VALUES (?, ?, ?, ?, ?, ?, 60, ?, 0)""",
        (assignment, record.aspect, record.role, record.answer, record.reason, record.seconds, record.at),
    )
    base.execute("COMMIT")
    assert assignment is not None
    return assignment


def exclude(base: sqlite3.Connection, worker: int) -> None:
    base.execute("INSERT INTO exclusion (worker, by, reason, at) VALUES (?, 'rule', 'gold', 0)", (worker,))


def look(
    base: sqlite3.Connection, pair: int, number: int, counts: tuple[int, int, int], decision: int, **more: float
) -> None:
    """Write interim analysis `number` (from 1) of a pair with its counts of wins, ties and losses."""
    values = {"theta": 0.99, "margin": 0.4, "low": 0.1, "high": 0.6, "is_open": 0} | more
    base.execute(
        "INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]', 0)",
        (
            pair,
            number - 1,
            sum(counts),
            *counts,
            decision,
            values["is_open"],
            *(values[k] for k in ("theta", "margin", "low", "high")),
        ),
    )
