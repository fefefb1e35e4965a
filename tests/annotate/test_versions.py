"""A study that an earlier version made is read by this one, and people go on in it where they were.

`study_version_1.sql` was made once, by the version that made the first such files, and stays as it is: three people at
work, one of them excluded and back, one excluded, a skip, a correction, a pause, and a look of every pair. A later
version adds a file of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import custodes as cu
from custodes.annotate.check_study import check
from custodes.annotate.export_study import export
from custodes.annotate.study_file import VERSION
from custodes.annotate.study_status import status
from custodes.annotate.views import Ask, Done
from tests.annotate.studies import answer, asked, at_once

KEPT = Path(__file__).with_name("study_version_1.sql")
AT_WORK = {"0f6CWImL802NxbpxrEPAmQ": 87, "nx_XFGOXfEqtinz-osYLsw": 90, "x_iyMKtPJ84Eeq0Th8kYOw": 85}
"""Tokens of people, with the questions before them."""
EXCLUDED = "0A7HnaaEwF64T29tN5e78A"


def kept(folder: Path) -> Path:
    path = folder / "study.db"
    with closing(sqlite3.connect(path)) as base:
        base.executescript(KEPT.read_text())
        base.execute("PRAGMA journal_mode = WAL")
    return path


def test_people_go_on(tmp_path: Path) -> None:
    path = kept(tmp_path)
    with at_once(path) as service:
        now = service.snapshot().result()
        assert (now.state, now.answers, now.primary, now.second, now.gold, now.refused) == ("open", 20, 15, 5, 12, 1)
        assert [own.standing for own in now.people] == ["ok", "ok", "excluded", "ok"]
        assert [(own.n, own.wins, own.ties, own.losses, own.decision) for own in now.pairs] == [
            (4, 3, 1, 0, 0),
            (4, 2, 1, 1, 0),
            (4, 3, 1, 0, 0),
        ]
        for token, question in AT_WORK.items():
            assert asked(service, token).assignment == question
        assert dict(asked(service, list(AT_WORK)[1]).given) == {"": 0}  # what was taken back
        assert isinstance(service.view(EXCLUDED).result(), Done)
        state = service.state()
        service._log.read()
        assert service.state() == state
        for token in AT_WORK:
            assert isinstance(answer(service, token), Ask)
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert base.execute("SELECT count(*) FROM judgment").fetchone() == (37,)


def test_it_is_an_input(tmp_path: Path) -> None:
    path = kept(tmp_path)
    study = cu.read(path)
    with at_once(path):
        pass  # now it has the tables of this version
    assert cu.read(path).fingerprint() == study.fingerprint()
    assert study.preferences.frame["rater"].unique().sort().to_list() == ["w001", "w002", "w004"]
    assert list(study.systems) == ["s0", "s1", "s2"]


@pytest.mark.parametrize("ask", [check, status, lambda path: export(path, path.with_name("out"))])
def test_it_is_answered_and_stays_as_it_was(ask: Callable[[Path], object], tmp_path: Path) -> None:
    path = kept(tmp_path)
    before = path.read_bytes()
    ask(path)
    assert path.read_bytes() == before
