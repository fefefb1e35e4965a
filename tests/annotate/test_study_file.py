"""Study files: complete creation, versions, locks, copies and permissions."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from custodes.annotate import study_file
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.study_file import VERSION
from custodes.errors import InputError, OptionError
from tests.annotate.studies import answer, new_annotator, open_service, study


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA application_id").fetchone() == (0x43555354,)
        assert base.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert base.execute("SELECT count(*) FROM unit").fetchone() == (50,)
        for view in ("battles", "ratings", "raters", "items", "outputs", "sources", "answers", "looks"):
            base.execute(f"SELECT * FROM {view}").fetchall()
    assert [file.name for file in tmp_path.iterdir()] == ["study.db"]


def test_a_failed_creation_leaves_no_file(tmp_path: Path) -> None:
    def fill(base: sqlite3.Connection) -> None:
        raise InputError("row 3: no output")

    with pytest.raises(InputError, match="row 3"):
        study_file.create(tmp_path / "study.db", StudyPlan(), fill)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with closing(sqlite3.connect(tmp_path / "other.db")) as base:
        base.execute("CREATE TABLE t (a)")
    for name, message in (("notes.txt", "not a study"), ("other.db", "not a study"), ("none.db", "no such file")):
        with pytest.raises(InputError, match=message):
            study_file.check(tmp_path / name)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_another_version_is_refused(tmp_path: Path, version: int) -> None:
    path = study(tmp_path / "study.db")
    with closing(study_file.connect(path, durable=False)) as base:
        base.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(InputError, match=f"has format version {version}, but this version of custodes needs {VERSION}"):
        study_file.check(path)


def test_one_server(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    with (
        study_file.lock_study(path),
        pytest.raises(InputError, match="another program serves"),
        study_file.lock_study(path),
    ):
        pass
    with study_file.lock_study(path):
        pass


def test_a_copy_replaces_an_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    path, other_study = study(tmp_path / "study.db"), study(tmp_path / "other.db")
    copy = study_file.copy(path, tmp_path / "copy.db")
    assert study_file.copy(path, copy) == copy
    (tmp_path / "table.csv").write_text("a,b\n")
    before = {file: file.read_bytes() for file in (path, other_study, tmp_path / "table.csv")}
    (tmp_path / "link.db").symlink_to(path)
    for place in (path, tmp_path / "link.db", other_study, tmp_path / "table.csv"):
        with pytest.raises(OptionError, match="not an earlier copy of this study; choose another name"):
            study_file.copy(path, place)
    with Service.open(copy, threaded=False), pytest.raises(InputError, match="another program serves this study"):
        study_file.copy(path, copy)
    assert {file: file.read_bytes() for file in before} == before
    assert not list(tmp_path.glob(".custodes-*"))


def test_a_damaged_study_does_not_replace_a_copy(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    copy = study_file.copy(path, tmp_path / "copy.db")
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data) - 4096, 8192):
        data[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(InputError, match="restore a backup"):
        study_file.copy(path, copy)
    Service.open(copy, threaded=False).close()


def test_studies_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    for file in (path, study_file.copy(path, tmp_path / "copy.db")):
        assert file.stat().st_mode & 0o077 == 0


def test_reading_releases_no_lock(tmp_path: Path) -> None:
    """Reading a file releases no lock of the server; otherwise the last reader could delete the write-ahead log."""
    path = study(tmp_path / "study.db")
    program = (
        "import sqlite3, sys; b = sqlite3.connect(sys.argv[1]); print(*b.execute('SELECT count(*) FROM judgment'))"
    )
    with open_service(path) as service:
        token = new_annotator(service)
        answer(service, token)
        assert study_file.check(path) == path.resolve()
        for k in (1, 2):
            result = subprocess.run(
                [sys.executable, "-c", program + "; b.close()", path], capture_output=True, check=True
            )
            assert result.stdout == f"({k},)\n".encode()
            assert path.with_name("study.db-wal").exists()
            answer(service, token)
