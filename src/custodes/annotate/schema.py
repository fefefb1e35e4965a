"""The file of a study: tables that only grow, and views of them in the formats that `read` knows.

Everything that happened is a row. What a person saw and said is in `assignment` and `judgment`; a correction is another
assignment of the same unit (`again`), which counts from then on. A look is a row written with the answer that completed
it, and never again. Workers, sessions, assignments, judgments, exclusions and events are numbered by one count: their
numbers say in which order all of it happened, whatever the clock said.
"""

from __future__ import annotations

VERSION = 2
"""`PRAGMA user_version` of this layout."""
SET_VERSION = f"PRAGMA user_version = {VERSION}"

REFERENCES = "refs TEXT NOT NULL DEFAULT '[]'"
"""The column of `item` that version 2 added: references as a JSON list."""

SOURCES = """
CREATE VIEW sources AS SELECT label AS item, source AS source, context AS context, refs AS "references" FROM item
ORDER BY item.item;
"""

TABLES = f"""
CREATE TABLE plan (version INTEGER PRIMARY KEY, at REAL NOT NULL, json TEXT NOT NULL) STRICT;
CREATE TABLE item (
    item INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, cluster TEXT NOT NULL, grp TEXT NOT NULL,
    source TEXT NOT NULL, context TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, meta TEXT NOT NULL,
    {REFERENCES}
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
    exclusion INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, excluded INTEGER NOT NULL,
    by TEXT NOT NULL CHECK (by IN ('rule', 'owner')), reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE TABLE event (
    event INTEGER PRIMARY KEY, at REAL NOT NULL, session INTEGER REFERENCES session, worker INTEGER REFERENCES worker,
    assignment INTEGER REFERENCES assignment, kind TEXT NOT NULL, json TEXT NOT NULL
) STRICT;
"""

NOT_JSON = """
SELECT 'plan.json' FROM plan WHERE json_type(json) IS NOT 'object'
UNION ALL SELECT 'item.media' FROM item WHERE json_type(media) IS NOT 'array'
UNION ALL SELECT 'output.media' FROM output WHERE json_type(media) IS NOT 'array'
UNION ALL SELECT 'gold.media' FROM gold WHERE json_type(media) IS NOT 'object'
UNION ALL SELECT 'session.params' FROM session WHERE json_type(params) IS NOT 'object'
UNION ALL SELECT 'event.json' FROM event WHERE json_type(json) IS NULL
LIMIT 1
"""
"""A column that holds JSON of another kind than it should; SQLite says itself what is no JSON."""
NOT_REFERENCES = "SELECT 'item.refs' FROM item WHERE json_type(refs) IS NOT 'array' LIMIT 1"
"""The same of the column that version 2 added."""

LACKING = """
SELECT count(*) FROM unit u JOIN pair p ON p.pair = u.pair JOIN system s ON s.system IN (p.first, p.second)
WHERE NOT EXISTS (SELECT 1 FROM output o WHERE o.item = u.item AND o.system = s.system)
"""
"""How many outputs are asked about and not there."""

INDEXES = """
CREATE INDEX assignment_again ON assignment (again) WHERE again IS NOT NULL;
CREATE INDEX event_assignment ON event (assignment) WHERE kind = 'second';
CREATE INDEX exclusion_worker ON exclusion (worker);
"""

VIEWS = f"""
-- As it stands now: the last word on every worker.
CREATE VIEW standing AS
SELECT w.worker, w.label, w.source, w.at, coalesce(
    (SELECT e.excluded FROM exclusion e WHERE e.worker = w.worker ORDER BY e.exclusion DESC LIMIT 1), 0) AS excluded
FROM worker w;

-- Everything that was said: `answer` is for system_a, or a rating; of a known comparison, for its first output.
-- `role`: what it counts as (primary, second, gold, attention, qualification). `taken_back`: it was corrected.
CREATE VIEW answers AS
SELECT
    j.judgment AS answer_id, g.label AS rater, g.source AS source, i.label AS item, a1.label AS system_a,
    a2.label AS system_b, j.aspect AS aspect, j.answer AS answer, j.reason AS reason,
    CASE WHEN j.role = 'primary' AND EXISTS
        (SELECT 1 FROM event d WHERE d.kind = 'second' AND d.assignment = a.assignment) THEN 'second' ELSE j.role
    END AS role,
    a.role AS asked_as, CASE a.flip WHEN 0 THEN 'ab' ELSE 'ba' END AS "order",
    o.kind AS known, o.expected AS expected, a.session AS session, a.batch AS batch, a.number AS number,
    a.look + 1 AS look, u.place AS place, a.eligible AS eligible, a.p_role AS p_role, a.p_pair AS p_pair,
    a.policy AS policy, j.visible_seconds AS visible_seconds, j.server_seconds AS server_seconds,
    a.at AS asked_at, j.at AS answered_at, j.late AS late,
    EXISTS (SELECT 1 FROM assignment c WHERE c.again = a.assignment) AS taken_back, g.excluded AS excluded,
    a.assignment AS assignment, a.unit AS unit, a.gold AS gold, p.pair AS pair
FROM judgment j
JOIN assignment a ON a.assignment = j.assignment
JOIN session s ON s.session = a.session
JOIN standing g ON g.worker = s.worker
LEFT JOIN unit u ON u.unit = a.unit
LEFT JOIN pair p ON p.pair = u.pair
LEFT JOIN item i ON i.item = u.item
LEFT JOIN system a1 ON a1.system = p.first
LEFT JOIN system a2 ON a2.system = p.second
LEFT JOIN gold o ON o.gold = a.gold;

-- Comparisons that stand, without people who are excluded now. 'invalid': why there is no preference.
CREATE VIEW battles AS
SELECT item, system_a, system_b, rater, 'human' AS kind, aspect, '' AS repeat, "order",
    CAST(answer AS INTEGER) AS preference, CASE WHEN answer IS NULL THEN reason ELSE '' END AS invalid, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NOT NULL AND NOT taken_back AND NOT excluded ORDER BY answer_id;

-- Ratings that stand, without people who are excluded now.
CREATE VIEW ratings AS
SELECT item, system_a AS system, rater, 'human' AS kind, aspect, answer AS score, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NULL AND answer IS NOT NULL AND NOT taken_back AND NOT excluded
ORDER BY answer_id;

-- People, without what could name them.
CREATE VIEW raters AS
SELECT label AS rater, 'human' AS kind, 1 AS person, source, excluded, date(at, 'unixepoch') AS date FROM standing
ORDER BY worker;

CREATE VIEW items AS SELECT label AS item, cluster, grp AS "group" FROM item ORDER BY item.item;

CREATE VIEW outputs AS
SELECT i.label AS item, s.label AS system, o.text AS text FROM output o
JOIN item i ON i.item = o.item JOIN system s ON s.system = o.system ORDER BY o.item, o.system;

{SOURCES}

-- Looks as they were judged; never rewritten. The first of a pair is 1, here and in `answers`, and 0 in the tables.
CREATE VIEW looks AS
SELECT a.label AS system_a, b.label AS system_b, l.look + 1 AS look, l.n, l.wins, l.ties, l.losses, l.decision,
    l.is_open, l.theta, l.margin, l.low, l.high, l.used, l.at
FROM look l JOIN pair p ON p.pair = l.pair JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second
ORDER BY l.pair, l.look;
"""
"""What happened, with labels, in the formats that `read` knows."""
