PRAGMA application_id = 0x43555354;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE assignment (
    assignment INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session, batch INTEGER NOT NULL,
    number INTEGER NOT NULL, unit INTEGER REFERENCES unit, gold INTEGER REFERENCES gold,
    role TEXT NOT NULL CHECK (role IN ('primary', 'second', 'gold', 'attention', 'qualification')),
    flip INTEGER NOT NULL, look INTEGER, again INTEGER REFERENCES assignment, at REAL NOT NULL,
    eligible INTEGER, p_role REAL, p_pair REAL, policy TEXT NOT NULL
) STRICT;
INSERT INTO "assignment" VALUES(6,3,1,1,NULL,2,'gold',1,NULL,NULL,1700000000.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(11,8,1,1,NULL,3,'attention',0,NULL,NULL,1700000000.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(16,13,1,1,0,NULL,'primary',0,0,NULL,1700000000.0,3,1.0,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(21,18,1,1,NULL,2,'gold',0,NULL,NULL,1700000000.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(23,3,1,2,1,NULL,'primary',1,0,NULL,1700000007.0,3,1.0,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(25,8,1,2,NULL,1,'gold',0,NULL,NULL,1700000014.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(27,13,1,2,9,NULL,'primary',1,0,NULL,1700000021.0,3,1.0,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(29,18,1,2,NULL,3,'attention',0,NULL,NULL,1700000028.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(31,3,1,3,2,NULL,'primary',0,0,NULL,1700000035.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(33,8,1,3,0,NULL,'second',1,0,NULL,1700000042.0,1,0.3,1.0,'even-1');
INSERT INTO "assignment" VALUES(35,13,1,3,16,NULL,'primary',0,0,NULL,1700000049.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(37,18,1,3,3,NULL,'primary',1,0,NULL,1700000056.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(39,3,1,4,NULL,1,'gold',1,NULL,NULL,1700000063.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(41,8,1,4,17,NULL,'primary',1,0,NULL,1700000070.0,2,0.7,0.5,'even-1');
INSERT INTO "assignment" VALUES(43,13,1,4,NULL,1,'gold',1,NULL,NULL,1700000077.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(45,18,1,4,NULL,1,'gold',1,NULL,NULL,1700000084.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(47,3,1,5,NULL,3,'attention',0,NULL,NULL,1700000091.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(49,8,1,5,19,NULL,'primary',1,0,NULL,1700000098.0,2,0.7,0.5,'even-1');
INSERT INTO "assignment" VALUES(51,13,1,5,NULL,2,'gold',0,NULL,NULL,1700000105.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(53,18,1,5,9,NULL,'second',1,0,NULL,1700000112.0,3,0.3,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(55,3,1,6,8,NULL,'primary',0,0,NULL,1700000119.0,2,0.7,0.5,'even-1');
INSERT INTO "assignment" VALUES(57,8,1,6,1,NULL,'second',0,0,NULL,1700000126.0,2,0.3,0.5,'even-1');
INSERT INTO "assignment" VALUES(59,13,1,6,10,NULL,'primary',1,0,NULL,1700000133.0,2,0.7,0.5,'even-1');
INSERT INTO "assignment" VALUES(61,18,1,6,11,NULL,'primary',0,0,NULL,1700000140.0,2,0.7,0.5,'even-1');
INSERT INTO "assignment" VALUES(63,3,1,7,18,NULL,'primary',0,0,NULL,1700000147.0,1,0.7,1.0,'even-1');
INSERT INTO "assignment" VALUES(65,8,1,7,NULL,2,'gold',1,NULL,NULL,1700000154.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(67,13,1,7,8,NULL,'second',0,0,NULL,1700000161.0,3,1.0,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(69,18,1,7,2,NULL,'second',0,0,NULL,1700000168.0,3,1.0,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(71,3,1,8,13,NULL,'primary',0,1,NULL,1700000175.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(73,8,1,8,14,NULL,'primary',0,1,NULL,1700000182.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(75,13,1,8,NULL,3,'attention',1,NULL,NULL,1700000189.0,NULL,1.0,NULL,'even-1');
INSERT INTO "assignment" VALUES(77,18,1,8,0,NULL,'second',1,1,NULL,1700000196.0,3,0.3,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(79,3,1,9,5,NULL,'primary',0,1,NULL,1700000203.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(81,8,1,9,20,NULL,'primary',0,1,NULL,1700000210.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(83,13,1,9,12,NULL,'primary',1,1,NULL,1700000217.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(85,18,1,9,23,NULL,'primary',1,1,NULL,1700000224.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(87,3,1,10,21,NULL,'primary',1,1,NULL,1700000231.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(89,8,1,10,6,NULL,'primary',1,1,NULL,1700000238.0,3,0.7,3.33333333333333314829e-01,'even-1');
INSERT INTO "assignment" VALUES(90,8,1,9,20,NULL,'primary',0,1,81,1700000238.0,NULL,NULL,NULL,'again');
CREATE TABLE event (
    event INTEGER PRIMARY KEY, at REAL NOT NULL, session INTEGER REFERENCES session, worker INTEGER REFERENCES worker,
    assignment INTEGER REFERENCES assignment, kind TEXT NOT NULL, json TEXT NOT NULL
) STRICT;
INSERT INTO "event" VALUES(1,1700000000.0,NULL,NULL,NULL,'added','{"pairs": 3, "units": 23}');
INSERT INTO "event" VALUES(4,1700000000.0,3,2,NULL,'begun','{}');
INSERT INTO "event" VALUES(5,1700000000.0,3,2,NULL,'batch','{"batch": 1, "known": {"1": "gold", "4": "gold", "5": "attention", "11": "gold", "12": "gold"}}');
INSERT INTO "event" VALUES(9,1700000000.0,8,7,NULL,'begun','{}');
INSERT INTO "event" VALUES(10,1700000000.0,8,7,NULL,'batch','{"batch": 1, "known": {"1": "attention", "2": "gold", "7": "gold", "9": "gold", "11": "gold"}}');
INSERT INTO "event" VALUES(14,1700000000.0,13,12,NULL,'begun','{}');
INSERT INTO "event" VALUES(15,1700000000.0,13,12,NULL,'batch','{"batch": 1, "known": {"4": "gold", "5": "gold", "7": "gold", "8": "attention", "10": "gold"}}');
INSERT INTO "event" VALUES(19,1700000000.0,18,17,NULL,'begun','{}');
INSERT INTO "event" VALUES(20,1700000000.0,18,17,NULL,'batch','{"batch": 1, "known": {"1": "gold", "2": "attention", "4": "gold", "11": "gold", "12": "gold"}}');
INSERT INTO "event" VALUES(94,1700000238.0,NULL,NULL,NULL,'paused','{"why": "lunch"}');
INSERT INTO "event" VALUES(95,1700000238.0,NULL,NULL,NULL,'resumed','{"why": ""}');
INSERT INTO "event" VALUES(96,1700000238.0,13,12,NULL,'code','{"why": "blocked", "code": "BB7D4D06"}');
INSERT INTO "event" VALUES(97,1700000238.0,18,17,85,'renewed','{}');
CREATE TABLE exclusion (
    exclusion INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, excluded INTEGER NOT NULL,
    by TEXT NOT NULL CHECK (by IN ('rule', 'owner')), reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
INSERT INTO "exclusion" VALUES(91,12,1,'owner','sides',1700000238.0);
INSERT INTO "exclusion" VALUES(92,17,1,'owner','late',1700000238.0);
INSERT INTO "exclusion" VALUES(93,17,0,'owner','',1700000238.0);
CREATE TABLE gold (
    gold INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('gold', 'attention', 'qualification', 'example')),
    context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, media TEXT NOT NULL,
    expected INTEGER NOT NULL, why TEXT NOT NULL
) STRICT;
INSERT INTO "gold" VALUES(1,'gold','<p>gold0</p>','<p>one</p>','<p>two</p>','{}',-1,'because');
INSERT INTO "gold" VALUES(2,'gold','<p>gold1</p>','<p>one</p>','<p>two</p>','{}',1,'because');
INSERT INTO "gold" VALUES(3,'attention','<p>attention0</p>','<p>one</p>','<p>two</p>','{}',-1,'because');
CREATE TABLE item (
    item INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, cluster TEXT NOT NULL, grp TEXT NOT NULL,
    source TEXT NOT NULL, context TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, meta TEXT NOT NULL
) STRICT;
INSERT INTO "item" VALUES(0,'i0','d0','','source 0','','<p>item 0</p>','[]','{}');
INSERT INTO "item" VALUES(1,'i1','d0','','source 1','','<p>item 1</p>','[]','{}');
INSERT INTO "item" VALUES(2,'i2','d1','','source 2','','<p>item 2</p>','[]','{}');
INSERT INTO "item" VALUES(3,'i3','d1','','source 3','','<p>item 3</p>','[]','{}');
INSERT INTO "item" VALUES(4,'i4','d2','','source 4','','<p>item 4</p>','[]','{}');
INSERT INTO "item" VALUES(5,'i5','d2','','source 5','','<p>item 5</p>','[]','{}');
INSERT INTO "item" VALUES(6,'i6','d3','','source 6','','<p>item 6</p>','[]','{}');
INSERT INTO "item" VALUES(7,'i7','d3','','source 7','','<p>item 7</p>','[]','{}');
CREATE TABLE judgment (
    judgment INTEGER PRIMARY KEY, assignment INTEGER NOT NULL REFERENCES assignment, aspect TEXT NOT NULL,
    role TEXT NOT NULL, answer REAL, reason TEXT NOT NULL,
    visible_seconds REAL, server_seconds REAL NOT NULL, at REAL NOT NULL,
    late INTEGER NOT NULL, UNIQUE (assignment, aspect)
) STRICT;
INSERT INTO "judgment" VALUES(22,6,'','gold',1.0,'',5.0,7.0,1700000007.0,0);
INSERT INTO "judgment" VALUES(24,11,'','attention',-1.0,'',5.0,14.0,1700000014.0,0);
INSERT INTO "judgment" VALUES(26,16,'','primary',0.0,'',5.0,21.0,1700000021.0,0);
INSERT INTO "judgment" VALUES(28,21,'','gold',1.0,'',5.0,28.0,1700000028.0,0);
INSERT INTO "judgment" VALUES(30,23,'','primary',1.0,'',5.0,28.0,1700000035.0,0);
INSERT INTO "judgment" VALUES(32,25,'','gold',-1.0,'',5.0,28.0,1700000042.0,0);
INSERT INTO "judgment" VALUES(34,27,'','primary',1.0,'',5.0,28.0,1700000049.0,0);
INSERT INTO "judgment" VALUES(36,29,'','attention',-1.0,'',5.0,28.0,1700000056.0,0);
INSERT INTO "judgment" VALUES(38,31,'','primary',1.0,'',5.0,28.0,1700000063.0,0);
INSERT INTO "judgment" VALUES(40,33,'','second',NULL,'language',NULL,28.0,1700000070.0,0);
INSERT INTO "judgment" VALUES(42,35,'','primary',1.0,'',5.0,28.0,1700000077.0,0);
INSERT INTO "judgment" VALUES(44,37,'','primary',1.0,'',5.0,28.0,1700000084.0,0);
INSERT INTO "judgment" VALUES(46,39,'','gold',-1.0,'',5.0,28.0,1700000091.0,0);
INSERT INTO "judgment" VALUES(48,41,'','primary',1.0,'',5.0,28.0,1700000098.0,0);
INSERT INTO "judgment" VALUES(50,43,'','gold',-1.0,'',5.0,28.0,1700000105.0,0);
INSERT INTO "judgment" VALUES(52,45,'','gold',-1.0,'',5.0,28.0,1700000112.0,0);
INSERT INTO "judgment" VALUES(54,47,'','attention',-1.0,'',5.0,28.0,1700000119.0,0);
INSERT INTO "judgment" VALUES(56,49,'','primary',0.0,'',5.0,28.0,1700000126.0,0);
INSERT INTO "judgment" VALUES(58,51,'','gold',1.0,'',5.0,28.0,1700000133.0,0);
INSERT INTO "judgment" VALUES(60,53,'','second',-1.0,'',5.0,28.0,1700000140.0,0);
INSERT INTO "judgment" VALUES(62,55,'','primary',0.0,'',5.0,28.0,1700000147.0,0);
INSERT INTO "judgment" VALUES(64,57,'','second',1.0,'',5.0,28.0,1700000154.0,0);
INSERT INTO "judgment" VALUES(66,59,'','primary',-1.0,'',5.0,28.0,1700000161.0,0);
INSERT INTO "judgment" VALUES(68,61,'','primary',1.0,'',5.0,28.0,1700000168.0,0);
INSERT INTO "judgment" VALUES(70,63,'','primary',1.0,'',5.0,28.0,1700000175.0,0);
INSERT INTO "judgment" VALUES(72,65,'','gold',1.0,'',5.0,28.0,1700000182.0,0);
INSERT INTO "judgment" VALUES(74,67,'','second',1.0,'',5.0,28.0,1700000189.0,0);
INSERT INTO "judgment" VALUES(76,69,'','second',-1.0,'',5.0,28.0,1700000196.0,0);
INSERT INTO "judgment" VALUES(78,71,'','primary',1.0,'',5.0,28.0,1700000203.0,0);
INSERT INTO "judgment" VALUES(80,73,'','primary',1.0,'',5.0,28.0,1700000210.0,0);
INSERT INTO "judgment" VALUES(82,75,'','attention',-1.0,'',5.0,28.0,1700000217.0,0);
INSERT INTO "judgment" VALUES(84,77,'','second',1.0,'',5.0,28.0,1700000224.0,0);
INSERT INTO "judgment" VALUES(86,79,'','primary',1.0,'',5.0,28.0,1700000231.0,0);
INSERT INTO "judgment" VALUES(88,81,'','primary',0.0,'',5.0,28.0,1700000238.0,0);
CREATE TABLE look (
    pair INTEGER NOT NULL REFERENCES pair, look INTEGER NOT NULL, n INTEGER NOT NULL, wins INTEGER NOT NULL,
    ties INTEGER NOT NULL, losses INTEGER NOT NULL, decision INTEGER NOT NULL, is_open INTEGER NOT NULL,
    theta REAL, margin REAL, low REAL, high REAL, used TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (pair, look)
) STRICT;
INSERT INTO "look" VALUES(0,0,4,3,1,0,0,1,0.9375,4.28571428571428547638e-01,-2.14394438214487642602e-01,8.76916299919082820046e-01,'[0, 1, 2, 3]',1700000175.0);
INSERT INTO "look" VALUES(1,0,4,2,1,1,0,1,0.6875,1.42857142857142849212e-01,-5.13112342957500744411e-01,7.26525343127672473819e-01,'[0, 1, 2, 3]',1700000175.0);
INSERT INTO "look" VALUES(2,0,4,3,1,0,0,1,0.9375,4.28571428571428547638e-01,-2.14394438214487642602e-01,8.76916299919082820046e-01,'[0, 1, 2, 3]',1700000175.0);
CREATE TABLE media (name TEXT PRIMARY KEY, type TEXT NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE TABLE metric (unit INTEGER PRIMARY KEY REFERENCES unit, rater TEXT NOT NULL, preference INTEGER NOT NULL) STRICT;
CREATE TABLE output (
    item INTEGER NOT NULL REFERENCES item, system INTEGER NOT NULL REFERENCES system,
    text TEXT NOT NULL, html TEXT NOT NULL, media TEXT NOT NULL, PRIMARY KEY (item, system)
) STRICT, WITHOUT ROWID;
INSERT INTO "output" VALUES(0,0,'text 0 0','<p>text 0 0</p>','[]');
INSERT INTO "output" VALUES(0,1,'text 0 1','<p>text 0 1</p>','[]');
INSERT INTO "output" VALUES(0,2,'text 0 2','<p>text 0 2</p>','[]');
INSERT INTO "output" VALUES(1,0,'text 1 0','<p>text 1 0</p>','[]');
INSERT INTO "output" VALUES(1,1,'text 1 1','<p>text 1 1</p>','[]');
INSERT INTO "output" VALUES(1,2,'text 1 2','<p>text 1 2</p>','[]');
INSERT INTO "output" VALUES(2,0,'text 2 0','<p>text 2 0</p>','[]');
INSERT INTO "output" VALUES(2,1,'text 2 1','<p>text 2 1</p>','[]');
INSERT INTO "output" VALUES(2,2,'text 2 2','<p>text 2 2</p>','[]');
INSERT INTO "output" VALUES(3,0,'text 3 0','<p>text 3 0</p>','[]');
INSERT INTO "output" VALUES(3,1,'text 3 1','<p>text 3 1</p>','[]');
INSERT INTO "output" VALUES(3,2,'text 3 2','<p>text 3 2</p>','[]');
INSERT INTO "output" VALUES(4,0,'text 4 0','<p>text 4 0</p>','[]');
INSERT INTO "output" VALUES(4,1,'text 4 1','<p>text 4 1</p>','[]');
INSERT INTO "output" VALUES(4,2,'text 4 2','<p>text 4 2</p>','[]');
INSERT INTO "output" VALUES(5,0,'text 5 0','<p>text 5 0</p>','[]');
INSERT INTO "output" VALUES(5,1,'text 5 1','<p>text 5 1</p>','[]');
INSERT INTO "output" VALUES(5,2,'text 5 2','<p>text 5 2</p>','[]');
INSERT INTO "output" VALUES(6,0,'text 6 0','<p>text 6 0</p>','[]');
INSERT INTO "output" VALUES(6,1,'text 6 1','<p>text 6 1</p>','[]');
INSERT INTO "output" VALUES(6,2,'text 6 2','<p>text 6 2</p>','[]');
INSERT INTO "output" VALUES(7,0,'text 7 0','<p>text 7 0</p>','[]');
INSERT INTO "output" VALUES(7,1,'text 7 1','<p>text 7 1</p>','[]');
INSERT INTO "output" VALUES(7,2,'text 7 2','<p>text 7 2</p>','[]');
CREATE TABLE pair (
    pair INTEGER PRIMARY KEY, first INTEGER NOT NULL REFERENCES system, second INTEGER REFERENCES system,
    UNIQUE (first, second)
) STRICT;
INSERT INTO "pair" VALUES(0,0,1);
INSERT INTO "pair" VALUES(1,0,2);
INSERT INTO "pair" VALUES(2,1,2);
CREATE TABLE plan (version INTEGER PRIMARY KEY, at REAL NOT NULL, json TEXT NOT NULL) STRICT;
INSERT INTO "plan" VALUES(1,1.79536019150024604793e+09,'{"name":"kept","question":{"text":"Which response is better?","mode":"compare","aspects":[""],"equal":true,"both_bad":false,"scale":[1,5],"labels":[]},"texts":{"title":"","instructions":"","consent":"","thanks":"","contact":"","language":"en","render":"plain","differences":false},"people":{"recruit":"links","batch":12,"batches":20,"cap":1.0,"per_item":1,"overlap":0.3,"gold_every":4,"attention":1,"qualification":0,"passed":0,"most":1000,"signed":false,"keys":"https://api.prolific.com/.well-known/study/jwks.json","codes":{"finished":"","failed":"","no_work":""}},"money":{"price":0.0,"fee":0.0,"wage":12.0,"currency":"USD"},"stopping":{"looks":[4,8],"boundary":"pocock","stop":"decided","futility":0.2,"equivalence":null,"gamma":0.05,"family":false,"budget":null,"estimator":null},"seed":0}');
CREATE TABLE session (
    session INTEGER PRIMARY KEY, worker INTEGER NOT NULL REFERENCES worker, token_hash TEXT NOT NULL UNIQUE,
    at REAL NOT NULL, params TEXT NOT NULL
) STRICT;
INSERT INTO "session" VALUES(3,2,'68ef3675a9e59c6d86d6b2ee7676f6fe5a1d127e9af3e02650dc159bab69328a',1700000000.0,'{}');
INSERT INTO "session" VALUES(8,7,'1f8f344fad5615c39ffbd1b7fb23477cdc6cb8f9f4970c7b4c829c00afa62184',1700000000.0,'{}');
INSERT INTO "session" VALUES(13,12,'3749b597a6fdbf520af2df9168e7d0faa582dc8ffa665c8bdb8bc4c6483cb1de',1700000000.0,'{}');
INSERT INTO "session" VALUES(18,17,'5b19b429101f4e6156b34bfda476ef17e1ff852080e99508a67007ec23e60664',1700000000.0,'{}');
CREATE TABLE system (system INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, at REAL NOT NULL) STRICT;
INSERT INTO "system" VALUES(0,'s0',1.79536019150035881992e+09);
INSERT INTO "system" VALUES(1,'s1',1.79536019150035953519e+09);
INSERT INTO "system" VALUES(2,'s2',1795360191.50036);
CREATE TABLE unit (
    unit INTEGER PRIMARY KEY, pair INTEGER NOT NULL REFERENCES pair, place INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES item, UNIQUE (pair, place), UNIQUE (pair, item)
) STRICT;
INSERT INTO "unit" VALUES(0,0,0,0);
INSERT INTO "unit" VALUES(1,0,1,6);
INSERT INTO "unit" VALUES(2,0,2,4);
INSERT INTO "unit" VALUES(3,0,3,3);
INSERT INTO "unit" VALUES(4,0,4,1);
INSERT INTO "unit" VALUES(5,0,5,7);
INSERT INTO "unit" VALUES(6,0,6,2);
INSERT INTO "unit" VALUES(7,0,7,5);
INSERT INTO "unit" VALUES(8,1,0,0);
INSERT INTO "unit" VALUES(9,1,1,6);
INSERT INTO "unit" VALUES(10,1,2,7);
INSERT INTO "unit" VALUES(11,1,3,3);
INSERT INTO "unit" VALUES(12,1,4,4);
INSERT INTO "unit" VALUES(13,1,5,1);
INSERT INTO "unit" VALUES(14,1,6,5);
INSERT INTO "unit" VALUES(15,1,7,2);
INSERT INTO "unit" VALUES(16,2,0,5);
INSERT INTO "unit" VALUES(17,2,1,4);
INSERT INTO "unit" VALUES(18,2,2,0);
INSERT INTO "unit" VALUES(19,2,3,1);
INSERT INTO "unit" VALUES(20,2,4,7);
INSERT INTO "unit" VALUES(21,2,5,3);
INSERT INTO "unit" VALUES(22,2,6,6);
INSERT INTO "unit" VALUES(23,2,7,2);
CREATE TABLE worker (
    worker INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, source TEXT NOT NULL, external_hash TEXT NOT NULL,
    external_id TEXT NOT NULL, at REAL NOT NULL, UNIQUE (source, external_hash)
) STRICT;
INSERT INTO "worker" VALUES(2,'w001','links','ba50c3f6232bd03f846ef5b6af9acfd9','',1700000000.0);
INSERT INTO "worker" VALUES(7,'w002','links','134bae024faf9cbcabd0605ac7d8c9a0','',1700000000.0);
INSERT INTO "worker" VALUES(12,'w003','links','8bcc632ea558a16ee2ceb0a5a332343b','',1700000000.0);
INSERT INTO "worker" VALUES(17,'w004','links','9631399077d702a4bf7a366eceeab2fa','',1700000000.0);
CREATE INDEX assignment_again ON assignment (again) WHERE again IS NOT NULL;
CREATE INDEX event_assignment ON event (assignment) WHERE kind = 'second';
CREATE INDEX exclusion_worker ON exclusion (worker);
CREATE VIEW standing AS
SELECT w.worker, w.label, w.source, w.at, coalesce(
    (SELECT e.excluded FROM exclusion e WHERE e.worker = w.worker ORDER BY e.exclusion DESC LIMIT 1), 0) AS excluded
FROM worker w;
CREATE VIEW answers AS
SELECT
    j.judgment AS answer_id, g.label AS rater, g.source AS source, i.label AS item, a1.label AS system_a,
    a2.label AS system_b, j.aspect AS aspect, j.answer AS answer, j.reason AS reason,
    CASE WHEN j.role = 'primary' AND EXISTS
        (SELECT 1 FROM event d WHERE d.kind = 'second' AND d.assignment = a.assignment) THEN 'second' ELSE j.role
    END AS role,
    a.role AS asked_as, CASE a.flip WHEN 0 THEN 'ab' ELSE 'ba' END AS "order",
    o.kind AS known, o.expected AS expected, a.session AS session, a.batch AS batch, a.number AS number,
    a.look AS look, u.place AS place, a.eligible AS eligible, a.p_role AS p_role, a.p_pair AS p_pair,
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
CREATE VIEW battles AS
SELECT item, system_a, system_b, rater, 'human' AS kind, aspect, '' AS repeat, "order",
    CAST(answer AS INTEGER) AS preference, CASE WHEN answer IS NULL THEN reason ELSE '' END AS invalid, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NOT NULL AND NOT taken_back AND NOT excluded ORDER BY answer_id;
CREATE VIEW ratings AS
SELECT item, system_a AS system, rater, 'human' AS kind, aspect, answer AS score, role,
    coalesce(visible_seconds, server_seconds) AS seconds
FROM answers
WHERE unit IS NOT NULL AND system_b IS NULL AND answer IS NOT NULL AND NOT taken_back AND NOT excluded
ORDER BY answer_id;
CREATE VIEW raters AS
SELECT label AS rater, 'human' AS kind, 1 AS person, source, excluded, date(at, 'unixepoch') AS date FROM standing
ORDER BY worker;
CREATE VIEW items AS SELECT label AS item, cluster, grp AS "group" FROM item ORDER BY item.item;
CREATE VIEW outputs AS
SELECT i.label AS item, s.label AS system, o.text AS text FROM output o
JOIN item i ON i.item = o.item JOIN system s ON s.system = o.system ORDER BY o.item, o.system;
CREATE VIEW sources AS SELECT label AS item, source AS source, context AS context FROM item ORDER BY item.item;
CREATE VIEW looks AS
SELECT a.label AS system_a, b.label AS system_b, l.look, l.n, l.wins, l.ties, l.losses, l.decision, l.is_open,
    l.theta, l.margin, l.low, l.high, l.used, l.at
FROM look l JOIN pair p ON p.pair = l.pair JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second
ORDER BY l.pair, l.look;
COMMIT;
