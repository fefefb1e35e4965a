"""The file of a study: tables that only grow, and views of them in the formats that `read` knows.

Everything that happened is a row. What a person saw and said is in `assignment` and `judgment`; a correction is another
assignment of the same unit (`again`), which counts from then on. A look is a row written with the answer that completed
it, and never again.
"""

from __future__ import annotations

VERSION = 1
"""`PRAGMA user_version` of this layout."""

TABLES = """
CREATE TABLE plan (version INTEGER PRIMARY KEY, at REAL NOT NULL, json TEXT NOT NULL) STRICT;
CREATE TABLE item (
    item INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, cluster TEXT NOT NULL, grp TEXT NOT NULL,
    source TEXT NOT NULL, context TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, meta TEXT NOT NULL
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
    external_id TEXT NOT NULL, at REAL NOT NULL, UNIQUE (source, external_hash)
) STRICT;
CREATE TABLE session (
    session INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, token_hash TEXT NOT NULL UNIQUE,
    at REAL NOT NULL, params TEXT NOT NULL
) STRICT;
CREATE TABLE assignment (
    assignment INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, batch INTEGER NOT NULL,
    number INTEGER NOT NULL, unit INTEGER REFERENCES unit, gold INTEGER REFERENCES gold,
    role TEXT NOT NULL CHECK (role IN ('primary', 'second', 'gold', 'attention', 'qualification')),
    flip INTEGER NOT NULL, look INTEGER, again INTEGER REFERENCES assignment, at REAL NOT NULL,
    eligible INTEGER, p_role REAL, p_pair REAL, policy TEXT NOT NULL
) STRICT;
CREATE TABLE judgment (
    judgment INTEGER PRIMARY KEY, assignment INTEGER NOT NULL REFERENCES assignment, aspect TEXT NOT NULL,
    answer REAL, reason TEXT NOT NULL, visible_seconds REAL, server_seconds REAL NOT NULL, at REAL NOT NULL,
    late INTEGER NOT NULL, UNIQUE (assignment, aspect)
) STRICT;
CREATE TABLE look (
    pair INTEGER NOT NULL REFERENCES pair, look INTEGER NOT NULL, n INTEGER NOT NULL, wins INTEGER NOT NULL,
    ties INTEGER NOT NULL, losses INTEGER NOT NULL, decision INTEGER NOT NULL, is_open INTEGER NOT NULL,
    theta REAL, margin REAL, low REAL, high REAL, used TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (pair, look)
) STRICT;
CREATE TABLE exclusion (
    exclusion INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, excluded INTEGER NOT NULL,
    by TEXT NOT NULL CHECK (by IN ('rule', 'owner')), reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE TABLE event (
    event INTEGER PRIMARY KEY, at REAL NOT NULL, session INTEGER REFERENCES session, worker INTEGER REFERENCES worker,
    assignment INTEGER REFERENCES assignment, kind TEXT NOT NULL, json TEXT NOT NULL
) STRICT;
"""

VIEWS = """
-- As it stands now: the last word on every worker, and of every unit the last answer of a worker.
CREATE VIEW standing AS
SELECT worker, label, coalesce(
    (SELECT excluded FROM exclusion e WHERE e.worker = w.worker ORDER BY e.exclusion DESC LIMIT 1), 0) AS excluded
FROM worker w;
"""
"""To be completed: battles, ratings, raters, items, outputs, answers, looks (see `data.readers.annotation`)."""
